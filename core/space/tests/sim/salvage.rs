//! Pools whose metadata is lost on every disk, put together again from the heads of their slabs.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use holdfast_device::sim::{Disappearance, Latency, Sim, SimDiskSpec, SimRandom};
use holdfast_device::{Device, Durability, IoBuf, IoErrorKind, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, Integrity, Layout, Provisioning, Shape};
use holdfast_pool::frame::{Frame, Kind, Position};
use holdfast_pool::slab::{HEAD_BYTES, JournalSpan, SlabHeader, map_at};
use holdfast_pool::{
    Area, JOURNAL_CHUNK, JournalFound, Pool, PoolError, PoolErrorKind, RowRecord, Salvage, SpaceSpec, UNIT_BYTES,
};
use holdfast_space::{Ended, Space, SpaceSettings, Unlimited};

use crate::spoil::Spoiled;
use crate::world::World;
use holdfast_harness::over_seeds;

const BLOCK: usize = BLOCK_BYTES as usize;
const MIB: u64 = 1 << 20;

pub fn machine(seed: u64, disks: usize, latency: Latency) -> World {
    let spec = |index| SimDiskSpec {
        name: format!("disk{index}"),
        serial: format!("S{index}"),
        size_bytes: 64 * MIB,
        tear_bytes: 4096,
        latency,
        ..SimDiskSpec::default()
    };
    let sim = Sim::new(seed);
    sim.limit_steps(20_000_000);
    World::new(sim, (0..disks).map(spec).collect())
}

fn shape(layout: Layout, columns: u16) -> Shape {
    Shape::plain(layout, columns, ByteSize::kib(64))
}

fn mirror(copies: u8, columns: u16) -> Shape {
    shape(Layout::Mirror { copies }, columns)
}

pub fn parity(parity: u8, columns: u16) -> Shape {
    shape(Layout::Parity { parity }, columns)
}

fn summed(shape: Shape) -> Shape {
    shape.with_integrity(Integrity::Crc32c)
}

pub fn create(world: &World, shape: Shape, provisioning: Provisioning, size_bytes: u64) -> (Arc<Pool>, Arc<Space>) {
    let create = world.create("tank");
    let made = world.sim.run(async move {
        let pool = create.await;
        let name = "vol".parse().expect("a name");
        let spec = SpaceSpec { name, shape, provisioning, size_bytes, journal_bytes: None, enclosure_aware: false };
        let record = pool.create_space(spec).await.expect("there is room");
        let space = Space::open(pool.clone(), record.id, SpaceSettings::default()).expect("just made");
        (pool, space)
    });
    made.expect("no power cut is planned")
}

/// Both labels and the whole reserved area of every disk become zeros.
pub fn lose_metadata(world: &World) {
    for disk in world.disks() {
        let area = Area::of_disk("", disk.geometry().size_bytes).expect("a good size");
        let [front, end] = area.labels();
        disk.poke(front, &vec![0; area.reserved_bytes as usize]);
        disk.poke(end, &[0; BLOCK]);
    }
}

pub fn look(world: &World) -> Result<Salvage, PoolError> {
    let candidates = world.candidates();
    world.sim.run(Salvage::look(candidates, None)).expect("no power cut is planned")
}

pub fn write(world: &World) {
    let (env, candidates) = (world.env(), world.candidates());
    let written = world.sim.run(async move {
        let salvage = Salvage::look(candidates, None).await.expect("slabs are there");
        salvage.write(&env, "saved".parse().expect("a name")).await
    });
    written.expect("no power cut is planned").expect("nothing stands in the way");
}

/// Loses all metadata, puts the pool together again, and imports it.
pub fn salvaged(world: &World) -> (Arc<Pool>, Arc<Space>) {
    lose_metadata(world);
    write(world);
    let (pool, space) = world.reopen();
    assert_eq!(pool.name().as_str(), "saved");
    assert!(space.is_read_only());
    (pool, space)
}

