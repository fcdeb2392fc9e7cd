//! Management over the network: the first link, logins from another machine, and strangers.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use holdfast_tests::command::{Finished, run, run_with};
use holdfast_tests::daemon::{Daemon, binary};
use holdfast_tests::scene::Scene;
use serde_json::Value;

const PASSWORD: &str = "correct horse battery";

/// A daemon that serves HTTPS, and a machine without its socket that reaches it.
struct Network {
    daemon: Daemon,
    url: String,
    authority: String,
    log: String,
    home: String,
}

impl Network {
    fn start(scene: &Scene, options: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port();
        let address = format!("127.0.0.1:{port}");
        let daemon = Daemon::start_with(scene, "a", &[&["--https", &address], options].concat());
        let log = format!("{}/log", scene.folder("a"));
        Self { daemon, url: format!("https://{address}"), authority: address, log, home: scene.folder("elsewhere") }
    }

    fn printed(&self) -> String {
        std::fs::read_to_string(&self.log).expect("the daemon has a log")
    }

    /// The token of the link, and the certificate's SHA-256, as the daemon printed them last.
    fn link(&self) -> (String, String) {
        let printed = self.printed();
        let after = |text: &str, rest: fn(&str) -> Option<&str>| {
            printed.rsplit_once(text).and_then(|(_, after)| rest(after)).unwrap_or_default().trim().to_owned()
        };
        (after("/setup#", |text| text.lines().next()), after("SHA-256 is", |text| text.lines().nth(1)))
    }

