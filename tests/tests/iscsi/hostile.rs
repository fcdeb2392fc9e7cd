//! Peers that are slow, dead, or never read, and bytes that are no PDUs: they cost their own connection, and memory within its
//! limits.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use holdfast_harness::LIMIT;
use holdfast_tests::iscsi::cdb;
use holdfast_tests::iscsi::initiator::Session;
use holdfast_tests::iscsi::pdu::{FINAL, Pdu, request};
use holdfast_tests::iscsi::wire::Wire;
use holdfast_tests::ports::free_address;
use holdfast_tests::random::{Random, bytes};

use crate::product::Product;

/// What all sessions together may make the daemon hold, in MiB.
const MEMORY_MIB: u64 = 64;
/// What else it may take for them: answers that wait, and what is read already.
const SLACK_MIB: u64 = 128;
/// The function that ends all sessions.
const COLD_RESET: u8 = 7;
/// Sessions that misbehave.
const SESSIONS: u16 = 24;

fn limited() -> Product {
    let memory = format!("{MEMORY_MIB}MiB");
    let product = Product::with(&[free_address()], &["--iscsi-memory", &memory], &["--open"]);
    product.unit(64);
    product
}

/// Sends `count` commands whose answers nobody waits for, until no more of them go in.
fn flood(session: &mut Session, cdb: &[u8; 16], direction: u8, expected: u32, count: u32) {
    let (cmd_sn, exp_stat_sn) = (session.agreed().cmd_sn, session.agreed().exp_stat_sn);
    for number in 0..count {
        let pdu = Pdu::new(request::COMMAND, FINAL | direction | 1).with(16, 1000 + number).with(20, expected);
        let mut pdu = pdu.with(24, cmd_sn.wrapping_add(number)).with(28, exp_stat_sn);
        pdu.header[32..48].copy_from_slice(cdb);
        let mut stream = session.wire().stream();
        if stream.write(&pdu.header).is_err() {
            return;
        }
    }
}

#[track_caller]
fn still_serves(product: &Product) {
    let mut session = product.session(900);
    session.write(0, &cdb::write(0, 8), &[9; 4096]).expect("the session lives").good();
    assert_eq!(session.read(0, &cdb::read(0, 8), 4096).expect("the session lives").good(), [9; 4096]);
}

/// Whether the other end closes `stream`.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(false).expect("a socket can be set");
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket can be set");
    let end = Instant::now() + LIMIT;
    let mut stream = stream;
    while Instant::now() < end {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return true,
            Err(error) if !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                return true;
            }
            _ => (),
        }
    }
    false
}

#[test]
fn sessions_that_never_read_their_answers_cost_no_memory_without_end() {
    let product = limited();
    let before = product.memory();
    let mut deaf = Vec::new();
    for number in 1..=SESSIONS {
        let mut session = product.session(number);
        // Reads of 1 MiB, more than a session may have at once.
        flood(&mut session, &cdb::read(0, 2048), 0x40, 1 << 20, 200);
        deaf.push(session);
    }
    std::thread::sleep(Duration::from_secs(1));
    let grown = product.memory().saturating_sub(before);
    println!("{grown} MiB for {} sessions that do not read", deaf.len());
    assert!(grown <= MEMORY_MIB + SLACK_MIB, "{grown} MiB more than before");
    still_serves(&product);
    drop(deaf);
    still_serves(&product);
}

#[test]
fn writes_that_never_come_cost_no_memory_without_end() {
    let product = limited();
    let before = product.memory();
    let mut idle = Vec::new();
    for number in 1..=SESSIONS {
        let login = product.login().port(number).offer("ImmediateData", "No").offer("InitialR2T", "Yes");
        let mut session = Session::of(&login, &[0]);
        flood(&mut session, &cdb::write(0, 8192), 0x20, 4 << 20, 64);
        idle.push(session);
    }
    std::thread::sleep(Duration::from_secs(1));
    let grown = product.memory().saturating_sub(before);
    println!("{grown} MiB for {} sessions that send nothing", idle.len());
    assert!(grown <= MEMORY_MIB + SLACK_MIB, "{grown} MiB more than before");
    drop(idle);
    still_serves(&product);
}

#[test]
fn slow_and_silent_logins_are_ended() {
    let product = limited();
    let address = product.addresses[0];
    let silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    let mut slow = TcpStream::connect(address).expect("it listens");
    let end = Instant::now() + LIMIT;
    // A byte every now and then is no progress of a login.
    let login = Pdu::new(request::LOGIN | request::IMMEDIATE, 0).header;
    let mut ended = false;
    for byte in login.iter().cycle() {
        ended = slow.write_all(&[*byte]).is_err();
        if ended || Instant::now() > end {
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(ended, "a login that takes forever");
    assert!(silent.iter().all(is_closed), "connections that say nothing");
    still_serves(&product);
}

#[test]
fn bytes_that_are_no_pdus_end_their_connection_only() {
    let product = limited();
    let mut random = Random::announced();
    let mut inside = product.session(1);
    for round in 0..200 {
        let mut stream = TcpStream::connect(product.addresses[0]).expect("it listens");
        let len = 1 + random.below(2000) as usize;
        let mut sent = bytes(random.next_u64(), len);
        if round % 2 == 0 {
            // One that begins as a login does, with lengths and keys that are wrong.
            sent[0] = request::LOGIN | request::IMMEDIATE;
            sent.get_mut(1..4).into_iter().for_each(|head| head.copy_from_slice(&[0x87, 0, 0]));
        }
        let _ = stream.write_all(&sent);
    }
    for round in 0..100u16 {
        let mut session = product.session(100 + round);
        let (opcode, mut flags) = (random.below(64) as u8, random.below(256) as u8);
        if opcode == request::MANAGE && flags & 0x7f == COLD_RESET {
            // That ends the sessions of all, as it is to.
            flags ^= 1;
        }
        let mut pdu = Pdu::new(opcode, flags);
        for at in (8..48).step_by(4) {
            if random.below(2) == 0 {
                pdu = pdu.with(at, random.next_u64() as u32);
            }
        }
        pdu.header[0] |= if random.below(2) == 0 { request::IMMEDIATE } else { 0 };
        pdu.data = bytes(random.next_u64(), random.below(300) as usize);
        let _ = session.wire().send(&pdu);
        session.wire().set_limit(Duration::from_millis(100));
        let _ = session.wire().receive();
    }
    // A data segment that is longer than any.
    let mut wire = Wire::connect(product.addresses[0]).expect("it listens");
    let mut header = Pdu::new(request::LOGIN | request::IMMEDIATE, 0x87).header;
    header[5..8].fill(0xff);
    wire.send_bytes(&[&header]).expect("it is sent");
    assert!(is_closed(wire.stream()), "16 MiB of login");
    // Where a reset was among them, who is inside is told.
    inside.settle(0);
    inside.read(0, &cdb::read(0, 8), 4096).expect("who is inside is not disturbed").good();
    still_serves(&product);
}

#[test]
fn an_initiator_that_dies_is_forgotten() {
    let product = limited();
    let relay = holdfast_tests::relay::Relay::start(product.addresses[0]);
    let login = holdfast_tests::iscsi::login::Login::new(relay.address(), crate::product::TARGET);
    let session = Session::of(&login, &[0]);
    let count = || product.daemon.json(&["iscsi", "session", "list"]).as_array().map_or(0, Vec::len);
    assert_eq!(count(), 1);
    // Nothing is heard of it any more, though its connection is never closed.
    relay.stand_still();
    holdfast_tests::command::wait_until("the session ends", 60, || count() == 0);
    drop(session);
}
