//! Commands about blocks, and what they answer to wrong ones.

use holdfast_device::IoErrorKind;
use holdfast_scsi::{Code, LogicalBlocks, Room, Sense, SenseKey, Status, code};

use crate::memory::Memory;
use crate::rig::*;

const ILLEGAL: SenseKey = SenseKey::IllegalRequest;

#[test]
fn what_is_written_is_read_in_every_length_of_command_and_size_of_block() {
    for (blocks, len) in [(LogicalBlocks::B512, 512), (LogicalBlocks::B512e, 512), (LogicalBlocks::B4096, 4096)] {
        let rig = Rig::with(Memory::new(SIZE), blocks, true);
        let nexus = rig.nexus(1);
        for (turn, (write, read)) in [(0x0a, 0x08), (0x2a, 0x28), (0xaa, 0xa8), (0x8a, 0x88)].into_iter().enumerate() {
            let lba = 3 + 7 * turn as u8;
            let cdb = |opcode: u8| match opcode >> 5 {
                0 => vec![opcode, 0, 0, lba, 2, 0],
                1 => rw10(opcode, 0, lba.into(), 2).to_vec(),
                5 => vec![opcode, 0, 0, 0, 0, lba, 0, 0, 0, 2, 0, 0],
                _ => rw16(opcode, 0, lba.into(), 2).to_vec(),
            };
            let data = vec![turn as u8 + 1; 2 * len];
            ok(&nexus, &cdb(write), &data);
            assert_eq!(ok(&nexus, &cdb(read), &[]), data);
        }
        assert_eq!(ok(&nexus, &rw10(0x28, 0, 5, 1), &[]), vec![0; len], "its neighbour");
    }
}

#[test]
fn fua_and_a_disabled_cache_make_writes_durable() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    let durable = || rig.memory.durable.load(std::sync::atomic::Ordering::SeqCst);
    ok(&nexus, &rw10(0x2a, 0, 0, 8), &[1; 4096]);
    assert_eq!(durable(), 0);
    ok(&nexus, &rw10(0x2a, 0x18, 0, 8), &[1; 4096]);
    assert_eq!(durable(), 1);
    let mut page = ok(&nexus, &[0x1a, 8, 8, 0, 255, 0], &[]);
    assert_eq!((page[2], page[4..7].to_vec()), (0x10, vec![8, 0x12, 4]));
    (page[0], page[2], page[6]) = (0, 0, 0);
    let flushes = || rig.memory.flushes.load(std::sync::atomic::Ordering::SeqCst);
    ok(&nexus, &[0x15, 0x10, 0, 0, 24, 0], &page);
    assert_eq!(flushes(), 1, "what was written before is durable");
    ok(&nexus, &rw10(0x2a, 0, 0, 8), &[1; 4096]);
    assert_eq!(durable(), 2);
    ok(&nexus, &rw10(0x35, 0, 0, 0), &[]);
    assert_eq!(flushes(), 2);
}

#[test]
fn ranges_beyond_the_end_are_refused_and_empty_ones_at_it_are_not() {
    let rig = Rig::new();
    let (nexus, end) = (rig.nexus(1), (SIZE / 512) as u32);
    let oob = (ILLEGAL, code::LBA_OUT_OF_RANGE);
    for opcode in [0x28, 0x2a, 0x2f, 0x2e, 0x34, 0x35, 0x41] {
        let data = vec![0; if opcode == 0x41 { 512 } else { 1024 }];
        assert_eq!(fails(&nexus, &rw10(opcode, 0, end - 1, 2), &data), oob, "{opcode:x}");
        assert_eq!(fails(&nexus, &rw10(opcode, 0, u32::MAX, 2), &data), oob, "{opcode:x}");
        if opcode != 0x41 {
            ok(&nexus, &rw10(opcode, 0, end, 0), &[]);
            assert_eq!(fails(&nexus, &rw10(opcode, 0, end + 1, 0), &[]), oob, "{opcode:x}");
        }
    }
    for opcode in [0x88, 0x8a, 0x8f, 0x8e, 0x90, 0x91, 0x93] {
        assert_eq!(fails(&nexus, &rw16(opcode, 0, u64::MAX, 1), &[0; 512]), oob, "{opcode:x}");
    }
    let sense = run(&nexus, &rw10(0x28, 0, end + 5, 1), &[]).sense.unwrap();
    assert_eq!(sense.information, Some(u64::from(end) + 5));
}

