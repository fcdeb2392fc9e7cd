//! Offloaded copy through the daemon: tokens between pools and targets, over changes by another front end, and over a
//! restart.

use std::net::SocketAddr;

use holdfast_harness::wait_until;
use holdfast_tests::command::run;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::iscsi::answer::SenseCode;
use holdfast_tests::iscsi::cdb;
use holdfast_tests::iscsi::initiator::Session;
use holdfast_tests::iscsi::login::Login;
use holdfast_tests::iscsi::offload::{cscd, extended_copy, populate, write_using, zeros};
use holdfast_tests::ports::free_address;
use holdfast_tests::random::bytes;
use holdfast_tests::scene::Scene;

const MIB: u64 = 1 << 20;
const BLOCKS: u32 = (MIB / 512) as u32;
const UNKNOWN: SenseCode = (5, 0x23, 0x04);
const REVOKED: SenseCode = (5, 0x23, 0x06);
const CANCELLED: SenseCode = (5, 0x23, 0x08);

struct Served {
    daemon: Daemon,
    address: SocketAddr,
    _scene: Scene,
}

impl Served {
    /// A target with a unit of each pool, the second with blocks of 4096 bytes, and another target with a third.
    fn new() -> Self {
        let scene = Scene::new();
        let address = free_address();
        let daemon = Daemon::start_tcp(&scene, &["--iscsi", &address.to_string()]);
        let disks = daemon.disks(&scene, 3, "512MiB");
        for (pool, disks) in [("one", &disks[..2]), ("two", &disks[2..])] {
            let disks: Vec<&str> = disks.iter().map(String::as_str).collect();
            daemon.please(&[&["pool", "create", pool, "--disk"], &disks[..]].concat());
        }
        daemon.please(&["target", "create", "first", "--open"]);
        daemon.please(&["target", "create", "second", "--open"]);
        let luns = [
            ("first", "one/a", "mirror", "0", "512e"),
            ("first", "two/b", "simple", "1", "4096"),
            ("second", "two/c", "simple", "0", "512"),
        ];
        for (target, space, layout, lun, block) in luns {
            daemon.please(&["space", "create", space, "--layout", layout, "--size", "64MiB"]);
            daemon.please(&["lun", "add", target, space, "--lun", lun, "--block", block]);
        }
        Self { daemon, address, _scene: scene }
    }

    fn session(&self, target: &str, luns: &[u16]) -> Session {
        self.session_by(1, target, luns)
    }

    /// The same through a port of the initiator of this number: one port has one session with a target.
    fn session_by(&self, port: u16, target: &str, luns: &[u16]) -> Session {
        let shown = self.daemon.json(&["target", "show", target]);
        let login = Login::new(self.address, shown["iqn"].as_str().expect("a name"));
        Session::of(&login.port(port), luns)
    }
}

fn write(session: &mut Session, lun: u16, block: u64, blocks: u32, data: &[u8]) {
    session.write(lun, &cdb::write(block, blocks), data).expect("answered").good();
}

fn read(session: &mut Session, lun: u16, block: u64, blocks: u32) -> Vec<u8> {
    session.read(lun, &cdb::read(block, blocks), MIB as usize).expect("answered").good()
}

fn refused(session: &mut Session, lun: u16, token: &[u8]) -> SenseCode {
    session.ask(lun, write_using(token, 0, &[(0, 1)])).expect("answered").sense_code()
}

/// The unit's name in NAA format, which VPD page 83h begins with.
fn naa(session: &mut Session, lun: u16) -> Vec<u8> {
    let page = session.read(lun, &cdb::inquiry(Some(0x83), 255), 255).expect("answered").good();
    assert_eq!(page[4..8], [1, 3, 0, 16]);
    page[8..24].to_vec()
}

#[test]
fn data_move_between_pools_and_targets_without_the_host() {
    let served = Served::new();
    let (mut first, mut second) = (served.session("first", &[0, 1]), served.session("second", &[0]));
    let data = bytes(1, MIB as usize);
    write(&mut first, 0, 64, BLOCKS, &data);
    let token = first.token_of(0, &[(64, BLOCKS)]);
    first.write_by(1, &token, &[(16, BLOCKS / 8)]);
    assert!(read(&mut first, 1, 16, BLOCKS / 8) == data);
    // To the other target, where the same initiator is logged in.
    second.write_by(0, &token, &[(128, BLOCKS)]);
    assert!(read(&mut second, 0, 128, BLOCKS) == data);
    first.write_by(1, &zeros(), &[(16, 1)]);
    assert!(read(&mut first, 1, 16, 1) == [0; 4096]);
    let units = [cscd(&naa(&mut first, 0), 512), cscd(&naa(&mut first, 1), 4096)];
    first.ask(0, extended_copy(units, &[(64, 1000, 1024), (1088, 1128, 1024)])).expect("answered").good();
    assert!(read(&mut first, 1, 1000, BLOCKS / 8) == data);
    // One that has logged out there reaches nothing there any more.
    drop(second);
    let far = cscd(&naa(&mut served.session("second", &[0]), 0), 512);
    let gone = |first: &mut Session| {
        let answer = first.ask(0, extended_copy([far, units[1]], &[(128, 0, 8)])).expect("answered");
        answer.status != 0 && answer.sense_code() == (0xa, 0x0d, 0x02)
    };
    // A session is over a moment after its connection.
    wait_until("no unit is reached without a session", || gone(&mut first));
}

#[test]
fn tokens_end_by_whatever_changes_their_data() {
    let mut served = Served::new();
    let mut first = served.session("first", &[0, 1]);
    write(&mut first, 0, 0, BLOCKS, &bytes(1, MIB as usize));
    let token = first.token_of(0, &[(0, 8), (64, 8)]);
    write(&mut first, 0, 8, 56, &bytes(2, 56 * 512));
    first.write_by(1, &token, &[(0, 2)]);
    let mut forged = token.clone();
    forged[300] ^= 1;
    assert_eq!(refused(&mut first, 1, &forged), UNKNOWN);
    // Another host that is logged in to the same unit may use it, as it may read the unit.
    let mut other = served.session_by(2, "first", &[1]);
    other.write_by(1, &token, &[(4, 2)]);
    // By another front end.
    let uri = served.daemon.please(&["nbd", "export", "one/a"]);
    if !uri.is_empty() {
        let uri = served.daemon.tcp_uri("a");
        run("qemu-io", &["-f", "raw", "-c", "write -P 7 32k 512", &uri]).succeeded();
        assert_eq!(refused(&mut first, 1, &token), CANCELLED);
    }
    let token = first.token_of(0, &[(0, 8)]);
    served.daemon.please(&["lun", "remove", "first", "0", "--yes"]);
    let mut again = served.session_by(3, "first", &[1]);
    assert_eq!(refused(&mut again, 1, &token), REVOKED);
    // Of an earlier life of the daemon nothing is known.
    let token = again.token_of(1, &[(0, 8)]);
    drop((first, again, other));
    served.daemon.end();
    served.daemon.start_again();
    let mut later = served.session("first", &[1]);
    assert_eq!(refused(&mut later, 1, &token), UNKNOWN);
    let token = later.token_of(1, &[(0, 8)]);
    later.write_by(1, &token, &[(100, 8)]);
    let (cdb, list) = populate(0, &[(0, 8)]);
    let short = later.write(1, &cdb, &list[..12]).expect("answered");
    assert_ne!(short.status, 0);
}
