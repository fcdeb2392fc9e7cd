//! Bad input, limits, and the ends of connections.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::Fixture;
use crate::support::client::{Client, info, open, told};
use crate::support::memory::Memory;
use holdfast_harness::{LIMIT, wait_until};
use holdfast_listener::{Address, ListenError, ListenSettings};
use holdfast_nbd::NbdSettings;
use holdfast_nbd::protocol::ReplyStyle;
use holdfast_nbd::protocol::constants::*;
use proptest::prelude::*;

fn disk(size: u64) -> Arc<Memory> {
    Arc::new(Memory::new(size))
}

/// Sends bytes and reads until the server closes or has nothing more to say.
fn throw(address: &Address, bytes: &[u8]) {
    let mut wire = open(address);
    let mut answer = [0; 18];
    wire.read_exact(&mut answer).unwrap();
    let _ = wire.write_all(bytes);
}

#[test]
fn garbage_closes_the_connection_and_nothing_else() {
    let fixture = Fixture::new(&[("disk", disk(1 << 20))]);
    let option = |option: u32, length: u32| {
        let head = [FLAG_C_FIXED_NEWSTYLE.to_be_bytes().to_vec(), OPTION_MAGIC.to_be_bytes().to_vec()].concat();
        [head, option.to_be_bytes().to_vec(), length.to_be_bytes().to_vec()].concat()
    };
    let closing = [
        vec![0xff; 4],
        vec![0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
        option(OPT_GO, u32::MAX),
        option(OPT_EXPORT_NAME, 1 << 20),
        [vec![0; 4], option(OPT_LIST, 0)[4..].to_vec()].concat(),
    ];
    for bytes in closing {
        let mut wire = open(&fixture.unix);
        wire.read_exact(&mut [0; 18]).unwrap();
        wire.write_all(&bytes).unwrap();
        assert!(matches!(wire.read(&mut [0; 64]), Ok(0) | Err(_)), "{bytes:?}");
    }
    for (style, bytes) in [(ReplyStyle::Simple, 28), (ReplyStyle::Structured, 28), (ReplyStyle::Extended, 32)] {
        let (mut client, _) = Client::enter(&fixture.unix, "disk", style);
        assert_eq!(client.write(0, 0, &[1; 4096]), 0);
        client.wire.write_all(&vec![0x55; bytes]).unwrap();
        assert!(client.closed());
    }
    let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Extended);
    client.send(CMD_FLAG_PAYLOAD_LEN, CMD_TRIM, 0, u64::MAX, &[]);
    assert!(client.closed(), "a payload that cannot end");
    let (mut client, _) = Client::enter(&fixture.tcp, "disk", ReplyStyle::Simple);
    assert_eq!(client.read(0, 4096), vec![1; 4096]);
}

#[test]
fn any_bytes_leave_the_server_standing() {
    let fixture = Fixture::new(&[("disk", disk(1 << 20))]);
    let chunk = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        Just(OPTION_MAGIC.to_be_bytes().to_vec()),
        Just(REQUEST_MAGIC.to_be_bytes().to_vec()),
        (0..12_u32, 0..300_u32).prop_map(|(option, length)| {
            [OPTION_MAGIC.to_be_bytes().to_vec(), option.to_be_bytes().to_vec(), length.to_be_bytes().to_vec()].concat()
        }),
        Just([&OPTION_MAGIC.to_be_bytes()[..], &[0, 0, 0, 7, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0]].concat()),
        Just([&OPTION_MAGIC.to_be_bytes()[..], &[0, 0, 0, 11, 0, 0, 0, 0]].concat()),
        (0..9_u16, any::<u16>(), 0..1_u64 << 21, 0..9000_u32).prop_map(|(command, flags, offset, length)| {
            let head = [REQUEST_MAGIC.to_be_bytes().to_vec(), flags.to_be_bytes().to_vec()].concat();
            let rest = [offset.to_be_bytes(), offset.to_be_bytes()].concat();
            [head, command.to_be_bytes().to_vec(), rest, length.to_be_bytes().to_vec()].concat()
        }),
    ];
    let streams = prop::collection::vec(chunk, 0..20);
    let mut runner = proptest::test_runner::TestRunner::default();
    runner
        .run(&streams, |chunks| {
            let stream = [&3_u32.to_be_bytes()[..], &chunks.concat()].concat();
            throw(&fixture.unix, &stream);
            Ok(())
        })
        .unwrap();
    let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Extended);
    assert_eq!(client.ask(0, CMD_FLUSH, 0, 0, &[]).error, 0);
    drop(client);
    wait_until("all are gone", || fixture.server().connections().is_empty());
}

