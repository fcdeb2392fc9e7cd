//! What one session can keep from others, and for how long.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::support::client::{Client, pattern, read10, write10};
use crate::support::memory::Memory;
use crate::support::{Fixture, open};
use holdfast_harness::{LIMIT, wait_until};
use holdfast_iscsi::protocol::Header;
use holdfast_iscsi::protocol::constants::*;
use holdfast_iscsi::{IscsiSettings, TargetLimits};

const TASK_SET_FULL: u8 = 0x28;

/// How long data may be kept back: longer than a test takes to do what it does meanwhile.
const SEND_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a request of the slow disk takes: likewise.
const DISK_TIME: Duration = Duration::from_secs(3);

fn quick(memory_bytes: u64) -> IscsiSettings {
    IscsiSettings {
        memory_bytes,
        ping_after: Duration::from_millis(100),
        ping_timeout: LIMIT,
        send_timeout: SEND_TIMEOUT,
        drain_timeout: Duration::from_millis(200),
        ..IscsiSettings::default()
    }
}

fn fixture(memory_bytes: u64) -> Fixture {
    Fixture::with(Memory::new(16 << 20), open(), quick(memory_bytes), TargetLimits::default())
}

fn another(fixture: &Fixture, number: u8) -> Client {
    let mut client = Client::connect(fixture.address);
    client.isid[5] = number;
    assert_eq!(client.login(&[("ImmediateData", "No")]), 0);
    client.settle();
    client
}

/// Sends a write without its data: the request for them, or the status.
fn ask(client: &mut Client, block: u32, len: usize) -> Header {
    let header = client.command_header(&write10(block, len / 512), FLAG_FINAL | COMMAND_WRITE, len);
    client.send(header, &[]);
    client.receive().header
}

/// Answers pings, and does `each` between them, until the server ends the session.
fn until_dropped(client: &mut Client, mut each: impl FnMut(&mut Client) -> bool) {
    let began = Instant::now();
    client.wire.set_read_timeout(Some(Duration::from_millis(40))).unwrap();
    let mut whole = true;
    while began.elapsed() < LIMIT {
        let mut bytes = [0; 64 << 10];
        match client.wire.read(&mut bytes) {
            Ok(0) => return,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Ok(48) if whole && bytes[0] == NOP_IN => {
                let ping = Header(*bytes.first_chunk().unwrap());
                let answer = Header::new(NOP_OUT | 0x40, FLAG_FINAL)
                    .with_task_tag(NO_TAG)
                    .with_transfer_tag(ping.transfer_tag())
                    .with_u32(24, client.cmd_sn);
                let _ = client.wire.write_all(&answer.0);
            }
            _ => {}
        }
        // In the middle of a PDU nothing else can be sent.
        whole &= each(client);
    }
    panic!("the session is still there");
}

fn ended_for_want_of_data(fixture: &Fixture) {
    fixture.sessions(0);
    let ended = fixture.heard.ended.lock().unwrap();
    assert!(ended.iter().any(|why| why.contains("does not send")), "{ended:?}");
}

#[test]
fn a_session_that_keeps_its_data_back_is_ended_and_its_memory_free() {
    let fixture = fixture(64 << 10);
    let mut client = another(&fixture, 1);
    let began = Instant::now();
    assert_eq!(ask(&mut client, 0, 64 << 10).opcode(), READY_TO_TRANSFER);
    let mut other = another(&fixture, 2);
    assert_eq!(other.command(&write10(0, 1), 0, 0, &[1; 512]).0, TASK_SET_FULL, "all of the memory is held");
    drop(other);
    until_dropped(&mut client, |_| true);
    assert!(began.elapsed() >= SEND_TIMEOUT, "{:?}", began.elapsed());
    ended_for_want_of_data(&fixture);
    let mut next = another(&fixture, 3);
    assert_eq!(next.write(0, 0, &pattern(64 << 10, 3)), 0);
}

#[test]
fn a_byte_now_and_then_keeps_no_session() {
    let fixture = fixture(1 << 20);
    let mut client = another(&fixture, 1);
    let request = ask(&mut client, 0, 4096);
    let header = Header::new(DATA_OUT, FLAG_FINAL).with_task_tag(request.task_tag());
    let header = header.with_transfer_tag(request.transfer_tag()).with_data_bytes(4096);
    client.wire.write_all(&header.0).unwrap();
    until_dropped(&mut client, |client| {
        let _ = client.wire.write_all(&[7]);
        false
    });
    ended_for_want_of_data(&fixture);
}

#[test]
fn writes_beside_one_that_stalls_keep_no_session() {
    let fixture = fixture(1 << 20);
    let mut client = another(&fixture, 1);
    ask(&mut client, 0, 4096);
    let mut number = 0;
    until_dropped(&mut client, |client| {
        // Its request comes with the next answers; nobody reads them apart.
        number += 1;
        let header = client.command_header(&write10(64, 1), FLAG_FINAL | COMMAND_WRITE, 512);
        let mut bytes = header.0.to_vec();
        let tag = number;
        let data = Header::new(DATA_OUT, FLAG_FINAL).with_task_tag(header.task_tag()).with_transfer_tag(tag);
        bytes.extend(data.with_data_bytes(512).0);
        bytes.extend([1; 512]);
        let _ = client.wire.write_all(&bytes);
        std::thread::sleep(Duration::from_millis(10));
        true
    });
    ended_for_want_of_data(&fixture);
}

