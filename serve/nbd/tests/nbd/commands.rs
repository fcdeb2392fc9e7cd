//! Every command with every flag, in every style, with every error.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::Fixture;
use crate::support::client::Client;
use crate::support::memory::Memory;
use holdfast_device::IoErrorKind;
use holdfast_nbd::NbdSettings;
use holdfast_nbd::protocol::ReplyStyle;
use holdfast_nbd::protocol::constants::*;

const STYLES: [ReplyStyle; 3] = [ReplyStyle::Simple, ReplyStyle::Structured, ReplyStyle::Extended];
const SIZE: u64 = 64 << 20;

/// For each style, a client of a target that answers at once and one of a target that takes its time.
fn everywhere(test: impl Fn(&mut Client, &Memory)) {
    for delay in [Duration::ZERO, Duration::from_micros(300)] {
        for style in STYLES {
            let target = Arc::new(Memory::new(SIZE).slow(delay));
            let fixture = Fixture::new(&[("disk", target.clone())]);
            let (mut client, _) = Client::enter(&fixture.unix, "disk", style);
            test(&mut client, &target);
            client.send(0, CMD_DISC, 0, 0, &[]);
            assert!(client.closed());
        }
    }
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(31) ^ seed ^ (at >> 8)) as u8).collect()
}

#[test]
fn what_is_written_is_read_at_any_offset() {
    everywhere(|client, _| {
        let mut model = vec![0; 1 << 20];
        let ranges = [
            (0, 4096),
            (4096, 65536),
            (1, 1),
            (4095, 2),
            (512, 512),
            (3000, 9000),
            (8192, 100),
            (12288 - 100, 100),
            (65536 - 3, 131_072 + 7),
            (700_001, 299_999),
        ];
        for (number, (offset, len)) in ranges.into_iter().enumerate() {
            let data = pattern(number as u64 + 1, len);
            assert_eq!(client.write(0, offset as u64, &data), 0);
            model[offset..offset + len].copy_from_slice(&data);
        }
        for (offset, len) in ranges {
            assert_eq!(client.read(offset as u64, len), model[offset..offset + len]);
        }
        assert_eq!(client.read(0, model.len()), model);
    });
}

#[test]
fn zeroes_and_trims_of_any_range() {
    everywhere(|client, _| {
        let mut model = pattern(1, 1 << 20);
        assert_eq!(client.write(0, 0, &model), 0);
        for (offset, len) in [(0, 4096), (5000, 100), (8191, 2), (20_000, 70_000), (200_000, 4096 - 3392)] {
            assert_eq!(client.ask(0, CMD_WRITE_ZEROES, offset as u64, len as u64, &[]).error, 0);
            model[offset..offset + len].fill(0);
        }
        for (offset, len) in [(300_001_u64, 20_000_u64), (400_000, 100)] {
            assert_eq!(client.ask(0, CMD_TRIM, offset, len, &[]).error, 0);
            let (start, end) = (offset.next_multiple_of(4096) as usize, ((offset + len) / 4096 * 4096) as usize);
            if start < end {
                model[start..end].fill(0);
            }
        }
        assert_eq!(client.read(0, 1 << 20), model);
    });
}

#[test]
fn durability_is_handed_on() {
    everywhere(|client, target| {
        assert_eq!(client.write(CMD_FLAG_FUA, 0, &[1; 4096]), 0);
        assert_eq!(client.write(CMD_FLAG_FUA, 10, &[1; 10]), 0);
        assert_eq!(client.write(0, 0, &[1; 4096]), 0);
        assert_eq!(client.ask(CMD_FLAG_FUA, CMD_TRIM, 0, 4096, &[]).error, 0);
        assert_eq!(client.ask(CMD_FLAG_FUA, CMD_WRITE_ZEROES, 0, 8192, &[]).error, 0);
        assert_eq!(target.durable.load(Ordering::SeqCst), 4);
        for command in [CMD_READ, CMD_CACHE, CMD_FLUSH] {
            let len = if command == CMD_FLUSH { 0 } else { 4096 };
            assert_eq!(client.ask(CMD_FLAG_FUA, command, 0, len, &[]).error, 0, "FUA is taken everywhere");
        }
        assert_eq!(client.ask(0, CMD_FLUSH, 0, 0, &[]).error, 0);
        assert_eq!(target.flushes.load(Ordering::SeqCst), 2);
        assert_eq!(client.ask(0, CMD_CACHE, 100, 10_000, &[]).error, 0);
    });
}

