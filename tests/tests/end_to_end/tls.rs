//! `nbds://`: clients that encrypt are served, those that must and do not are refused.

use holdfast_tests::command::run;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;

/// Makes an authority, a server's and a client's certificate in the folder `pki`, by the names that libnbd and QEMU
/// look for.
fn certificates(scene: &Scene) -> String {
    let dir = scene.folder("pki");
    let at = |name: &str| format!("{dir}/{name}");
    let openssl = |arguments: &[&str]| run("openssl", arguments).succeeded();
    openssl(&[
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=authority",
        "-keyout",
        &at("ca-key.pem"),
        "-out",
        &at("ca-cert.pem"),
        "-addext",
        "keyUsage=critical,keyCertSign,cRLSign",
    ]);
    for (name, purpose, usage) in [
        ("server", "subjectAltName=DNS:localhost,IP:127.0.0.1", "serverAuth"),
        ("client", "subjectAltName=DNS:client", "clientAuth"),
    ] {
        let extensions = at(&format!("{name}.cnf"));
        let text = format!(
            "{purpose}\nextendedKeyUsage={usage}\nkeyUsage=critical,digitalSignature\nbasicConstraints=CA:FALSE\n"
        );
        std::fs::write(&extensions, text).expect("a file can be written");
        let (key, request, certificate) =
            (at(&format!("{name}-key.pem")), at(&format!("{name}.csr")), at(&format!("{name}-cert.pem")));
        openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            &format!("/CN={name}"),
            "-keyout",
            &key,
            "-out",
            &request,
        ]);
        openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            &at("ca-cert.pem"),
            "-CAkey",
            &at("ca-key.pem"),
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            &extensions,
            "-out",
            &certificate,
        ]);
    }
    dir
}

#[test]
fn encrypted_clients_copy_and_plain_ones_are_refused() {
    let scene = Scene::new();
    let pki = certificates(&scene);
    let (certificate, key, authority) =
        (format!("{pki}/server-cert.pem"), format!("{pki}/server-key.pem"), format!("{pki}/ca-cert.pem"));
    let options = ["--nbd-tls-cert", &certificate, "--nbd-tls-key", &key, "--nbd-tls-client-ca", &authority];
    let daemon = Daemon::start_tcp(&scene, &options);
    daemon.pool(&scene, "tank", 2, "256MiB");
    let unix = daemon.space("tank/vm", &["--layout", "mirror", "--size", "48MiB"]);
    let (image, out) = (scene.path("image"), scene.path("out"));
    std::fs::write(&image, bytes(3, 48 << 20)).expect("an image can be written");

    let tls = format!("nbds://localhost:{}/vm?tls-certificates={pki}", daemon.port());
    run("nbdcopy", &["--flush", "--connections=4", &image, &tls]).succeeded();
    run("nbdcopy", &["--connections=4", &tls, &out]).succeeded();
    run("cmp", &[&image, &out]).succeeded();
    let port = daemon.port().to_string();
    let object = format!("tls-creds-x509,id=tls0,endpoint=client,dir={pki}");
    let opts =
        format!("driver=raw,file.driver=nbd,file.host=localhost,file.port={port},file.export=vm,file.tls-creds=tls0");
    run(
        "qemu-img",
        &["compare", "--object", &object, "--image-opts", &opts, &format!("driver=raw,file.filename={image}")],
    )
    .succeeded();

    // On TCP who does not encrypt is turned away; on the unix socket of the same daemon nobody has to.
    run("nbdinfo", &[&daemon.tcp_uri("vm")]).refused();
    run("nbdinfo", &[&unix]).succeeded();
    // A client without a certificate of the authority is turned away.
    std::fs::remove_file(format!("{pki}/client-cert.pem")).expect("it is there");
    std::fs::remove_file(format!("{pki}/client-key.pem")).expect("it is there");
    run("nbdinfo", &[&tls]).refused();
}
