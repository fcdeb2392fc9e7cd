//! What a space offers besides reads and writes: each copy by itself and the word of whoever knows which is right,
//! checksums that come with a write, regions that stay marked.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use holdfast_device::sim::{Disappearance, ErrorPersistence, Sim, SimDiskSpec, SimRandom};
use holdfast_device::{Copies, Durability, Hints, Integrity, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::wire::crc32c;
use holdfast_model::{self as terms, BLOCK_BYTES, ByteSize, DiskState, Layout, Provisioning, Shape};
use holdfast_pool::slab::HEAD_BYTES;
use holdfast_pool::{Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings, Unlimited};

use crate::model::Model;
use crate::scrub::{mirror, parity, place, pull, story};
use crate::spoil::spoil;
use crate::world::World;

const BLOCK: usize = BLOCK_BYTES as usize;
const SIZE_BYTES: u64 = 2 << 20;
const SEEDS: u64 = 200;
const CLIENTS: u32 = 2;
/// What a look at every block reads at a time.
const STRIDE: usize = 64 << 10;

/// A machine with one space, over its power-ons.
struct Life {
    world: World,
    model: Model,
    shape: Shape,
    settings: SpaceSettings,
    /// Spaces that were opened, of which what must hold is asserted after every step.
    open: Rc<RefCell<Vec<Weak<Space>>>>,
}

type Up = (Arc<Pool>, Arc<Space>);

fn crcs_of(data: &[u8]) -> Vec<u32> {
    data.chunks(BLOCK).map(crc32c).collect()
}

fn summed(shape: Shape) -> Shape {
    shape.with_integrity(terms::Integrity::Crc32c)
}

fn draw_shape(random: &SimRandom) -> Shape {
    let kib = ByteSize::kib([16, 64][random.range(0..2usize)]);
    let shape = match random.range(0..5u32) {
        0 => Shape::plain(Layout::Simple, random.range(1..3u16), kib),
        1 => Shape::plain(Layout::Mirror { copies: 2 }, random.range(1..3u16), kib),
        2 => Shape::plain(Layout::Mirror { copies: 3 }, 1, kib),
        3 => Shape::plain(Layout::Parity { parity: 1 }, random.range(3..5u16), kib),
        _ => Shape::plain(Layout::Parity { parity: 2 }, random.range(4..6u16), kib),
    };
    if random.chance(1, 2) { summed(shape) } else { shape }
}

fn draw_range(random: &SimRandom) -> (u64, usize) {
    let blocks = SIZE_BYTES / BLOCK_BYTES;
    let start = random.range(0..blocks);
    let most = if random.chance(1, 8) { 96 } else { 6 };
    let count = random.range(1..=most.min(blocks - start));
    (start * BLOCK_BYTES, (count * BLOCK_BYTES) as usize)
}

impl Life {
    fn new(seed: u64, shape: impl FnOnce(&SimRandom) -> Shape) -> Rc<Self> {
        let sim = Sim::new(seed);
        sim.limit_steps(5_000_000);
        let random = sim.random();
        let shape = shape(&random);
        let tear_bytes = [512, 4096][random.range(0..2usize)];
        let spec = |index| SimDiskSpec {
            name: format!("disk{index}"),
            serial: format!("S{index}"),
            size_bytes: 96 << 20,
            tear_bytes,
            ..SimDiskSpec::default()
        };
        let disks = usize::from(shape.columns) * usize::from(shape.layout.copies());
        let settings = SpaceSettings {
            open_rows: 2,
            write_buffer_bytes: [16 << 10, 256 << 10, 16 << 20][random.range(0..3usize)],
            staged_bytes: [0, usize::MAX][random.range(0..2usize)],
            compare_given: random.chance(1, 2),
            ..SpaceSettings::default()
        };
        let open: Rc<RefCell<Vec<Weak<Space>>>> = Rc::default();
        let watched = open.clone();
        sim.after_every_step(move || watched.borrow().iter().filter_map(Weak::upgrade).for_each(|space| space.check()));
        let world = World::new(sim, (0..disks).map(spec).collect());
        Rc::new(Self { world, model: Model::new(SIZE_BYTES, tear_bytes as usize), shape, settings, open })
    }

    fn run<F: Future<Output = ()> + 'static>(&self, tell: F) {
        self.world.sim.run(tell).expect("no power cut is planned");
    }

    fn open(&self, pool: &Arc<Pool>, id: u32) -> Arc<Space> {
        let space = Space::open(pool.clone(), id, self.settings).expect("it is there");
        self.open.borrow_mut().push(Arc::downgrade(&space));
        space
    }

    fn create(self: &Rc<Self>) -> Up {
        let (create, life) = (self.world.create("tank"), self.clone());
        let made = self.world.sim.run(async move {
            let pool = create.await;
            let (name, shape) = ("vol".parse().expect("a name"), life.shape);
            let (provisioning, size_bytes) = (Provisioning::Thin, SIZE_BYTES);
            let spec = SpaceSpec { name, shape, provisioning, size_bytes, journal_bytes: None, enclosure_aware: false };
            let record = pool.create_space(spec).await.expect("a thin space takes no room");
            let space = life.open(&pool, record.id);
            (pool, space)
        });
        made.expect("no power cut yet")
    }

    /// After a crash: all disks are there again, and what is read is what the space holds from now on.
    fn power_on(self: &Rc<Self>) -> Up {
        self.world.sim.restart();
        self.model.crash();
        for disk in self.world.disks() {
            disk.clear_faults();
            if !disk.is_present() {
                disk.reappear();
            }
        }
        let (import, life) = (self.world.import(), self.clone());
        let up = self.world.sim.run(async move {
            let pool = import.await.expect("enough disks are there");
            let space = life.open(&pool, pool.spaces()[0].id);
            for offset in (0..SIZE_BYTES).step_by(STRIDE) {
                let data = space.read(offset, IoBuf::new(STRIDE)).await.expect("everything can be read");
                life.model.settle(offset, &data).unwrap_or_else(|why| panic!("{why}"));
            }
            life.back_in_step(&pool, &space).await;
            (pool, space)
        });
        up.expect("no power cut is planned")
    }

    async fn back_in_step(&self, pool: &Pool, space: &Space) {
        for _ in 0..20 {
            for member in pool.disks().into_iter().filter(|member| member.record.state != DiskState::Online) {
                let index = member.record.serial.trim_start_matches('S').parse().expect("a number");
                pool.disk_back(self.world.candidate(index)).await.expect("a member");
            }
            space.maintain_once().await.expect("maintenance works");
            if space.status().stale_slabs == 0 {
                return;
            }
        }
        panic!("a slab does not come in step: {:?}", space.status());
    }

    /// Writes with or without checksums, as a durable write, or as the right content.
    async fn write(&self, space: &Space, random: &SimRandom) {
        let (offset, len) = draw_range(random);
        let begun = self.model.begin(offset, len, false);
        let data = IoSlice::padded(&self.model.payload(&begun));
        let durable = random.chance(1, 3);
        let durability = if durable { Durability::Durable } else { Durability::Cached };
        let (result, durable) = match random.range(0..3u32) {
            0 => (space.rewrite(offset, data).await, true),
            1 => (space.write_summed(offset, data.clone(), &crcs_of(&data), durability).await, durable),
            _ => (space.write(offset, data, durability).await, durable),
        };
        self.model.end(&begun, result.is_ok(), durable);
    }

    async fn discard(&self, space: &Space, random: &SimRandom) {
        let (offset, len) = draw_range(random);
        let begun = self.model.begin(offset, len, true);
        let result = space.discard(offset, len as u64, Durability::Cached).await;
        self.model.end(&begun, result.is_ok(), false);
    }

    async fn flush(&self, space: &Space) {
        let flush = self.model.begin_flush();
        if space.flush().await.is_ok() {
            self.model.end_flush(flush);
        }
    }

    /// A copy, or the whole where `n` is `None`, is what the model says. Answers whether it could be read.
    async fn look(&self, space: &Space, n: Option<usize>, offset: u64, len: usize) -> Result<(), IoError> {
        let reading = self.model.begin_read(offset, len);
        let read = match n {
            Some(n) => space.read_copy(n, offset, IoBuf::new(len)).await,
            None => space.read(offset, IoBuf::new(len)).await,
        };
        match read {
            Ok(data) => self.model.check_read(&reading, &data).unwrap_or_else(|why| panic!("copy {n:?}: {why}")),
            Err(error) => {
                self.model.abandon(reading);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn client(self: Rc<Self>, space: Arc<Space>) {
        let random = self.world.sim.random();
        for _ in 0..random.range(10..40u32) {
            let (offset, len) = draw_range(&random);
            match random.range(0..14u32) {
                0..=5 => self.write(&space, &random).await,
                6 => self.discard(&space, &random).await,
                7 => self.flush(&space).await,
                8 => self.look(&space, None, offset, len).await.expect("one bad disk is borne"),
                9..=11 => {
                    let n = random.range(0..space.copies(offset, len as u64));
                    let _ = self.look(&space, Some(n), offset, len).await;
                }
                12 => drop(space.keep_marked(offset, len as u64, random.chance(1, 2)).await),
                _ => drop(space.maintain_once().await),
            }
        }
    }

    /// One disk goes away, or answers some reads or writes with errors.
    async fn breaker(self: Rc<Self>, pool: Arc<Pool>, space: Arc<Space>) {
        let random = self.world.sim.random();
        if self.shape.layout.tolerates() == 0 {
            return;
        }
        for _ in 0..random.range(0..12u32) {
            self.flush(&space).await;
        }
        let index = random.range(0..self.world.disks().len());
        let disk = self.world.disk(index);
        let area = || {
            let start = random.range(4 << 20..60 << 20u64) / BLOCK_BYTES * BLOCK_BYTES;
            start..start + random.range(1..512u64) * BLOCK_BYTES
        };
        match random.range(0..5u32) {
            0 => {
                disk.disappear(Disappearance::Cable);
                let member = pool.disks().into_iter().find(|member| member.record.serial == format!("S{index}"));
                let member = member.expect("a member").record.index;
                pool.disk_out(member, DiskState::Missing, "pulled").await.expect("a quorum is there");
            }
            1..=2 => (0..6).for_each(|_| disk.fail_reads(area(), ErrorPersistence::UntilRewritten)),
            3 => (0..4).for_each(|_| disk.fail_writes(area(), ErrorPersistence::Times(2))),
            _ => {}
        }
    }

    /// Clients at work until they are done or the power goes.
    fn round(self: &Rc<Self>, (pool, space): Up) {
        let random = self.world.sim.random();
        if random.chance(2, 3) {
            self.world.sim.cut_power_after(random.range(0..400));
        }
        let mut tasks: Vec<_> =
            (0..CLIENTS).map(|_| self.world.sim.spawn_handle(self.clone().client(space.clone()))).collect();
        tasks.push(self.world.sim.spawn_handle(self.clone().breaker(pool, space)));
        let _ = self.world.sim.run(async move {
            for task in tasks {
                task.await;
            }
        });
        self.world.sim.cut_power();
    }

    /// Writes that nothing disturbs, all in place and their checksums on disk.
    async fn fill(&self, space: &Space) {
        let random = self.world.sim.random();
        for _ in 0..random.range(10..40u32) {
            match random.range(0..8u32) {
                0 => self.discard(space, &random).await,
                1 => self.flush(space).await,
                _ => self.write(space, &random).await,
            }
        }
        self.rest(space).await;
    }

    async fn rest(&self, space: &Space) {
        self.flush(space).await;
        for _ in 0..3 {
            space.maintain_once().await.expect("maintenance works");
        }
    }
}

async fn content(space: &Space) -> Vec<u8> {
    space.read(0, IoBuf::new(SIZE_BYTES as usize)).await.expect("everything can be read").to_vec()
}

async fn copies_at(space: &Space, at: u64) -> Vec<Option<Vec<u8>>> {
    let mut found = Vec::new();
    for n in 0..space.copies(at, BLOCK_BYTES) {
        found.push(space.read_copy(n, at, IoBuf::new(BLOCK)).await.ok().map(|data| data.to_vec()));
    }
    found
}

fn live(seed: u64) {
    let life = Life::new(seed, draw_shape);
    let mut up = life.create();
    for _ in 0..3 {
        life.round(up);
        up = life.power_on();
    }
    let (pool, space) = up;
    let inside = life.clone();
    life.run(async move {
        let _pool = pool;
        for offset in (0..SIZE_BYTES).step_by(STRIDE) {
            for n in 0..space.copies(offset, STRIDE as u64) {
                inside.look(&space, Some(n), offset, STRIDE).await.expect("every copy is in step");
            }
        }
        let last = space.copies(0, SIZE_BYTES);
        let refused = space.read_copy(last, 0, IoBuf::new(BLOCK)).await.expect_err("there is no such copy");
        assert_eq!(refused.kind, IoErrorKind::Invalid);
    });
}

#[test]
fn every_copy_is_what_was_written_or_an_error() {
    holdfast_harness::over_seeds(SEEDS, live);
}

/// As a user with checks of his own does it: first blocks that are wrong in their place, then what else does not agree.
fn mend(seed: u64) {
    let life = Life::new(seed, draw_shape);
    let (pool, space) = life.create();
    let inside = life.clone();
    life.run(async move {
        inside.fill(&space).await;
        // Parity that is still to be brought up to date by what is then spoiled would be wrong for good.
        space.close().await.expect("closes");
        let space = inside.open(&pool, space.record().id);
        let right = content(&space).await;
        spoil(&inside.world, &space, &inside.world.sim.random());
        let alone = inside.shape.layout.tolerates() == 0;
        for pass in 0..2 {
            for (block, right) in right.chunks(BLOCK).enumerate() {
                let at = block as u64 * BLOCK_BYTES;
                let found = copies_at(&space, at).await;
                let is_right = |copy: &Option<Vec<u8>>| copy.as_deref() == Some(right);
                if inside.shape.has_checksums() {
                    assert!(
                        found.iter().all(|copy| copy.is_none() || is_right(copy)),
                        "block {block}: a wrong copy is found"
                    );
                }
                assert!(alone || found.iter().any(is_right), "block {block}: some copy is right");
                if !is_right(&found[0]) || (pass == 1 && !found.iter().all(is_right)) {
                    space.rewrite(at, IoSlice::padded(right)).await.expect("the disks take it");
                }
            }
        }
        for (block, right) in right.chunks(BLOCK).enumerate() {
            let found = copies_at(&space, block as u64 * BLOCK_BYTES).await;
            assert!(found.iter().all(|copy| copy.as_deref() == Some(right)), "block {block}: all copies agree");
        }
        assert_eq!(content(&space).await, right);
        let compared = space.verify().await.expect("it can be read");
        assert_eq!((compared.mismatched_blocks, compared.unrepaired_blocks), (0, 0), "{compared:?}");
    });
}

#[test]
fn what_is_wrong_silently_is_mended_by_the_word_of_the_user() {
    holdfast_harness::over_seeds(SEEDS, mend);
}

/// Shapes that keep checksums, all in one column but for parity.
fn draw_summed(random: &SimRandom) -> Shape {
    let kib = ByteSize::kib(64);
    summed(match random.range(0..5u32) {
        0 => Shape::plain(Layout::Simple, 1, kib),
        1..=2 => mirror(random.range(2..4u8)),
        parity => self::parity(parity as u8 - 2, 5),
    })
}

/// A block with a checksum that is not its own: the write is refused, or what is there cannot be read until it is
/// right.
fn give_wrong(seed: u64) {
    let life = Life::new(seed, draw_summed);
    let life = Rc::new(Life {
        settings: SpaceSettings { compare_given: false, ..life.settings },
        ..Rc::into_inner(life).expect("one")
    });
    let random = life.world.sim.random();
    let (pool, space) = life.create();
    let block = random.range(0..SIZE_BYTES / BLOCK_BYTES);
    let (at, data) = (block * BLOCK_BYTES, IoSlice::padded(&[seed as u8 | 1; BLOCK]));
    let crcs = [crc32c(&data) ^ random.range(1..=u32::MAX)];
    let compared = life.shape.layout.parity() > 0;
    let (settles, crashes) = (random.chance(1, 2), random.chance(1, 2));
    let (inside, written) = (life.clone(), data.clone());
    let right = Rc::new(RefCell::new(Vec::new()));
    let noted = right.clone();
    life.run(async move {
        inside.fill(&space).await;
        *noted.borrow_mut() = content(&space).await;
        let given = space.write_summed(at, written, &crcs, Durability::Durable).await;
        assert_eq!(given.err().map(|error| error.kind), compared.then_some(IoErrorKind::Invalid));
        if settles {
            inside.rest(&space).await;
        }
        if !crashes {
            space.close().await.expect("closes");
            pool.export().await.expect("exports");
        }
    });
    life.world.sim.cut_power();
    life.world.sim.restart();
    let (_pool, space) = life.world.reopen();
    // What was being written in a crash has no checksum that counts.
    let withheld = !compared && (settles || !crashes);
    let mut right = right.take();
    if !compared {
        right[at as usize..][..BLOCK].copy_from_slice(&data);
    }
    let inside = life.clone();
    life.run(async move {
        for round in 0..3 {
            let found = space.read(at, IoBuf::new(BLOCK)).await;
            assert_eq!(found.is_err(), withheld, "round {round}: {found:?}");
            found.iter().for_each(|found| assert_eq!(found[..], right[at as usize..][..BLOCK], "round {round}"));
            for copy in copies_at(&space, at).await {
                assert_eq!(copy.is_none(), withheld, "round {round}");
            }
            let scrubbed = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!(scrubbed.unrepaired_blocks > 0, withheld, "round {round}: {scrubbed:?}");
            inside.rest(&space).await;
        }
        for (other, right) in right.chunks(BLOCK).enumerate().filter(|(other, _)| *other as u64 != block) {
            let found = space.read(other as u64 * BLOCK_BYTES, IoBuf::new(BLOCK)).await.expect("it is as it was");
            assert_eq!(found[..], *right, "block {other}");
        }
        space.rewrite(at, IoSlice::padded(&right[at as usize..][..BLOCK])).await.expect("the disks take it");
        assert_eq!(content(&space).await, right);
        assert!(copies_at(&space, at).await.iter().all(|copy| copy.as_deref() == Some(&right[at as usize..][..BLOCK])));
    });
}

#[test]
fn a_wrong_checksum_that_was_given_is_a_failed_read_and_never_wrong_data() {
    holdfast_harness::over_seeds(SEEDS, give_wrong);
}

/// Right checksums are there after a crash, and tell what no copy tells.
fn give_right(seed: u64) {
    let life =
        Life::new(seed, |random| [summed(mirror(2)), summed(mirror(3)), draw_summed(random)][random.range(0..3usize)]);
    let random = life.world.sim.random();
    let (_, space) = life.create();
    let block = random.range(0..SIZE_BYTES / BLOCK_BYTES);
    let (at, data) = (block * BLOCK_BYTES, IoSlice::padded(&[seed as u8 | 1; BLOCK]));
    let (inside, written) = (life.clone(), data.clone());
    life.run(async move {
        inside.fill(&space).await;
        space.write_summed(at, written.clone(), &crcs_of(&written), Durability::Durable).await.expect("room is there");
        inside.rest(&space).await;
    });
    life.world.sim.cut_power();
    life.world.sim.restart();
    let (_pool, space) = life.world.reopen();
    let (inside, is_parity) = (life.clone(), life.shape.layout.parity() > 0);
    life.run(async move {
        let found = space.read(at, IoBuf::new(BLOCK)).await.expect("it is durable");
        assert_eq!(found[..], data[..]);
        if is_parity {
            return;
        }
        inside.rest(&space).await;
        let rows = space.map();
        let row = rows
            .iter()
            .find(|row| (row.offset_bytes..row.offset_bytes + row.len_bytes).contains(&at))
            .expect("it was written");
        let garbage: Vec<u8> = (0..BLOCK).map(|place| (place as u8).wrapping_mul(37) ^ 0x5A).collect();
        for slab in &row.slabs {
            let disk = inside.world.disk(slab.path.trim_start_matches("/sim/").parse().expect("a number"));
            disk.poke(slab.offset_bytes + HEAD_BYTES + at - row.offset_bytes, &garbage);
        }
        let withheld = space.read(at, IoBuf::new(BLOCK)).await.expect_err("copies that agree are wrong all the same");
        assert_eq!(withheld.kind, IoErrorKind::Media);
        space.scrub(&Unlimited).await.expect("nobody stops it");
        assert!(space.read(at, IoBuf::new(BLOCK)).await.is_err(), "nor does a scrub believe them");
        space.rewrite(at, data.clone()).await.expect("the disks take it");
        assert_eq!(space.read(at, IoBuf::new(BLOCK)).await.expect("it is right")[..], data[..]);
    });
}

#[test]
fn checksums_that_were_given_tell_after_a_crash() {
    holdfast_harness::over_seeds(SEEDS, give_right);
}

#[test]
fn checksums_are_compared_at_once_where_that_is_asked_for() {
    story(0, summed(mirror(2)), |_, pool, space| async move {
        let settings = SpaceSettings { compare_given: true, ..SpaceSettings::default() };
        let id = space.record().id;
        space.close().await.expect("closes");
        let space = Space::open(pool, id, settings).expect("opens");
        assert!(space.is_summed(0, SIZE_BYTES));
        let data = IoSlice::padded(&[7; 2 * BLOCK]);
        let crcs = crcs_of(&data);
        for wrong in [&[crcs[0], crcs[1] ^ 1][..], &crcs[..1], &[]] {
            let refused =
                space.write_summed(0, data.clone(), wrong, Durability::Cached).await.expect_err("it is wrong");
            assert_eq!(refused.kind, IoErrorKind::Invalid);
        }
        space.write_summed(0, data, &crcs, Durability::Cached).await.expect("it is right");
        assert_eq!(space.read(0, IoBuf::new(BLOCK)).await.expect("it is there")[..], [7; BLOCK]);
    });
}

#[test]
fn rows_without_checksums_ignore_those_that_come() {
    story(0, mirror(2), |_, _, space| async move {
        assert!(!space.is_summed(0, SIZE_BYTES));
        let data = IoSlice::padded(&[7; BLOCK]);
        space.write_summed(0, data.clone(), &crcs_of(&data), Durability::Cached).await.expect("room is there");
        assert_eq!(space.read(0, IoBuf::new(BLOCK)).await.expect("it is there")[..], [7; BLOCK]);
    });
}

#[test]
fn a_copy_that_is_away_or_behind_is_an_error_and_no_other_takes_its_place() {
    for (seed, shape) in [mirror(2), summed(mirror(3)), parity(1, 4), summed(parity(2, 5))].into_iter().enumerate() {
        story(seed as u64, shape, |world, pool, space| async move {
            let away = place(&space, 0, 0).0;
            pull(&world, &pool, away).await;
            let found = copies_at(&space, 0).await;
            assert!(found[0].is_none() && found[1..].iter().any(Option::is_some), "the first slab has the first block");
            space.write(0, IoSlice::padded(&[0x77; BLOCK]), Durability::Durable).await.expect("the others take it");
            space.maintain_once().await.expect("maintenance works");
            world.disk(away).reappear();
            let behind = copies_at(&space, 0).await;
            assert!(behind[0].is_none(), "it missed the write: {behind:?}");
            assert!(behind[1..].iter().flatten().all(|data| data[..] == [0x77; BLOCK]));
            assert!(behind[1..].iter().any(Option::is_some), "another has it");
            pool.disk_back(world.candidate(away)).await.expect("a member");
            for _ in 0..3 {
                space.maintain_once().await.expect("maintenance works");
            }
            assert!(copies_at(&space, 0).await.iter().all(|copy| copy.as_deref() == Some(&[0x77; BLOCK][..])));
        });
    }
}

#[test]
fn what_cannot_be_read_is_not_needed_to_write_beside_it() {
    story(0, parity(1, 4), |world, _, space| async move {
        // Of the first stripe two of three columns of data: parity cannot be computed from data, but be brought up to
        // date.
        for slab in [1, 2] {
            let (disk, at) = place(&space, slab, 0);
            world.disk(disk).fail_reads(at..at + BLOCK_BYTES, ErrorPersistence::UntilRewritten);
        }
        space.write(0, IoSlice::padded(&[0x77; BLOCK]), Durability::Durable).await.expect("the journal takes it");
        for _ in 0..3 {
            space.maintain_once().await.expect("what was written gets to its place");
        }
        assert_eq!(space.read(0, IoBuf::new(BLOCK)).await.expect("it is there")[..], [0x77; BLOCK]);
    });
}

#[test]
fn a_region_that_is_kept_marked_pays_for_its_mark_once() {
    story(0, mirror(2), |world, _, space| async move {
        let rest = async || {
            for _ in 0..3 {
                space.maintain_once().await.expect("maintenance works");
            }
        };
        let cost = async || {
            let before = world.sim.device_writes();
            space.write(0, IoSlice::padded(&[7; BLOCK]), Durability::Durable).await.expect("the disks take it");
            world.sim.device_writes() - before
        };
        rest().await;
        assert_eq!((space.status().dirty_bytes, cost().await), (0, 4), "two marks and two copies");
        space.keep_marked(0, BLOCK_BYTES, true).await.expect("the disks take the mark");
        rest().await;
        assert!(space.status().dirty_bytes > 0 && cost().await == 2, "two copies");
        space.keep_marked(0, BLOCK_BYTES, false).await.expect("nothing is written");
        rest().await;
        assert_eq!((space.status().dirty_bytes, cost().await), (0, 4));
        space.keep_marked(0, BLOCK_BYTES, true).await.expect("the disks take the mark");
        assert!(space.close().await.expect("closes"), "in good order");
        assert_eq!(space.status().dirty_bytes, 0, "a closed space has no marks");
    });
}
