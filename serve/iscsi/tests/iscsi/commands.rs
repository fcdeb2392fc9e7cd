//! Commands and their data.

use crate::support::client::{Client, pattern, read10, write10};
use crate::support::memory::Memory;
use crate::support::{Fixture, open};
use holdfast_iscsi::protocol::Header;
use holdfast_iscsi::protocol::constants::*;
use holdfast_iscsi::{IscsiSettings, TargetLimits};

const ALL_WAYS: [&[(&str, &str)]; 5] = [
    &[],
    &[("InitialR2T", "No"), ("FirstBurstLength", "65536"), ("MaxRecvDataSegmentLength", "262144")],
    &[("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C"), ("MaxRecvDataSegmentLength", "4096")],
    &[("ImmediateData", "No"), ("MaxBurstLength", "16384"), ("MaxOutstandingR2T", "4")],
    &[("DataDigest", "CRC32C"), ("MaxBurstLength", "65536"), ("MaxRecvDataSegmentLength", "65536")],
];

#[test]
fn data_arrives_over_every_way() {
    let fixture = Fixture::new();
    for (seed, offered) in ALL_WAYS.iter().enumerate() {
        let mut client = Client::enter(fixture.address, offered);
        let immediate = if client.keys.get("ImmediateData").is_some_and(|value| value == "No") { 0 } else { 8192 };
        for (block, len) in [(0, 512), (1, 4096), (7, 8704), (64, 65_536), (1000, 300_032), (5000, 3 << 20)] {
            let data = pattern(len, seed as u8);
            assert_eq!(client.write(block, immediate.min(len), &data), 0, "{offered:?} {len}");
            assert_eq!(client.read(block, len), data, "{offered:?} {len}");
        }
        assert_eq!(client.read(1, 512), pattern(4096, seed as u8)[..512]);
    }
}

#[test]
fn data_comes_on_its_own_up_to_the_first_burst() {
    let fixture = Fixture::new();
    let offered = [("InitialR2T", "No"), ("FirstBurstLength", "16384"), ("MaxBurstLength", "32768")];
    let mut client = Client::enter(fixture.address, &offered);
    let data = pattern(100_352, 3);
    let header = client.command_header(&write10(8, data.len() / 512), COMMAND_WRITE, data.len());
    client.send(header, &data[..4096]);
    client.send_data(header.task_tag(), NO_TAG, &data, 4096..16_384, 4096);
    let mut requests = Vec::new();
    loop {
        let pdu = client.receive();
        if pdu.header.opcode() == SCSI_RESPONSE {
            assert_eq!(pdu.header.0[3], 0);
            assert_eq!(pdu.header.u32(36), requests.len() as u32, "ExpDataSN counts the requests");
            break;
        }
        requests.push((pdu.header.u32(36), pdu.header.u32(40), pdu.header.u32(44)));
        client.answer_request(&pdu.header, &data, 8192);
    }
    assert_eq!(requests, [(0, 16_384, 32_768), (1, 49_152, 32_768), (2, 81_920, 18_432)]);
    assert_eq!(client.read(8, data.len()), data);
}

/// The sense key and code of a command that failed.
fn sense(data: &[u8]) -> (u8, u8, u8) {
    (data[4] & 15, data[14], data[15])
}

#[test]
fn data_that_breaks_the_rules_ends_the_task_only() {
    let fixture = Fixture::new();
    let offered = [("InitialR2T", "Yes"), ("ImmediateData", "No")];
    let mut client = Client::enter(fixture.address, &offered);
    let data = pattern(8192, 0);
    let header = client.command_header(&write10(0, 16), FLAG_FINAL | COMMAND_WRITE, 8192);
    client.send(header, &data[..512]);
    let answer = client.receive();
    assert_eq!((answer.header.0[3], sense(&answer.data)), (2, (0x0b, 0x0c, 0x0c)), "nobody allowed immediate data");
    // Wrong number, wrong place, wrong tag, too much.
    let wrong: [fn(Header) -> Header; 4] = [
        |header| header.with_u32(36, 1),
        |header| header.with_u32(40, 512),
        |header| header.with_transfer_tag(header.transfer_tag() + 1),
        |header| header.with_transfer_tag(NO_TAG),
    ];
    for change in wrong {
        let header = client.command_header(&write10(0, 16), FLAG_FINAL | COMMAND_WRITE, 8192);
        client.send(header, &[]);
        let request = client.receive().header;
        let part = Header::new(DATA_OUT, FLAG_FINAL)
            .with_task_tag(header.task_tag())
            .with_transfer_tag(request.transfer_tag());
        client.send(change(part), &data);
        let answer = client.receive();
        assert_eq!((answer.header.opcode(), answer.header.0[3], sense(&answer.data).0), (SCSI_RESPONSE, 2, 0x0b));
        // What else comes for it passes.
        client.send(part, &data);
    }
    assert_eq!(client.read(0, 8192), vec![0; 8192], "nothing was written");
}

