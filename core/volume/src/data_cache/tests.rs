use holdfast_device::IoBuf;

use super::*;

const BLOCK: usize = BLOCK_BYTES as usize;

fn run(byte: u8, blocks: usize) -> IoSlice {
    let mut buf = IoBuf::new(blocks * BLOCK);
    buf.fill(byte);
    buf.freeze()
}

fn bytes(found: Option<Runs>) -> Option<Vec<u8>> {
    Some(found?.iter().flat_map(|run| run.chunks(BLOCK).map(|block| block[0]).collect::<Vec<_>>()).collect())
}

#[test]
fn what_was_put_in_is_found_whole_in_part_and_side_by_side() {
    let cache = DataCache::new(1 << 20);
    let (one, other) = (cache.number(), cache.number());
    cache.put(one, 10, &run(1, 3), false);
    cache.put(one, 13, &run(2, 2), false);
    assert_eq!(bytes(cache.find(one, 10..13, false)), Some(vec![1, 1, 1]));
    assert_eq!(bytes(cache.find(one, 11..12, false)), Some(vec![1]));
    assert_eq!(bytes(cache.find(one, 12..15, false)), Some(vec![1, 2, 2]));
    assert_eq!(bytes(cache.find(one, 9..11, false)), None);
    assert_eq!(bytes(cache.find(one, 14..16, false)), None);
    assert_eq!(bytes(cache.find(other, 10..13, false)), None, "devices are apart");
    cache.put(other, 12, &run(3, 1), false);
    cache.forget(one);
    assert_eq!(bytes(cache.find(one, 10..11, false)), None);
    assert_eq!(bytes(cache.find(other, 12..13, false)), Some(vec![3]));
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.misses), (4, 4));
}

#[test]
fn no_copy_is_made_of_what_was_read() {
    let cache = DataCache::new(1 << 20);
    let data = run(1, 2);
    cache.put(0, 4, &data, false);
    let found = cache.find(0, 4..6, false).expect("found");
    assert_eq!(found[0].as_ptr(), data.as_ptr());
}

#[test]
fn a_block_is_in_one_run_also_across_stripes() {
    let cache = DataCache::new(64 << 20);
    let edge = STRIPE_BLOCKS;
    cache.put(0, edge - 2, &run(1, 4), false);
    assert_eq!(bytes(cache.find(0, edge - 2..edge + 2, false)), Some(vec![1, 1, 1, 1]));
    cache.put(0, edge + 1, &run(2, 2), false);
    assert_eq!(bytes(cache.find(0, edge + 1..edge + 3, false)), Some(vec![2, 2]));
    assert_eq!(bytes(cache.find(0, edge..edge + 1, false)), None, "a run goes as a whole");
    assert_eq!(bytes(cache.find(0, edge - 1..edge, false)), Some(vec![1]));
    cache.remove(0, edge - 1..edge + 2);
    for block in edge - 2..edge + 3 {
        assert_eq!(bytes(cache.find(0, block..block + 1, false)), None);
    }
    assert_eq!(cache.counts().bytes, 0);
}

#[test]
fn any_range_is_taken_out_exactly() {
    let cache = DataCache::new(64 << 20);
    for block in (0..1000).step_by(2) {
        cache.put(0, block, &run(1, 2), false);
    }
    // Fewer blocks than there are, and more.
    for gone in [100..103, 300..100_000] {
        cache.remove(0, gone.clone());
        for block in 0..1000 {
            let is_gone = |gone: &Range<u64>| block / 2 * 2 < gone.end && block / 2 * 2 + 2 > gone.start;
            let is_gone = is_gone(&(100..103)) || gone.start == 300 && is_gone(&gone);
            assert_eq!(cache.find(0, block..block + 1, false).is_none(), is_gone, "block {block}");
        }
    }
}

#[test]
fn what_was_not_checked_does_not_answer_who_wants_that() {
    let cache = DataCache::new(1 << 20);
    cache.put(0, 1, &run(1, 1), false);
    assert!(cache.find(0, 1..2, true).is_none());
    cache.put(0, 1, &run(2, 1), true);
    assert_eq!(bytes(cache.find(0, 1..2, true)), Some(vec![2]));
    assert_eq!(bytes(cache.find(0, 1..2, false)), Some(vec![2]));
}

#[test]
fn it_keeps_to_its_bytes_whatever_is_put_in_and_taken_out() {
    for most in [0, 5000, 100 << 10, 9 << 20] {
        let cache = DataCache::new(most);
        let mut state = 1u64;
        for step in 0..20_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (block, blocks) = ((state >> 33) % 3000, 1 + (state >> 50) % 17);
            match step % 3 {
                0 => cache.remove(0, block..block + blocks),
                _ if cache.find(0, block..block + blocks, false).is_none() => {
                    cache.put(0, block, &run(step as u8, blocks as usize), false)
                }
                _ => {}
            }
            if step % 100 == 0 {
                assert!(cache.counts().bytes <= most as u64);
            }
        }
        for shard in &cache.shards {
            held(shard).check();
        }
    }
}

#[test]
fn places_of_what_is_gone_do_not_pile_up() {
    let cache = DataCache::new(1 << 20);
    for step in 0..100_000u64 {
        cache.put(0, step % 7, &run(1, 1), false);
        cache.remove(0, step % 7..step % 7 + 1);
    }
    held(&cache.shards[0]).check();
}

#[test]
fn a_scan_does_not_push_out_what_is_read_again_and_again() {
    let cache = DataCache::new(16 << 20);
    let hot = 500u64;
    let read = |block: u64| {
        let is_hit = cache.find(0, block..block + 2, false).is_some();
        if !is_hit {
            cache.put(0, block, &run(1, 2), false);
        }
        is_hit
    };
    for _ in 0..4 {
        (0..hot).for_each(|block| _ = read(block * 2));
    }
    assert!((0..hot).all(|block| read(block * 2)), "it has room for all of them");
    // Ten times what there is room for.
    for block in 0..14_000 {
        read(1_000_000 + block * 2);
    }
    let hits = (0..hot).filter(|block| read(block * 2)).count();
    assert!(hits as u64 >= hot * 95 / 100, "{hits} of {hot}");
}

#[test]
fn another_hot_set_takes_the_place_of_the_first() {
    let cache = DataCache::new(4 << 20);
    let read = |block: u64| {
        let is_hit = cache.find(0, block..block + 2, false).is_some();
        if !is_hit {
            cache.put(0, block, &run(1, 2), false);
        }
        is_hit
    };
    for base in [0, 1 << 20] {
        for _ in 0..12 {
            (0..300).for_each(|block| _ = read(base + block * 2));
        }
        let hits = (0..300).filter(|block| read(base + block * 2)).count();
        assert!(hits >= 250, "{hits} of 300 from {base}");
    }
}

#[test]
fn many_volumes_keep_to_one_limit_and_leave_nothing_behind() {
    let most = 8 << 20;
    let cache = DataCache::new(most);
    let volumes: Vec<u32> = (0..300).map(|_| cache.number()).collect();
    for block in (0..40).step_by(2) {
        volumes.iter().for_each(|volume| cache.put(*volume, block, &run(1, 2), false));
        assert!(cache.counts().bytes <= most as u64);
    }
    assert!(cache.counts().bytes >= most as u64 * 9 / 10, "and use what there is");
    volumes.iter().for_each(|volume| cache.forget(*volume));
    assert_eq!(cache.counts().bytes, 0);
}
