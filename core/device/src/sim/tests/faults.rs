//! Errors, silent damage and bad requests.

use super::super::{Disappearance, ErrorPersistence, Latency, Sim};
use super::{disk_of, filled, flush, read, write};
use crate::{Device, Durability, IoBuf, IoErrorKind};

fn kind<T: std::fmt::Debug>(result: Result<T, crate::IoError>) -> IoErrorKind {
    result.unwrap_err().kind
}

#[test]
fn a_latent_sector_error_heals_where_it_is_rewritten() {
    let sim = Sim::new(1);
    let disk = disk_of(&sim, |_| {});
    disk.fail_reads(5000..13000, ErrorPersistence::UntilRewritten);
    assert!(read(&sim, &disk, 0, 4096).is_ok());
    for block in 1..=3 {
        let error = read(&sim, &disk, block * 4096, 4096).unwrap_err();
        assert_eq!(error.kind, IoErrorKind::Media);
        assert!(error.context.contains(&format!("sim: read of 4096 bytes at {}", block * 4096)), "{error}");
    }
    write(&sim, &disk, 8192, filled(1, 4096), Durability::Cached).unwrap();
    assert!(read(&sim, &disk, 8192, 4096).is_ok());
    assert_eq!(kind(read(&sim, &disk, 4096, 4096)), IoErrorKind::Media);
    assert_eq!(kind(read(&sim, &disk, 12288, 4096)), IoErrorKind::Media);
    write(&sim, &disk, 0, filled(1, 16384), Durability::Cached).unwrap();
    assert!(read(&sim, &disk, 0, 16384).is_ok());
}

#[test]
fn errors_stay_as_long_as_they_were_placed() {
    let sim = Sim::new(1);
    let disk = disk_of(&sim, |_| {});
    disk.fail_reads(0..4096, ErrorPersistence::Times(2));
    let reads: Vec<bool> = (0..4).map(|_| read(&sim, &disk, 0, 8192).is_ok()).collect();
    assert_eq!(reads, [false, false, true, true]);
    disk.fail_reads(0..4096, ErrorPersistence::Times(0));
    assert!(read(&sim, &disk, 0, 4096).is_ok());
    disk.fail_reads(0..4096, ErrorPersistence::UntilCleared);
    write(&sim, &disk, 0, filled(1, 4096), Durability::Cached).unwrap();
    assert!(read(&sim, &disk, 0, 4096).is_err() && read(&sim, &disk, 0, 4096).is_err());
    disk.fail_writes(0..4096, ErrorPersistence::UntilRewritten);
    for _ in 0..3 {
        assert_eq!(kind(write(&sim, &disk, 0, filled(1, 4096), Durability::Cached)), IoErrorKind::Media);
        assert!(write(&sim, &disk, 4096, filled(1, 4096), Durability::Cached).is_ok());
    }
    disk.clear_faults();
    assert!(read(&sim, &disk, 0, 4096).is_ok() && write(&sim, &disk, 0, filled(1, 4096), Durability::Durable).is_ok());
    disk.fail_next_writes(2);
    let writes: Vec<bool> =
        (0..3).map(|block| write(&sim, &disk, block * 4096, filled(1, 4096), Durability::Cached).is_ok()).collect();
    assert_eq!(writes, [false, false, true]);
    disk.fail_next_flushes(1);
    assert!(flush(&sim, &disk).is_err() && flush(&sim, &disk).is_ok());
    assert_eq!(disk.counters().errors, 10);
}

#[test]
fn a_failed_write_may_have_happened() {
    let mut seen = std::collections::HashSet::new();
    for seed in 0..100 {
        let sim = Sim::new(seed);
        let disk = disk_of(&sim, |_| {});
        write(&sim, &disk, 0, filled(1, 4096), Durability::Durable).unwrap();
        disk.fail_next_writes(1);
        assert!(write(&sim, &disk, 0, filled(2, 4096), Durability::Durable).is_err());
        let sectors: Vec<u8> = disk.peek(0, 4096).chunks(512).map(|sector| sector[0]).collect();
        assert!(sectors.iter().all(|sector| [1, 2].contains(sector)));
        seen.insert(sectors);
    }
    assert!(seen.contains(&vec![1; 8]) && seen.contains(&vec![2; 8]) && seen.len() > 5);
}

#[test]
fn what_a_failed_write_left_is_as_durable_as_anything_after_a_flush() {
    for seed in 0..200 {
        let sim = Sim::new(seed);
        let disk = disk_of(&sim, |_| {});
        write(&sim, &disk, 0, filled(1, 8192), Durability::Durable).unwrap();
        if seed % 2 == 0 {
            disk.fail_next_writes(1);
            assert!(write(&sim, &disk, 0, filled(2, 8192), Durability::Cached).is_err());
        } else {
            let writes: Vec<_> =
                (0..6).map(|number| disk.write(number * 8192, filled(2, 8192), Durability::Cached)).collect();
            let observer = disk.clone();
            sim.run(async move { observer.read(8192, IoBuf::new(4096)).await.map(drop) }).unwrap().unwrap();
            disk.disappear(Disappearance::Cable);
            disk.reappear();
            drop(writes);
        }
        let seen = read(&sim, &disk, 0, 6 * 8192).unwrap();
        flush(&sim, &disk).unwrap();
        sim.restart();
        assert!(disk.peek(0, 6 * 8192) == seen, "seed {seed}");
    }
}