#[test]
fn bits_that_a_command_does_not_know_are_pointed_at() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    for protect in 1..8 {
        let sense = run(&nexus, &rw10(0x28, protect << 5, 0, 1), &[]).sense.unwrap();
        let bit = 7 - (protect << 5_u8).leading_zeros() as u8;
        assert_eq!(sense, Sense::cdb_bit(1, bit));
    }
    assert_eq!(run(&nexus, &[0xff], &[]).sense, Some(Sense::opcode()));
    assert_eq!(run(&nexus, &[0x5e, 9, 0, 0, 0, 0, 0, 0, 8, 0], &[]).sense, Some(Sense::cdb_bit(1, 4)));
    let too_long = rw16(0x88, 0, 0, (16 << 20) / 512 + 1);
    assert_eq!(
        fails(&Rig::with(Memory::new(64 << 20), LogicalBlocks::B512, true).nexus(1), &too_long, &[]).1,
        code::INVALID_FIELD_IN_CDB
    );
}

#[test]
fn less_data_than_a_write_takes_are_written_as_far_as_they_go() {
    for blocks in [LogicalBlocks::B512, LogicalBlocks::B4096] {
        for opcode in [0x2a, 0x2e] {
            let rig = Rig::with(Memory::new(SIZE), blocks, true);
            let (nexus, block) = (rig.nexus(1), blocks.bytes() as usize);
            ok(&nexus, &rw10(opcode, 0, 6, 10), &vec![1; 10 * block]);
            for len in [0, 200, block, 5 * block + 7] {
                ok(&nexus, &rw10(opcode, 0, 6, 10), &vec![7; len]);
                let found = ok(&nexus, &rw10(0x28, 0, 6, 10), &[]);
                let whole = len - len % block;
                assert!(found == [vec![7; whole], vec![1; 10 * block - whole]].concat(), "{len} of {blocks:?}");
            }
            ok(&nexus, &rw10(opcode, 0, 0, 1), &vec![7; 2 * block]);
            assert_eq!(ok(&nexus, &rw10(0x28, 0, 1, 1), &[]), vec![0; block], "what is too much is not written");
        }
    }
}

#[test]
fn commands_whose_data_mean_something_as_a_whole_take_no_other_length() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    let mut cdb = rw16(0x89, 0, 0, 0);
    for blocks in [0, 1, 3] {
        cdb[13] = blocks;
        assert_eq!(run(&nexus, &cdb, &[7; 2048]).sense, Some(Sense::cdb(13)));
    }
    assert_eq!(fails(&nexus, &rw16(0x93, 8, 0, 8), &[0; 1024]).1, code::INVALID_FIELD_IN_CDB);
    let expected = (ILLEGAL, code::INVALID_FIELD_IN_INFORMATION_UNIT);
    assert_eq!(fails(&nexus, &rw10(0x2f, 2, 0, 2), &[0; 512]), expected);
    assert_eq!(fails(&nexus, &rw16(0x8b, 0, 0, 2), &[7; 512]), expected);
    assert_eq!(ok(&nexus, &rw10(0x28, 0, 0, 8), &[]), [0; 4096]);
}

#[test]
fn orwrite_sets_bits() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    ok(&nexus, &rw10(0x2a, 0, 0, 8), &[0x11; 4096]);
    ok(&nexus, &rw16(0x8b, 0x18, 3, 2), &[0x81; 1024]);
    let found = ok(&nexus, &rw10(0x28, 0, 0, 8), &[]);
    assert_eq!(found, [vec![0x11; 1536], vec![0x91; 1024], vec![0x11; 1536]].concat());
    ok(&nexus, &rw16(0x8b, 0, 0, 0), &[]);
}