#[test]
fn a_number_that_never_comes_ends_the_session() {
    let fixture = fixture(1 << 20);
    for command in [true, false] {
        let mut client = another(&fixture, 1);
        client.cmd_sn += 1;
        let header = match command {
            true => client.command_header(&read10(0, 8), FLAG_FINAL | COMMAND_READ, 4096),
            false => client.numbered(NOP_OUT, FLAG_FINAL).with_transfer_tag(NO_TAG),
        };
        client.send(header, if command { &[] } else { &[7; 4096] });
        until_dropped(&mut client, |_| true);
        ended_for_want_of_data(&fixture);
    }
    assert_eq!(fixture.heard.ended.lock().unwrap().len(), 2);
}

#[test]
fn one_session_leaves_memory_to_others() {
    let settings = IscsiSettings { memory_bytes: 1 << 20, ..IscsiSettings::default() };
    let fixture = Fixture::with(Memory::new(16 << 20), open(), settings, TargetLimits::default());
    let mut greedy = another(&fixture, 1);
    let mut asked = 0;
    while ask(&mut greedy, 0, 64 << 10).opcode() == READY_TO_TRANSFER {
        asked += 1;
    }
    assert_eq!(asked, 8, "half of the memory");
    let mut other = another(&fixture, 2);
    assert_eq!(other.write(0, 0, &pattern(256 << 10, 3)), 0, "others go on");
    assert_eq!(other.read(0, 256 << 10), pattern(256 << 10, 3));
    drop(greedy);
    fixture.sessions(1);
    assert_eq!(other.write(0, 0, &pattern(1 << 20, 4)), 0, "alone it may take all");
}

fn slow(memory_bytes: u64) -> Fixture {
    let slow = Memory::new(16 << 20).slow(DISK_TIME);
    let settings = IscsiSettings { memory_bytes, ..IscsiSettings::default() };
    Fixture::with(slow, open(), settings, TargetLimits::default())
}

#[test]
fn aborts_free_no_memory_that_the_disk_still_holds() {
    let fixture = slow(64 << 10);
    let mut client = Client::enter(fixture.address, &[]);
    let data = pattern(8192, 1);
    for write in [false, true] {
        let began = Instant::now();
        let header = match write {
            true => client.command_header(&write10(0, 16), FLAG_FINAL | COMMAND_WRITE, data.len()),
            false => client.command_header(&read10(0, 128), FLAG_FINAL | COMMAND_READ, 64 << 10),
        };
        let sent: &[u8] = if write { &data } else { &[] };
        client.send(header, sent);
        // A write holds its task until it is over, a read only its memory.
        let answer = client.manage(ABORT_TASK, header.task_tag(), header.cmd_sn());
        assert_eq!(answer, FUNCTION_COMPLETE);
        let (status, ..) = client.command(&read10(0, 128), 64 << 10, 0, &[]);
        match write {
            false => assert_eq!(status, TASK_SET_FULL),
            true => assert!(status == 0 && began.elapsed() >= DISK_TIME, "{status}"),
        }
        wait_until("the disk has let go", || client.command(&read10(0, 128), 64 << 10, 0, &[]).0 == 0);
    }
    assert_eq!(client.read(0, 8192), data);
}

#[test]
fn commands_without_data_that_are_aborted_are_bounded() {
    let fixture = slow(1 << 20);
    let mut client = Client::enter(fixture.address, &[]);
    let mut full = 0;
    for _ in 0..300 {
        // A flush.
        let header = client.command_header(&[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0], FLAG_FINAL, 0);
        client.send(header, &[]);
        let abort = client.numbered(TASK_MANAGEMENT | 0x40, FLAG_FINAL | ABORT_TASK);
        client.send(abort.with_transfer_tag(header.task_tag()).with_u32(32, header.cmd_sn()), &[]);
    }
    let mut answers = 0;
    while answers < 300 {
        let pdu = client.receive().header;
        match pdu.opcode() {
            TASK_MANAGEMENT_RESPONSE => answers += 1,
            _ => full += u32::from(pdu.0[3] == TASK_SET_FULL),
        }
    }
    assert!(full >= 100, "{full} of 300 were refused");
    let flush = [0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    wait_until("there is room again", || client.command(&flush, 0, 0, &[]).0 == 0);
}

#[test]
fn functions_that_wait_are_bounded() {
    let fixture = slow(1 << 20);
    let mut client = Client::enter(fixture.address, &[]);
    let header = client.command_header(&write10(0, 8), FLAG_FINAL | COMMAND_WRITE, 4096);
    client.send(header, &pattern(4096, 1));
    let count = 400;
    for _ in 0..count {
        let header = client.numbered(TASK_MANAGEMENT | 0x40, FLAG_FINAL | ABORT_TASK_SET);
        client.send(header, &[]);
    }
    let answers: Vec<u8> = (0..count).map(|_| client.receive().header.0[2]).collect();
    let refused = answers.iter().filter(|answer| **answer == FUNCTION_REJECTED).count();
    assert!(refused >= 200 && refused < count, "{refused} of {count}");
    assert_eq!(client.manage(ABORT_TASK_SET, NO_TAG, 0), FUNCTION_COMPLETE);
}
