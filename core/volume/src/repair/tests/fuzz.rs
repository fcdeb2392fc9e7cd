//! Entries of trees and bytes of nodes changed at random: nothing panics, and no file shows bytes that are not its own.

use holdfast_device::sim::SimRandom;

use super::*;
use crate::{DEFERRED_TREE, OWNER_TREE, SHARED_TREES};

/// Whether a file reads as it was, as zeros where a length was changed, or not at all. The pattern of one file is in no
/// other, so a block of another file shows.
async fn check(world: &World, file: FileId, seed: u8) {
    let Ok(found) = world.read(file).await else { return };
    let (own, zeros) = (pattern(seed), vec![0; BLOCK]);
    let of_any = |block: &[u8]| own.chunks(BLOCK).any(|own| own.starts_with(block)) || zeros.starts_with(block);
    for block in found.chunks(BLOCK) {
        // A record may have come to hold bytes itself, which are then what it says.
        if found.len() > 2048 {
            assert!(of_any(block), "a block of a file that is not its own");
        }
    }
}

async fn change_entries(world: &World, random: &SimRandom) {
    for _ in 0..random.range(1..6u32) {
        let trees: Vec<u8> = (0..SHARED_TREES).chain([OWNER_TREE, DEFERRED_TREE]).collect();
        let mut all = Vec::new();
        for tree in trees {
            let entries = world.volume.store.range(tree, b"", usize::MAX).await.expect("read");
            all.extend(entries.into_iter().map(|(key, value)| (tree, key, value)));
        }
        let (tree, mut key, mut value) = random.pick(&all).expect("there are some").clone();
        let how = random.range(0..4u32);
        if how == 0 {
            let at = random.range(0..key.len());
            key[at] ^= 1 << random.range(0..8u32);
        } else if how < 3 && !value.is_empty() {
            let at = random.range(0..value.len());
            value[at] ^= 1 << random.range(0..8u32);
        }
        let change = world.volume.store.change([], Need::More, |view| match how {
            3 => view.remove(tree, key.clone()),
            _ => view.put(tree, key.clone(), value.clone()),
        });
        // A value that cannot be an extent is refused.
        let _ = change.await;
    }
}

/// Has files share blocks, and a snapshot have some of them.
async fn share(world: &World) {
    let (caller, block) = (Caller::default(), BLOCK as u64);
    world.volume.create_snapshot("past").await.expect("made");
    let data = world.volume.open(&caller, world.data, OPEN).await.expect("opened");
    let other = world.volume.open(&caller, world.other, OPEN).await.expect("opened");
    world.volume.clone_range((&data, 0), (&other, 2 * block), 5 * block).await.expect("cloned");
    world.volume.clone_range((&data, block), (&other, 9 * block), 3 * block).await.expect("cloned");
    world.volume.close(data).await.expect("closed");
    world.volume.close(other).await.expect("closed");
    world.write(world.data, &pattern(5)[..3 * BLOCK]).await;
}

#[test]
fn entries_changed_at_random_are_survived_and_repaired() {
    holdfast_harness::over_seeds(60, |seed| {
        let sim = Sim::new(seed);
        let random = sim.random();
        let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
        let ran = sim.run(async move {
            let world = World::new(disk).await;
            if random.chance(1, 2) {
                share(&world).await;
            }
            change_entries(&world, &random).await;
            world.volume.spotfix().await.expect("it goes through");
            let done = world.volume.spotfix_offline().await.expect("it goes through");
            // What a snapshot lost stays lost until it is destroyed.
            let kept = |verb: &Verb| {
                matches!(verb, Verb::SymbolicLink { .. } | Verb::SnapshotNode { .. } | Verb::SnapshotData { .. })
            };
            assert!(done.left.iter().all(kept), "{:?}", done.left);
            // Where its data lies is what an extent says: only that nothing panics can be asked here.
            let _ = (world.read(world.data).await, world.read(world.other).await, world.read(world.deep).await);
            world.volume.checkpoint().await.expect("it lasts");
            let again = open(&world.disk).await;
            assert!(again.scan().await.expect("scanned").iter().all(kept));
        });
        ran.expect("powered");
    });
}

#[test]
fn bytes_of_the_device_changed_at_random_are_survived() {
    holdfast_harness::over_seeds(60, |seed| {
        let sim = Sim::new(seed);
        let random = sim.random();
        let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
        let ran = sim.run(async move {
            let world = World::new(disk.clone()).await;
            world.volume.checkpoint().await.expect("it lasts");
            let mut nodes = Vec::new();
            {
                let newest = world.volume.store.checkpoint.lock().await;
                nodes.extend(newest.root.trees.iter().map(|(_, node)| node.address));
            }
            let log = world.volume.store.superblock().log_at();
            for _ in 0..random.range(1..4u32) {
                let base = if random.chance(1, 3) { log } else { *random.pick(&nodes).expect("a node") };
                let at = base + random.range(0..16_384u64);
                let before = disk.peek(at, 1)[0];
                disk.poke(at, &[before ^ (1 << random.range(0..8u32))]);
            }
            let settings = Settings { cache_bytes: 1 << 20, ..Settings::default() };
            // The settings in both their trees are needed to open it.
            let Ok(volume) = Volume::open(disk.clone(), settings, clock()).await else { return };
            if volume.failure().is_some() {
                // Changes are missing, or nobody knows what is free: that was told.
                assert!(volume.is_damaged());
                return;
            }
            let World { disk, dir, below, data, other, deep, .. } = world;
            let world = World { disk, volume, dir, below, data, other, deep };
            check(&world, world.data, 1).await;
            check(&world, world.other, 2).await;
            let done = world.volume.spotfix_offline().await.expect("it goes through");
            let kept = |verb: &Verb| matches!(verb, Verb::SymbolicLink { .. });
            assert!(done.left.iter().all(kept), "{:?}", done.left);
            check(&world, world.data, 1).await;
            check(&world, world.other, 2).await;
        });
        ran.expect("powered");
    });
}