#[test]
fn compare_and_write_writes_what_compares_and_tells_where_it_does_not() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    let mut cdb = rw16(0x89, 0, 3, 0);
    cdb[13] = 2;
    let mut data = [vec![0; 1024], vec![5; 1024]].concat();
    ok(&nexus, &cdb, &data);
    assert_eq!(ok(&nexus, &rw10(0x28, 0, 2, 4), &[]), [vec![0; 512], vec![5; 1024], vec![0; 512]].concat());
    data[..1024].fill(5);
    data[700] = 6;
    let sense = run(&nexus, &cdb, &data).sense.unwrap();
    assert_eq!((sense.key, sense.code, sense.information), (SenseKey::Miscompare, code::MISCOMPARE, Some(700)));
    cdb[13] = 0;
    ok(&nexus, &cdb, &[]);
    cdb[13] = 129;
    assert_eq!(run(&nexus, &cdb, &[0; 258 * 512]).sense, Some(Sense::cdb(13)));
}

#[test]
fn verify_compares_all_or_one_block_with_each() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    ok(&nexus, &rw10(0x2a, 0, 1, 3), &[9; 1536]);
    ok(&nexus, &rw10(0x2f, 0, 1, 3), &[]);
    ok(&nexus, &rw10(0x2f, 2, 1, 3), &[9; 1536]);
    ok(&nexus, &rw10(0x2f, 6, 1, 3), &[9; 512]);
    let mut wrong = vec![9; 1536];
    wrong[1000] = 0;
    let sense = run(&nexus, &rw10(0x2f, 2, 1, 3), &wrong).sense.unwrap();
    assert_eq!((sense.key, sense.information), (SenseKey::Miscompare, Some(1000)));
    assert_eq!(fails(&nexus, &rw10(0x2f, 6, 0, 3), &[9; 512]).0, SenseKey::Miscompare);
    assert_eq!(run(&nexus, &rw10(0x2f, 4, 1, 3), &[9; 512]).sense, Some(Sense::cdb_bit(1, 2)));
    ok(&nexus, &rw10(0x2e, 2, 8, 2), &[4; 1024]);
    assert_eq!(ok(&nexus, &rw10(0x28, 0, 8, 2), &[]), [4; 1024]);
}

#[test]
fn write_same_repeats_its_block_and_keeps_its_limits() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    let block: Vec<u8> = (0..512).map(|at| at as u8 | 1).collect();
    for (lba, blocks) in [(3, 1), (5, 300), (0, 4200)] {
        ok(&nexus, &rw16(0x93, 0, lba, blocks), &block);
        assert_eq!(ok(&nexus, &rw16(0x88, 0, lba, blocks), &[]), block.repeat(blocks as usize));
    }
    ok(&nexus, &rw16(0x93, 1, 2, 5), &[]);
    let around = ok(&nexus, &rw10(0x28, 0, 1, 7), &[]);
    assert_eq!(around, [&block[..], &[0; 5 * 512], &block].concat());
    ok(&nexus, &rw10(0x41, 0, (SIZE / 512) as u32 - 3, 0), &block);
    assert_eq!(ok(&nexus, &rw10(0x28, 0, (SIZE / 512) as u32 - 3, 3), &[]), block.repeat(3), "to the end");
    assert_eq!(run(&nexus, &rw16(0x93, 0x10, 0, 1), &block).sense, Some(Sense::cdb_bit(1, 4)), "anchor alone");
    assert_eq!(run(&nexus, &rw16(0x93, 0, 0, u32::MAX), &block).sense, Some(Sense::cdb(10)));
}

fn unmap_list(ranges: &[(u64, u32)]) -> ([u8; 10], Vec<u8>) {
    let len = 16 * ranges.len() as u16;
    let mut list = [(len + 6).to_be_bytes(), len.to_be_bytes(), [0; 2], [0; 2]].concat();
    for (lba, blocks) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    let [high, low] = (list.len() as u16).to_be_bytes();
    ([0x42, 0, 0, 0, 0, 0, 0, high, low, 0], list)
}

/// First block, number of blocks and state, as GET LBA STATUS tells them.
fn status(data: &[u8]) -> Vec<(u64, u32, u8)> {
    let (descriptors, _) = data[8..].as_chunks::<16>();
    let one = |at: &[u8; 16]| {
        (u64::from_be_bytes(at[..8].try_into().unwrap()), u32::from_be_bytes(at[8..12].try_into().unwrap()), at[12])
    };
    descriptors.iter().map(one).collect()
}