#[test]
fn damaged_data_is_not_written() {
    let fixture = Fixture::new();
    let mut client = Client::enter(fixture.address, &[("DataDigest", "CRC32C"), ("ImmediateData", "No")]);
    let header = client.command_header(&write10(0, 8), FLAG_FINAL | COMMAND_WRITE, 4096);
    client.send(header, &[]);
    let request = client.receive().header;
    let part =
        Header::new(DATA_OUT, FLAG_FINAL).with_task_tag(header.task_tag()).with_transfer_tag(request.transfer_tag());
    client.data_digest = false;
    client.send(part, &[1; 4096]);
    std::io::Write::write_all(&mut client.wire, &[0; 4]).unwrap();
    client.data_digest = true;
    let reject = client.receive();
    assert_eq!((reject.header.opcode(), reject.header.0[2]), (REJECT, REJECT_DATA_DIGEST));
    assert_eq!(reject.data, part.with_data_bytes(4096).0);
    let answer = client.receive();
    assert_eq!((answer.header.0[3], sense(&answer.data)), (2, (0x0b, 0x47, 0x05)));
    assert_eq!(client.read(0, 4096), vec![0; 4096]);
    // The length of a damaged header cannot be trusted.
    let mut client = Client::enter(fixture.address, &[("HeaderDigest", "CRC32C")]);
    client.header_digest = false;
    let header = client.command_header(&[0; 6], FLAG_FINAL, 0);
    client.send(header, &[]);
    std::io::Write::write_all(&mut client.wire, &[0; 4]).unwrap();
    assert!(client.closed());
}

#[test]
fn residuals_tell_what_was_not_moved() {
    let fixture = Fixture::new();
    let mut client = Client::enter(fixture.address, &[]);
    let residual = |pdu: &crate::support::client::Pdu| (pdu.header.flags() & 6, pdu.header.u32(44));
    let (_, data, pdu) = client.command(&read10(0, 2), 2048, 0, &[]);
    assert_eq!((data.len(), residual(&pdu)), (1024, (RESIDUAL_UNDERFLOW, 1024)));
    let (_, data, pdu) = client.command(&read10(0, 4), 1024, 0, &[]);
    assert_eq!((data.len(), residual(&pdu)), (1024, (RESIDUAL_OVERFLOW, 1024)));
    let (status, _, pdu) = client.command(&write10(0, 1), 0, 0, &pattern(1024, 0));
    assert_eq!((status, residual(&pdu)), (0, (RESIDUAL_UNDERFLOW, 512)));
    let (status, _, pdu) = client.command(&write10(0, 4), 0, 1024, &pattern(1024, 9));
    assert_eq!((status, residual(&pdu)), (0, (RESIDUAL_OVERFLOW, 1024)));
    let written = [pattern(1024, 9), vec![0; 1024]].concat();
    assert_eq!(client.read(0, 2048), written, "of a write that lacks data, what was sent is written and no more");
}