    /// Asks by `curl`, which believes the daemon's own certificate only.
    fn curl(&self, arguments: &[&str], path: &str) -> (u16, Value) {
        let (folder, url) = (self.log.trim_end_matches("log"), format!("{}{path}", self.url));
        let authority = format!("{folder}state/tls/cert.pem");
        let arguments =
            [&["-s", "--max-time", "20", "--cacert", &authority, "-w", "\n%{http_code}"], arguments, &[&url]].concat();
        let answer = run("curl", &arguments).succeeded();
        let (body, status) = answer.rsplit_once('\n').expect("curl prints the status last");
        (status.parse().expect("a status"), serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// Runs `holdfast` on a machine that has no socket of this daemon, with `typed` on standard input.
    fn elsewhere(&self, arguments: &[&str], typed: &str) -> Finished {
        let file = format!("{}/typed", self.home);
        std::fs::write(&file, typed).expect("a file can be written");
        let binary = binary();
        run_with(binary.to_str().expect("paths of tests are text"), arguments, |command| {
            command.env("HOME", &self.home).env_remove("XDG_CONFIG_HOME").env("USER", "ann");
            command.env("HOLDFAST_SOCKET", "/nonexistent").env("HOLDFAST_SERVER", &self.url);
            command.stdin(Stdio::from(File::open(&file).expect("it was just written")));
        })
    }
}

#[test]
fn from_the_first_link_to_management_from_another_machine() {
    let scene = Scene::new();
    let mut network = Network::start(&scene, &[]);
    network.daemon.pool(&scene, "tank", 2, "256MiB");
    let (token, fingerprint) = network.link();
    let shown = run(
        "openssl",
        &["s_client", "-connect", &network.authority, "-servername", "localhost", "-tls1_2", "-alpn", "h2"],
    );
    let shown = shown.printed();
    assert!(shown.contains("TLSv1.2") && shown.contains("ALPN protocol: h2"), "{shown}");
    let old = run("openssl", &["s_client", "-connect", &network.authority, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]);
    assert!(!old.printed().contains("Cipher is ECDHE"), "an old version of TLS is refused: {}", old.printed());

    assert_eq!(network.curl(&[], "/api/v1/pools").0, 401);
    let body = format!("{{\"token\":\"{token}\",\"name\":\"ann\",\"password\":\"{PASSWORD}\"}}");
    let setup = ["-X", "POST", "-H", "content-type: application/json", "-d", &body];
    assert_eq!(network.curl(&setup, "/api/v1/setup").0, 201);
    assert_eq!(network.curl(&setup, "/api/v1/setup").0, 409, "the link counts once");

    // Who the server is must be known before the password goes there.
    let typed = format!("{PASSWORD}\n");
    let refused = network.elsewhere(&["login", &network.url], &typed).refused();
    assert!(refused.contains(&fingerprint) && refused.contains("--fingerprint"), "{refused}");
    let other = format!("00{}", &fingerprint[2..]);
    network.elsewhere(&["login", &network.url, "--fingerprint", &other], &typed).refused();
    network.elsewhere(&["login", &network.url, "--fingerprint", &fingerprint], "a wrong password\n").refused();
    network.elsewhere(&["pool", "list"], "").refused();
    network.elsewhere(&["login", &network.url, "--fingerprint", &fingerprint], &typed).succeeded();
    let kept = format!("{}/.config/holdfast/servers.json", network.home);
    let mode = std::fs::metadata(&kept).expect("it is kept").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let secrets = std::fs::read_to_string(&kept).expect("it is kept");
    assert!(!secrets.contains(PASSWORD), "{secrets}");

    let pools: Value =
        serde_json::from_str(&network.elsewhere(&["--json", "pool", "list"], "").succeeded()).expect("JSON");
    assert_eq!(pools[0]["name"], "tank");
    network.elsewhere(&["space", "create", "tank/vm", "--layout", "mirror", "--size", "16MiB"], "").succeeded();
    network.elsewhere(&["account", "create", "vic", "--role", "viewer"], "another password\n").succeeded();
    let secret =
        network.elsewhere(&["token", "create", "watch", "--role", "viewer", "--area", "status"], "").succeeded();
    let bearer = format!("authorization: Bearer {}", secret.trim());
    assert_eq!(network.curl(&["-H", &bearer], "/metrics").0, 200);
    assert_eq!(network.curl(&["-H", &bearer], "/api/v1/pools").0, 403);
    let refused = network.elsewhere(&["account", "delete", "ann"], "").refused();
    assert!(refused.contains("last enabled administrator"), "{refused}");
    let audit = network.elsewhere(&["audit"], "").succeeded();
    for part in ["space_create", "space tank/vm", "account_create", "token_create", "127.0.0.1"] {
        assert!(audit.contains(part), "{part} is missing in\n{audit}");
    }

    let change = |typed: &str| network.elsewhere(&["account", "password"], typed);
    change("a wrong password\nyet another password\n").refused();
    change(&format!("{PASSWORD}\nyet another password\n")).succeeded();
    network.elsewhere(&["login", &network.url, "--fingerprint", &fingerprint], &typed).refused();

    // All of it outlives the daemon; no new link is printed.
    network.daemon.end();
    let before = network.printed().matches("/setup#").count();
    network.daemon.start_again();
    assert_eq!(network.printed().matches("/setup#").count(), before);
    let whoami = network.elsewhere(&["whoami"], "").succeeded();
    assert!(whoami.contains("administrator") && whoami.contains("token"), "{whoami}");
    network.elsewhere(&["logout"], "").succeeded();
    network.elsewhere(&["whoami"], "").refused();
    let token =
        serde_json::from_str::<Value>(&secrets).expect("JSON")[0]["token"].as_str().expect("a token").to_owned();
    assert_eq!(
        network.curl(&["-H", &format!("authorization: Bearer {token}")], "/api/v1/session").0,
        401,
        "it is gone there as well"
    );
    let log = network.printed();
    for secret in [PASSWORD, "another password", "yet another password", secret.trim(), &token] {
        assert!(!log.contains(secret), "a secret is in the log");
    }
}

#[test]
fn a_backup_brings_accounts_and_configuration_back() {
    let scene = Scene::new();
    let mut network = Network::start(&scene, &[]);
    network.daemon.pool(&scene, "tank", 2, "256MiB");
    let make = |name: &str| {
        let file = scene.path("typed");
        std::fs::write(&file, "some long password\n").expect("a file can be written");
        let socket = format!("{}/api", scene.folder("a"));
        run_with(
            binary().to_str().expect("text"),
            &["account", "create", name, "--role", "administrator"],
            |command| {
                command.env("HOLDFAST_SOCKET", socket).stdin(Stdio::from(File::open(&file).expect("it is there")));
            },
        )
        .succeeded();
    };
    make("ann");
    let backup = scene.path("backup");
    // Somebody else's file where it is written first gets none of it.
    let planted = format!("{backup}.part");
    std::fs::write(&planted, "").expect("a file can be written");
    std::fs::set_permissions(&planted, PermissionsExt::from_mode(0o666)).expect("it is ours");
    network.daemon.please(&["backup", &backup]);
    assert_eq!(std::fs::metadata(&backup).expect("it was made").permissions().mode() & 0o777, 0o600);
    network.daemon.cli(&["backup", &backup]).refused();
    make("bob");
    let state = format!("{}/state", scene.folder("a"));
    let refused = network.daemon.cli(&["restore", &backup, "--state", &state]).refused();
    assert!(refused.contains("in use by another daemon"), "{refused}");
    network.daemon.end();
    let torn = scene.path("torn");
    let mut bytes = std::fs::read(&backup).expect("it was made");
    bytes.truncate(5000);
    std::fs::write(&torn, bytes).expect("a file can be written");
    let refused = network.daemon.cli(&["restore", &torn, "--state", &state]).refused();
    assert!(refused.contains("damaged") && refused.contains(&torn), "{refused}");
    network.daemon.please(&["restore", &backup, "--state", &state]);
    network.daemon.start_again();
    let accounts = network.daemon.json(&["account", "list"]);
    assert_eq!(accounts.as_array().map(Vec::len), Some(1), "{accounts}");
    assert_eq!(network.daemon.json(&["pool", "list"])[0]["name"], "tank");
}
