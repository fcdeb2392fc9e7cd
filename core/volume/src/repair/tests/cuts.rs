//! Power that fails while what a scan found is repaired: whatever is on the device then, the rest is repaired from it.

use std::cell::Cell;
use std::rc::Rc;

use super::bulk::{Many, name};
use super::*;

/// Of so many files each has one name, in its directory or in the one of what was lost.
async fn all_are_there(volume: &Volume, many: &Many, lost: &[FileId]) {
    let caller = Caller::default();
    for (number, file) in many.files.iter().enumerate() {
        let facts = volume.stat(*file).await.expect("it is there");
        assert_eq!(facts.links, 1);
        let (dir, name) = if lost.contains(file) {
            let dir = volume.lookup(&caller, volume.root(), b"lost+found").await.expect("read").expect("made").id;
            (dir, format!("file {}", file.number))
        } else {
            (many.dir, name(number))
        };
        let found = volume.lookup(&caller, dir, name.as_bytes()).await.expect("looked up").expect("it has its name");
        assert_eq!(found.id, *file);
        let handle = volume.open(&caller, *file, OPEN).await.expect("opened");
        let data = volume.read(&handle, 0, 100).await.expect("read").to_vec();
        assert_eq!(data, format!("bytes of {number}").into_bytes());
        volume.close(handle).await.expect("closed");
    }
}

fn run(seed: u64) {
    let sim = Sim::new(seed);
    let random = sim.random();
    let spec = SimDiskSpec { size_bytes: 64 << 20, garbage: random.chance(1, 2), ..SimDiskSpec::default() };
    let disk = SimDisk::new(&sim, spec);
    let on = disk.clone();
    let damaged = async move {
        let world = World::new(on).await;
        let many = Many::new(&world, "many", 150).await;
        many.lose(&world).await;
        let lost: Vec<FileId> = many.files.iter().copied().skip(100).step_by(3).collect();
        for file in &lost {
            world.damage(|view| edit(view, *file, |record| record.link.parent_generation = 9)).await;
        }
        let (shard, key) = (keys::shard(world.other.number), keys::record(world.other.number));
        world.damage(|view| view.put(shard, key.clone(), b"?".to_vec())).await;
        assert!(world.volume.scan().await.expect("scanned").len() > 4);
        world.volume.checkpoint().await.expect("it lasts");
        (many, lost, world.dir, world.other)
    };
    let (many, lost, dir, other) = sim.run(damaged).expect("powered");
    let many = Rc::new(many);
    let is_over = Rc::new(Cell::new(false));
    // A scan that was cut short may have kept only some of what it found.
    let is_known = Rc::new(Cell::new(true));
    for _ in 0..4 {
        sim.cut_power_after(random.range(0..60u64));
        let (disk, is_over, is_known, random) = (disk.clone(), is_over.clone(), is_known.clone(), sim.random());
        // A cut is as good an end as any.
        let _ = sim.run(async move {
            let settings = Settings {
                cache_bytes: 1 << 20,
                changed_bytes: [64 << 10, 64 << 20][random.range(0..2usize)],
                delayed_bytes: 0,
            };
            let volume = Volume::open(disk, settings, clock()).await.expect("it opens");
            if random.chance(1, 2) {
                is_known.set(false);
                volume.scan().await.expect("scanned");
                is_known.set(true);
            }
            if volume.spotfix_known().await.expect("repaired").is_some() && is_known.get() {
                is_over.set(true);
            }
        });
        sim.restart();
    }
    let ended = async move {
        let volume = open(&disk).await;
        let known = |verb: &Verb| {
            matches!(
                verb,
                Verb::Orphan { .. }
                    | Verb::Orphans { .. }
                    | Verb::Count { .. }
                    | Verb::RecordLost { .. }
                    | Verb::Unreadable { .. }
            )
        };
        let found = volume.scan().await.expect("scanned");
        assert!(found.iter().all(known), "{found:?}");
        assert!(!is_over.get() || found.is_empty(), "it was done: {found:?}");
        volume.spotfix_known().await.expect("repaired");
        assert_eq!(volume.scan().await, Ok(Vec::new()));
        all_are_there(&volume, &many, &lost).await;
        let facts = volume.lookup(&Caller::default(), dir, b"other").await.expect("read").expect("it has its name");
        assert_eq!((facts.id, facts.size_bytes), (other, 8 * BLOCK as u64));
    };
    sim.run(ended).expect("powered");
}

#[test]
fn a_repair_that_power_cut_short_is_gone_on_with() {
    holdfast_harness::over_seeds(60, run);
}
