//! What a space says that it survives is survived: after random steps any so many disks more are taken away, and
//! everything is read. And the same the other way round: single stories in which it must not say more.

use std::cell::RefCell;
use std::future::ready;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_device::sim::{Disappearance, Sim, SimDiskSpec, SimRandom};
use holdfast_device::{Durability, IoBuf, IoErrorKind, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, Health, Layout, Place, Provisioning, Shape, SpaceState, Usage};
use holdfast_pool::{DiskChange, Pool, SpaceSpec};
use holdfast_space::{Ended, Pace, Protection, Space, SpaceSettings, Stopped, Unlimited};

use crate::plan::draw_shape;
use crate::world::World;

const BLOCK: usize = BLOCK_BYTES as usize;
const SIZE: u64 = 12 << 20;
const ENCLOSURES: usize = 3;

/// Claims that were tried, over all seeds: of all, of those with rows of two layouts, and of those with disks out or
/// behind.
static TRIED: [AtomicU64; 3] = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];

/// Work that is ended after so many steps.
struct StepsLeft(AtomicU64);

impl Pace for StepsLeft {
    fn step(&self, _bytes: u64) -> Pin<Box<dyn Future<Output = Result<(), Stopped>> + '_>> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        Box::pin(ready(left.map(drop).map_err(|_| Stopped)))
    }

    fn done(&self, _bytes: u64) {}
}

fn steps(steps: u64) -> StepsLeft {
    StepsLeft(AtomicU64::new(steps))
}

fn machine(seed: u64, disks: usize) -> World {
    let sim = Sim::new(seed);
    sim.limit_steps(5_000_000);
    let spec = |index| SimDiskSpec {
        name: format!("disk{index}"),
        serial: format!("S{index}"),
        size_bytes: 96 << 20,
        tear_bytes: 4096,
        ..SimDiskSpec::default()
    };
    World::new(sim, (0..disks).map(spec).collect())
}

fn number(serial: &str) -> usize {
    serial.trim_start_matches('S').parse().expect("a number")
}

/// What each block holds, where that is known.
type Content = Rc<RefCell<Vec<Option<u8>>>>;

async fn write(space: &Space, content: &Content, random: &SimRandom) {
    let blocks = SIZE / BLOCK_BYTES;
    let (start, byte) = (random.range(0..blocks), random.range(1..=255u32) as u8);
    let count = random.range(1..=600u64).min(blocks - start);
    let data = IoSlice::padded(&vec![byte; count as usize * BLOCK]);
    let written = space.write(start * BLOCK_BYTES, data, Durability::Cached).await;
    let known = match written {
        Ok(()) => Some(byte),
        Err(error) => {
            assert_eq!(error.kind, IoErrorKind::NoSpace, "{error}");
            None
        }
    };
    content.borrow_mut()[start as usize..(start + count) as usize].fill(known);
}

async fn check(space: &Space, content: &Content, context: &str) {
    let content = content.borrow().clone();
    for (at, blocks) in content.chunks(64).enumerate() {
        let read = space.read((at * 64) as u64 * BLOCK_BYTES, IoBuf::new(blocks.len() * BLOCK)).await;
        let read = read.unwrap_or_else(|error| panic!("{context}: block {}: {error}", at * 64));
        for (block, (wanted, held)) in blocks.iter().zip(read.chunks(BLOCK)).enumerate() {
            let right = wanted.is_none_or(|wanted| held.iter().all(|byte| *byte == wanted));
            assert!(right, "{context}: block {} holds {}, not {wanted:?}", at * 64 + block, held[0]);
        }
    }
}

fn in_service(pool: &Pool) -> Vec<usize> {
    let online = pool.disks().into_iter().filter(|disk| disk.record.state == DiskState::Online);
    online.map(|disk| number(&disk.record.serial)).collect()
}

async fn pull(world: &World, pool: &Pool, index: usize) {
    world.disk(index).disappear(Disappearance::Cable);
    let record = pool.disks().into_iter().map(|disk| disk.record).find(|record| number(&record.serial) == index);
    // Where too few are left to write it down, what can be read is read.
    let _ = pool.disk_out(record.expect("a member").index, DiskState::Missing, "pulled").await;
}

