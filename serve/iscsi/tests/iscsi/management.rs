//! Task management, logout, text, NOP, and what is refused.

use std::time::{Duration, Instant};

use crate::support::Fixture;
use crate::support::client::{Client, pattern, text_of, write10};
use crate::support::memory::Memory;
use crate::support::open;
use holdfast_iscsi::protocol::Header;
use holdfast_iscsi::protocol::constants::*;
use holdfast_iscsi::{IscsiSettings, TargetLimits};

/// How long a request of a slow disk takes: longer than a test takes to do what it does meanwhile.
const DISK_TIME: Duration = Duration::from_secs(3);

/// A write that waits for its data: its header, and the request.
fn waiting(client: &mut Client) -> (Header, Header) {
    let header = client.command_header(&write10(0, 8), FLAG_FINAL | COMMAND_WRITE, 4096);
    client.send(header, &[]);
    (header, client.receive().header)
}

#[test]
fn tasks_are_aborted() {
    let fixture = Fixture::new();
    let mut client = Client::enter(fixture.address, &[("ImmediateData", "No")]);
    let data = pattern(4096, 1);
    let (write, request) = waiting(&mut client);
    assert_eq!(client.manage(ABORT_TASK, write.task_tag(), write.cmd_sn()), FUNCTION_COMPLETE);
    assert_eq!(client.manage(ABORT_TASK, write.task_tag(), write.cmd_sn()), TASK_DOES_NOT_EXIST);
    client.send_data(write.task_tag(), request.transfer_tag(), &data, 0..4096, 4096);
    assert_eq!(client.read(0, 4096), vec![0; 4096], "its data passes");
    for function in [ABORT_TASK_SET, CLEAR_TASK_SET, LOGICAL_UNIT_RESET, TARGET_WARM_RESET] {
        waiting(&mut client);
        waiting(&mut client);
        assert_eq!(client.manage(function, NO_TAG, 0), FUNCTION_COMPLETE, "{function}");
        client.settle();
        let cmd_sn = client.cmd_sn;
        assert_eq!(client.max_cmd_sn, cmd_sn + 127, "the window is open again");
    }
    assert_eq!(client.manage(CLEAR_ACA, NO_TAG, 0), FUNCTION_NOT_SUPPORTED);
    assert_eq!(client.manage(TASK_REASSIGN, 5, 0), REASSIGNMENT_NOT_SUPPORTED);
    assert_eq!(client.manage(99, NO_TAG, 0), FUNCTION_REJECTED);
    let header = client.numbered(TASK_MANAGEMENT | 0x40, FLAG_FINAL | LOGICAL_UNIT_RESET).with_lun(7 << 48);
    client.send(header, &[]);
    assert_eq!(client.receive().header.0[2], LUN_DOES_NOT_EXIST);
}

#[test]
fn a_task_of_a_slow_disk_is_aborted() {
    let slow = Memory::new(1 << 20).slow(DISK_TIME);
    let fixture = Fixture::with(slow, open(), IscsiSettings::default(), TargetLimits::default());
    let mut client = Client::enter(fixture.address, &[]);
    let header = client.command_header(&write10(0, 8), FLAG_FINAL | COMMAND_WRITE, 4096);
    client.send(header, &pattern(4096, 1));
    assert_eq!(client.manage(ABORT_TASK, header.task_tag(), header.cmd_sn()), FUNCTION_COMPLETE);
    client.settle();
    assert_eq!(client.read(8, 512).len(), 512, "no answer of the task came between");
}

#[test]
fn an_abort_of_one_task_waits_for_no_other() {
    let slow = Memory::new(1 << 20).slow(DISK_TIME);
    let fixture = Fixture::with(slow, open(), IscsiSettings::default(), TargetLimits::default());
    let mut client = Client::enter(fixture.address, &[]);
    let running = client.command_header(&write10(64, 8), FLAG_FINAL | COMMAND_WRITE, 4096);
    client.send(running, &pattern(4096, 1));
    let (write, _) = waiting(&mut client);
    assert_eq!(client.manage(ABORT_TASK, write.task_tag(), write.cmd_sn()), FUNCTION_COMPLETE, "before the other ends");
    // One that has begun is over when its abort is answered.
    let begun = client.command_header(&write10(128, 8), FLAG_FINAL | COMMAND_WRITE, 4096);
    client.send(begun, &pattern(4096, 2));
    let abort = client.numbered(TASK_MANAGEMENT | 0x40, FLAG_FINAL | ABORT_TASK);
    client.send(abort.with_transfer_tag(begun.task_tag()).with_u32(32, begun.cmd_sn()), &[]);
    let ended = client.receive().header;
    assert_eq!((ended.opcode(), ended.task_tag()), (SCSI_RESPONSE, running.task_tag()));
    let ended = client.receive().header;
    assert_eq!((ended.opcode(), ended.task_tag()), (TASK_MANAGEMENT_RESPONSE, abort.task_tag()));
    assert_eq!(client.read(128, 4096), pattern(4096, 2), "what had begun was carried to its end");
}