#[test]
fn requests_that_make_no_sense_get_their_error_and_change_nothing() {
    everywhere(|client, _| {
        let chunked = client.style.chunked();
        assert_eq!(client.write(0, 0, &[5; 8192]), 0);
        let cases = [
            (0, CMD_READ, SIZE, 1, 22),
            (0, CMD_READ, SIZE - 4096, 4097, 22),
            (0, CMD_READ, u64::MAX, 4096, 22),
            (0, CMD_WRITE_ZEROES, SIZE - 4096, 8192, 28),
            (0, CMD_TRIM, SIZE, 4096, 22),
            (0, CMD_CACHE, SIZE - 1, 2, 22),
            (0, CMD_BLOCK_STATUS, 0, 0, 22),
            (0, CMD_BLOCK_STATUS, SIZE, 1, 22),
            (0, CMD_READ, 0, (32 << 20) + 1, if client.style.extended() { 75 } else { 22 }),
            (CMD_FLAG_DF, CMD_READ, 0, (32 << 20) + 1, if chunked { 75 } else { 22 }),
            (CMD_FLAG_NO_HOLE, CMD_TRIM, 0, 4096, 22),
            (CMD_FLAG_REQ_ONE, CMD_READ, 0, 4096, 22),
            (CMD_FLAG_DF, CMD_WRITE_ZEROES, 0, 4096, 22),
            (1 << 15, CMD_FLUSH, 0, 0, 22),
            (CMD_FLAG_NO_HOLE | CMD_FLAG_FAST_ZERO, CMD_WRITE_ZEROES, 0, 4096, 95),
            (0, 8, 0, 0, 22),
            (0, 0xffff, 0, 4096, 22),
        ];
        for (flags, command, offset, length, error) in cases {
            let reply = client.ask(flags, command, offset, length, &[]);
            assert_eq!(reply.error, error, "{command} {flags:#x} {offset}+{length} {:?}", client.style);
            assert_eq!(reply.text.is_empty(), !chunked);
            assert!(reply.data.is_empty());
        }
        assert_eq!(client.write(0, SIZE - 4096, &[1; 8192]), 28);
        assert_eq!(client.write(CMD_FLAG_DF, 0, &[1; 4096]), 22);
        assert_eq!(client.read(0, 8192), vec![5; 8192]);
        assert_eq!(client.read(SIZE - 4096, 4096), vec![0; 4096]);
    });
}

#[test]
fn no_bytes_at_all_succeed_where_they_may() {
    everywhere(|client, _| {
        for command in [CMD_READ, CMD_WRITE, CMD_TRIM, CMD_WRITE_ZEROES, CMD_CACHE] {
            assert_eq!(client.ask(0, command, 4096, 0, &[]).error, 0);
        }
    });
}

#[test]
fn a_payload_that_is_too_long_passes_by() {
    everywhere(|client, _| {
        let long = vec![1; (32 << 20) + 4096];
        let error = if client.style.extended() { 75 } else { 22 };
        assert_eq!(client.write(0, 0, &long), error);
        assert_eq!(client.write(0, 4096, &long[..4096]), 0);
        assert_eq!(client.read(0, 8192)[4095..4097], [0, 1]);
    });
}

#[test]
fn the_largest_payload_goes_through() {
    everywhere(|client, _| {
        let data = pattern(7, 32 << 20);
        assert_eq!(client.write(0, 4096, &data), 0);
        assert_eq!(client.read(4096, data.len()), data);
        assert_eq!(client.write(0, 4097, &data), 0);
        assert_eq!(client.read(4097, data.len()), data);
    });
}