#[test]
fn a_client_that_never_chooses_is_dropped() {
    let settings = NbdSettings { handshake_timeout: Duration::from_secs(3), ..NbdSettings::default() };
    let fixture = Fixture::with(&[("disk", disk(1 << 20))], settings);
    let mut silent = open(&fixture.unix);
    let mut haggling = Client::connect(&fixture.tcp);
    haggling.option(OPT_LIST, &[]);
    let (mut busy, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Simple);
    silent.read_exact(&mut [0; 18]).unwrap();
    assert_eq!(silent.read(&mut [0; 1]).unwrap(), 0);
    assert!(haggling.closed());
    assert_eq!(busy.read(0, 4096).len(), 4096, "transmission takes as long as it takes");
}

#[test]
fn one_connection_too_many_is_closed() {
    let settings = NbdSettings {
        listen: ListenSettings { connections: 2, ..ListenSettings::default() },
        ..NbdSettings::default()
    };
    let fixture = Fixture::with(&[("disk", disk(1 << 20))], settings);
    let (first, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Simple);
    let (_second, _) = Client::enter(&fixture.tcp, "disk", ReplyStyle::Simple);
    let mut third = open(&fixture.unix);
    assert!(matches!(third.read(&mut [0; 18]), Ok(0) | Err(_)));
    drop(first);
    wait_until("there is room again", || fixture.server().connections().len() == 1);
    Client::enter(&fixture.unix, "disk", ReplyStyle::Simple);
}

#[test]
fn silent_clients_keep_nobody_out() {
    let settings = NbdSettings { handshake_timeout: Duration::from_secs(600), ..NbdSettings::default() };
    let fixture = Fixture::with(&[("disk", disk(1 << 20))], settings);
    let (mut before, _) = Client::enter(&fixture.tcp, "disk", ReplyStyle::Simple);
    let mut silent: Vec<_> = (0..400).map(|_| open(&fixture.tcp)).collect();
    for _ in 0..20 {
        silent.push(open(&fixture.tcp));
        let (mut client, _) = Client::enter(&fixture.tcp, "disk", ReplyStyle::Simple);
        assert_eq!(client.read(0, 4096).len(), 4096);
    }
    assert_eq!(before.read(0, 4096).len(), 4096, "who chose an export makes no room");
    wait_until("as many as there may be", || fixture.server().crowding().connections <= 256);
    let crowds = fixture.server().crowds();
    // All but 256 of those that were ever silent.
    assert!(crowds.len() == 1 && crowds[0].dropped >= 420 - 256, "{crowds:?}");
}

#[test]
fn a_client_that_takes_no_replies_is_not_read() {
    let settings = NbdSettings { requests: 16, payload_bytes: 1 << 20, ..NbdSettings::default() };
    let fixture = Fixture::with(&[("disk", disk(64 << 20))], settings);
    let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Simple);
    let (mut other, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Simple);
    for _ in 0..64 {
        client.send(0, CMD_READ, 0, 1 << 20, &[]);
    }
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(300) {
        let status = &fixture.server().connections()[0];
        assert!(status.in_flight <= 16, "{status:?}");
        assert!(status.bytes <= 4 << 20, "no more is read from the target than the limit allows: {status:?}");
        assert_eq!(other.read(0, 4096).len(), 4096, "others are served");
    }
    for _ in 0..64 {
        assert_eq!(client.reply().data[0].1.len(), 1 << 20);
    }
}

#[test]
fn requests_beyond_the_limit_wait_and_are_served() {
    let settings = NbdSettings { requests: 2, payload_bytes: 4096, ..NbdSettings::default() };
    let target = Arc::new(Memory::new(64 << 20).slow(Duration::from_millis(1)));
    let fixture = Fixture::with(&[("disk", target)], settings);
    let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Extended);
    for number in 0..50 {
        client.send(0, CMD_WRITE, number * 16384, 16384, &vec![number as u8 + 1; 16384]);
    }
    for _ in 0..50 {
        assert_eq!(client.reply().error, 0);
    }
    for number in 0..50 {
        assert_eq!(client.read(number * 16384, 16384), vec![number as u8 + 1; 16384]);
    }
}