pub fn restart(world: &World) {
    world.sim.cut_power();
    world.sim.restart();
}

pub fn data(byte: u8, blocks: usize) -> IoSlice {
    IoSlice::padded(&vec![byte; blocks * BLOCK])
}

pub async fn byte_at(space: &Space, offset: u64) -> u8 {
    let block = space.read(offset, IoBuf::new(BLOCK)).await.expect("it can be read");
    assert!(block.iter().all(|byte| *byte == block[0]), "a block is of one piece");
    block[0]
}

/// A block that was discarded, and came back as a power cut had left it: of several pieces, none of which anybody may
/// ask for.
const TORN: u8 = 255;

/// What each block of a space holds, or may hold while a write is not answered.
#[derive(Clone)]
struct Model(Rc<RefCell<Vec<(u8, u8)>>>);

impl Model {
    fn new(size_bytes: u64) -> Self {
        Self(Rc::new(RefCell::new(vec![(0, 0); (size_bytes / BLOCK_BYTES) as usize])))
    }

    async fn write(&self, space: &Space, first: usize, blocks: usize, byte: u8) {
        self.0.borrow_mut()[first..first + blocks].iter_mut().for_each(|block| block.1 = byte);
        let offset = first as u64 * BLOCK_BYTES;
        match byte {
            0 => space.discard(offset, blocks as u64 * BLOCK_BYTES, Durability::Durable).await,
            byte => space.write(offset, data(byte, blocks), Durability::Durable).await,
        }
        .expect("room is there");
        self.0.borrow_mut()[first..first + blocks].iter_mut().for_each(|block| block.0 = byte);
    }

    async fn check(&self, space: &Space) {
        self.check_but(space, false).await;
    }

    /// Checks all that was written. After a salvage, what was discarded may have come back with a row that was given
    /// back.
    async fn check_but(&self, space: &Space, salvaged: bool) {
        let blocks = self.0.borrow().clone();
        for (at, (old, new)) in blocks.into_iter().enumerate() {
            if salvaged && old == 0 {
                if let Ok(block) = space.read(at as u64 * BLOCK_BYTES, IoBuf::new(BLOCK)).await {
                    let held = if block.iter().all(|byte| *byte == block[0]) { block[0] } else { TORN };
                    self.0.borrow_mut()[at] = (held, held);
                }
                continue;
            }
            if old == TORN {
                continue;
            }
            let read = byte_at(space, at as u64 * BLOCK_BYTES).await;
            assert!(read == old || read == new, "block {at} holds {read}, not {old} or {new}");
            self.0.borrow_mut()[at] = (read, read);
        }
    }

    /// Writes and discards at random, each durable when it is answered.
    async fn churn(&self, space: &Space, random: &SimRandom, times: u64) {
        let blocks = self.0.borrow().len() as u64;
        for _ in 0..times {
            let len = random.range(1..80).min(blocks);
            let first = random.range(0..blocks - len + 1);
            let (first, len, byte) = match random.range(0..6) {
                // A whole chunk or more, so that rows are given back.
                0 => ((first / 256 * 256) as usize, 512.min((blocks - first / 256 * 256) as usize), 0),
                _ => (first as usize, len as usize, random.range(1..250) as u8),
            };
            self.write(space, first, len, byte).await;
            if random.range(0..10) == 0 {
                space.maintain_once().await.expect("nothing is wrong");
            }
        }
    }
}

