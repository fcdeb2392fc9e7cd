//! Scrubs: what they make good, what they leave as it is, and at which pace.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_device::sim::{Disappearance, ErrorPersistence, Sim, SimDiskSpec};
use holdfast_device::{Durability, IoBuf, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, Layout, Provisioning, Shape, SpaceState};
use holdfast_pool::slab::HEAD_BYTES;
use holdfast_pool::{Pool, SpaceSpec};
use holdfast_space::{Ended, Pace, Space, SpaceSettings, Stopped, Unlimited};

use crate::spoil::Spoiled;
use crate::world::World;

const BLOCK: usize = BLOCK_BYTES as usize;
/// Blocks that the stories write: whole bands, of up to four columns of data.
pub const BLOCKS: u64 = 192;

fn machine(seed: u64, disks: usize) -> World {
    let spec = |index| SimDiskSpec {
        name: format!("disk{index}"),
        serial: format!("S{index}"),
        size_bytes: 64 << 20,
        ..SimDiskSpec::default()
    };
    let sim = Sim::new(seed);
    sim.limit_steps(2_000_000);
    World::new(sim, (0..disks).map(spec).collect())
}

pub fn mirror(copies: u8) -> Shape {
    Shape::plain(Layout::Mirror { copies }, 1, ByteSize::kib(256))
}

pub fn parity(parity: u8, columns: u16) -> Shape {
    Shape::plain(Layout::Parity { parity }, columns, ByteSize::kib(64))
}

/// Tells one story of a space of this shape, with [`BLOCKS`] blocks written and at rest.
pub fn story<F: Future<Output = ()> + 'static>(
    seed: u64,
    shape: Shape,
    tell: impl FnOnce(Rc<World>, Arc<Pool>, Arc<Space>) -> F + 'static,
) {
    let disks = usize::from(shape.columns) * usize::from(shape.layout.copies());
    let world = Rc::new(machine(seed, disks));
    let (create, machine) = (world.create("tank"), world.clone());
    let done = world.sim.run(async move {
        let pool = create.await;
        let name = "vol".parse().expect("a name");
        let provisioning = Provisioning::Thin;
        let spec =
            SpaceSpec { name, shape, provisioning, size_bytes: 2 << 20, journal_bytes: None, enclosure_aware: false };
        let record = pool.create_space(spec).await.expect("a thin space takes no room");
        let space = Space::open(pool.clone(), record.id, SpaceSettings::default()).expect("just made");
        for block in 0..BLOCKS {
            let data = IoSlice::padded(&vec![byte_of(block); BLOCK]);
            space.write(block * BLOCK_BYTES, data, Durability::Cached).await.expect("room is there");
        }
        space.maintain_once().await.expect("maintenance works");
        space.flush().await.expect("flushes");
        space.maintain_once().await.expect("maintenance works");
        tell(machine, pool, space).await;
    });
    done.expect("no power cut is planned");
}

pub fn byte_of(block: u64) -> u8 {
    block as u8 + 1
}

/// Every block is what was written.
async fn check(space: &Space) {
    for block in 0..BLOCKS {
        let data = space.read(block * BLOCK_BYTES, IoBuf::new(BLOCK)).await.expect("it can be read");
        assert!(data.iter().all(|byte| *byte == byte_of(block)), "block {block}");
    }
}

/// Where a slab holds data: the disk's number, and the offset of a block on it.
pub fn place(space: &Space, slab: usize, block: u64) -> (usize, u64) {
    let slab = &space.map()[0].slabs[slab];
    (
        slab.path.trim_start_matches("/sim/").parse().expect("a number"),
        slab.offset_bytes + HEAD_BYTES + block * BLOCK_BYTES,
    )
}

/// How many blocks of each slab hold data or parity, from the first on.
pub fn held(space: &Space) -> u64 {
    BLOCKS / u64::from(space.record().shape.data_columns())
}