#[test]
fn shutdown_answers_what_is_in_flight_and_refuses_the_rest() {
    let settings = NbdSettings { drain_timeout: 2 * LIMIT, ..NbdSettings::default() };
    let target = Arc::new(Memory::new(1 << 20).slow(Duration::from_secs(3)));
    let mut fixture = Fixture::with(&[("disk", target)], settings);
    let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Structured);
    let (mut idle, _) = Client::enter(&fixture.tcp, "disk", ReplyStyle::Simple);
    let early = client.send(0, CMD_READ, 0, 4096, &[]);
    wait_until("the read is in flight", || fixture.server().connections()[0].in_flight == 1);
    let Address::Unix(path) = fixture.unix.clone() else { panic!("a unix socket") };
    let asking = std::thread::spawn(move || {
        wait_until("the shutdown has begun", || !path.exists());
        std::thread::sleep(Duration::from_millis(100));
        let late = client.send(0, CMD_READ, 4096, 4096, &[]);
        let refused = client.reply();
        assert_eq!((refused.cookie, refused.error), (late, 108));
        let served = client.reply();
        assert_eq!((served.cookie, served.error, served.data[0].1.len()), (early, 0, 4096));
        assert!(client.closed());
    });
    let started = Instant::now();
    fixture.shut_down();
    assert!(started.elapsed() < LIMIT, "it waits for nothing but the read: {:?}", started.elapsed());
    asking.join().unwrap();
    assert!(idle.closed());
}

#[test]
fn a_target_that_never_answers_delays_shutdown_by_its_limit() {
    let settings = NbdSettings { drain_timeout: Duration::from_millis(200), ..NbdSettings::default() };
    let target = Arc::new(Memory::new(1 << 20).slow(Duration::from_secs(3600)));
    let mut fixture = Fixture::with(&[("disk", target)], settings);
    let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Simple);
    client.send(0, CMD_READ, 0, 4096, &[]);
    wait_until("the read is in flight", || fixture.server().connections()[0].in_flight == 1);
    let started = Instant::now();
    fixture.shut_down();
    assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
    assert!(client.closed());
}

#[test]
fn a_removed_export_lets_its_clients_and_its_target_go() {
    let target = Arc::new(Memory::new(1 << 20).slow(Duration::from_millis(100)));
    let fixture = Fixture::new(&[("gone", target.clone()), ("stays", disk(1 << 20))]);
    let (mut client, _) = Client::enter(&fixture.unix, "gone", ReplyStyle::Simple);
    let (mut other, _) = Client::enter(&fixture.unix, "stays", ReplyStyle::Simple);
    let cookie = client.send(0, CMD_READ, 0, 4096, &[]);
    wait_until("the read is in flight", || fixture.server().connections()[0].in_flight == 1);
    let removal = fixture.exports.remove("gone").unwrap();
    let finished = fixture.reactors[0].call(move || removal.finished());
    assert_eq!(client.reply().cookie, cookie);
    assert_eq!(client.ask(0, CMD_FLUSH, 0, 0, &[]).error, 108);
    assert!(client.closed());
    finished.wait().unwrap();
    assert_eq!(Arc::strong_count(&target), 1);
    assert_eq!(other.read(0, 4096).len(), 4096);
    let mut late = Client::connect(&fixture.unix);
    assert_eq!(late.option(OPT_GO, &info("gone", &[]))[0].0, REP_ERR_UNKNOWN);
    told(&late.option(OPT_GO, &info("", &[])));
    fixture.offer("gone", target).unwrap();
}

#[test]
fn clients_that_vanish_leave_nothing() {
    let target = Arc::new(Memory::new(64 << 20).slow(Duration::from_millis(5)));
    let fixture = Fixture::new(&[("disk", target.clone())]);
    for number in 0..30_usize {
        let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Extended);
        for _ in 0..10 {
            client.send(0, CMD_READ, 0, 1 << 20, &[]);
        }
        let (_, bytes) = client.request(0, CMD_WRITE, 0, 1 << 20, &vec![1; 1 << 20]);
        client.wire.write_all(&bytes[..number * 1000]).unwrap();
    }
    wait_until("all are gone", || fixture.server().connections().is_empty());
    fixture.exports.remove("disk").unwrap();
    wait_until("the target is free", || Arc::strong_count(&target) == 1);
}

#[test]
fn addresses_in_use_are_named() {
    let fixture = Fixture::new(&[]);
    for address in [fixture.unix.clone(), fixture.tcp.clone()] {
        let again = holdfast_nbd::serve(
            fixture.reactors.clone(),
            fixture.exports.clone(),
            std::slice::from_ref(&address),
            NbdSettings::default(),
        );
        let Err(error @ ListenError::Listen { .. }) = again else { panic!("{address} was taken twice") };
        let place = address.to_string();
        let place = place.trim_start_matches("unix:").trim_start_matches("tcp:");
        assert!(error.to_string().contains(place), "{error}");
    }
    let none = holdfast_nbd::serve(vec![], fixture.exports.clone(), &[], NbdSettings::default());
    assert!(matches!(none, Err(ListenError::Nothing { .. })));
}