#[test]
fn a_pool_that_lost_all_metadata_reads_as_before() {
    for (shape, disks) in [
        (shape(Layout::Simple, 2), 3),
        (summed(mirror(2, 1)), 3),
        (mirror(3, 2), 6),
        (parity(1, 3), 4),
        (parity(2, 5), 6),
    ] {
        let world = machine(1, disks, Latency::None);
        let size = 8 * MIB;
        let (_pool, space) = create(&world, shape, Provisioning::Thin, size);
        let (model, random) = (Model::new(size), world.sim.random());
        let churned = model.clone();
        world.sim.run(async move { churned.churn(&space, &random, 60).await }).expect("no power cut is planned");
        restart(&world);
        let (_pool, space) = salvaged(&world);
        let checked = model.clone();
        let after = world.sim.run(async move {
            checked.check(&space).await;
            let refused = space.write(0, data(9, 1), Durability::Durable).await.expect_err("nobody accepted it");
            assert_eq!(refused.kind, IoErrorKind::ReadOnly, "{refused}");
            let refused = space.shrink(size / 2, true).await.expect_err("nobody accepted it");
            assert!(refused.kind == PoolErrorKind::ReadOnly && refused.context.contains("accept"), "{refused}");
            assert_eq!(space.grow(2 * size).await.expect_err("nobody accepted it").kind, PoolErrorKind::ReadOnly);
            assert!(space.accept().await.expect("a quorum is there") && !space.accept().await.expect("as before"));
            checked.write(&space, 0, 1, 9).await;
        });
        after.expect("no power cut is planned");
        restart(&world);
        let (_pool, space) = world.reopen();
        assert!(!space.is_read_only());
        world.sim.run(async move { model.check(&space).await }).expect("no power cut is planned");
    }
}

#[test]
fn the_report_tells_what_is_whole_and_what_is_lost() {
    for (shape, disks, lost) in
        [(mirror(2, 1), 2, 1), (mirror(3, 1), 3, 2), (parity(1, 3), 3, 1), (parity(2, 5), 5, 2), (mirror(2, 1), 2, 0)]
    {
        let world = machine(2, disks, Latency::None);
        let (_pool, space) = create(&world, shape, Provisioning::Thin, 64 * MIB);
        let written = world.sim.run(async move {
            for chunk in [0, 2] {
                space.write(chunk * space.record().chunk_bytes, data(5, 3), Durability::Durable).await.expect("room");
            }
            space.close().await.expect("closes");
            space.record()
        });
        let record = written.expect("no power cut is planned");
        restart(&world);
        lose_metadata(&world);
        let found = |salvage: &Salvage| {
            let [space] = salvage.spaces.as_slice() else { panic!("one space") };
            assert_eq!((space.name.as_str(), space.size_bytes, space.id), ("vol", 64 * MIB, record.uuid));
            assert_eq!((space.shape, space.provisioning, space.number), (shape, Provisioning::Thin, record.id));
            (space.chunks, space.journal)
        };
        let salvage = look(&world).expect("slabs are there");
        assert_eq!((salvage.name.as_str(), salvage.disks.len(), &salvage.obstacle), ("tank", disks, &None));
        let (chunks, journal) = found(&salvage);
        assert_eq!((chunks.complete, chunks.degraded, chunks.missing, chunks.conflicting), (2, 0, 0, 0));
        assert_eq!(chunks.absent, u64::from(record.chunks()) - 2);
        assert_eq!(journal, (shape.layout.parity() > 0).then_some(JournalFound::Complete));
        (0..lost).for_each(|disk| world.disk(disk).disappear(Disappearance::Cable));
        let (chunks, journal) = found(&look(&world).expect("slabs are there"));
        let degraded = if lost > 0 { 2 } else { 0 };
        assert_eq!((chunks.complete, chunks.degraded, chunks.missing), (2 - degraded, degraded, 0));
        assert_eq!(journal.is_some(), shape.layout.parity() > 0);
        if lost + 1 < disks {
            world.disk(lost).disappear(Disappearance::Cable);
            let (chunks, _) = found(&look(&world).expect("slabs are there"));
            let missing = if lost == 0 || shape.layout.tolerates() as usize > lost { 0 } else { 2 };
            assert_eq!(chunks.missing, missing, "{shape} without {} disks", lost + 1);
        }
    }
}