#[test]
fn commands_keep_their_window_and_order() {
    let settings = IscsiSettings { tasks: 4, ..IscsiSettings::default() };
    let fixture = Fixture::settings(settings);
    let mut client = Client::enter(fixture.address, &[]);
    assert_eq!(client.max_cmd_sn, client.cmd_sn + 3);
    let ready = |client: &mut Client, cmd_sn: u32| {
        let tag = client.new_tag();
        let header = Header::new(SCSI_COMMAND, FLAG_FINAL).with_task_tag(tag).with_u32(24, cmd_sn);
        client.send(header, &[]);
        tag
    };
    let next = client.cmd_sn;
    // Before, behind: nothing happens. Later ones wait for the first; twice the same is once.
    for ignored in [next - 1, next + 4, next.wrapping_add(1 << 31)] {
        ready(&mut client, ignored);
    }
    let later = [2, 1].map(|ahead| ready(&mut client, next + ahead));
    ready(&mut client, next + 2);
    let first = ready(&mut client, next);
    let answers: Vec<u32> = (0..3).map(|_| client.receive().header.task_tag()).collect();
    assert_eq!(answers, [first, later[1], later[0]]);
    assert_eq!((client.exp_cmd_sn, client.max_cmd_sn), (next + 3, next + 6));
    // Immediate ones stand outside.
    let header = Header::new(SCSI_COMMAND | 0x40, FLAG_FINAL).with_task_tag(999).with_u32(24, next + 3);
    client.send(header, &[]);
    assert_eq!((client.receive().header.task_tag(), client.exp_cmd_sn), (999, next + 3));
}

#[test]
fn a_write_that_came_early_waits_with_its_data() {
    let fixture = Fixture::new();
    let mut client = Client::enter(fixture.address, &[]);
    let data = pattern(4096, 1);
    let write = client.command_header(&write10(0, 8), FLAG_FINAL | COMMAND_WRITE, 4096);
    client.send(write.with_u32(24, write.u32(24) + 1), &data);
    let read = client.command_header(&read10(0, 8), FLAG_FINAL | COMMAND_READ, 4096);
    client.send(read.with_u32(24, read.u32(24) - 1), &[]);
    let first = client.receive();
    assert_eq!((first.header.task_tag(), first.data), (read.task_tag(), vec![0; 4096]));
    assert_eq!(client.receive().header.task_tag(), write.task_tag());
    assert_eq!(client.read(0, 4096), data);
}

#[test]
fn memory_is_bounded_over_all_sessions() {
    let settings = IscsiSettings { memory_bytes: 1 << 20, ..IscsiSettings::default() };
    let fixture = Fixture::settings(settings);
    let mut holder = Client::enter(fixture.address, &[]);
    let mut other = Client::connect(fixture.address);
    other.isid[5] = 2;
    assert_eq!(other.login(&[]), 0);
    other.settle();
    let data = pattern(1 << 20, 4);
    let held = holder.command_header(&write10(0, 2048), FLAG_FINAL | COMMAND_WRITE, data.len());
    holder.send(held, &[]);
    let request = holder.receive().header;
    assert_eq!(other.command(&write10(0, 8), 0, 4096, &data[..4096]).0, 0x28, "TASK SET FULL");
    assert_eq!(other.command(&read10(0, 8), 4096, 0, &[]).0, 0x28);
    holder.answer_request(&request, &data, 65_536);
    assert_eq!(holder.finish(&data).0, 0);
    assert_eq!(other.read(0, 4096), data[..4096]);
}

#[test]
fn many_commands_in_flight_over_a_slow_disk() {
    let slow = Memory::new(4 << 20).slow(std::time::Duration::from_millis(500));
    let fixture = Fixture::with(slow, open(), IscsiSettings::default(), TargetLimits::default());
    let mut client = Client::enter(fixture.address, &[("MaxRecvDataSegmentLength", "262144")]);
    let began = std::time::Instant::now();
    let tags: Vec<u32> = (0..100)
        .map(|number| {
            let data = pattern(4096, number as u8);
            let header = client.command_header(&write10(number * 8, 8), FLAG_FINAL | COMMAND_WRITE, 4096);
            client.send(header, &data);
            header.task_tag()
        })
        .collect();
    let mut answered: Vec<u32> = (0..100).map(|_| client.receive().header.task_tag()).collect();
    answered.sort_unstable();
    assert_eq!(answered, tags);
    assert!(began.elapsed() < std::time::Duration::from_secs(25), "one after the other takes twice as long");
    for half in [0..50_u32, 50..100] {
        let written: Vec<u8> = half.clone().flat_map(|number| pattern(4096, number as u8)).collect();
        assert!(client.read(half.start * 8, 50 * 4096) == written);
    }
}
