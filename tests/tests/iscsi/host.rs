//! A host with Debian's kernel: its initiator, two paths to a disk, and a file system on that.

use std::fs::File;
use std::net::SocketAddr;
use std::time::Duration;

use holdfast_tests::iscsi::tgt::{TARGET, Tgt};
use holdfast_tests::machine::{INITIATOR, Machine, ingredients};
use holdfast_tests::ports::free_address;
use holdfast_tests::relay::Relay;
use holdfast_tests::scene::Scene;

use crate::product::{self, Product};

/// A machine; none, and a note of that, where there is nothing to start one from.
fn machine(scene: &Scene) -> Option<Machine> {
    let found = ingredients();
    if found.is_none() {
        holdfast_harness::note_left_out("iSCSI with the initiator of a kernel", "scripts/machine.sh to have run");
    }
    found.map(|folder| Machine::start(scene, &folder))
}

/// Writes files on a disk with two paths while each of them is lost and found in turn, once closed and once silent, and reads
/// all of them back.
fn loses_paths(machine: &mut Machine, target: &str, portals: [SocketAddr; 2], settings: &[(&str, &str)]) -> [Relay; 2] {
    let paths = portals.map(Relay::start);
    machine.log_in(target, &[paths[0].address(), paths[1].address()], settings);
    machine.multipath(2);
    machine.run("mkfs.ext4 -q -E nodiscard /dev/mapper/mpatha && mount /dev/mapper/mpatha /mnt");
    machine.run(
        "(i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); \
         dd if=/dev/urandom of=/mnt/$i bs=128k count=4 conv=fsync 2>/dev/null && cd /mnt && md5sum $i >> /tmp/sums \
         || touch /tmp/failed; done; touch /tmp/over) >/dev/null 2>&1 &",
    );
    let more = "n=$(wc -l < /tmp/sums); for t in $(seq 600); do \
                [ $(wc -l < /tmp/sums) -ge $((n+3)) ] && exit 0; sleep 0.5; done; exit 1";
    machine.run(more);
    paths[0].hang_up();
    machine.wait_for_paths(1, 60);
    machine.run(more);
    paths[0].mend();
    machine.wait_for_paths(2, 60);
    paths[1].stand_still();
    machine.wait_for_paths(1, 60);
    machine.run(more);
    paths[1].mend();
    machine.wait_for_paths(2, 60);
    paths.iter().for_each(Relay::hang_up);
    std::thread::sleep(Duration::from_secs(1));
    paths.iter().for_each(Relay::mend);
    machine.wait_for_paths(2, 60);
    machine.run(more);
    machine.run("touch /tmp/enough; while [ ! -e /tmp/over ]; do sleep 0.1; done; [ ! -e /tmp/failed ]");
    machine.wait_for_paths(2, 60);
    machine.run("umount /mnt && e2fsck -fn /dev/mapper/mpatha");
    machine.run("mount /dev/mapper/mpatha /mnt && cd /mnt && md5sum -c /tmp/sums >/tmp/checked || { cat /tmp/checked; exit 1; }");
    machine.run("umount /mnt");
    machine.wait_for_paths(2, 60);
    paths
}

#[test]
fn the_machine_loses_paths_to_a_peer_and_no_data() {
    let scene = Scene::new();
    let mut tgt = Tgt::start(&scene, 2);
    let path = scene.path("unit");
    File::create(&path).and_then(|file| file.set_len(128 << 20)).expect("a file can be made");
    tgt.add(&path, &[]);
    let Some(mut machine) = machine(&scene) else { return };
    loses_paths(&mut machine, TARGET, [tgt.addresses()[0], tgt.addresses()[1]], &[]);
}

#[test]
fn the_machine_loses_paths_to_a_lun_and_no_data() {
    const SECRET: &str = "a secret of ours";
    const TARGETS_SECRET: &str = "the one of theirs";
    let product = Product::with(&[free_address(), free_address()], &[], &[]);
    product.unit(128);
    let file = product.secret(SECRET);
    product.daemon.please(&["initiator", "allow", "vm", INITIATOR, "--chap", "ann", "--secret-file", &file]);
    let file = product.secret(TARGETS_SECRET);
    product.daemon.please(&["target", "set", "vm", "--mutual", "server", "--secret-file", &file]);
    let Some(mut machine) = machine(&product.scene) else { return };
    let settings = [
        ("node.session.auth.authmethod", "CHAP"),
        ("node.session.auth.username", "ann"),
        ("node.session.auth.password", SECRET),
        ("node.session.auth.username_in", "server"),
        ("node.session.auth.password_in", TARGETS_SECRET),
        ("node.conn[0].iscsi.HeaderDigest", "CRC32C"),
        ("node.conn[0].iscsi.DataDigest", "CRC32C"),
    ];
    let _paths = loses_paths(&mut machine, product::TARGET, [product.addresses[0], product.addresses[1]], &settings);
    let seen = machine.run("cat /sys/block/sda/device/vendor /sys/block/sda/device/dh_state; multipath -ll");
    assert!(seen.to_lowercase().contains("holdfast") && seen.contains("alua"), "{seen}");
    // What is unmapped there is room again here.
    machine.run("mount -o discard /dev/mapper/mpatha /mnt && rm /mnt/* -r && fstrim -v /mnt; umount /mnt");
    let sessions = product.daemon.json(&["iscsi", "session", "list"]);
    let sessions = sessions.as_array().expect("a list");
    assert!(sessions.iter().all(|session| session["initiator"] == INITIATOR && session["chap_user"] == "ann"));
    assert_eq!(sessions.len(), 2, "{sessions:?}");
}