#[test]
fn what_is_lost_fails_and_never_reads_as_zeros() {
    let world = machine(3, 2, Latency::None);
    let (_pool, space) = create(&world, shape(Layout::Simple, 2), Provisioning::Thin, 8 * MIB);
    let written = world.sim.run(async move { space.write(0, data(7, 64), Durability::Durable).await });
    written.expect("no power cut is planned").expect("room");
    restart(&world);
    lose_metadata(&world);
    world.disk(1).disappear(Disappearance::Cable);
    assert_eq!(look(&world).expect("slabs are there").spaces[0].chunks.missing, 1);
    write(&world);
    let (_pool, space) = world.reopen();
    let read = world.sim.run(async move {
        for block in 0..64u64 {
            if let Ok(block) = space.read(block * BLOCK_BYTES, IoBuf::new(BLOCK)).await {
                assert_eq!(block[0], 7);
            }
        }
        space.read(0, IoBuf::new(64 * BLOCK)).await
    });
    assert!(read.expect("no power cut is planned").is_err());
}

#[test]
fn a_space_with_a_lost_disk_is_repaired_once_it_is_accepted() {
    for shape in [mirror(2, 1), parity(1, 3)] {
        let world = machine(4, 4, Latency::None);
        let (_pool, space) = create(&world, shape, Provisioning::Thin, 8 * MIB);
        let (model, random) = (Model::new(8 * MIB), world.sim.random());
        let churned = model.clone();
        world.sim.run(async move { churned.churn(&space, &random, 30).await }).expect("no power cut is planned");
        restart(&world);
        world.disk(0).disappear(Disappearance::Cable);
        let (pool, space) = salvaged(&world);
        let repaired = world.sim.run(async move {
            model.check(&space).await;
            space.rebuild(&Unlimited).await.expect("it does nothing");
            assert!(space.status().stale_slabs > 0, "nothing is rebuilt before it is accepted");
            space.accept().await.expect("a quorum is there");
            space.rebuild(&Unlimited).await.expect("there is room");
            assert_eq!(space.status().stale_slabs, 0, "{:?}", pool.disks());
            model.check(&space).await;
            assert!(space.verify().await.expect("it can be read").mismatches.is_empty());
        });
        repaired.expect("no power cut is planned");
    }
}

#[test]
fn a_copy_that_missed_writes_is_not_believed() {
    let mut found = 0;
    for shape in [mirror(2, 1), summed(mirror(3, 1)), parity(1, 3), summed(parity(2, 4))] {
        let world = machine(5, shape.width(), Latency::None);
        let (pool, space) = create(&world, shape, Provisioning::Thin, 8 * MIB);
        let (model, random) = (Model::new(8 * MIB), world.sim.random());
        let (pulled, churned) = (world.disk(0), model.clone());
        let done = world.sim.run(async move {
            churned.churn(&space, &random, 20).await;
            space.maintain_once().await.expect("nothing is wrong");
            let member = pool.disks().into_iter().find(|disk| disk.record.path == "/sim/0").expect("a member");
            pulled.disappear(Disappearance::Cable);
            pool.disk_out(member.record.index, DiskState::Missing, "pulled").await.expect("a quorum is there");
            churned.churn(&space, &random, 40).await;
        });
        done.expect("no power cut is planned");
        restart(&world);
        world.disk(0).reappear();
        let (pool, space) = salvaged(&world);
        let checked = world.sim.run(async move {
            model.check(&space).await;
            let id = space.record().id;
            let behind = || {
                let slabs = pool.rows(id).into_iter().flat_map(|(_, row)| row.slabs);
                slabs.filter(|slab| slab.stale() && pool.disk_state(slab.disk()) == Some(DiskState::Online)).count()
            };
            let before = behind();
            space.maintain_once().await.expect("it does nothing");
            assert_eq!(behind(), before, "nothing is brought in step before it is accepted");
            let disk = pool.row(id, pool.chunks_from(id, 0, 1)[0]).expect("it has a row").slabs[0].disk();
            for refused in [space.leave(disk, &Unlimited).await, space.convert(Provisioning::Thin, &Unlimited).await] {
                assert!(
                    matches!(&refused, Err(Ended::Failed(why)) if why.kind == IoErrorKind::ReadOnly),
                    "{refused:?}"
                );
            }
            assert!(pool.balance().moves.is_empty(), "{shape}");
            space.accept().await.expect("a quorum is there");
            space.maintain_once().await.expect("nothing is wrong");
            assert_eq!(behind(), 0, "{shape}");
            model.check(&space).await;
            before
        });
        found += checked.expect("no power cut is planned");
    }
    assert!(found > 0, "some copy missed writes");
}