async fn bring_back(world: &World, pool: &Pool) {
    for index in 0..world.disks().len() {
        if !world.disk(index).is_present() {
            world.disk(index).reappear();
            pool.disk_back(world.candidate(index)).await.expect("a member");
        }
    }
}

/// One thing that happens to a space.
async fn step(world: &World, pool: &Arc<Pool>, space: &Arc<Space>, content: &Content, random: &SimRandom) {
    let bear = |result: Result<(), Ended>| match result {
        Ok(()) | Err(Ended::Stopped) => {}
        Err(Ended::Failed(error)) => {
            assert!([IoErrorKind::NoSpace, IoErrorKind::Gone].contains(&error.kind), "{error}");
        }
    };
    match random.range(0..14u32) {
        0..=3 => write(space, content, random).await,
        4..=6 => {
            let shape = draw_shape(random, in_service(pool).len(), 0);
            if space.reshape(shape, Provisioning::Thin, None).await.is_ok() {
                bear(space.convert(Provisioning::Thin, &steps(random.range(0..24))).await);
            }
        }
        7..=8 => {
            if space.status().protection.held_losses > 0 && in_service(pool).len() > 4 {
                let disks = in_service(pool);
                pull(world, pool, *random.pick(&disks).expect("disks are in service")).await;
            }
        }
        9 => bring_back(world, pool).await,
        10 => drop(space.maintain_once().await),
        11..=12 => bear(space.rebuild(&steps(random.range(0..12))).await),
        _ => {
            let disks = pool.disks();
            let disk = random.pick(&disks).expect("a pool has disks").record.index;
            bear(space.leave(disk, &steps(random.range(0..12))).await);
        }
    }
}

/// Disks to take away: such as a claim says that any of them may be.
fn victims(pool: &Pool, space: &Space, held: &Protection, random: &SimRandom) -> Vec<usize> {
    let there = in_service(pool);
    if held.held_enclosures == Some(1) && random.chance(1, 2) {
        let shelf = random.range(0..ENCLOSURES);
        return there.into_iter().filter(|index| index % ENCLOSURES == shelf).collect();
    }
    let mut order = there.clone();
    random.shuffle(&mut order);
    // Those of one row are the worst.
    let rows = pool.rows(space.record().id).into_iter().chain(pool.journal_rows(space.record().id)).collect::<Vec<_>>();
    if let Some((_, row)) = random.pick(&rows).filter(|_| random.chance(3, 4)) {
        let group = row.shape.group(random.range(0..row.slabs.len()));
        let disks = pool.disks();
        let serial =
            |disk: u16| disks.iter().find(|known| known.record.index == disk).map(|known| number(&known.record.serial));
        let of_group: Vec<usize> = row.slabs[group].iter().filter_map(|slab| serial(slab.disk())).collect();
        order.sort_by_key(|index| !of_group.contains(index));
    }
    order.truncate(held.held_losses.into());
    order
}