#[test]
fn errors_of_the_target_have_their_numbers() {
    everywhere(|client, target| {
        let kinds = [
            (IoErrorKind::Media, 5),
            (IoErrorKind::Gone, 5),
            (IoErrorKind::Stale, 5),
            (IoErrorKind::NoSpace, 28),
            (IoErrorKind::Invalid, 22),
            (IoErrorKind::ReadOnly, 1),
        ];
        for (kind, error) in kinds {
            *target.broken.lock().unwrap() = Some(kind);
            for (command, len) in [(CMD_READ, 4096), (CMD_READ, 1 << 20), (CMD_READ, 7), (CMD_TRIM, 4096)] {
                assert_eq!(client.ask(0, command, 0, len, &[]).error, error);
            }
            for (command, len) in [(CMD_WRITE_ZEROES, 4096), (CMD_WRITE_ZEROES, 7), (CMD_FLUSH, 0)] {
                assert_eq!(client.ask(0, command, 0, len, &[]).error, error);
            }
            assert_eq!((client.write(0, 0, &[1; 4096]), client.write(0, 1, &[1; 10])), (error, error));
            if client.style.chunked() {
                let reply = client.ask(0, CMD_BLOCK_STATUS, 0, 4096, &[]);
                assert_eq!(reply.error, error);
                assert!(reply.text.contains("memory as the test wants it"), "{}", reply.text);
            }
        }
        *target.broken.lock().unwrap() = None;
        assert_eq!(client.read(0, 4096), vec![0; 4096]);
    });
}

#[test]
fn read_only_exports_refuse_every_change() {
    let target = Memory::new(SIZE).read_only();
    let fixture = Fixture::new(&[("disk", Arc::new(target))]);
    for style in STYLES {
        let (mut client, told) = Client::enter(&fixture.unix, "disk", style);
        assert_eq!(told.flags & (FLAG_READ_ONLY | FLAG_SEND_TRIM), FLAG_READ_ONLY);
        assert_eq!(client.write(0, 0, &[1; 4096]), 1);
        for command in [CMD_TRIM, CMD_WRITE_ZEROES] {
            assert_eq!(client.ask(0, command, 0, 4096, &[]).error, 1);
        }
        assert_eq!(client.ask(0, CMD_FLUSH, 0, 0, &[]).error, 0);
        assert_eq!(client.read(0, 4096), vec![0; 4096]);
    }
}

#[test]
fn holes_are_told_and_not_sent() {
    everywhere(|client, _| {
        if !client.style.chunked() {
            return;
        }
        assert_eq!(client.write(0, 64 << 10, &[1; 64 << 10]), 0);
        assert_eq!(client.ask(CMD_FLAG_NO_HOLE, CMD_WRITE_ZEROES, 256 << 10, 4096, &[]).error, 0);
        let status = client.ask(0, CMD_BLOCK_STATUS, 0, 1 << 20, &[]);
        let rest = (1 << 20) - (260 << 10);
        assert_eq!(status.extents, [(64 << 10, 3), (64 << 10, 0), (128 << 10, 3), (4096, 2), (rest, 3)]);
        assert_eq!(client.ask(CMD_FLAG_REQ_ONE, CMD_BLOCK_STATUS, 100, 1 << 20, &[]).extents, [(65_436, 3)]);
        assert_eq!(client.ask(0, CMD_BLOCK_STATUS, 65_535, 2, &[]).extents, [(1, 3), (1, 0)]);

        let whole = client.ask(CMD_FLAG_DF, CMD_READ, 0, 1 << 20, &[]);
        assert_eq!((whole.data.len(), whole.holes.len(), whole.data[0].1.len()), (1, 0, 1 << 20));
        let parts = client.ask(0, CMD_READ, 0, 1 << 20, &[]);
        if !parts.holes.is_empty() {
            assert_eq!(parts.holes.len(), 4);
            assert_eq!(parts.data, [(64 << 10, vec![1; 64 << 10])]);
        }
        assert_eq!(client.read(0, 1 << 20), whole.data[0].1);
        assert_eq!(client.ask(CMD_FLAG_FAST_ZERO, CMD_WRITE_ZEROES, 64 << 10, 4096, &[]).error, 0);
        assert_eq!(client.ask(0, CMD_BLOCK_STATUS, 64 << 10, 8192, &[]).extents, [(4096, 3), (4096, 0)]);
    });
}

