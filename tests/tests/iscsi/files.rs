//! Files of a mounted volume as LUNs: what initiators write is read there, and nobody takes the file from them.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileExt;

use holdfast_tests::command::wait_until;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::iscsi::answer::key;
use holdfast_tests::iscsi::cdb;
use holdfast_tests::iscsi::initiator::Session;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;

const MIB: u64 = 1 << 20;
/// Blocks of a LUN in a MiB.
const BLOCKS: u32 = 256;

struct Served {
    daemon: Daemon,
    address: SocketAddr,
    directory: String,
    _janitor: Janitor,
    _scene: Scene,
}

impl Served {
    fn new() -> Self {
        let (scene, janitor, directory) = Janitor::with_mount_point();
        let address = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
        let daemon = Daemon::start_with(&scene, "a", &["--iscsi", &address.to_string()]);
        daemon.pool(&scene, "tank", 3, "512MiB");
        daemon.please(&["volume", "create", "tank/files", "--size", "384MiB", "--layout", "mirror"]);
        daemon.please(&["volume", "mount", "tank/files", &directory]);
        std::fs::create_dir_all(format!("{directory}/disks")).expect("made");
        daemon.please(&["target", "create", "files", "--open"]);
        Self { daemon, address, directory, _janitor: janitor, _scene: scene }
    }

    fn session(&self) -> Session {
        let target = self.daemon.json(&["target", "show", "files"]);
        Session::to(self.address, target["iqn"].as_str().expect("a name"), &[0])
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }
}

fn write(session: &mut Session, block: u64, data: &[u8]) {
    let cdb = cdb::write_fua(block, (data.len() / 4096) as u32);
    session.write(0, &cdb, data).expect("answered").good();
}

fn read(session: &mut Session, block: u64, blocks: u32) -> Vec<u8> {
    session.read(0, &cdb::read(block, blocks), blocks as usize * 4096).expect("answered").good()
}

fn busy<T>(done: std::io::Result<T>) -> bool {
    done.err().and_then(|error| error.raw_os_error()) == Some(16)
}

#[test]
fn a_lun_is_a_file_that_the_mount_reads_and_nobody_else_changes() {
    let mut served = Served::new();
    let path = served.at("disks/one");
    served.daemon.please(&["lun", "add", "files", "tank/files:/disks/one", "--size", "64MiB", "--block", "4096"]);
    assert_eq!(std::fs::metadata(&path).expect("it was made").len(), 64 * MIB);
    let mut session = served.session();
    let first = bytes(1, MIB as usize);
    write(&mut session, 256, &first);
    let shown = |held: &[u8]| {
        let mut found = vec![0; held.len()];
        File::open(&path).expect("it may be read").read_exact_at(&mut found, MIB).expect("read");
        assert!(found == held, "the mount shows what was written last");
    };
    shown(&first);
    served.daemon.please(&["snapshot", "create", "tank/files@then"]);
    let second = bytes(2, MIB as usize);
    write(&mut session, 256, &second);
    shown(&second);
    let mut kept = vec![0; MIB as usize];
    let past = File::open(served.at(".snapshots/then/disks/one")).expect("it is there");
    past.read_exact_at(&mut kept, MIB).expect("read");
    assert!(kept == first, "a snapshot has what the LUN held");

    assert!(busy(File::options().write(true).open(&path)));
    assert!(busy(File::create(&path)));
    assert!(busy(std::fs::rename(&path, served.at("disks/two"))));
    assert!(busy(std::fs::remove_file(&path)));
    std::fs::write(served.at("other"), b"other").expect("written");
    assert!(busy(std::fs::rename(served.at("other"), &path)));
    for path in ["/", "/disks", "/disks/one"] {
        let restore = ["snapshot", "restore", "tank/files@then", "--path", path, "--yes"];
        let refused = served.daemon.cli(&restore).refused();
        assert!(refused.contains("/disks/one") && refused.contains("lun remove"), "{refused}");
    }
    let refused = served.daemon.cli(&["volume", "destroy", "tank/files", "--yes", "--force"]).refused();
    assert!(refused.contains("lun remove"), "{refused}");
    shown(&second);

    served.daemon.please(&["lun", "grow", "files", "0", "--size", "128MiB"]);
    session.settle(0);
    let capacity = session.read(0, &cdb::read_capacity(), 32).expect("answered").good();
    assert_eq!(u64::from_be_bytes(capacity[..8].try_into().expect("eight bytes")), 128 * u64::from(BLOCKS) - 1);
    write(&mut session, 100 * u64::from(BLOCKS), &first);
    drop(session);

    served.daemon.kill();
    served.daemon.start_again();
    wait_until("it is mounted", 20, || std::path::Path::new(&path).exists());
    let mut session = served.session();
    assert!(read(&mut session, 256, BLOCKS) == second && read(&mut session, 100 * u64::from(BLOCKS), BLOCKS) == first);
    shown(&second);
    assert!(busy(File::options().write(true).open(&path)));
    drop(session);
    served.daemon.please(&["lun", "remove", "files", "0", "--yes"]);
    shown(&second);
    File::options().write(true).open(&path).expect("a file like any").write_all_at(b"own", 0).expect("written");
    std::fs::rename(&path, served.at("disks/two")).expect("renamed");
    let scanned = served.daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
}

