//! Checksums where something else goes wrong as well: what is written is never withheld for a checksum that is behind,
//! and what is corrupt is never believed because its checksum was lost.

use std::rc::Rc;
use std::sync::Arc;

use holdfast_device::sim::ErrorPersistence;
use holdfast_device::{Durability, IoBuf, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, Integrity, Layout, Shape};
use holdfast_pool::Pool;
use holdfast_space::{Space, SpaceSettings, Unlimited};

use crate::scrub::{BLOCKS, byte_of, held, mirror, parity, place, pull, spoil, story};
use crate::world::World;

const BLOCK: usize = BLOCK_BYTES as usize;

fn summed(shape: Shape) -> Shape {
    shape.with_integrity(Integrity::Crc32c)
}

fn simple() -> Shape {
    summed(Shape::plain(Layout::Simple, 1, ByteSize::kib(256)))
}

/// The space as it is after it was closed and its pool exported and imported.
async fn again(world: &World, pool: Arc<Pool>, space: Arc<Space>) -> (Arc<Pool>, Arc<Space>) {
    let id = space.record().id;
    space.close().await.expect("closes");
    pool.export().await.expect("exports");
    drop((space, pool));
    let pool = world.import().await.expect("imports");
    let space = Space::open(pool.clone(), id, SpaceSettings::default()).expect("opens");
    (pool, space)
}

/// What a block answers: the byte that it is full of, or nothing where it cannot be read.
async fn answer(space: &Space, block: u64) -> Option<u8> {
    let data = space.read(block * BLOCK_BYTES, IoBuf::new(BLOCK)).await.ok()?;
    assert!(data.iter().all(|byte| *byte == data[0]), "block {block} is mixed");
    Some(data[0])
}

async fn put(space: &Space, block: u64, byte: u8) -> bool {
    space.write(block * BLOCK_BYTES, IoSlice::padded(&[byte; BLOCK]), Durability::Durable).await.is_ok()
}

#[test]
fn looking_while_a_disk_is_out_loses_no_checksum() {
    story(0, summed(parity(1, 4)), |world, pool, space| async move {
        let (pool, space) = again(&world, pool, space).await;
        let slab = (0..4).find(|slab| place(&space, *slab, 0).0 == 2).expect("each disk has one");
        pull(&world, &pool, 2).await;
        space.verify().await.expect("the others suffice");
        world.disk(2).reappear();
        pool.disk_back(world.candidate(2)).await.expect("a member");
        space.maintain_once().await.expect("it joins");
        assert_eq!(space.status().stale_slabs, 0);
        (0..held(&space)).for_each(|block| drop(spoil(&world, &space, slab, block)));
        for block in 0..BLOCKS {
            assert_eq!(answer(&space, block).await, Some(byte_of(block)), "block {block}");
        }
    });
}

#[test]
fn a_checksum_that_cannot_be_written_withholds_nothing() {
    for seed in 0..6 {
        story(seed, simple(), |world, pool, space| async move {
            let (disk, at) = place(&space, 0, 0);
            let checksums = at + pool.row(space.record().id, 0).expect("a row").slab_data_bytes();
            world.disk(disk).fail_writes(checksums..checksums + BLOCK_BYTES, ErrorPersistence::UntilCleared);
            assert!(put(&space, 0, 0x77).await);
            for _ in 0..3 {
                let _ = space.maintain_once().await;
            }
            world.disk(disk).clear_faults();
            let (_pool, space) = again(&world, pool, space).await;
            assert_eq!(answer(&space, 0).await, Some(0x77));
        });
    }
}

#[test]
fn checksums_that_cannot_be_read_are_written_anew_and_are_no_corruption() {
    story(0, summed(mirror(2)), |world, pool, space| async move {
        let (disk, at) = place(&space, 1, 0);
        let checksums = at + pool.row(space.record().id, 0).expect("a row").slab_data_bytes();
        world.disk(disk).fail_reads(checksums..checksums + BLOCK_BYTES, ErrorPersistence::UntilRewritten);
        for (repaired, step) in [(1, "scrubbed"), (0, "and again")] {
            let found = space.scrub(&Unlimited).await.expect("all else can be read");
            assert_eq!(
                (found.mismatched_blocks, found.repaired_blocks, found.unrepaired_blocks),
                (0, repaired, 0),
                "{step}"
            );
        }
    });
}

