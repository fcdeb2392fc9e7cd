//! Two portals: their states as initiators see them, and work that goes on over the other one when one is lost.

use std::time::{Duration, Instant};

use holdfast_harness::wait_until;
use holdfast_tests::iscsi::answer::{Answer, key};
use holdfast_tests::iscsi::cdb;
use holdfast_tests::iscsi::initiator::Session;
use holdfast_tests::iscsi::login::Login;
use holdfast_tests::iscsi::tools::Place;
use holdfast_tests::load::{Blocks, Load, Refusals};
use holdfast_tests::nbd::NbdError;
use holdfast_tests::random::Random;
use holdfast_tests::relay::Relay;

use crate::product::{Product, TARGET, Unit};

/// How long an initiator waits before it tries another path.
const REST: Duration = Duration::from_millis(100);
/// How long without any path before it gives up.
const PATIENCE: Duration = Duration::from_secs(3);

/// Groups of ports, by their numbers, with their states (SPC-4 6.37).
fn groups(session: &mut Session) -> Vec<(u16, u8)> {
    let mut cdb = [0; 12];
    (cdb[0], cdb[1]) = (0xa3, 0x0a);
    cdb[6..10].copy_from_slice(&1024u32.to_be_bytes());
    let data = session.read(0, &cdb, 1024).expect("the session lives").good();
    let mut groups = Vec::new();
    let mut rest = &data[4..];
    while rest.len() >= 8 {
        groups.push((u16::from_be_bytes([rest[2], rest[3]]), rest[0] & 0xf));
        rest = &rest[8 + 4 * usize::from(rest[7])..];
    }
    groups
}

#[test]
fn states_of_portals_are_seen_told_and_kept() {
    let product = Product::open(2);
    product.unit(64);
    let second = Login::new(product.addresses[1], TARGET).port(2);
    let (mut one, mut two) = (product.session(1), Session::of(&second, &[0]));
    assert_eq!(groups(&mut one), [(1, 0), (2, 0)]);
    assert_eq!(groups(&mut two), [(1, 0), (2, 0)]);
    let address = product.addresses[1].to_string();
    product.daemon.please(&["target", "portal", "set", "vm", &address, "--state", "standby"]);
    let told = |answer: Answer| answer.fails_with(key::UNIT_ATTENTION, 0x2a, 0x06);
    told(one.run(0, &cdb::TEST_UNIT_READY).expect("the session lives"));
    assert_eq!(groups(&mut one), [(1, 0), (2, 2)]);
    let mut answer = two.write(0, &cdb::write(0, 8), &[1; 4096]).expect("the session lives");
    if answer.sense_code() == (key::UNIT_ATTENTION, 0x2a, 0x06) {
        answer = two.write(0, &cdb::write(0, 8), &[1; 4096]).expect("the session lives");
    }
    answer.fails_with(key::NOT_READY, 0x04, 0x0b);
    one.write(0, &cdb::write(0, 8), &[2; 4096]).expect("the session lives").good();
    assert_eq!(groups(&mut two), [(1, 0), (2, 2)], "who is in standby may ask");
    product.daemon.please(&["target", "portal", "set", "vm", &address, "--state", "active"]);
    two.settle(0);
    assert_eq!(two.read(0, &cdb::read(0, 8), 4096).expect("the session lives").good(), [2; 4096]);
    product.daemon.please(&["target", "portal", "remove", "vm", &address]);
    wait_until("its session ends", || two.run(0, &cdb::TEST_UNIT_READY).is_err());
    one.settle(0);
    assert_eq!(groups(&mut one), [(1, 0)]);
}