fn simulate(seed: u64) {
    let random = Sim::new(seed).random();
    let disks = random.range(5..=10);
    let world = Rc::new(machine(seed, disks));
    let random = Rc::new(world.sim.random());
    let content: Content = Rc::new(RefCell::new(vec![Some(0); (SIZE / BLOCK_BYTES) as usize]));
    let (create, machine, drawn, known) = (world.create("tank"), world.clone(), random.clone(), content.clone());
    let made = world.sim.run(async move {
        let pool = create.await;
        for disk in pool.disks() {
            let enclosure = format!("shelf{}", number(&disk.record.serial) % ENCLOSURES);
            let change = DiskChange { place: Some(Place { enclosure, slot: 0 }), ..DiskChange::default() };
            pool.set_disk(disk.record.id, change).await.expect("a member");
        }
        let aware = drawn.chance(1, 3);
        let name = "vol".parse().expect("a name");
        let shape = draw_shape(&drawn, disks, drawn.range(0..=2));
        let spec = SpaceSpec {
            name,
            shape,
            provisioning: Provisioning::Thin,
            size_bytes: SIZE,
            journal_bytes: None,
            enclosure_aware: aware,
        };
        let made = match pool.create_space(spec.clone()).await {
            Err(_) if aware => pool.create_space(SpaceSpec { enclosure_aware: false, ..spec }).await,
            made => made,
        };
        let record = made.expect("a thin space takes little room");
        let space = Space::open(pool.clone(), record.id, SpaceSettings::default()).expect("just made");
        write(&space, &known, &drawn).await;
        write(&space, &known, &drawn).await;
        for _ in 0..drawn.range(1..10u32) {
            step(&machine, &pool, &space, &known, &drawn).await;
        }
        let flushed = space.flush().await;
        let held = space.status().protection;
        assert!(held.unreadable_rows > 0 || flushed.is_ok(), "{flushed:?}");
        (pool, space, held)
    });
    let (pool, space, held) = made.expect("no power cut is planned");
    assert!(held.held_losses <= held.wanted_losses && held.weak_rows <= held.rows, "{held:?}");
    if held.unreadable_rows > 0 {
        assert_eq!((held.held_losses, space.status().state), (0, SpaceState::Failed), "{held:?}");
        return;
    }
    let away = victims(&pool, &space, &held, &random);
    let context = format!("{:?} without {away:?}", held);
    TRIED[0].fetch_add(1, Ordering::Relaxed);
    TRIED[1].fetch_add(held.converted_percent.is_some().into(), Ordering::Relaxed);
    TRIED[2].fetch_add((held.out_slabs + held.behind_slabs > 0).into(), Ordering::Relaxed);
    if random.chance(1, 3) {
        drop((pool, space));
        world.sim.cut_power();
        world.sim.restart();
        away.iter().for_each(|index| world.disk(*index).disappear(Disappearance::PowerLoss));
        let import = world.import();
        let done = world.sim.run(async move {
            // Without most of its disks a pool does not come up by itself; what they hold is there nevertheless.
            let Ok(pool) = import.await else { return };
            let space = Space::open(pool.clone(), pool.spaces()[0].id, SpaceSettings::default()).expect("it is there");
            check(&space, &content, &format!("after a crash, {context}")).await;
        });
        return done.expect("no power cut is planned");
    }
    let machine = world.clone();
    let done = world.sim.run(async move {
        for index in away {
            pull(&machine, &pool, index).await;
        }
        check(&space, &content, &context).await;
    });
    done.expect("no power cut is planned");
}

#[test]
fn what_is_said_to_be_survived_is_survived() {
    holdfast_harness::over_seeds(600, simulate);
    let tried = TRIED.each_ref().map(|count| count.load(Ordering::Relaxed));
    println!("{} claims tried, {} with rows of two layouts, {} with disks out or behind", tried[0], tried[1], tried[2]);
}

fn mirror(copies: u8, columns: u16) -> Shape {
    Shape::plain(Layout::Mirror { copies }, columns, ByteSize::kib(256))
}

/// A pool of so many disks and a space of this shape that is written throughout.
async fn filled(pool: &Arc<Pool>, shape: Shape, content: &Content) -> Arc<Space> {
    let name = "vol".parse().expect("a name");
    let provisioning = Provisioning::Thin;
    let spec = SpaceSpec { name, shape, provisioning, size_bytes: SIZE, journal_bytes: None, enclosure_aware: false };
    let record = pool.create_space(spec).await.expect("a thin space takes little room");
    let space = Space::open(pool.clone(), record.id, SpaceSettings::default()).expect("just made");
    let data = IoSlice::padded(&vec![7; SIZE as usize]);
    space.write(0, data, Durability::Durable).await.expect("room is there");
    content.borrow_mut().fill(Some(7));
    space
}

