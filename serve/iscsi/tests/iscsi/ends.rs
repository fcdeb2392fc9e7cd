//! How sessions end, and peers that are slow, dead or take nothing.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::client::{Client, pattern, read10, write10};
use crate::support::memory::Memory;
use crate::support::{Fixture, INITIATOR, TARGET, open};
use holdfast_harness::wait_until;
use holdfast_iscsi::protocol::Header;
use holdfast_iscsi::protocol::constants::*;
use holdfast_iscsi::{Access, Allowed, IscsiSettings, TargetLimits};

fn quick() -> IscsiSettings {
    IscsiSettings {
        ping_after: Duration::from_millis(200),
        ping_timeout: Duration::from_secs(3),
        send_timeout: Duration::from_millis(600),
        drain_timeout: Duration::from_millis(400),
        ..IscsiSettings::default()
    }
}

#[test]
fn a_silent_peer_is_asked_and_a_dead_one_dropped() {
    let fixture = Fixture::settings(quick());
    let mut client = Client::enter(fixture.address, &[]);
    for _ in 0..3 {
        let ping = client.receive();
        assert_eq!((ping.header.opcode(), ping.header.task_tag()), (NOP_IN, NO_TAG));
        assert_ne!(ping.header.transfer_tag(), NO_TAG);
        let answer = Header::new(NOP_OUT | 0x40, FLAG_FINAL)
            .with_task_tag(NO_TAG)
            .with_transfer_tag(ping.header.transfer_tag())
            .with_u32(24, client.cmd_sn);
        client.send(answer, &[]);
    }
    fixture.sessions(1);
    assert_eq!(client.receive().header.opcode(), NOP_IN);
    assert!(client.closed(), "it does not answer");
    fixture.sessions(0);
    assert!(fixture.heard.ended.lock().unwrap()[0].contains("silent"));
}

#[test]
fn a_peer_that_takes_nothing_is_bounded_and_dropped() {
    let fixture = Fixture::settings(quick());
    let mut client = Client::enter(fixture.address, &[("MaxRecvDataSegmentLength", "262144")]);
    client.wire.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    // Reads of 1 MiB each, of which no answer is ever taken.
    for number in 0..100 {
        let header = client.command_header(&read10(0, 2048), FLAG_FINAL | COMMAND_READ, 1 << 20);
        let header = header.with_u32(24, 1000 + number);
        if client.wire.write_all(&header.0).is_err() {
            break;
        }
    }
    fixture.sessions(0);
    assert!(fixture.heard.ended.lock().unwrap()[0].contains("takes no answers"));
    assert!(Client::enter(fixture.address, &[]).read(0, 512).len() == 512);
}