#[test]
fn both_portals_are_told_and_lead_to_the_same_unit() {
    let product = Product::open(2);
    product.unit(64);
    let mut discovery = Session::login(&Login::discovery(product.addresses[0])).expect("a session");
    let mut targets = discovery.targets().expect("targets");
    targets.iter_mut().for_each(|(_, addresses)| addresses.sort());
    let addresses = product.addresses.iter().zip(1..);
    let mut addresses: Vec<String> = addresses.map(|(address, group)| format!("{address},{group}")).collect();
    addresses.sort();
    assert_eq!(targets, [(TARGET.to_owned(), addresses)]);
    let identity = |address| {
        let mut session = Session::to(address, TARGET, &[0]);
        let page = session.read(0, &cdb::inquiry(Some(0x83), 1024), 1024).expect("the session lives").good();
        let mut designators = &page[4..];
        let mut of_unit = Vec::new();
        while designators.len() >= 4 {
            let (head, rest) = designators.split_at(4);
            let (designator, rest) = rest.split_at(head[3].into());
            // Associated with the unit, not with the port.
            if head[1] & 0x30 == 0 {
                of_unit.push(designator.to_vec());
            }
            designators = rest;
        }
        of_unit
    };
    let one = identity(product.addresses[0]);
    assert!(!one.is_empty());
    assert_eq!(one, identity(product.addresses[1]));
    product.place().qemu_io(&["write -P 3 1M 1M", "flush"]).succeeded();
    Place::new(product.addresses[1], TARGET, 0).qemu_io(&["read -P 3 1M 1M"]).succeeded();
}

/// A client with two paths, which does again over the other one what it does not know to be done.
struct TwoPaths {
    logins: [Login; 2],
    at: usize,
    unit: Option<Box<dyn Blocks>>,
}

impl TwoPaths {
    fn insist<T>(&mut self, run: impl Fn(&mut dyn Blocks) -> Result<T, NbdError>) -> Result<T, NbdError> {
        let end = Instant::now() + PATIENCE;
        loop {
            if self.unit.is_none() {
                self.unit = Unit::connect(&self.logins[self.at % 2]).ok();
            }
            let tried = self.unit.as_mut().map(|unit| run(&mut **unit));
            match tried {
                Some(Err(NbdError::Lost(error))) if Instant::now() > end => return Err(NbdError::Lost(error)),
                None if Instant::now() > end => return Err(NbdError::Lost(std::io::Error::other("no path is left"))),
                Some(Err(NbdError::Lost(_))) | None => {
                    std::thread::sleep(REST);
                    self.at += 1;
                    self.unit = None;
                }
                Some(done) => return done,
            }
        }
    }
}

impl Blocks for TwoPaths {
    fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, NbdError> {
        self.insist(|unit| unit.read(offset, len))
    }

    fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), NbdError> {
        self.insist(|unit| unit.write(offset, data, fua))
    }

    fn flush(&mut self) -> Result<(), NbdError> {
        self.insist(|unit| unit.flush())
    }

    fn zero(&mut self, offset: u64, len: u32, discard: bool) -> Result<(), NbdError> {
        self.insist(|unit| unit.zero(offset, len, discard))
    }
}

#[test]
fn paths_that_are_lost_in_turn_under_load_lose_nothing() {
    const BYTES: u64 = 64 << 20;
    let mut random = Random::announced();
    let product = Product::open(2);
    product.unit(BYTES >> 20);
    let paths = [Relay::start(product.addresses[0]), Relay::start(product.addresses[1])];
    let load = Load::new(4, BYTES);
    let number = std::sync::atomic::AtomicU16::new(1);
    let connect = || {
        let at = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let logins = [0, 1].map(|path: usize| Login::new(paths[path].address(), TARGET).port(at));
        Ok(Box::new(TwoPaths { logins, at: at.into(), unit: None }) as Box<dyn Blocks>)
    };
    let mut seeds = Random::new(random.next_u64());
    let done = std::thread::scope(|scope| {
        let running = scope.spawn(|| load.run_on(&connect, &mut seeds, Refusals::Fault));
        for turn in 0..8 {
            load.wait(200 + random.below(400));
            paths[turn % 2].cut();
            std::thread::sleep(Duration::from_millis(100 + random.below(300)));
            paths[turn % 2].mend();
        }
        paths.iter().for_each(Relay::cut);
        running.join().expect("the load finds no fault")
    });
    paths.iter().for_each(Relay::mend);
    assert!(done.answered > 100, "{done:?}");
    let faults = load.check_on(&|| Unit::connect(&product.login()), 2);
    assert!(faults.is_empty(), "{done:?}:\n{}", faults[..faults.len().min(20)].join("\n"));
}
