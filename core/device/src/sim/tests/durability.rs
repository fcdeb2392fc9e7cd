//! What a power cut may take, and what it must not.

use std::collections::HashSet;

use futures_util::future::join_all;

use super::super::{Disappearance, PowerCut, Sim};
use super::{disk_of, filled, flush, read, write};
use crate::{Device, Durability, IoBuf, IoErrorKind};

const SECTOR: usize = 512;

/// The distinct contents after a power cut over many seeds, one byte for each sector.
fn outcomes(run: impl Fn(&Sim) -> Vec<u8>) -> HashSet<Vec<u8>> {
    (0..400)
        .map(|seed| {
            let bytes = run(&Sim::new(seed));
            bytes
                .chunks(SECTOR)
                .map(|sector| {
                    assert!(sector.iter().all(|byte| *byte == sector[0]), "seed {seed}: a sector is torn within");
                    sector[0]
                })
                .collect()
        })
        .collect()
}

#[test]
fn unflushed_writes_are_lost_kept_and_torn() {
    let outcomes = outcomes(|sim| {
        let disk = disk_of(sim, |_| {});
        write(sim, &disk, 0, filled(1, 4096), Durability::Durable).unwrap();
        write(sim, &disk, 0, filled(2, 4096), Durability::Cached).unwrap();
        sim.cut_power();
        sim.restart();
        disk.peek(0, 4096)
    });
    assert!(outcomes.contains(&vec![1; 8]) && outcomes.contains(&vec![2; 8]));
    assert!(outcomes.len() > 20, "torn in {} ways only", outcomes.len());
    assert!(outcomes.iter().flatten().all(|sector| [1, 2].contains(sector)));
}

#[test]
fn a_disk_with_large_units_writes_them_whole() {
    let outcomes = outcomes(|sim| {
        let disk = disk_of(sim, |spec| spec.tear_bytes = 4096);
        write(sim, &disk, 0, filled(1, 16384), Durability::Durable).unwrap();
        write(sim, &disk, 0, filled(2, 16384), Durability::Cached).unwrap();
        sim.restart();
        disk.peek(0, 16384)
    });
    assert!(outcomes.iter().all(|sectors| sectors.chunks(8).all(|block| block.iter().all(|byte| *byte == block[0]))));
    assert_eq!(outcomes.len(), 16, "four blocks, each old or new");
}

#[test]
fn writes_are_reordered_but_never_within_a_sector() {
    let outcomes = outcomes(|sim| {
        let disk = disk_of(sim, |_| {});
        write(sim, &disk, 0, filled(1, 8192), Durability::Durable).unwrap();
        write(sim, &disk, 0, filled(2, 4096), Durability::Cached).unwrap();
        write(sim, &disk, 4096, filled(3, 4096), Durability::Cached).unwrap();
        write(sim, &disk, 0, filled(4, 4096), Durability::Durable).unwrap();
        sim.restart();
        disk.peek(0, 8192)
    });
    assert!(outcomes.iter().all(|sectors| sectors[..8] == [4; 8]), "an older write came after a durable one");
    assert!(outcomes.iter().any(|sectors| sectors[8..] == [1; 8]), "the durable write took an earlier one along");
    let newest_first = super::durability::outcomes(|sim| {
        let disk = disk_of(sim, |_| {});
        write(sim, &disk, 0, filled(1, 8192), Durability::Durable).unwrap();
        write(sim, &disk, 0, filled(2, 4096), Durability::Cached).unwrap();
        write(sim, &disk, 4096, filled(3, 4096), Durability::Cached).unwrap();
        sim.restart();
        disk.peek(0, 8192)
    });
    assert!(newest_first.iter().any(|sectors| sectors[..8] == [1; 8] && sectors[8..] == [3; 8]), "never reordered");
}

#[test]
fn flushed_and_durable_writes_stay() {
    let flushed = outcomes(|sim| {
        let disk = disk_of(sim, |_| {});
        write(sim, &disk, 0, filled(1, 8192), Durability::Cached).unwrap();
        flush(sim, &disk).unwrap();
        assert_eq!(disk.cached_bytes(), 0);
        write(sim, &disk, 8192, filled(2, 4096), Durability::Durable).unwrap();
        sim.restart();
        disk.peek(0, 12288)
    });
    assert_eq!(flushed, HashSet::from([[vec![1; 16], vec![2; 8]].concat()]));
    let without_cache = outcomes(|sim| {
        let disk = disk_of(sim, |spec| spec.volatile_cache = false);
        write(sim, &disk, 0, filled(3, 8192), Durability::Cached).unwrap();
        sim.restart();
        disk.peek(0, 8192)
    });
    assert_eq!(without_cache, HashSet::from([vec![3; 16]]));
}