pub fn spoil(world: &World, space: &Space, slab: usize, block: u64) -> Spoiled {
    let (disk, at) = place(space, slab, block);
    Spoiled::block(&world.disk(disk), at, &world.sim.random())
}

/// Makes a block of a slab unreadable until it is rewritten.
fn hide(world: &World, space: &Space, slab: usize, block: u64) {
    let (disk, at) = place(space, slab, block);
    world.disk(disk).fail_reads(at..at + BLOCK_BYTES, ErrorPersistence::UntilRewritten);
}

#[test]
fn one_odd_copy_or_piece_is_reported_and_rewritten() {
    for (seed, shape) in [mirror(3), parity(2, 4), parity(2, 5), parity(2, 6)].into_iter().enumerate() {
        story(seed as u64, shape, |world, _, space| async move {
            let slabs = space.map()[0].slabs.len() as u64;
            let each = |block: u64| spoil(&world, &space, ((block * 7 + block / 5) % slabs) as usize, block);
            let spoiled: Vec<Spoiled> = (0..held(&space)).map(each).collect();
            let known = space.verify().await.expect("it can be read");
            assert_eq!((known.mismatched_blocks, known.unrepaired_blocks), (held(&space), held(&space)));
            assert!(spoiled.iter().all(Spoiled::is_untouched), "a comparison changes nothing");
            let found = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!((found.mismatched_blocks, found.mismatches), (known.mismatched_blocks, known.mismatches));
            assert_eq!((found.repaired_blocks, found.unrepaired_blocks), (held(&space), 0));
            assert!(spoiled.iter().all(Spoiled::is_healed));
            check(&space).await;
            assert_eq!(space.scrub(&Unlimited).await.expect("nobody stops it").mismatched_blocks, 0);
        });
    }
}

#[test]
fn what_cannot_be_known_is_reported_and_left() {
    for (seed, shape) in [mirror(2), parity(1, 3), parity(1, 5)].into_iter().enumerate() {
        story(seed as u64, shape, |world, _, space| async move {
            let slabs = space.map()[0].slabs.len() as u64;
            let spoiled: Vec<Spoiled> =
                [1, 2, 30].map(|block| spoil(&world, &space, (block % slabs) as usize, block)).into();
            let found = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!((found.mismatched_blocks, found.repaired_blocks, found.unrepaired_blocks), (3, 0, 3));
            assert!(spoiled.iter().all(Spoiled::is_untouched));
        });
    }
}

#[test]
fn more_than_can_be_known_is_reported_and_left() {
    for (seed, shape) in [mirror(3), parity(2, 5)].into_iter().enumerate() {
        story(seed as u64, shape, |world, _, space| async move {
            // All bytes of both, so that no third piece accounts for them.
            let spoiled: Vec<_> = [0, 1].map(|slab| (place(&space, slab, 5), 0x5A + slab as u8)).into();
            for ((disk, at), byte) in &spoiled {
                let garbage: Vec<u8> = (0..BLOCK).map(|place| (place as u8).wrapping_mul(*byte) ^ byte).collect();
                world.disk(*disk).poke(*at, &garbage);
            }
            let before: Vec<_> = spoiled.iter().map(|((disk, at), _)| world.disk(*disk).peek(*at, BLOCK)).collect();
            let found = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!((found.mismatched_blocks, found.repaired_blocks, found.unrepaired_blocks), (2, 0, 2));
            let after: Vec<_> = spoiled.iter().map(|((disk, at), _)| world.disk(*disk).peek(*at, BLOCK)).collect();
            assert_eq!(before, after);
        });
    }
}

#[test]
fn what_cannot_be_read_is_made_anew_block_by_block() {
    for (seed, shape) in [mirror(2), mirror(3), parity(1, 4), parity(2, 5)].into_iter().enumerate() {
        story(seed as u64, shape, |world, _, space| async move {
            let slabs = space.map()[0].slabs.len();
            let losses = usize::from(space.record().shape.layout.tolerates());
            let mut hidden = 0;
            for block in 0..held(&space) {
                for loss in 0..losses.min(1 + block as usize % 2) {
                    hide(&world, &space, (block as usize + loss) % slabs, block);
                    hidden += 1;
                }
            }
            let found = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!((found.mismatched_blocks, found.repaired_blocks, found.unrepaired_blocks), (0, hidden, 0));
            let found = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!((found.repaired_blocks, found.unrepaired_blocks, found.unchecked_bytes), (0, 0, 0));
            check(&space).await;
        });
    }
}