#[test]
fn corruption_shows_beside_a_cache_that_is_not_empty() {
    for seed in 0..200 {
        let sim = Sim::new(seed);
        let disk = disk_of(&sim, |_| {});
        write(&sim, &disk, 0, filled(1, 4096), Durability::Cached).unwrap();
        let (flushed, beside) = (disk.flush(), disk.write(8192, filled(2, 4096), Durability::Cached));
        sim.run(async move { (flushed.await.unwrap(), beside.await.unwrap()) }).unwrap();
        disk.corrupt(0..4096);
        let seen = read(&sim, &disk, 0, 4096).unwrap();
        assert_ne!(seen, vec![1; 4096], "seed {seed}");
        sim.restart();
        assert_eq!(disk.peek(0, 4096), seen, "seed {seed}");
    }
}

#[test]
fn dead_electronics_answer_nothing_but_errors() {
    let sim = Sim::new(1);
    let disk = disk_of(&sim, |_| {});
    disk.fail_everything();
    let discarding = disk.clone();
    let discarded = sim.run(async move { discarding.discard(0, 4096).await }).unwrap();
    let kinds = [
        kind(read(&sim, &disk, 0, 4096)),
        kind(write(&sim, &disk, 0, filled(1, 4096), Durability::Cached)),
        kind(flush(&sim, &disk)),
        kind(discarded),
    ];
    assert_eq!(kinds, [IoErrorKind::Media; 4]);
    assert!(disk.is_present());
    disk.clear_faults();
    assert!(flush(&sim, &disk).is_ok());
}

#[test]
fn corruption_is_silent_and_stays_within_its_range() {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let disk = disk_of(&sim, |_| {});
        let durability = if seed % 2 == 0 { Durability::Durable } else { Durability::Cached };
        write(&sim, &disk, 0, filled(5, 16384), durability).unwrap();
        disk.corrupt(4096 + 512..8192 + 100);
        let now = read(&sim, &disk, 0, 16384).unwrap();
        assert!(now[4608..8192].iter().any(|byte| *byte != 5) && now[8192..8292].iter().any(|byte| *byte != 5));
        assert!(now[..4608].iter().chain(&now[8292..]).all(|byte| *byte == 5));
        flush(&sim, &disk).unwrap();
        sim.restart();
        assert_eq!(disk.peek(0, 16384), now);
    }
}

#[test]
fn stray_writes_are_acknowledged() {
    let sim = Sim::new(1);
    let disk = disk_of(&sim, |_| {});
    write(&sim, &disk, 0, filled(1, 16384), Durability::Durable).unwrap();
    disk.lose_next_write();
    disk.misdirect_next_write(8192 + 7);
    write(&sim, &disk, 0, filled(2, 4096), Durability::Durable).unwrap();
    write(&sim, &disk, 4096, filled(3, 4096), Durability::Durable).unwrap();
    write(&sim, &disk, 12288, filled(4, 4096), Durability::Durable).unwrap();
    let blocks: Vec<u8> = disk.peek(0, 16384).chunks(4096).map(|block| block[0]).collect();
    assert_eq!(blocks, [1, 1, 3, 4]);
    disk.misdirect_next_write(u64::MAX);
    write(&sim, &disk, 0, filled(9, 8192), Durability::Cached).unwrap();
    assert_eq!(disk.peek((1 << 20) - 8192, 8192), vec![9; 8192]);
}

#[test]
fn poked_bytes_are_there_and_stay() {
    let sim = Sim::new(1);
    let disk = disk_of(&sim, |_| {});
    write(&sim, &disk, 0, filled(1, 4096), Durability::Cached).unwrap();
    disk.poke(100, b"poked");
    sim.restart();
    let now = disk.peek(0, 4096);
    assert_eq!(&now[100..105], b"poked");
    assert!(now[..100].iter().chain(&now[105..]).all(|byte| *byte == 1));
}

#[test]
fn bad_requests_are_refused_and_change_nothing() {
    for latency in [Latency::None, Latency::Hdd7200] {
        let sim = Sim::new(1);
        let disk = disk_of(&sim, |spec| spec.latency = latency);
        let before = disk.peek(0, 1 << 20);
        for (offset, len) in [(1, 4096), (0, 100), (1 << 20, 4096), ((1 << 20) - 4096, 8192), (u64::MAX - 4095, 8192)] {
            assert_eq!(kind(read(&sim, &disk, offset, len)), IoErrorKind::Invalid);
            let written = write(&sim, &disk, offset, filled(1, len), Durability::Durable);
            assert!(written.unwrap_err().context.contains("blocks of 4 KiB within the size"));
            let discarding = disk.clone();
            let discarded = sim.run(async move { discarding.discard(offset, len as u64).await }).unwrap();
            assert_eq!(kind(discarded), IoErrorKind::Invalid);
        }
        assert_eq!(disk.peek(0, 1 << 20), before);
        assert!(read(&sim, &disk, 1 << 20, 0).unwrap().is_empty());
        disk.grow(2 << 20);
        assert_eq!(disk.geometry().size_bytes, 2 << 20);
        assert!(write(&sim, &disk, 1 << 20, filled(1, 4096), Durability::Durable).is_ok());
    }
}

#[test]
fn the_count_of_requests_is_kept() {
    let sim = Sim::new(1);
    let disk = disk_of(&sim, |_| {});
    for offset in [0, 4096, 16384] {
        write(&sim, &disk, offset, filled(1, 4096), Durability::Cached).unwrap();
    }
    read(&sim, &disk, 20480, 8192).unwrap();
    flush(&sim, &disk).unwrap();
    let counters = disk.counters();
    assert_eq!((counters.writes, counters.reads, counters.flushes, counters.seeks), (3, 1, 1, 1));
    assert_eq!((counters.bytes_written, counters.bytes_read, counters.errors), (12288, 8192, 0));
    drop(disk.read(0, IoBuf::new(4096)));
    sim.run_until_idle();
    assert_eq!(disk.counters().reads, 2, "a dropped request goes on");
}