#[test]
fn a_flush_covers_what_was_answered_before_it_and_perhaps_more() {
    let outcomes = outcomes(|sim| {
        let disk = disk_of(sim, |_| {});
        write(sim, &disk, 0, filled(1, 8192), Durability::Durable).unwrap();
        write(sim, &disk, 0, filled(2, 4096), Durability::Cached).unwrap();
        let (flushed, late) = (disk.flush(), disk.write(4096, filled(3, 4096), Durability::Cached));
        sim.run(async move {
            flushed.await.unwrap();
            late.await.unwrap();
        })
        .unwrap();
        sim.restart();
        disk.peek(0, 8192)
    });
    assert!(outcomes.iter().all(|sectors| sectors[..8] == [2; 8]));
    assert!(
        outcomes.iter().any(|sectors| sectors[8..] == [1; 8]) && outcomes.iter().any(|sectors| sectors[8..] == [3; 8])
    );
}

#[test]
fn a_write_in_flight_may_be_done_torn_or_not_done() {
    let outcomes = outcomes(|sim| {
        let disk = disk_of(sim, |_| {});
        write(sim, &disk, 0, filled(1, 4096), Durability::Durable).unwrap();
        sim.cut_power_after(0);
        let writer = disk.clone();
        let cut = sim.run(async move { writer.write(0, filled(2, 4096), Durability::Durable).await });
        assert_eq!(cut, Err(PowerCut));
        assert_eq!(sim.device_writes(), 1);
        sim.restart();
        disk.peek(0, 4096)
    });
    assert!(outcomes.contains(&vec![1; 8]) && outcomes.contains(&vec![2; 8]) && outcomes.len() > 20);
}

#[test]
fn the_power_can_be_cut_before_each_write() {
    let work = |sim: &Sim| {
        let disk = disk_of(sim, |_| {});
        sim.run(async move {
            for block in 0..5 {
                disk.write(block * 4096, filled(1, 4096), Durability::Cached).await.unwrap();
                disk.flush().await.unwrap();
            }
            disk.discard(0, 8192).await.unwrap();
        })
    };
    let whole = Sim::new(9);
    assert_eq!(work(&whole), Ok(()));
    assert_eq!(whole.device_writes(), 11);
    for writes in 0..11 {
        let sim = Sim::new(9);
        sim.cut_power_after(writes);
        assert_eq!(work(&sim), Err(PowerCut));
        assert_eq!(sim.device_writes(), writes);
    }
    let sim = Sim::new(9);
    sim.cut_power_after(11);
    assert_eq!(work(&sim), Ok(()));
}

#[test]
fn a_read_beside_a_write_sees_old_and_new_in_whole_sectors_and_never_goes_back() {
    let seen: HashSet<Vec<u8>> = outcomes(|sim| {
        let disk = disk_of(sim, |_| {});
        write(sim, &disk, 0, filled(1, 4096), Durability::Durable).unwrap();
        let beside = disk.write(0, filled(2, 4096), Durability::Cached);
        let reader = disk.clone();
        let read = sim.run(async move {
            let first = reader.read(0, IoBuf::new(4096)).await.unwrap().to_vec();
            let second = reader.read(0, IoBuf::new(4096)).await.unwrap().to_vec();
            beside.await.unwrap();
            assert!(first.iter().zip(&second).all(|(first, second)| second >= first), "new became old again");
            first
        });
        read.unwrap()
    });
    assert!(seen.contains(&vec![1; 8]) && seen.contains(&vec![2; 8]) && seen.len() > 4);
}

#[test]
fn what_was_never_written_reads_as_the_same_garbage_or_as_zeros() {
    let sim = Sim::new(1);
    let (one, other) = (disk_of(&sim, |_| {}), disk_of(&sim, |_| {}));
    let blocks = [read(&sim, &one, 0, 4096), read(&sim, &one, 4096, 4096), read(&sim, &other, 0, 4096)];
    assert_eq!(blocks[0], read(&sim, &one, 0, 4096));
    assert!(blocks[0] != blocks[1] && blocks[0] != blocks[2]);
    assert!(one.peek(0, 1 << 20).chunks(8).all(|word| word.iter().any(|byte| *byte != 0)));
    assert_eq!(disk_of(&sim, |spec| spec.garbage = false).peek(4096, 4096), vec![0; 4096]);
    assert_eq!(one.allocated_bytes(), 0);
}

#[test]
fn a_discarded_range_may_read_as_anything_and_gives_its_memory_back() {
    let sim = Sim::new(1);
    let disk = disk_of(&sim, |spec| spec.size_bytes = 1 << 50);
    write(&sim, &disk, 1 << 40, filled(7, 1 << 20), Durability::Durable).unwrap();
    write(&sim, &disk, (1 << 40) + 8192, filled(8, 4096), Durability::Cached).unwrap();
    let full = disk.allocated_bytes();
    let discarding = disk.clone();
    sim.run(async move { discarding.discard(0, 1 << 49).await.unwrap() }).unwrap();
    let now = disk.peek(1 << 40, 1 << 20);
    let kept = now.chunks(4096).filter(|block| block[0] == 7 && block.iter().all(|byte| *byte == 7)).count();
    assert!((20..150).contains(&kept), "{kept} of 256 blocks kept their content");
    flush(&sim, &disk).unwrap();
    assert!(disk.allocated_bytes() < full / 2);
    assert_eq!(disk.peek(1 << 40, 1 << 20), now);
}