#[test]
fn a_slab_left_behind_by_a_rebuild_is_not_taken_for_the_new_one() {
    for shape in [mirror(2, 1), parity(1, 3)] {
        let world = machine(6, shape.width() + 1, Latency::None);
        let (pool, space) = create(&world, shape, Provisioning::Thin, 4 * MIB);
        let (model, random) = (Model::new(4 * MIB), world.sim.random());
        let (pulled, churned) = (world.disk(0), model.clone());
        let done = world.sim.run(async move {
            churned.churn(&space, &random, 20).await;
            let member = pool.disks().into_iter().find(|disk| disk.record.path == "/sim/0").expect("a member");
            pulled.disappear(Disappearance::Cable);
            pool.disk_out(member.record.index, DiskState::Missing, "pulled").await.expect("a quorum is there");
            churned.churn(&space, &random, 10).await;
            space.rebuild(&Unlimited).await.expect("there is room");
            churned.churn(&space, &random, 20).await;
        });
        done.expect("no power cut is planned");
        restart(&world);
        world.disk(0).reappear();
        let (_pool, space) = salvaged(&world);
        world.sim.run(async move { model.check(&space).await }).expect("no power cut is planned");
    }
}

/// Rows that move, moves that a power cut ends, life that goes on with the old or the new row, and metadata lost after
/// any of it.
#[test]
fn rows_that_moved_or_were_about_to_are_told_apart() {
    over_seeds(60, tell_moves_apart);
}

/// The first commit after an opening, cut short, leaves too few slabs with the newest maps: the row counts all the
/// same, and not the one that was to replace it.
#[test]
fn a_row_counts_whose_first_commit_was_cut_short() {
    tell_moves_apart(208);
}

/// A row is replaced, its room used again, and the headers of the new one still say that it is only to replace it.
#[test]
fn a_row_counts_that_replaced_one_whose_room_was_used_again() {
    tell_moves_apart(5877);
}

fn tell_moves_apart(seed: u64) {
    let world = machine(seed, 6, if seed.is_multiple_of(2) { Latency::None } else { Latency::Ssd });
    let shapes = [
        mirror(2, 1),
        summed(mirror(2, 2)),
        mirror(3, 1),
        parity(1, 3),
        summed(parity(1, 4)),
        parity(2, 4),
        shape(Layout::Simple, 3),
    ];
    let random = world.sim.random();
    let pick = |random: &SimRandom| shapes[random.range(0..shapes.len() as u64) as usize];
    let size = 6 * MIB;
    let (_pool, mut space) = create(&world, pick(&random), Provisioning::Thin, size);
    let model = Model::new(size);
    let (churned, first, draws) = (model.clone(), space.clone(), world.sim.random());
    world.sim.run(async move { churned.churn(&first, &draws, 20).await }).expect("no power cut is planned");
    for round in 0..3 {
        let (wanted, again, draws) = (pick(&random), model.clone(), world.sim.random());
        world.sim.cut_power_after(random.range(0..300));
        let (spawner, clock) = (world.sim.clone(), world.sim.clock());
        let _ = world.sim.run(async move {
            let moved = space.clone();
            let conversion = spawner.spawn_handle(async move {
                moved.reshape(wanted, Provisioning::Thin, None).await.expect("there is room");
                moved.convert(Provisioning::Thin, &Unlimited).await.expect("there is room");
            });
            again.churn(&space, &draws, 15).await;
            conversion.await;
            clock.sleep(Duration::from_millis(1)).await;
        });
        restart(&world);
        let salvage_now = random.range(0..3) == 0 || round == 2;
        let lost = salvage_now
            && look(&world).is_ok_and(|salvage| salvage.spaces.iter().any(|space| space.chunks.missing > 0));
        let (_pool, now) = if salvage_now { salvaged(&world) } else { world.reopen() };
        if salvage_now {
            let (last, checked) = (now.clone(), model.clone());
            world.sim.run(async move { checked.check_but(&last, true).await }).expect("no power cut is planned");
        }
        // What is left of a row that was given back fails, and goes on failing.
        if lost {
            return;
        }
        let (checked, opened, draws) = (model.clone(), now.clone(), world.sim.random());
        let checked = world.sim.run(async move {
            checked.check(&opened).await;
            opened.accept().await.expect("a quorum is there");
            checked.churn(&opened, &draws, 10).await;
        });
        checked.expect("no power cut is planned");
        space = now;
    }
}

