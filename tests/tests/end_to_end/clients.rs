//! Real clients read and write real data: libnbd, QEMU and fio, over unix sockets and TCP, with several connections.

use std::path::Path;

use holdfast_tests::command::run;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::fio;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;
use serde_json::Value;

/// What the clients expect of the space `vm`.
pub const SPACE_BYTES: usize = 96 << 20;

/// A file of random data with holes, as large as the space.
pub fn image(scene: &Scene) -> String {
    let path = scene.path("image");
    let mut data = bytes(1, SPACE_BYTES);
    data[8 << 20..24 << 20].fill(0);
    std::fs::write(&path, data).expect("an image can be written");
    path
}

fn mirror(daemon: &Daemon, scene: &Scene) -> String {
    daemon.pool(scene, "tank", 4, "256MiB");
    daemon.space("tank/vm", &["--layout", "mirror", "--size", "96MiB", "--thin"])
}

fn same(one: &str, other: &str) {
    run("cmp", &[one, other]).succeeded();
}

#[test]
fn nbdinfo_sees_the_export_its_flags_and_its_holes() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    let uri = mirror(&daemon, &scene);
    let server = format!("nbd+unix:///?socket={}", daemon.nbd_socket().display());
    let list: Value = serde_json::from_str(&run("nbdinfo", &["--list", "--json", &server]).succeeded()).expect("JSON");
    assert_eq!(list["exports"][0]["export-name"], "vm", "{list}");
    let info: Value = serde_json::from_str(&run("nbdinfo", &["--json", &uri]).succeeded()).expect("JSON");
    let export = &info["exports"][0];
    assert_eq!(export["export-size"], SPACE_BYTES);
    for (flag, expected) in [
        ("can_multi_conn", true),
        ("can_fua", true),
        ("can_flush", true),
        ("can_trim", true),
        ("can_zero", true),
        ("is_read_only", false),
    ] {
        assert_eq!(export[flag], expected, "{flag}: {export}");
    }
    let map = |uri: &str| {
        serde_json::from_str::<Vec<Value>>(&run("nbdinfo", &["--map", "--json", uri]).succeeded()).expect("JSON")
    };
    let holes = |map: &[Value]| {
        map.iter().filter(|run| run["description"] == "hole,zero").filter_map(|run| run["length"].as_u64()).sum::<u64>()
    };
    assert_eq!(holes(&map(&uri)), SPACE_BYTES as u64, "a thin space that was never written to is one hole");
    run("qemu-io", &["-f", "raw", "-c", "write -P 7 40M 1M", &uri]).succeeded();
    let after = map(&uri);
    let data: Vec<_> = after.iter().filter(|run| run["description"] == "data").collect();
    assert!(data.iter().any(|run| run["offset"].as_u64() <= Some(40 << 20)), "{after:?}");
    assert!(holes(&after) > 0 && holes(&after) < SPACE_BYTES as u64, "{after:?}");
}

/// `nbdcopy` brings an image in and out, over both kinds of socket, and leaves it in the space.
pub fn copies(daemon: &Daemon, scene: &Scene, uri: &str) {
    let image = image(scene);
    let out = scene.path("out");
    run("nbdcopy", &["--flush", "--connections=4", &image, uri]).succeeded();
    run("nbdcopy", &["--connections=4", uri, &out]).succeeded();
    same(&image, &out);
    let tcp = daemon.tcp_uri("vm");
    run("nbdcopy", &["--connections=2", "--requests=16", &tcp, &out]).succeeded();
    same(&image, &out);
    std::fs::write(&image, bytes(2, SPACE_BYTES)).expect("an image can be written");
    run("nbdcopy", &["--flush", "--connections=2", &image, &tcp]).succeeded();
    run("nbdcopy", &[uri, &out]).succeeded();
    same(&image, &out);
}

#[test]
fn nbdcopy_brings_an_image_in_and_out() {
    let scene = Scene::new();
    let daemon = Daemon::start_tcp(&scene, &[]);
    let uri = mirror(&daemon, &scene);
    copies(&daemon, &scene, &uri);
}