#[test]
fn unmapped_blocks_read_as_zeros_and_show_as_given_back() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    ok(&nexus, &rw16(0x93, 0, 0, 256), &[1; 512]);
    let (cdb, list) = unmap_list(&[(8, 16), (100, 3), (SIZE / 512, 0)]);
    ok(&nexus, &cdb, &list);
    let data = ok(&nexus, &rw10(0x28, 0, 0, 256), &[]);
    for (lba, block) in data.chunks(512).enumerate() {
        let gone = (8..24).contains(&lba) || (100..103).contains(&lba);
        assert!(block.iter().all(|byte| *byte == u8::from(!gone)), "{lba}");
    }
    let mut cdb = rw16(0x9e, 0x12, 10, 4096);
    let found = status(&ok(&nexus, &cdb, &[]));
    assert_eq!(found[0], (10, 14, 1));
    assert_eq!(found[1], (24, 232, 0));
    assert_eq!(found[2].0, 256);
    cdb[10..14].copy_from_slice(&24_u32.to_be_bytes());
    assert_eq!(ok(&nexus, &cdb, &[]).len(), 24);
    assert_eq!(fails(&nexus, &rw16(0x9e, 0x12, SIZE / 512, 24), &[]), (ILLEGAL, code::LBA_OUT_OF_RANGE));
}

#[test]
fn a_list_of_ranges_is_refused_as_a_whole() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    ok(&nexus, &rw10(0x2a, 0, 0, 1), &[1; 512]);
    let (cdb, list) = unmap_list(&[(0, 1), (SIZE / 512, 1)]);
    assert_eq!(fails(&nexus, &cdb, &list), (ILLEGAL, code::LBA_OUT_OF_RANGE));
    assert_eq!(ok(&nexus, &rw10(0x28, 0, 0, 1), &[]), [1; 512]);
    let (cdb, list) = unmap_list(&[(0, 1); 257]);
    assert_eq!(run(&nexus, &cdb, &list).sense, Some(Sense::list(2)));
    assert_eq!(
        run(&nexus, &unmap_list(&[(0, u32::MAX)]).0, &unmap_list(&[(0, u32::MAX)]).1).sense,
        Some(Sense::list(16))
    );
    let short = [0x42, 0, 0, 0, 0, 0, 0, 0, 7, 0];
    assert_eq!(fails(&nexus, &short, &[0; 7]).1, code::PARAMETER_LIST_LENGTH);
    ok(&nexus, &[0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[]);
    let thick = Rig::with(Memory::new(SIZE), LogicalBlocks::B512, false);
    let (cdb, list) = unmap_list(&[(0, 1)]);
    assert_eq!(run(&thick.nexus(1), &cdb, &list).sense, Some(Sense::opcode()));
    assert_eq!(run(&thick.nexus(1), &rw16(0x93, 8, 0, 1), &[0; 512]).sense, Some(Sense::cdb_bit(1, 3)));
}

#[test]
fn failures_below_are_told_by_their_kind() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    for (kind, read, write) in [
        (IoErrorKind::Media, (SenseKey::MediumError, Code(0x11, 0)), (SenseKey::MediumError, Code(0x0c, 0))),
        (IoErrorKind::Stale, (SenseKey::MediumError, Code(0x11, 0)), (SenseKey::MediumError, Code(0x0c, 0))),
        (IoErrorKind::NoSpace, (SenseKey::DataProtect, Code(0x27, 7)), (SenseKey::DataProtect, Code(0x27, 7))),
        (IoErrorKind::ReadOnly, (SenseKey::DataProtect, Code(0x27, 0)), (SenseKey::DataProtect, Code(0x27, 0))),
        (IoErrorKind::Gone, (SenseKey::HardwareError, Code(0x44, 0)), (SenseKey::HardwareError, Code(0x44, 0))),
    ] {
        *rig.memory.broken.lock().unwrap() = Some(kind);
        assert_eq!(fails(&nexus, &rw10(0x28, 0, 9, 1), &[]), read);
        assert_eq!(fails(&nexus, &rw10(0x2a, 0, 9, 1), &[0; 512]), write);
    }
    *rig.memory.broken.lock().unwrap() = Some(IoErrorKind::GivenUp);
    assert_eq!(run(&nexus, &rw10(0x28, 0, 9, 1), &[]).status, Status::TaskAborted);
}