#[test]
fn a_salvage_that_is_cut_short_can_be_done_again() {
    for cut in 0..24 {
        let world = machine(7, 4, Latency::None);
        let (_pool, space) = create(&world, mirror(2, 1), Provisioning::Thin, 8 * MIB);
        let written = world.sim.run(async move { space.write(0, data(3, 300), Durability::Durable).await });
        written.expect("no power cut is planned").expect("room");
        restart(&world);
        lose_metadata(&world);
        let (env, candidates) = (world.env(), world.candidates());
        world.sim.cut_power_after(cut);
        let _ = world.sim.run(async move {
            let salvage = Salvage::look(candidates, None).await.expect("slabs are there");
            salvage.write(&env, "saved".parse().expect("a name")).await
        });
        restart(&world);
        write(&world);
        let (_pool, space) = world.reopen();
        let read = world.sim.run(async move { byte_at(&space, 299 * BLOCK_BYTES).await });
        assert_eq!(read, Ok(3), "cut after {cut} writes");
    }
}

#[test]
fn whole_metadata_stands_in_the_way_of_a_salvage() {
    let world = machine(8, 3, Latency::None);
    let (_pool, space) = create(&world, mirror(2, 1), Provisioning::Thin, 8 * MIB);
    let written = world.sim.run(async move { space.write(0, data(3, 1), Durability::Durable).await });
    written.expect("no power cut is planned").expect("room");
    restart(&world);
    let salvage = look(&world).expect("slabs are there");
    let why = salvage.obstacle.clone().expect("the pool can be imported");
    assert!(why.contains("import it"), "{why}");
    let env = world.env();
    let refused = world.sim.run(async move { salvage.write(&env, "saved".parse().expect("a name")).await });
    assert!(refused.expect("no power cut is planned").is_err());
}

#[test]
fn a_disk_of_the_lost_history_is_not_believed_later() {
    let world = machine(9, 3, Latency::None);
    let (_pool, space) = create(&world, mirror(3, 1), Provisioning::Thin, 8 * MIB);
    let written = world.sim.run(async move { space.write(0, data(3, 1), Durability::Durable).await });
    written.expect("no power cut is planned").expect("room");
    restart(&world);
    let kept: Vec<u8> = world.disk(2).peek(0, 4 * MIB as usize);
    let (pool, space) = salvaged(&world);
    drop((pool, space));
    restart(&world);
    world.disk(2).poke(0, &kept);
    let (pool, _space) = world.reopen();
    assert_eq!(pool.name().as_str(), "saved");
    assert!(pool.spaces()[0].read_only);
}

#[test]
fn disks_without_slabs_are_no_pool() {
    let world = machine(10, 2, Latency::None);
    let error = look(&world).err().expect("nothing is there").to_string();
    assert!(error.contains("name all disks"), "{error}");
}