#[test]
fn what_nobody_has_any_more_is_reported() {
    for (seed, shape) in [mirror(2), parity(1, 4), parity(2, 5)].into_iter().enumerate() {
        story(seed as u64, shape, |world, _, space| async move {
            let losses = usize::from(space.record().shape.layout.tolerates()) + 1;
            (0..losses).for_each(|slab| hide(&world, &space, slab, 3));
            let found = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!((found.repaired_blocks, found.unrepaired_blocks), (0, losses as u64));
        });
    }
}

/// A piece that cannot be read is not computed from others of which one is wrong.
#[test]
fn nothing_is_made_from_what_does_not_agree() {
    for (seed, shape) in [mirror(3), parity(2, 5)].into_iter().enumerate() {
        story(seed as u64, shape, |world, _, space| async move {
            hide(&world, &space, 0, 9);
            let spoiled = spoil(&world, &space, 1, 9);
            let found = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!((found.repaired_blocks, found.unrepaired_blocks), (0, found.mismatched_blocks + 1));
            assert!(found.mismatched_blocks > 0 && spoiled.is_untouched());
        });
    }
}

#[test]
fn with_a_disk_out_what_is_left_is_compared_and_made_readable() {
    story(0, parity(2, 5), |world, pool, space| async move {
        let (disk, _) = place(&space, 4, 0);
        pull(&world, &pool, disk).await;
        hide(&world, &space, 0, 7);
        let spoiled = spoil(&world, &space, 1, 11);
        let found = space.scrub(&Unlimited).await.expect("nobody stops it");
        assert_eq!((found.mismatched_blocks, found.repaired_blocks, found.unrepaired_blocks), (1, 1, 1));
        assert!(spoiled.is_untouched(), "one parity less does not tell which piece is wrong");
        spoiled.undo();
        check(&space).await;
    });
    for (shape, repaired) in [(mirror(3), 1), (mirror(2), 0)] {
        story(1, shape, move |world, pool, space| async move {
            let (disk, _) = place(&space, 0, 0);
            pull(&world, &pool, disk).await;
            hide(&world, &space, 1, 7);
            let found = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!(
                (found.mismatched_blocks, found.repaired_blocks, found.unrepaired_blocks),
                (0, repaired, 1 - repaired)
            );
        });
    }
}

pub async fn pull(world: &World, pool: &Pool, disk: usize) {
    let serial = world.disk(disk).spec().serial.clone();
    world.disk(disk).disappear(Disappearance::Cable);
    let member = pool.disks().into_iter().find(|member| member.record.serial == serial).expect("a member");
    pool.disk_out(member.record.index, DiskState::Missing, "pulled").await.expect("a quorum is there");
}

#[test]
fn a_slab_that_does_not_take_its_repair_is_stale() {
    for (seed, shape) in [mirror(2), mirror(3), parity(1, 4), parity(2, 5)].into_iter().enumerate() {
        story(seed as u64, shape, |world, _, space| async move {
            hide(&world, &space, 1, 4);
            let (disk, at) = place(&space, 1, 4);
            world.disk(disk).fail_writes(at..at + BLOCK_BYTES, ErrorPersistence::Times(1));
            let found = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!((found.repaired_blocks, found.unrepaired_blocks), (0, 1));
            assert_eq!((space.status().state, space.status().stale_slabs), (SpaceState::Degraded, 1));
            check(&space).await;
            world.disk(disk).clear_faults();
            space.write(0, IoSlice::padded(&[byte_of(0); BLOCK]), Durability::Durable).await.expect("it goes on");
            space.maintain_once().await.expect("maintenance works");
            assert_eq!(space.status().stale_slabs, 0);
            let found = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!((found.mismatched_blocks, found.unchecked_bytes), (0, 0));
            check(&space).await;
        });
    }
}