#[test]
fn what_may_not_be_written_is_protected() {
    let rig = Rig::with(Memory::new(SIZE).read_only(), LogicalBlocks::B512, true);
    let nexus = rig.nexus(1);
    let protected = (SenseKey::DataProtect, code::WRITE_PROTECTED);
    for opcode in [0x2a, 0x2e, 0x41] {
        assert_eq!(fails(&nexus, &rw10(opcode, 0, 0, 1), &[0; 512]), protected);
    }
    assert_eq!(ok(&nexus, &[0x1a, 8, 0x0a, 0, 255, 0], &[])[2], 0x90);
    let rig = Rig::new();
    let (nexus, other) = (rig.nexus(1), rig.nexus(2));
    let mut page = ok(&nexus, &[0x1a, 8, 0x0a, 0, 255, 0], &[]);
    (page[0], page[2], page[8]) = (0, 0, page[8] | 8);
    ok(&nexus, &[0x15, 0x10, 0, 0, 16, 0], &page);
    assert_eq!(told(&other), [code::MODE_CHANGED]);
    assert_eq!(fails(&other, &rw10(0x2a, 0, 0, 1), &[0; 512]).1, code::SOFTWARE_WRITE_PROTECTED);
    ok(&other, &rw10(0x28, 0, 0, 1), &[]);
    page[9] ^= 1;
    assert_eq!(run(&nexus, &[0x15, 0x10, 0, 0, 16, 0], &page).sense, Some(Sense::list_bit(9, 0)));
}

#[test]
fn pages_tell_limits_that_commands_keep() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    let page = |code: u8| ok(&nexus, &[0x12, 1, code, 16, 0, 0], &[]);
    let list = page(0)[4..].to_vec();
    assert!(list.is_sorted() && [0, 0x80, 0x83, 0x86, 0xb0, 0xb1, 0xb2].iter().all(|code| list.contains(code)));
    assert_eq!(ok(&nexus, &[0x12, 1, 0x86, 0, 255, 0], &[])[5], 1, "no task attribute orders anything");
    for code in list {
        let page = page(code);
        assert_eq!((page[1], usize::from(page[2]) << 8 | usize::from(page[3])), (code, page.len() - 4));
    }
    let limits = page(0xb0);
    assert_eq!((limits.len(), limits[4], limits[5]), (64, 0, 128));
    assert_eq!(limits[8..12], 32768_u32.to_be_bytes());
    assert_eq!(page(0xb2)[4..], [11, 0xe6, 2, 0]);
    assert_eq!(page(0xb1)[4..6], [0, 1]);
    let names = page(0x83);
    assert_eq!(names[4..8], [1, 3, 0, 16]);
    assert!(names.windows(26).any(|part| part == b"iqn.2026-01.test:a,t,0x000"), "{names:02x?}");
    assert_eq!(run(&nexus, &[0x12, 1, 0x99, 0, 255, 0], &[]).sense, Some(Sense::cdb(2)));
    let standard = ok(&nexus, &[0x12, 0, 0, 0, 255, 0], &[]);
    assert_eq!((standard[0], standard[2], usize::from(standard[4])), (0, 6, standard.len() - 5));
    assert_eq!(ok(&nexus, &[0x12, 0, 0, 0, 5, 0], &[]), standard[..5]);
}

#[test]
fn capacity_shows_in_both_lengths() {
    let rig = Rig::with(Memory::new(SIZE), LogicalBlocks::B512e, true);
    let nexus = rig.nexus(1);
    let last = (SIZE / 512 - 1) as u32;
    assert_eq!(
        ok(&nexus, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[]),
        [last.to_be_bytes(), 512_u32.to_be_bytes()].concat()
    );
    let long = ok(&nexus, &rw16(0x9e, 0x10, 0, 32), &[]);
    assert_eq!((long.len(), long[13], long[14]), (32, 3, 0xc0));
    assert_eq!(long[..8], u64::from(last).to_be_bytes());
}