#[test]
fn what_somebody_has_open_or_is_no_disk_becomes_no_lun_and_leaves_no_file() {
    let served = Served::new();
    let add = |path: &str, more: &[&str]| {
        let name = format!("tank/files:{path}");
        served.daemon.cli(&[&["lun", "add", "files", &name], more].concat())
    };
    std::fs::write(served.at("odd"), vec![0; 5000]).expect("written");
    assert!(add("/odd", &[]).refused().contains("4096"));
    assert!(add("/none", &[]).refused().contains("does not exist"));
    add("/disks", &[]).refused();
    std::fs::write(served.at("open"), vec![0; 8192]).expect("written");
    let reader = File::open(served.at("open")).expect("opened");
    let refused = add("/open", &[]).refused();
    assert!(refused.contains("open"), "{refused}");
    drop(reader);
    add("/open", &[]).succeeded();
    add("/none/deeper", &["--size", "1MiB"]).refused();
    // The number is taken, so what was made for the LUN goes.
    add("/made", &["--size", "1MiB", "--lun", "0"]).refused();
    assert!(!std::path::Path::new(&served.at("made")).exists());
    let grown = served.daemon.cli(&["lun", "grow", "files", "0", "--size", "4KiB"]).refused();
    assert!(grown.contains("shrink"), "{grown}");
}

/// MiB that a LUN can still take, and that its ground takes, as it is told by LOG SENSE.
fn room(session: &mut Session) -> Option<(u32, u32)> {
    let answer = session.read(0, &[0x4d, 0, 0x4c, 0, 0, 0, 0, 0, 64, 0], 64).expect("answered");
    let page = Some(answer).filter(|answer| answer.status == 0)?.good();
    let count = |at: usize| page[at..at + 4].try_into().map(u32::from_be_bytes).expect("four bytes");
    Some((count(8), count(20)))
}

#[test]
fn initiators_are_told_when_the_volume_of_their_file_fills_up() {
    let served = Served::new();
    served.daemon.please(&["lun", "add", "files", "tank/files:/disks/one", "--size", "64MiB", "--block", "4096"]);
    let mut session = served.session();
    let mut before = None;
    wait_until("its room is told", 20, || {
        before = room(&mut session);
        before.is_some()
    });
    let (available, used) = before.expect("told");
    assert!(available > 256 && used < 64, "{available} MiB of {} are left", available + used);
    // Another file of the volume takes most of it.
    std::fs::write(served.at("other"), bytes(3, (available as usize - 16) << 20)).expect("written");
    File::open(served.at("other")).and_then(|file| file.sync_all()).expect("durable");
    let mut told = 0;
    wait_until("it is told that there is little room", 30, || {
        let answer = session.run(0, &cdb::TEST_UNIT_READY).expect("answered");
        told += usize::from(answer.status == 2 && answer.sense_code() == (key::UNIT_ATTENTION, 0x38, 0x07));
        told == 1
    });
    let (available, used) = room(&mut session).expect("told");
    assert!(available < 32 && used > 256, "{available} MiB are left, and {used} taken");
    session.run(0, &cdb::TEST_UNIT_READY).expect("answered").good();
}

#[test]
fn a_full_file_is_written_to_its_end_in_a_volume_that_others_have_filled() {
    use std::os::unix::fs::MetadataExt;
    let served = Served::new();
    let add = |path: &str, size: &str| {
        let backing = format!("tank/files:/disks/{path}");
        served.daemon.cli(&["lun", "add", "files", &backing, "--size", size, "--full", "--block", "4096"])
    };
    let refused = add("much", "2GiB").refused();
    assert!(refused.contains("no room for all of its 2 GiB") && refused.contains("smaller size"), "{refused}");
    assert!(!std::path::Path::new(&served.at("disks/much")).exists());
    add("full", "64MiB").succeeded();
    let facts = std::fs::metadata(served.at("disks/full")).expect("it was made");
    assert_eq!((facts.len(), facts.blocks() * 512), (64 * MIB, 64 * MIB));
    let target = served.daemon.please(&["target", "show", "files"]);
    assert!(target.contains("WARNS"), "{target}");
    // Others take what is left.
    let mut other = File::create(served.at("other")).expect("made");
    let part = bytes(5, MIB as usize);
    while std::io::Write::write_all(&mut other, &part).and_then(|()| other.sync_data()).is_ok() {}
    let mut session = served.session();
    for block in (0..64 * u64::from(BLOCKS)).step_by(BLOCKS as usize) {
        write(&mut session, block, &part);
    }
    assert!(read(&mut session, 63 * u64::from(BLOCKS), BLOCKS) == part);
    // It gives nothing back, so it is not thin.
    let provisioning = session.read(0, &cdb::inquiry(Some(0xb2), 64), 64).expect("answered").good();
    assert_eq!((provisioning[5], provisioning[6] & 7), (0, 0), "{provisioning:?}");
    assert_eq!(room(&mut session), None);
}