/// The journal is a mirror of one copy more than there is parity.
#[test]
fn journals_are_scrubbed_as_the_mirrors_that_they_are() {
    for (seed, (shape, repaired)) in [(parity(1, 4), 1), (parity(2, 5), 2)].into_iter().enumerate() {
        story(seed as u64, shape, move |world, pool, space| async move {
            let data = IoSlice::padded(&[byte_of(0); BLOCK]);
            space.write(0, data, Durability::Durable).await.expect("it goes to the journal");
            let rows = pool.journal_rows(space.record().id);
            let at = |slab: usize, block: u64| {
                let disk = pool.disk(rows[0].1.slabs[slab].disk()).expect("a member");
                let number = world.disks().iter().position(|found| found.spec().serial == serial(&pool, disk.index));
                let start = disk.area.unit_at(rows[0].1.slabs[slab].unit()) + HEAD_BYTES;
                (world.disk(number.expect("of this machine")), start + block * BLOCK_BYTES)
            };
            // Behind the anchors, the log begins with the first record.
            let (disk, offset) = at(0, 2);
            disk.fail_reads(offset..offset + BLOCK_BYTES, ErrorPersistence::UntilRewritten);
            let (disk, offset) = at(1, 3);
            let spoiled = Spoiled::block(&disk, offset, &world.sim.random());
            let found = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!(
                (found.mismatched_blocks, found.repaired_blocks, found.unrepaired_blocks),
                (1, repaired, 2 - repaired)
            );
            assert!(found.mismatches[0].piece.starts_with("journal copy") && spoiled.is_healed() == (repaired == 2));
            check(&space).await;
        });
    }
}

fn serial(pool: &Pool, disk: u16) -> String {
    pool.disks().into_iter().find(|member| member.record.index == disk).expect("a member").record.serial
}

/// Counts, and stops the work after so many steps.
struct Counting {
    steps_left: AtomicU64,
    largest: AtomicU64,
    done: AtomicU64,
}

impl Counting {
    fn stopping_after(steps: u64) -> Self {
        Self { steps_left: AtomicU64::new(steps), largest: AtomicU64::new(0), done: AtomicU64::new(0) }
    }
}

impl Pace for Counting {
    fn step(&self, bytes: u64) -> Pin<Box<dyn Future<Output = Result<(), Stopped>> + '_>> {
        self.largest.fetch_max(bytes, Ordering::Relaxed);
        let left = self.steps_left.load(Ordering::Relaxed);
        self.steps_left.store(left.saturating_sub(1), Ordering::Relaxed);
        Box::pin(std::future::ready(if left > 0 { Ok(()) } else { Err(Stopped) }))
    }

    fn done(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[test]
fn the_pace_is_asked_before_each_step_and_hears_of_all() {
    for (seed, shape) in [mirror(2), mirror(3), parity(1, 4), parity(2, 6)].into_iter().enumerate() {
        story(seed as u64, shape, |_, _, space| async move {
            let whole = Counting::stopping_after(u64::MAX);
            let found = space.scrub(&whole).await.expect("nobody stops it");
            assert_eq!(whole.done.load(Ordering::Relaxed), space.scrub_bytes(0));
            let largest = whole.largest.load(Ordering::Relaxed);
            assert!((BLOCK_BYTES..=1 << 20).contains(&largest), "{largest}");
            assert!(found.checked_bytes >= BLOCKS * BLOCK_BYTES && found.unchecked_bytes == 0);
            let short = Counting::stopping_after(1);
            assert!(matches!(space.scrub(&short).await, Err(Ended::Stopped)));
            assert!(short.done.load(Ordering::Relaxed) < space.scrub_bytes(0));
        });
    }
}