/// Puts a header of a slab on a disk, as the pool itself would have written it there.
fn forge(
    world: &World,
    pool: &Pool,
    disk: usize,
    offset: u64,
    (chunk, journal): (u32, Option<JournalSpan>),
    row: &RowRecord,
) {
    let space = &pool.spaces()[0];
    let header = SlabHeader::new(pool.name().clone(), space, chunk, row, 0, journal);
    let position = Position { generation: row.id, sequence: 0 };
    forge_block(world, pool, disk, offset, Kind::SlabHeader, position, &header.write());
}

fn forge_block(world: &World, pool: &Pool, disk: usize, offset: u64, kind: Kind, position: Position, payload: &[u8]) {
    let path = format!("/sim/{disk}");
    let member = pool.disks().into_iter().find(|member| member.record.path == path).expect("a member").record.id;
    let frame = Frame { kind, pool: pool.id(), disk: member, offset, position, previous: 0 };
    world.disk(disk).poke(offset, &frame.seal(payload));
}

#[test]
fn headers_and_maps_that_cannot_be_do_not_stand_in_the_way() {
    let world = machine(11, 2, Latency::None);
    let (pool, space) = create(&world, mirror(2, 1), Provisioning::Thin, 8 * MIB);
    let written = world.sim.run(async move {
        space.write(0, data(3, 300), Durability::Durable).await.expect("room");
        space.close().await.expect("closes");
        space.map()
    });
    let map = written.expect("no power cut is planned");
    restart(&world);
    lose_metadata(&world);
    let row = RowRecord { id: 1 << 20, ..pool.row(pool.spaces()[0].id, 0).expect("it was written to") };
    forge(&world, &pool, 0, UNIT_BYTES, (5, None), &row);
    forge(&world, &pool, 0, 63 * MIB, (6, None), &row);
    // Maps of numbers that nobody comes to, on one copy only.
    let slab = map[0].slabs.iter().find(|slab| slab.path == "/sim/0").expect("a copy on each disk");
    let row = pool.row(pool.spaces()[0].id, 0).expect("it was written to").id;
    for number in [0, 1] {
        let position = Position { generation: row, sequence: u64::MAX };
        forge_block(&world, &pool, 0, slab.offset_bytes + map_at(number, 0), Kind::BlockMap, position, &[0; 4]);
    }
    write(&world);
    let (_pool, space) = world.reopen();
    let read = world.sim.run(async move { (byte_at(&space, 0).await, byte_at(&space, 299 * BLOCK_BYTES).await) });
    assert_eq!(read, Ok((3, 3)));
}

#[test]
fn a_journal_that_a_row_is_missing_of_is_lost() {
    let world = machine(12, 3, Latency::None);
    let (pool, space) = create(&world, parity(1, 3), Provisioning::Thin, 8 * MIB);
    let written = world.sim.run(async move { space.write(0, data(3, 300), Durability::Durable).await });
    written.expect("no power cut is planned").expect("room");
    restart(&world);
    lose_metadata(&world);
    assert_eq!(look(&world).expect("slabs are there").spaces[0].journal, Some(JournalFound::Complete));
    let (chunk, row) = pool.journal_rows(pool.spaces()[0].id)[0].clone();
    assert_eq!(chunk, JOURNAL_CHUNK);
    let journal = Some(JournalSpan { first: chunk, rows: 3 });
    for disk in [0, 1] {
        forge(&world, &pool, disk, 50 * MIB, (chunk + 2, journal), &RowRecord { id: row.id + 2, ..row.clone() });
    }
    assert_eq!(look(&world).expect("slabs are there").spaces[0].journal, Some(JournalFound::Lost));
}