#[test]
fn a_full_cache_is_written_back_oldest_first() {
    let sim = Sim::new(1);
    let disk = disk_of(&sim, |spec| spec.cache_bytes = 65536);
    for block in 0..64 {
        write(&sim, &disk, block * 4096, filled(block as u8, 4096), Durability::Cached).unwrap();
        assert!(disk.cached_bytes() <= 65536);
    }
    sim.restart();
    for block in 0..48 {
        assert_eq!(disk.peek(block * 4096, 4096), vec![block as u8; 4096]);
    }
}

/// Random writes, flushes and cuts against a plain model: which values may each sector hold?
#[test]
fn every_sector_holds_what_the_model_allows() {
    for seed in 0..300 {
        let sim = Sim::new(seed);
        let random = sim.random();
        let disk = disk_of(&sim, |spec| {
            spec.size_bytes = 16 * 4096;
            spec.cache_bytes = 20 * 4096;
        });
        write(&sim, &disk, 0, filled(0, 16 * 4096), Durability::Durable).unwrap();
        // For each block: what may be found after a cut, oldest first; the last is what reads see.
        let mut allowed: Vec<Vec<u8>> = vec![vec![0]; 16];
        let mut value = 0;
        for _ in 0..5 {
            for _ in 0..random.range(1..40) {
                match random.range(0..10) {
                    0 => {
                        flush(&sim, &disk).unwrap();
                        allowed.iter_mut().for_each(|values| drop(values.drain(..values.len() - 1)));
                    }
                    kind => {
                        value += 1;
                        let (first, blocks) = (random.range(0..12_usize), random.range(1..=4_usize));
                        let durability = if kind == 1 { Durability::Durable } else { Durability::Cached };
                        write(&sim, &disk, first as u64 * 4096, filled(value, blocks * 4096), durability).unwrap();
                        for values in &mut allowed[first..first + blocks] {
                            if durability == Durability::Durable {
                                values.clear();
                            }
                            values.push(value);
                        }
                    }
                }
                let block = random.range(0..16_usize);
                let seen = read(&sim, &disk, block as u64 * 4096, 4096).unwrap();
                assert!(seen.iter().all(|byte| Some(byte) == allowed[block].last()), "seed {seed}: block {block}");
            }
            sim.cut_power();
            sim.restart();
            for (block, values) in allowed.iter_mut().enumerate() {
                let now = disk.peek(block as u64 * 4096, 4096);
                assert!(now.chunks(SECTOR).all(|sector| values.contains(&sector[0])), "seed {seed}: block {block}");
                assert!(now.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
                write(&sim, &disk, block as u64 * 4096, filled(0, 4096), Durability::Durable).unwrap();
                *values = vec![0];
            }
            value = 0;
        }
    }
}

#[test]
fn a_disk_pulled_out_loses_its_cache_and_one_without_cable_does_not() {
    let pulled = outcomes(|sim| {
        let disk = disk_of(sim, |_| {});
        write(sim, &disk, 0, filled(1, 4096), Durability::Durable).unwrap();
        write(sim, &disk, 0, filled(2, 4096), Durability::Cached).unwrap();
        disk.disappear(Disappearance::PowerLoss);
        disk.reappear();
        read(sim, &disk, 0, 4096).unwrap()
    });
    assert!(pulled.contains(&vec![1; 8]) && pulled.contains(&vec![2; 8]) && pulled.len() > 10);
    let unplugged = outcomes(|sim| {
        let disk = disk_of(sim, |_| {});
        write(sim, &disk, 0, filled(2, 4096), Durability::Cached).unwrap();
        disk.disappear(Disappearance::Cable);
        assert_eq!(read(sim, &disk, 0, 4096).unwrap_err().kind, IoErrorKind::Gone);
        disk.reappear();
        flush(sim, &disk).unwrap();
        sim.restart();
        read(sim, &disk, 0, 4096).unwrap()
    });
    assert_eq!(unplugged, HashSet::from([vec![2; 8]]));
}

#[test]
fn requests_under_way_at_a_disappearance_answer_gone_and_may_have_happened() {
    for how in [Disappearance::PowerLoss, Disappearance::Cable] {
        let outcomes = outcomes(|sim| {
            let disk = disk_of(sim, |_| {});
            write(sim, &disk, 0, filled(1, 4096), Durability::Durable).unwrap();
            let requests: Vec<_> = (0..4).map(|_| disk.write(0, filled(2, 4096), Durability::Durable)).collect();
            let flushed = disk.flush();
            disk.disappear(how);
            let after = disk.write(0, filled(3, 4096), Durability::Durable);
            disk.reappear();
            sim.run(async move {
                for answer in join_all(requests).await.into_iter().chain([flushed.await, after.await]) {
                    assert_eq!(answer.unwrap_err().kind, IoErrorKind::Gone);
                }
            })
            .unwrap();
            read(sim, &disk, 0, 4096).unwrap()
        });
        assert!(outcomes.contains(&vec![1; 8]) && outcomes.contains(&vec![2; 8]));
        assert!(outcomes.iter().flatten().all(|sector| *sector != 3));
    }
}