#[test]
fn a_slow_peer_is_served() {
    let fixture = Fixture::new();
    let mut client = Client::enter(fixture.address, &[]);
    let data = pattern(1024, 5);
    let header = client.command_header(&write10(3, 2), FLAG_FINAL | COMMAND_WRITE, 1024).with_data_bytes(1024);
    for byte in header.0.iter().chain(&data) {
        client.wire.write_all(&[*byte]).unwrap();
        if byte.is_multiple_of(8) {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    assert_eq!(client.finish(&data).0, 0);
    assert_eq!(client.read(3, 1024), data);
}

#[test]
fn a_target_that_is_removed_asks_for_a_logout() {
    let drain_timeout = Duration::from_secs(3);
    let fixture = Fixture::settings(IscsiSettings { drain_timeout, ..IscsiSettings::default() });
    let mut polite = Client::enter(fixture.address, &[]);
    let mut rude = Client::connect(fixture.address);
    rude.isid[5] = 2;
    assert_eq!(rude.login(&[]), 0);
    let began = Instant::now();
    let removal = fixture.targets.remove(TARGET).unwrap();
    let message = polite.receive();
    assert_eq!((message.header.opcode(), message.header.0[36]), (ASYNC_MESSAGE, ASYNC_LOGOUT));
    let logout = polite.numbered(LOGOUT | 0x40, FLAG_FINAL | LOGOUT_SESSION);
    polite.send(logout, &[]);
    let answer = polite.receive();
    assert_eq!((answer.header.opcode(), answer.header.0[2]), (LOGOUT_RESPONSE, LOGOUT_DONE));
    assert!(polite.closed());
    fixture.reactors[0].call(move || removal).wait().unwrap();
    assert!(began.elapsed() >= drain_timeout, "who does not log out has some time");
    fixture.sessions(0);
    assert_eq!(Client::connect(fixture.address).login(&[]), 0x0203);
    assert!(fixture.targets.remove(TARGET).is_err());
}

#[test]
fn sessions_end_by_order() {
    let settings = IscsiSettings { drain_timeout: Duration::from_millis(400), ..IscsiSettings::default() };
    let mut fixture = Fixture::settings(settings);
    let mut client = Client::enter(fixture.address, &[]);
    assert!(fixture.targets.drop_session(client.tsih));
    assert!(client.closed());
    fixture.sessions(0);
    assert!(!fixture.targets.drop_session(client.tsih));
    // Who may no longer log in is out; who still may stays.
    let mut stays = Client::enter(fixture.address, &[]);
    let mut leaves = Client::connect(fixture.address);
    let names = [("InitiatorName", "iqn.2001-04.com.example:other"), ("TargetName", TARGET)];
    assert_eq!(leaves.login_as(&names, &[]), 0);
    let only = Access { initiators: vec![Allowed { iqn: INITIATOR.into(), chap: None }], ..Access::default() };
    fixture.targets.set_access(TARGET, only).unwrap();
    assert!(leaves.closed());
    fixture.sessions(1);
    stays.settle();
    fixture.shut_down();
    assert_eq!(stays.receive().header.opcode(), ASYNC_MESSAGE);
    assert!(fixture.targets.sessions(None).is_empty());
}

#[test]
fn what_is_in_flight_ends_with_its_session() {
    let slow = Memory::new(1 << 20).slow(Duration::from_millis(300));
    let fixture = Fixture::with(slow, open(), quick(), TargetLimits::default());
    for _ in 0..5 {
        let mut client = Client::enter(fixture.address, &[]);
        for number in 0..20 {
            let header = client.command_header(&write10(number * 8, 8), FLAG_FINAL | COMMAND_WRITE, 4096);
            client.send(header, &pattern(4096, 1));
        }
        drop(client);
    }
    fixture.sessions(0);
    wait_until("all connections are gone", || fixture.server.as_ref().unwrap().connections().is_empty());
}

#[test]
fn any_bytes_leave_the_server_standing() {
    use proptest::prelude::*;
    let fixture = Fixture::settings(quick());
    let header = (any::<u8>(), any::<u8>(), 0..3_u8, 0..600_u16, any::<[u8; 40]>()).prop_map(
        |(opcode, flags, additional, len, rest)| {
            let [high, low] = len.to_be_bytes();
            [&[opcode & 0x7f, flags, 0, 0, additional, 0, high, low][..], &rest].concat()
        },
    );
    let chunk = prop_oneof![3 => header, 1 => prop::collection::vec(any::<u8>(), 0..300)];
    let streams = prop::collection::vec(chunk, 0..20);
    let mut runner = proptest::test_runner::TestRunner::new(proptest::test_runner::Config::with_cases(60));
    runner
        .run(&streams, |chunks| {
            let mut client = Client::connect(fixture.address);
            assert_eq!(client.login(&[]), 0);
            let mut bytes: Vec<u8> = chunks.concat();
            bytes.truncate(8000);
            let _ = client.wire.write_all(&bytes);
            Ok(())
        })
        .unwrap();
    let mut client = Client::enter(fixture.address, &[]);
    assert_eq!(client.read(0, 512).len(), 512);
}