#[test]
fn a_conversion_that_is_cut_short_promises_no_more_than_its_oldest_row() {
    let world = Rc::new(machine(1, 8));
    let content: Content = Rc::new(RefCell::new(vec![Some(0); (SIZE / BLOCK_BYTES) as usize]));
    let (create, machine) = (world.create("tank"), world.clone());
    let done = world.sim.run(async move {
        let pool = create.await;
        let space = filled(&pool, mirror(2, 1), &content).await;
        assert_eq!((space.status().protection.held_losses, space.status().health), (1, Health::Healthy));
        space.reshape(mirror(3, 1), Provisioning::Thin, None).await.expect("enough disks");
        let cut = space.convert(Provisioning::Thin, &steps(9)).await;
        assert!(matches!(cut, Err(Ended::Stopped)), "{cut:?}");
        let status = space.status();
        let held = &status.protection;
        assert_eq!((held.wanted_losses, held.held_losses, status.health), (2, 1, Health::Warning), "{held:?}");
        assert!(held.converted_percent.is_some_and(|percent| (1..100).contains(&percent)), "{held:?}");
        assert!(held.weak_rows > 0 && held.weak_rows < held.rows, "{held:?}");

        // Two disks that hold the copies of a row that is two-way still: its data would be gone.
        let rows = pool.rows(space.record().id);
        let (_, weak) = rows.iter().find(|(_, row)| row.shape == mirror(2, 1)).expect("a row is left");
        let disk = |slab: usize| number(&pool.disks()[usize::from(weak.slabs[slab].disk())].record.serial);
        let (first, second) = (disk(0), disk(1));
        pull(&machine, &pool, first).await;
        assert_eq!(space.status().protection.held_losses, 0);
        check(&space, &content, "without one").await;
        pull(&machine, &pool, second).await;
        let status = space.status();
        assert!(status.protection.unreadable_rows > 0 && status.health == Health::Unhealthy, "{status:?}");
        assert_eq!(space.unreadable_rows(), status.protection.unreadable_rows);
        bring_back(&machine, &pool).await;
        for _ in 0..3 {
            space.maintain_once().await.expect("all is there");
        }
        space.convert(Provisioning::Thin, &Unlimited).await.expect("there is room");
        let status = space.status();
        let held = &status.protection;
        assert_eq!(
            (held.held_losses, held.weak_rows, held.converted_percent, status.health),
            (2, 0, None, Health::Healthy)
        );
    });
    done.expect("no power cut is planned");
}

#[test]
fn what_is_out_or_behind_is_not_counted_until_it_is_in_step() {
    for shape in [mirror(2, 1), mirror(3, 2), Shape::plain(Layout::Parity { parity: 2 }, 5, ByteSize::kib(64))] {
        let world = Rc::new(machine(2, 8));
        let content: Content = Rc::new(RefCell::new(vec![Some(0); (SIZE / BLOCK_BYTES) as usize]));
        let (create, machine) = (world.create("tank"), world.clone());
        let done = world.sim.run(async move {
            let pool = create.await;
            let space = filled(&pool, shape, &content).await;
            let all = shape.layout.tolerates();
            let used = pool.rows(space.record().id)[0].1.slabs[0].disk();
            let victim = number(&pool.disks()[usize::from(used)].record.serial);
            pull(&machine, &pool, victim).await;
            let status = space.status();
            assert_eq!((status.protection.held_losses, status.health), (all - 1, Health::Warning), "{shape}");
            assert!(status.protection.out_slabs > 0 && status.protection.behind_slabs == 0);
            write(&space, &content, &machine.sim.random()).await;
            bring_back(&machine, &pool).await;
            let behind = space.status().protection;
            assert_eq!(behind.held_losses, all - 1, "{shape}: back, and not in step: {behind:?}");
            assert!(behind.out_slabs == 0 && behind.behind_slabs > 0, "{behind:?}");
            for _ in 0..5 {
                space.maintain_once().await.expect("all is there");
            }
            assert_eq!(
                (space.status().protection.held_losses, space.status().health),
                (all, Health::Healthy),
                "{shape}"
            );

            // Rebuilt on others it is as good.
            pull(&machine, &pool, victim).await;
            let id = pool.disks()[usize::from(used)].record.id;
            let retired = DiskChange { usage: Some(Usage::Retired), ..DiskChange::default() };
            pool.set_disk(id, retired).await.expect("a member");
            space.rebuild(&Unlimited).await.expect("others have room");
            let held = space.status().protection;
            assert_eq!((held.held_losses, held.out_slabs), (all, 0), "{shape}: {held:?}");
            pool.check_units().unwrap_or_else(|leaked| panic!("{shape}: {leaked}"));
        });
        done.expect("no power cut is planned");
    }
}