#[test]
fn a_write_that_fails_makes_no_corruption_right() {
    story(0, simple(), |world, _pool, space| async move {
        let (disk, at) = place(&space, 0, 9);
        spoil(&world, &space, 0, 5);
        assert_eq!(answer(&space, 5).await, None);
        world.disk(disk).fail_writes(at..at + BLOCK_BYTES, ErrorPersistence::Times(10));
        assert!(!put(&space, 9, 0x77).await, "the only disk takes no write there");
        world.disk(disk).clear_faults();
        assert_eq!((answer(&space, 5).await, answer(&space, 6).await), (None, Some(byte_of(6))));
        assert!(put(&space, 9, 0x77).await && put(&space, 5, 0x55).await);
        assert_eq!((answer(&space, 9).await, answer(&space, 5).await), (Some(0x77), Some(0x55)));
    });
}

#[test]
fn what_was_closed_in_good_order_keeps_its_checksums_though_a_disk_is_out() {
    story(0, summed(mirror(2)), |world, pool, space| async move {
        pull(&world, &pool, place(&space, 1, 0).0).await;
        assert!(put(&space, 0, byte_of(0)).await, "the other copy takes it");
        for _ in 0..3 {
            let _ = space.maintain_once().await;
        }
        let (_pool, space) = again(&world, pool, space).await;
        spoil(&world, &space, 0, 5);
        assert_eq!((answer(&space, 5).await, answer(&space, 0).await), (None, Some(byte_of(0))));
    });
}

/// A mirror of two with a block that only the copy which was away has right, or neither.
fn rejoins(both: bool) {
    story(0, summed(mirror(2)), move |world: Rc<World>, pool, space| async move {
        let disk = place(&space, 1, 0).0;
        pull(&world, &pool, disk).await;
        assert!(put(&space, 0, byte_of(0)).await, "the other copy takes it");
        spoil(&world, &space, 0, 5);
        if both {
            spoil(&world, &space, 1, 5);
        }
        world.disk(disk).reappear();
        pool.disk_back(world.candidate(disk)).await.expect("a member");
        for _ in 0..3 {
            let _ = space.maintain_once().await;
        }
        assert_eq!(space.status().stale_slabs, 0, "one bad block keeps no copy out of step");
        assert_eq!(answer(&space, 5).await, (!both).then_some(byte_of(5)));
        for block in (0..BLOCKS).filter(|block| *block != 5) {
            assert_eq!(answer(&space, block).await, Some(byte_of(block)), "block {block}");
        }
    });
}

#[test]
fn a_copy_that_returns_may_have_the_only_right_block() {
    rejoins(false);
}

#[test]
fn a_block_that_no_copy_has_right_keeps_no_copy_out_of_step() {
    rejoins(true);
}

#[test]
fn blocks_that_a_crash_left_without_their_checksums_are_one_event() {
    story(0, simple(), |world, pool, space| async move {
        let (pool, space) = again(&world, pool, space).await;
        let id = space.record().id;
        let blocks = [0, 40, 80, 120, 160];
        for block in blocks {
            assert!(put(&space, block, 0x77).await);
        }
        // A kill: nothing is closed, and the checksums on disk are those of before.
        drop((space, pool));
        let pool = world.import().await.expect("imports");
        let space = Space::open(pool, id, SpaceSettings::default()).expect("opens");
        for _ in 0..4 {
            space.maintain_once().await.expect("maintenance works");
        }
        let events = std::mem::take(&mut *world.events.0.lock().expect("one thread"));
        let causes: Vec<String> =
            events.into_iter().map(|event| event.cause).filter(|it| it.contains("kept as found")).collect();
        assert_eq!(causes.len(), 1, "{causes:?}");
        assert!(causes[0].starts_with("5 blocks that were being written"), "{causes:?}");
        for block in blocks {
            assert_eq!(answer(&space, block).await, Some(0x77));
        }
    });
}
