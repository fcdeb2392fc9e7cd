//! iSCSI targets as administrators make them and initiators of others use them: made, let in, written, found again after
//! a restart and after a crash, ended.

use std::net::SocketAddr;

use holdfast_tests::daemon::Daemon;
use holdfast_tests::iscsi::tools::{Place, libiscsi, list};
use holdfast_tests::scene::Scene;
use serde_json::Value;

const HOST: &str = "iqn.2000-01.org.example:host";
const SECRET: &str = "a secret of 12+";

/// A daemon that serves iSCSI on a port of its own, with a pool and a space.
fn start(scene: &Scene) -> Daemon {
    let daemon = Daemon::start_with(scene, "a", &["--iscsi", "127.0.0.1:0"]);
    daemon.pool(scene, "tank", 2, "256MiB");
    daemon.please(&["space", "create", "tank/vm", "--layout", "mirror", "--size", "32MiB"]);
    daemon
}

fn address(daemon: &Daemon) -> SocketAddr {
    let status = daemon.json(&["status"]);
    let address = status["daemon"]["iscsi_addresses"][0].as_str().expect("it listens");
    address.parse().expect("an address")
}

fn target(daemon: &Daemon) -> Value {
    daemon.json(&["target", "show", "vm"])
}

fn place(daemon: &Daemon) -> Place {
    Place::new(address(daemon), target(daemon)["iqn"].as_str().expect("a name"), 0)
}

#[test]
fn a_target_is_made_written_found_again_and_destroyed() {
    let scene = Scene::new();
    let mut daemon = start(&scene);
    for again in [false, true] {
        for command in [
            vec!["target", "create", "vm", "--open"],
            vec!["lun", "add", "vm", "tank/vm", "--block", "4096"],
            vec!["initiator", "allow", "vm", HOST],
        ] {
            assert_eq!(daemon.please(&command).starts_with("nothing changed"), again, "{command:?}");
        }
    }
    let shown = daemon.please(&["target", "show", "vm"]);
    for system in ["iscsiadm -m discovery", "Connect-IscsiTarget", "esxcli iscsi"] {
        assert!(shown.contains(system), "{shown}");
    }
    let here = place(&daemon);
    let listed = list(here.address, None).succeeded();
    assert!(listed.contains(&here.target), "{listed}");
    let inquiry = libiscsi("iscsi-inq", &[], &here).succeeded();
    assert!(inquiry.to_lowercase().contains("holdfast"), "{inquiry}");
    here.qemu_io(&["write -P 7 1M 8M", "write -P 9 31M 1M", "flush", "read -P 7 1M 8M"]).succeeded();
    let id = target(&daemon)["luns"][0]["id"].clone();
    assert_eq!(id, daemon.json(&["space", "show", "tank/vm"])["id"]);

    daemon.end();
    daemon.start_again();
    place(&daemon).qemu_io(&["read -P 7 1M 8M", "read -P 9 31M 1M", "write -P 5 2M 1M", "flush"]).succeeded();
    daemon.kill();
    daemon.start_again();
    place(&daemon).qemu_io(&["read -P 5 2M 1M", "read -P 7 3M 6M"]).succeeded();
    assert_eq!(target(&daemon)["luns"][0]["id"], id);

    daemon.cli(&["space", "destroy", "tank/vm", "--yes"]).refused();
    daemon.please(&["lun", "grow", "vm", "0", "--size", "64MiB"]);
    place(&daemon).qemu_io(&["write -P 3 60M 1M", "read -P 3 60M 1M"]).succeeded();
    let last = place(&daemon);
    daemon.please(&["target", "destroy", "vm", "--yes"]);
    libiscsi("iscsi-inq", &[], &last).refused();
    daemon.please(&["space", "destroy", "tank/vm", "--yes"]);
    daemon.end();
}

#[test]
fn only_who_is_allowed_and_proves_it_gets_in() {
    let scene = Scene::new();
    let daemon = start(&scene);
    daemon.please(&["target", "create", "vm"]);
    daemon.please(&["lun", "add", "vm", "tank/vm"]);
    let nobody = target(&daemon)["conditions"][0]["cause"].as_str().expect("it is told").to_owned();
    assert!(nobody.contains("lets nobody in"), "{nobody}");
    let here = place(&daemon);
    let as_host = ["-i", HOST];
    libiscsi("iscsi-inq", &as_host, &here).refused();
    let file = scene.path("secret");
    std::fs::write(&file, format!("{SECRET}\n")).expect("a file can be written");
    daemon.please(&["initiator", "allow", "vm", HOST, "--chap", "ann", "--secret-file", &file]);
    libiscsi("iscsi-inq", &as_host, &here).refused();
    libiscsi("iscsi-inq", &as_host, &place(&daemon).chap("ann", "another secret")).refused();
    libiscsi("iscsi-inq", &as_host, &place(&daemon).chap("ann", SECRET)).succeeded();
    libiscsi("iscsi-inq", &["-i", "iqn.2000-01.org.example:other"], &place(&daemon).chap("ann", SECRET)).refused();
    daemon.cli(&["initiator", "allow", "vm", HOST]).refused();
    let told = daemon.please(&["event", "list"]);
    assert!(told.contains("failed") && told.contains("logged in") && !told.contains(SECRET), "{told}");
    assert!(!std::fs::read_to_string(scene.dir().join("a/log")).unwrap_or_default().contains(SECRET));
    daemon.please(&["initiator", "deny", "vm", HOST]);
    libiscsi("iscsi-inq", &as_host, &place(&daemon).chap("ann", SECRET)).refused();
}