#[test]
fn extended_requests_reach_beyond_four_gib() {
    let size = 16 << 30;
    let target = Arc::new(Memory::new(size));
    let fixture = Fixture::new(&[("disk", target)]);
    let (mut client, told) = Client::enter(&fixture.unix, "disk", ReplyStyle::Extended);
    assert_ne!(told.flags & FLAG_BLOCK_STATUS_PAYLOAD, 0);
    assert_eq!(client.write(0, 5 << 30, &[1; 4096]), 0);
    let extents = client.ask(0, CMD_BLOCK_STATUS, 0, size, &[]).extents;
    assert_eq!(extents, [(5 << 30, 3), (4096, 0), (size - (5 << 30) - 4096, 3)]);
    assert_eq!(client.ask(0, CMD_CACHE, 0, size, &[]).error, 0);

    let filter = |length: u64, ids: &[u32]| {
        let ids = ids.iter().flat_map(|id| id.to_be_bytes());
        length.to_be_bytes().into_iter().chain(ids).collect::<Vec<_>>()
    };
    let mut status = |payload: &[u8], flags: u16| {
        let flags = flags | CMD_FLAG_PAYLOAD_LEN;
        client.ask(flags, CMD_BLOCK_STATUS, 0, payload.len() as u64, payload)
    };
    assert_eq!(status(&filter(size, &[1]), CMD_FLAG_REQ_ONE).extents, [(5 << 30, 3)]);
    for refused in [
        filter(size, &[]),
        filter(size, &[2]),
        filter(size, &[1, 1]),
        filter(size + 1, &[1]),
        filter(0, &[1]),
        vec![0; 7],
        vec![0; 13],
        vec![0; 100_000],
        vec![],
    ] {
        assert_eq!(status(&refused, 0).error, 22, "{} bytes", refused.len());
    }
    let strange = client.ask(CMD_FLAG_PAYLOAD_LEN, CMD_TRIM, 0, 4096, &[7; 4096]);
    assert_eq!(strange.error, 22, "a payload where none belongs");
    let unknown = client.ask(CMD_FLAG_PAYLOAD_LEN, 1234, 0, 10_000, &[7; 10_000]);
    assert_eq!(unknown.error, 22);
    assert_eq!(client.read(5 << 30, 4096), vec![1; 4096], "the stream is still in step");

    let (mut compact, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Structured);
    let extents = compact.ask(0, CMD_BLOCK_STATUS, 0, u32::MAX.into(), &[]).extents;
    assert_eq!(extents, [(u32::MAX.into(), 3)]);
}

#[test]
fn many_requests_at_once_are_all_answered() {
    everywhere(|client, _| {
        // A server need not take up more than these from a client that takes no reply.
        let at_once = NbdSettings::default().requests as usize;
        let numbers: Vec<u64> = (0..1000).collect();
        for numbers in numbers.chunks(at_once) {
            let mut stream = Vec::new();
            let mut expected = std::collections::HashSet::new();
            for number in numbers {
                let data = pattern(*number, 1000 + (*number as usize % 7) * 1024);
                let (cookie, bytes) = client.request(0, CMD_WRITE, number * 8192, data.len() as u64, &data);
                stream.extend(bytes);
                expected.insert(cookie);
            }
            std::io::Write::write_all(&mut client.wire, &stream).unwrap();
            while !expected.is_empty() {
                let reply = client.reply();
                assert_eq!(reply.error, 0);
                assert!(expected.remove(&reply.cookie), "each request is answered once");
            }
        }
        for number in (0..1000_u64).step_by(37) {
            let data = pattern(number, 1000 + (number as usize % 7) * 1024);
            assert_eq!(client.read(number * 8192, data.len()), data);
        }
    });
}