#[test]
fn a_command_that_was_aborted_before_it_came_never_runs() {
    let fixture = Fixture::new();
    let mut client = Client::enter(fixture.address, &[]);
    let lost = client.command_header(&write10(0, 8), FLAG_FINAL | COMMAND_WRITE, 4096);
    // The command is on its way; its abort is faster.
    let header = client.numbered(TASK_MANAGEMENT | 0x40, FLAG_FINAL | ABORT_TASK);
    client.send(header.with_transfer_tag(lost.task_tag()).with_u32(32, lost.cmd_sn()), &[]);
    assert_eq!(client.receive().header.0[2], FUNCTION_COMPLETE);
    client.send(lost, &pattern(4096, 1));
    assert_eq!(client.read(0, 4096), vec![0; 4096]);
}

#[test]
fn a_cold_reset_ends_the_sessions() {
    let fixture = Fixture::new();
    let mut client = Client::enter(fixture.address, &[]);
    let mut other = Client::connect(fixture.address);
    other.isid[5] = 2;
    assert_eq!(other.login(&[]), 0);
    assert_eq!(client.manage(TARGET_COLD_RESET, NO_TAG, 0), FUNCTION_COMPLETE);
    while other.next().is_some() {}
    while client.next().is_some() {}
    fixture.sessions(0);
}

#[test]
fn pings_come_back() {
    let fixture = Fixture::new();
    let mut client = Client::enter(fixture.address, &[("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C")]);
    for (opcode, len) in [(NOP_OUT | 0x40, 0), (NOP_OUT, 5), (NOP_OUT, 8192)] {
        let header = client.numbered(opcode, FLAG_FINAL).with_transfer_tag(NO_TAG);
        client.send(header, &pattern(len, 2));
        let answer = client.receive();
        assert_eq!((answer.header.opcode(), answer.header.task_tag()), (NOP_IN, header.task_tag()));
        assert_eq!((answer.data, client.exp_cmd_sn), (pattern(len, 2), client.cmd_sn));
    }
}

#[test]
fn texts_may_be_long_and_change_little() {
    let fixture = Fixture::new();
    let mut client = Client::enter(fixture.address, &[]);
    let whole = text_of(&[
        ("MaxRecvDataSegmentLength", "512"),
        ("MaxBurstLength", "512"),
        ("X-unknown", "1"),
        ("TargetName", "iqn.2001-04.com.example:x"),
    ]);
    let (first, second) = whole.split_at(40);
    let header = client.numbered(TEXT, FLAG_CONTINUE).with_transfer_tag(NO_TAG);
    client.send(header, first);
    let answer = client.receive();
    assert_eq!((answer.data.len(), answer.header.flags()), (0, 0));
    let more = client.numbered(TEXT, FLAG_FINAL).with_task_tag(header.task_tag());
    client.send(more.with_transfer_tag(answer.header.transfer_tag()), second);
    let answer = client.receive();
    let expected = "MaxBurstLength=Reject\0X-unknown=NotUnderstood\0TargetName=Reject\0";
    assert_eq!(String::from_utf8(answer.data).unwrap(), expected);
    assert_eq!(fixture.targets.sessions(None)[0].parameters.initiator_segment_bytes, 512);
    assert_eq!(client.read(0, 4096).len(), 4096, "in parts of 512 bytes");
    for wrong in [&b"no pair"[..], b"A=1\0A=1\0"] {
        let header = client.numbered(TEXT, FLAG_FINAL).with_transfer_tag(NO_TAG);
        client.send(header, wrong);
        assert_eq!(client.receive().header.opcode(), REJECT);
    }
    let header = client.numbered(TEXT, FLAG_FINAL).with_transfer_tag(12_345);
    client.send(header, &[]);
    assert_eq!(client.receive().header.opcode(), REJECT);
}