/// `qemu-img` converts an image into the space and back, compares and maps.
pub fn converts(daemon: &Daemon, scene: &Scene, uri: &str) {
    let image = image(scene);
    run("qemu-img", &["convert", "-n", "-W", "-m", "8", "-f", "raw", "-O", "raw", &image, uri]).succeeded();
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, uri]).succeeded();
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, &daemon.tcp_uri("vm")]).succeeded();
    let back = scene.path("back.qcow2");
    run("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", uri, &back]).succeeded();
    run("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", &image, &back]).succeeded();
    let map: Vec<Value> =
        serde_json::from_str(&run("qemu-img", &["map", "--output=json", "-f", "raw", uri]).succeeded()).expect("JSON");
    assert!(map.iter().any(|run| run["data"] == true), "{map:?}");
    let covered: u64 = map.iter().filter_map(|run| run["length"].as_u64()).sum();
    assert_eq!(covered, SPACE_BYTES as u64);
    std::fs::OpenOptions::new()
        .write(true)
        .open(Path::new(&image))
        .and_then(|file| {
            use std::os::unix::fs::FileExt;
            file.write_all_at(b"different", 50 << 20)
        })
        .expect("an image can be changed");
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, uri]).refused();
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    let scene = Scene::new();
    let daemon = Daemon::start_tcp(&scene, &[]);
    let uri = mirror(&daemon, &scene);
    converts(&daemon, &scene, &uri);
}

/// `qemu-io` reads what it wrote: requests of every kind, aligned and not.
pub fn reads_and_writes(uri: &str) {
    let steps = [
        "write -P 17 0 1M",
        "read -P 17 0 1M",
        "write -P 34 262000 777",
        "read -P 34 262000 777",
        "read -P 17 0 262000",
        "read -P 17 262777 4096",
        "write -z 512k 64k",
        "read -P 0 512k 64k",
        "read -P 17 448k 64k",
        "write -P 51 1M 512",
        "read -P 51 1M 512",
        "read -P 0 1049088 512",
        "write -f -P 85 95M 1M",
        "read -P 85 95M 1M",
        "discard 95M 1M",
        "read -P 0 95M 1M",
        "write -z -u 64k 100k",
        "read -P 0 64k 100k",
        "read -P 17 0 64k",
        "aio_write -P 119 8M 1M",
        "aio_write -P 120 9M 1M",
        "aio_flush",
        "read -P 119 8M 1M",
        "read -P 120 9M 1M",
        "flush",
    ];
    let commands: Vec<&str> = steps.iter().flat_map(|step| ["-c", step]).collect();
    let printed = run("qemu-io", &[&["-f", "raw", "-t", "none"], &commands[..], &[uri]].concat()).succeeded();
    assert!(!printed.contains("failed") && !printed.contains("rror"), "{printed}");
    run("qemu-io", &["-f", "raw", "-c", "read -P 119 8M 1M", "-c", "read -P 34 262000 777", uri]).succeeded();
    run("qemu-io", &["-f", "raw", "-c", "write 96M 4k", uri]).refused();
}

#[test]
fn qemu_io_reads_what_it_wrote() {
    let scene = Scene::new();
    let daemon = Daemon::start(&scene);
    reads_and_writes(&mirror(&daemon, &scene));
}

#[test]
fn fio_verifies_over_unix_sockets_and_tcp() {
    let scene = Scene::new();
    let daemon = Daemon::start_tcp(&scene, &[]);
    let uri = mirror(&daemon, &scene);
    daemon.please(&[
        "space",
        "create",
        "tank/three",
        "--layout",
        "mirror",
        "--copies",
        "3",
        "--interleave",
        "64KiB",
        "--size",
        "64MiB",
    ]);
    daemon.please(&["nbd", "export", "tank/three"]);
    fio::verify(&uri, &["--size=96m", "--bsrange=4k-128k", "--fsync=32"]);
    fio::verify(&daemon.tcp_uri("vm"), &["--size=96m"]);
    fio::verify(&daemon.uri("three"), &["--numjobs=4", "--size=16m", "--offset_increment=16m", "--bs=4k"]);
    let states = daemon.json(&["space", "list"]);
    assert!(states.as_array().is_some_and(|spaces| spaces.iter().all(|space| space["state"] == "ok")), "{states}");
}