#[test]
fn the_table_reports_itself() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    let report = |options: u8, opcode: u8, action: u8| {
        run(&nexus, &[0xa3, 0x0c, options, opcode, 0, action, 0, 0, 0xff, 0xff, 0, 0], &[])
    };
    let all = report(0, 0, 0).data.bytes().to_vec();
    let (descriptors, rest) = all[4..].as_chunks::<8>();
    assert!(rest.is_empty() && descriptors.len() > 50);
    for [opcode, _, _, action, _, flags, _, len] in descriptors {
        let with_action = flags & 1 != 0;
        let one = report(if with_action { 2 } else { 1 }, *opcode, *action);
        let one = one.data.bytes();
        assert_eq!((one[1], one[3], one[4]), (3, *len, *opcode));
        assert_eq!(one.len(), 4 + usize::from(*len));
        if with_action {
            assert_eq!(one[5] & 0x1f, *action);
        }
        assert_eq!(report(if with_action { 1 } else { 2 }, *opcode, *action).status, Status::CheckCondition);
        assert_eq!(report(3, *opcode, *action).data.bytes()[1], 3);
    }
    assert_eq!(report(1, 0xff, 0).data.bytes(), [0, 1, 0, 0]);
    assert_eq!(ok(&nexus, &[0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0], &[]), [0xda, 0, 0, 0]);
    let timed = report(0x80, 0, 0);
    assert!(timed.data.bytes()[4..].chunks(20).all(|one| one[5] & 2 != 0 && one[9] == 10));
}

#[test]
fn room_is_logged_and_its_threshold_told_once() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    let room = |used: u64, available: u64| {
        Some(Room { used_bytes: used << 20, available_bytes: available << 20, threshold_percent: 80 })
    };
    assert_eq!(ok(&nexus, &[0x4d, 0, 0x40, 0, 0, 0, 0, 1, 0, 0], &[]), [0, 0, 0, 1, 0]);
    rig.unit.set_room(room(70, 30));
    assert_eq!(told(&nexus), []);
    rig.unit.set_room(room(80, 20));
    rig.unit.set_room(room(85, 15));
    assert_eq!(told(&nexus), [code::THIN_THRESHOLD]);
    rig.unit.set_room(room(10, 90));
    rig.unit.set_room(room(81, 19));
    assert_eq!(told(&nexus), [code::THIN_THRESHOLD]);
    let page = ok(&nexus, &[0x4d, 0, 0x4c, 0, 0, 0, 0, 1, 0, 0], &[]);
    assert_eq!(page[..4], [0x0c, 0, 0, 24]);
    assert_eq!((page[11], page[23]), (19, 81));
    let thresholds = ok(&nexus, &[0x5a, 8, 0x1c, 2, 0, 0, 0, 1, 0, 0], &[]);
    assert_eq!((thresholds[8], thresholds[9], thresholds[24..].to_vec()), (0x5c, 2, vec![0x81, 1, 0, 0, 0, 0, 0, 20]));
}

#[test]
fn commands_are_charged_for_the_pieces_that_they_work_through() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    let most = |cdb: &[u8], sent: u32| nexus.prepare(0, cdb, 0, sent).most_bytes(0);
    let (mib, slack) = (1 << 20, 8 << 10);
    for (cdb, sent, held) in [
        (rw10(0x41, 0, 0, 8192), 512, 512 + mib),
        (rw10(0x41, 0, 0, 16), 512, 512 + 8192),
        // To the end.
        (rw10(0x41, 0, 0, 0), 512, 512 + mib),
        (rw10(0x2f, 0, 0, 16384), 0, mib),
        (rw10(0x2f, 6, 0, 16384), 512, 512 + mib),
        (rw10(0x2e, 2, 0, 2), 1024, 2048 + 1024),
        (rw10(0x2e, 2, 0, 8192), 4 << 20, (8 << 20) + mib),
        (rw10(0x2a, 0, 0, 8), 4096, 4096),
    ] {
        let charged = most(&cdb, sent);
        assert!((held..=held + slack).contains(&charged), "{cdb:02x?}: {charged}, {held} held");
    }
}