#[test]
fn logouts_have_their_reasons() {
    let fixture = Fixture::new();
    let mut client = Client::enter(fixture.address, &[("ImmediateData", "No")]);
    waiting(&mut client);
    for (reason, cid, response) in [
        (LOGOUT_CONNECTION, 5, LOGOUT_NO_CONNECTION),
        (LOGOUT_RECOVERY, 0, LOGOUT_NO_RECOVERY),
        (LOGOUT_CONNECTION, 0, LOGOUT_DONE),
    ] {
        let header = client.numbered(LOGOUT, FLAG_FINAL | reason).with_u16(20, cid);
        client.send(header, &[]);
        let answer = client.receive();
        assert_eq!((answer.header.opcode(), answer.header.0[2]), (LOGOUT_RESPONSE, response));
    }
    assert!(client.closed());
    fixture.sessions(0);
    assert!(fixture.heard.ended.lock().unwrap()[0].contains("logged out"));
}

#[test]
fn what_is_not_served_is_rejected_with_its_header() {
    let fixture = Fixture::new();
    let mut client = Client::enter(fixture.address, &[]);
    for (opcode, reason) in [(SNACK, REJECT_SNACK), (0x1c, REJECT_NOT_SUPPORTED), (0x3e, REJECT_NOT_SUPPORTED)] {
        let header = Header::new(opcode, FLAG_FINAL).with_task_tag(9);
        client.send(header, &[]);
        let answer = client.receive();
        assert_eq!((answer.header.opcode(), answer.header.0[2]), (REJECT, reason));
        assert_eq!((answer.data, answer.header.task_tag()), (header.0.to_vec(), NO_TAG));
    }
    let mut other = Client::enter(fixture.address, &[("ImmediateData", "No")]);
    let (write, _) = waiting(&mut other);
    let again = other.command_header(&[0; 6], FLAG_FINAL, 0).with_task_tag(write.task_tag());
    other.send(again, &[]);
    assert_eq!(other.receive().header.0[2], REJECT_TASK_IN_PROGRESS);
    other.send(Header::new(LOGIN | 0x40, 0), &[]);
    assert!(other.closed(), "a login in the middle");
}

#[test]
fn a_logout_is_answered_when_begun_writes_are_over() {
    let slow = Memory::new(16 << 20).slow(DISK_TIME);
    let fixture = Fixture::with(slow, open(), IscsiSettings::default(), TargetLimits::default());
    let mut client = Client::enter(fixture.address, &[]);
    let data = pattern(4096, 1);
    let begun = Instant::now();
    let write = client.command_header(&write10(0, 8), FLAG_FINAL | COMMAND_WRITE, data.len());
    client.send(write, &data);
    let logout = client.numbered(LOGOUT, FLAG_FINAL | LOGOUT_SESSION);
    client.send(logout, &[]);
    let answer = client.receive();
    assert_eq!((answer.header.opcode(), answer.header.0[2]), (LOGOUT_RESPONSE, LOGOUT_DONE));
    assert!(begun.elapsed() >= DISK_TIME, "the write may still land after {:?}", begun.elapsed());
    assert!(client.closed());

    // One that does not end is waited for no longer than the drain takes.
    let slow = Memory::new(16 << 20).slow(Duration::from_secs(3600));
    let drain_timeout = Duration::from_millis(300);
    let settings = IscsiSettings { drain_timeout, ..IscsiSettings::default() };
    let fixture = Fixture::with(slow, open(), settings, TargetLimits::default());
    let mut client = Client::enter(fixture.address, &[]);
    let write = client.command_header(&write10(0, 8), FLAG_FINAL | COMMAND_WRITE, data.len());
    client.send(write, &data);
    let (begun, logout) = (Instant::now(), client.numbered(LOGOUT, FLAG_FINAL | LOGOUT_SESSION));
    client.send(logout, &[]);
    assert_eq!(client.receive().header.opcode(), LOGOUT_RESPONSE);
    assert!(begun.elapsed() >= drain_timeout, "{:?}", begun.elapsed());
    std::mem::forget(fixture);
}