#[test]
fn spaces_of_one_name_are_told_apart_from_all_others() {
    let world = machine(13, 2, Latency::None);
    let (pool, space) = create(&world, mirror(2, 1), Provisioning::Thin, 8 * MIB);
    let first = space.record().id;
    let made = world.sim.run(async move {
        // The last of its rows stays when the units of the others are given to the spaces that are made after it.
        for chunk in [0, 1, 2] {
            space.write(chunk * space.record().chunk_bytes, data(1, 1), Durability::Durable).await.expect("room");
        }
        pool.destroy_space(first).await.expect("a quorum is there");
        for name in ["vol".to_string(), format!("vol-{first}")] {
            let (name, shape, provisioning) = (name.parse().expect("a name"), mirror(2, 1), Provisioning::Thin);
            let spec = SpaceSpec {
                name,
                shape,
                provisioning,
                size_bytes: 8 * MIB,
                journal_bytes: None,
                enclosure_aware: false,
            };
            let record = pool.create_space(spec).await.expect("there is room");
            let space = Space::open(pool.clone(), record.id, SpaceSettings::default()).expect("just made");
            space.write(0, data(2, 1), Durability::Durable).await.expect("room");
        }
    });
    made.expect("no power cut is planned");
    restart(&world);
    lose_metadata(&world);
    let mut names: Vec<String> =
        look(&world).expect("slabs are there").spaces.iter().map(|space| space.name.to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn a_slab_that_moved_after_a_restart_leaves_its_row_complete() {
    for shape in [mirror(2, 1), summed(mirror(3, 1)), parity(1, 3)] {
        let world = machine(14, shape.width(), Latency::None);
        let (_pool, space) = create(&world, shape, Provisioning::Thin, 16 * MIB);
        let written = world.sim.run(async move {
            space.write(0, data(3, 4096), Durability::Durable).await.expect("room");
            space.close().await.expect("closes");
        });
        written.expect("no power cut is planned");
        restart(&world);
        let (pool, space) = world.reopen();
        let spec = SimDiskSpec {
            name: "new".into(),
            serial: "new".into(),
            size_bytes: 64 * MIB,
            tear_bytes: 4096,
            ..SimDiskSpec::default()
        };
        let added = world.insert(spec);
        let candidate = world.candidate(added);
        let moved = world.sim.run(async move {
            pool.add_disks(vec![candidate]).await.expect("a blank disk");
            let mut moved = 0;
            for planned in pool.balance().moves {
                moved += usize::from(space.move_slab(&planned, &Unlimited).await.expect("the pool takes changes"));
            }
            moved
        });
        assert!(moved.expect("no power cut is planned") > 0);
        restart(&world);
        lose_metadata(&world);
        let salvage = look(&world).expect("slabs are there");
        let chunks = salvage.spaces[0].chunks;
        assert_eq!((chunks.degraded, chunks.missing), (0, 0), "{shape}: {:?}", salvage.spaces[0].doubts);
    }
}

#[test]
fn a_scrub_tells_and_mends_nothing_before_the_space_is_accepted() {
    let world = machine(14, 3, Latency::None);
    let (_pool, space) = create(&world, mirror(3, 1), Provisioning::Thin, MIB);
    let written = world.sim.run(async move {
        space.write(0, data(7, 40), Durability::Durable).await.expect("room");
        space.close().await.expect("closes");
        space.map()
    });
    let slab = written.expect("no power cut is planned")[0].slabs[1].clone();
    restart(&world);
    let (_pool, space) = salvaged(&world);
    let index: usize = slab.path.trim_start_matches("/sim/").parse().expect("a number");
    let spoiled =
        Spoiled::block(&world.disk(index), slab.offset_bytes + HEAD_BYTES + 9 * BLOCK_BYTES, &world.sim.random());
    let done = world.sim.run(async move {
        for _ in 0..2 {
            let found = space.scrub(&Unlimited).await.expect("all can be read");
            assert_eq!((found.mismatched_blocks, found.repaired_blocks, found.unrepaired_blocks), (1, 0, 1));
            assert!(spoiled.is_untouched(), "it is reported and left");
        }
        assert!(space.accept().await.expect("a quorum is there"));
        let found = space.scrub(&Unlimited).await.expect("all can be read");
        assert_eq!((found.mismatched_blocks, found.repaired_blocks, found.unrepaired_blocks), (1, 1, 0));
        assert!(spoiled.is_healed());
    });
    done.expect("no power cut is planned");
}
