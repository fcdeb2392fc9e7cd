//! A whole pool and a space on simulated disks: clients write, read, discard and flush at once, disks fail, come back,
//! lie about single blocks, and the power is cut between any two device writes. The model says what every read may return.
//!
//! `HOLDFAST_SEEDS=N` runs N seeds, `HOLDFAST_SEED=S` exactly one.

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use common::model::Model;
use common::world::World;
use holdfast_device::sim::{Disappearance, ErrorPersistence, Sim, SimDiskSpec, SimRandom};
use holdfast_device::{Durability, IoBuf, IoErrorKind, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, Layout, Provisioning, Shape};
use holdfast_pool::{Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings};

const DISK_BYTES: u64 = 64 << 20;

/// What a seed decides once.
struct Plan {
    disks: usize,
    shape: Shape,
    provisioning: Provisioning,
    size_bytes: u64,
    tear_bytes: u32,
    rounds: u32,
    clients: u32,
    requests: u32,
}

impl Plan {
    fn draw(random: &SimRandom) -> Self {
        let layout = match random.range(0..4u32) {
            0 => Layout::Simple,
            1 | 2 => Layout::Mirror { copies: 2 },
            _ => Layout::Mirror { copies: 3 },
        };
        let copies = usize::from(layout.copies());
        let disks = random.range(copies.max(2)..=12);
        let columns = random.range(1..=(disks / copies).min(4)) as u16;
        let interleave = ByteSize(BLOCK_BYTES << random.range(0..7u32));
        let provisioning = if random.chance(2, 3) { Provisioning::Thin } else { Provisioning::Fixed };
        Self {
            disks,
            shape: Shape { layout, columns, interleave },
            provisioning,
            size_bytes: random.range(1..=1024u64) * BLOCK_BYTES,
            tear_bytes: if random.chance(1, 2) { 512 } else { 4096 },
            rounds: random.range(2..=5),
            clients: random.range(1..=4),
            requests: random.range(5..=40),
        }
    }
}

/// One run of a seed.
struct Run {
    world: World,
    plan: Plan,
    model: Model,
    size_bytes: Cell<u64>,
    /// Disks that are away, or that may answer with errors.
    bad: RefCell<Vec<usize>>,
    clean: Cell<bool>,
}

/// The pool and space of one power-on.
#[derive(Clone)]
struct Up {
    pool: Arc<Pool>,
    space: Arc<Space>,
}

fn simulate(seed: u64) {
    let sim = Sim::new(seed);
    let random = sim.random();
    let plan = Plan::draw(&random);
    let specs = (0..plan.disks).map(|index| SimDiskSpec {
        name: format!("disk{index}"),
        serial: format!("S{index}"),
        size_bytes: DISK_BYTES + random.range(0..16u64) * (1 << 20),
        tear_bytes: plan.tear_bytes,
        ..SimDiskSpec::default()
    });
    let world = World::new(sim.clone(), specs.collect());
    let model = Model::new(plan.size_bytes, plan.tear_bytes as usize);
    let size_bytes = Cell::new(plan.size_bytes);
    let run = Rc::new(Run { world, plan, model, size_bytes, bad: RefCell::default(), clean: Cell::new(false) });
    let mut up = Some(run.first_power_on());
    for _ in 0..run.plan.rounds {
        let now = up.take().unwrap_or_else(|| run.power_on());
        run.round(now);
    }
    let last = run.power_on();
    run.verify_at_rest(last);
}

impl Run {
    fn first_power_on(&self) -> Up {
        let create = self.world.create("tank");
        let (shape, provisioning, size_bytes) = (self.plan.shape, self.plan.provisioning, self.plan.size_bytes);
        let made = self.world.sim.run(async move {
            let pool = create.await;
            let spec = SpaceSpec { name: "vol".parse().expect("a name"), shape, provisioning, size_bytes };
            let record = pool.create_space(spec).await.expect("small enough");
            let space = Space::open(pool.clone(), record.id, settings()).expect("just made");
            Up { pool, space }
        });
        made.expect("no power cut yet")
    }

    /// Imports the pool and checks everything that it holds against what may have survived.
    fn power_on(self: &Rc<Self>) -> Up {
        let run = self.clone();
        let import = self.world.import();
        let clean = self.clean.take();
        let up = self.world.sim.run(async move {
            let pool = import.await.unwrap_or_else(|error| panic!("import failed: {error}"));
            assert_eq!(pool.was_closed(), clean, "the pool knows whether it was closed in good order");
            let record = pool.spaces().pop().expect("the space is there");
            let space = Space::open(pool.clone(), record.id, settings()).expect("the space opens");
            run.note_size(record.size_bytes);
            let mut offset = 0;
            while offset < record.size_bytes {
                let len = (record.size_bytes - offset).min(64 << 10);
                let data = space.read(offset, IoBuf::new(len as usize)).await.expect("everything can be read");
                run.model.settle(offset, &data).unwrap_or_else(|why| panic!("{why}"));
                offset += len;
            }
            Up { pool, space }
        });
        up.expect("the power stays on during import")
    }

    /// A grow that was cut short may or may not have happened.
    fn note_size(&self, size_bytes: u64) {
        assert!(size_bytes >= self.size_bytes.get(), "the space shrank");
        self.size_bytes.set(size_bytes);
        self.model.grow(size_bytes);
    }

    /// Clients and an operator at work until they are done or the power goes.
    fn round(self: &Rc<Self>, up: Up) {
        let random = self.world.sim.random();
        let end = random.range(0..4u32);
        if end < 2 {
            self.world.sim.cut_power_after(random.range(0..400));
        }
        let mut tasks = Vec::new();
        for _ in 0..self.plan.clients {
            let (run, up) = (self.clone(), up.clone());
            tasks.push(self.world.sim.spawn_handle(async move { run.client(up).await }));
        }
        let (run, operated) = (self.clone(), up.clone());
        tasks.push(self.world.sim.spawn_handle(async move { run.operator(operated).await }));
        let done = self.world.sim.run(async move {
            for task in tasks {
                task.await;
            }
        });
        match (done, end) {
            (Ok(()), 2) => self.close(up),
            (Ok(()), 3) => {
                self.world.sim.kill();
                self.model.crash();
            }
            _ => {
                self.world.sim.cut_power();
                self.world.sim.restart();
                self.model.crash();
                self.damage();
            }
        }
    }

    fn close(self: &Rc<Self>, up: Up) {
        let run = self.clone();
        let closed = self.world.sim.run(async move {
            let flush = run.model.begin_flush();
            up.space.close().await.expect("closes");
            up.pool.export().await.expect("exports");
            run.model.end_flush(flush);
        });
        closed.expect("the power stays on");
        self.clean.set(true);
        self.world.sim.kill();
        self.model.crash();
    }

    /// Silent damage to labels and logs of a minority of the disks.
    fn damage(&self) {
        let random = self.world.sim.random();
        let most = (self.plan.disks - 1) / 2;
        if most <= self.bad.borrow().len() || !random.chance(1, 3) {
            return;
        }
        for _ in 0..random.range(1..=most - self.bad.borrow().len()) {
            let disk = &self.world.disks[random.range(0..self.plan.disks)];
            let start = random.range(0..4u64 << 20) / 512 * 512;
            disk.corrupt(start..(start + random.range(1..64u64) * 512).min(4 << 20));
            if random.chance(1, 2) {
                disk.corrupt(disk.spec().size_bytes - BLOCK_BYTES..disk.spec().size_bytes);
            }
            break;
        }
    }

    async fn client(self: Rc<Self>, up: Up) {
        let random = self.world.sim.random();
        for _ in 0..self.plan.requests {
            let blocks = self.size_bytes.get() / BLOCK_BYTES;
            let start = random.range(0..blocks);
            let most = if random.chance(1, 8) { 300 } else { 12 };
            let count = random.range(1..=most.min(blocks - start));
            let (offset, len) = (start * BLOCK_BYTES, (count * BLOCK_BYTES) as usize);
            match random.range(0..20u32) {
                0..=8 => self.write(&up, offset, len, random.chance(1, 4)).await,
                9..=13 => self.read(&up, offset, len).await,
                14..=15 => self.zero(&up, offset, len, &random).await,
                16 => self.zero(&up, 0, (blocks * BLOCK_BYTES) as usize, &random).await,
                17..=18 => self.flush(&up).await,
                _ => self.extents(&up, offset, len).await,
            }
        }
    }

    async fn write(&self, up: &Up, offset: u64, len: usize, durable: bool) {
        let begun = self.model.begin(offset, len, false);
        let data = IoSlice::padded(&self.model.payload(&begun));
        let durability = if durable { Durability::Durable } else { Durability::Cached };
        let result = up.space.write(offset, data, durability).await;
        self.model.end(&begun, result.is_ok(), durable);
        self.judge("write", result.map(drop));
    }

    async fn zero(&self, up: &Up, offset: u64, len: usize, random: &SimRandom) {
        let begun = self.model.begin(offset, len, true);
        let durable = random.chance(1, 4);
        let durability = if durable { Durability::Durable } else { Durability::Cached };
        let result = if random.chance(1, 2) {
            up.space.discard(offset, len as u64, durability).await
        } else {
            up.space.write_zeroes(offset, len as u64, durability, random.chance(1, 4)).await
        };
        self.model.end(&begun, result.is_ok(), durable);
        self.judge("zero", result);
    }

    async fn read(&self, up: &Up, offset: u64, len: usize) {
        let reading = self.model.begin_read(offset, len);
        match up.space.read(offset, IoBuf::new(len)).await {
            Ok(data) => self.model.check_read(&reading, &data).unwrap_or_else(|why| panic!("{why}")),
            Err(error) => self.judge("read", Err(error)),
        }
    }

    async fn flush(&self, up: &Up) {
        let flush = self.model.begin_flush();
        match up.space.flush().await {
            Ok(()) => self.model.end_flush(flush),
            Err(error) => self.judge("flush", Err(error)),
        }
    }

    async fn extents(&self, up: &Up, offset: u64, len: usize) {
        let extents = up.space.extents(offset, len as u64, usize::MAX).await.expect("maps can be read");
        assert_eq!(extents.iter().map(|extent| extent.len).sum::<u64>(), len as u64);
    }

    fn judge(&self, what: &str, result: Result<(), holdfast_device::IoError>) {
        if let Err(error) = result {
            assert_eq!(error.kind, IoErrorKind::NoSpace, "{what} failed: {error}");
        }
    }

    /// Faults only up to what the layout bears, housekeeping, growth.
    async fn operator(self: Rc<Self>, up: Up) {
        let random = self.world.sim.random();
        let clock = self.world.sim.clock();
        for _ in 0..random.range(0..8u32) {
            clock.sleep(std::time::Duration::from_micros(random.range(0..400))).await;
            match random.range(0..10u32) {
                0..=2 => self.break_something(&up, &random).await,
                3..=4 => self.mend(&up, &random).await,
                5..=7 => up.space.tidy().await.expect("housekeeping works"),
                8 => self.grow(&up, &random).await,
                _ => assert!(up.space.map().len() >= up.space.status().open_rows as usize),
            }
        }
    }

    async fn grow(&self, up: &Up, random: &SimRandom) {
        let wanted = self.size_bytes.get() + random.range(0..64u64) * BLOCK_BYTES;
        match up.space.grow(wanted).await {
            Ok(_) => self.note_size(wanted.max(self.size_bytes.get())),
            Err(error) => assert_eq!(error.kind, holdfast_pool::PoolErrorKind::NoSpace, "grow failed: {error}"),
        }
    }

    /// Whether every copy is in step, so that the layout bears its full number of losses again.
    fn is_whole(&self, up: &Up) -> bool {
        up.space.status().stale_slabs == 0 && up.pool.disks().iter().all(|disk| disk.record.state == DiskState::Online)
    }

    async fn break_something(&self, up: &Up, random: &SimRandom) {
        let quorum_bears = self.plan.disks / 2;
        let tolerates = usize::from(self.plan.shape.layout.tolerates()).min(quorum_bears);
        let broken = self.bad.borrow().len();
        if broken >= tolerates || (broken == 0 && !self.is_whole(up)) {
            return;
        }
        let index = random.range(0..self.plan.disks);
        if self.bad.borrow().contains(&index) {
            return;
        }
        self.bad.borrow_mut().push(index);
        let disk = &self.world.disks[index];
        match random.range(0..5u32) {
            0..=1 => {
                let how = if random.chance(1, 2) { Disappearance::PowerLoss } else { Disappearance::Cable };
                disk.disappear(how);
                self.notice_out(up, index).await;
            }
            2 => {
                let start = random.range(4 << 20..DISK_BYTES) / 4096 * 4096;
                disk.fail_reads(start..start + random.range(1..64u64) * 4096, ErrorPersistence::UntilRewritten);
            }
            3 => disk.fail_next_writes(random.range(1..4)),
            _ => disk.fail_next_flushes(1),
        }
    }

    /// The watcher sees that a disk is away.
    async fn notice_out(&self, up: &Up, index: usize) {
        let member = up.pool.disks().into_iter().find(|disk| disk.record.serial == format!("S{index}")).expect("a member");
        up.pool.disk_out(member.record.index, DiskState::Missing, "pulled").await.expect("a quorum is there");
    }

    /// Everything broken is made good, and every copy brought in step.
    async fn mend(&self, up: &Up, random: &SimRandom) {
        if self.bad.borrow().is_empty() && random.chance(1, 2) {
            return;
        }
        for disk in &self.world.disks {
            disk.clear_faults();
        }
        for (index, disk) in self.world.disks.iter().enumerate() {
            let member =
                up.pool.disks().into_iter().find(|member| member.record.serial == format!("S{index}")).expect("a member");
            if !disk.is_present() {
                disk.reappear();
            }
            if member.record.state != DiskState::Online {
                up.pool.disk_back(self.world.candidate(index)).await.expect("a member comes back");
            }
        }
        up.space.tidy().await.expect("copies come in step");
        if self.is_whole(up) {
            self.bad.borrow_mut().clear();
        }
    }

    /// At the end all copies are brought in step and must be alike.
    fn verify_at_rest(self: &Rc<Self>, up: Up) {
        let run = self.clone();
        let done = self.world.sim.run(async move {
            let random = run.world.sim.random();
            run.bad.borrow_mut().push(usize::MAX);
            for _ in 0..20 {
                run.mend(&up, &random).await;
                if run.bad.borrow().is_empty() {
                    break;
                }
            }
            assert!(run.is_whole(&up), "every copy comes in step: {:?}", up.space.status());
            up.space.close().await.expect("closes");
            run.compare_copies(&up).await;
        });
        done.expect("the power stays on");
    }

    async fn compare_copies(&self, up: &Up) {
        let disk_of = |id| up.pool.disk_record(id).map(|record| record.path).expect("a member");
        for row in up.space.map() {
            let copies = usize::from(self.plan.shape.layout.copies());
            let written = up.space.written_blocks(row.chunk).await.expect("maps can be read");
            for (column, slabs) in row.slabs.chunks(copies).enumerate() {
                for (start, end) in &written[column] {
                    let (at, len) = (u64::from(*start) * BLOCK_BYTES, ((end - start) as u64 * BLOCK_BYTES) as usize);
                    let read = |slab: &holdfast_space::SlabMap| {
                        let index: usize = disk_of(slab.disk).trim_start_matches("/sim/").parse().expect("a number");
                        self.world.disks[index].peek(slab.offset_bytes + holdfast_pool::slab::HEAD_BYTES + at, len)
                    };
                    let first = read(&slabs[0]);
                    assert!(
                        slabs[1..].iter().all(|slab| read(slab) == first),
                        "copies of chunk {} column {column} differ",
                        row.chunk
                    );
                }
            }
        }
    }
}

fn settings() -> SpaceSettings {
    SpaceSettings { open_rows: 2, ..SpaceSettings::default() }
}

#[test]
fn no_read_returns_what_it_must_not() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("HOLDFAST_SEED") {
        return simulate(seed);
    }
    let seeds = number("HOLDFAST_SEEDS").unwrap_or(2000);
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for seed in (thread..seeds).step_by(threads as usize) {
                    let result = std::panic::catch_unwind(|| simulate(seed));
                    if let Err(panic) = result {
                        eprintln!("HOLDFAST_SEED={seed} replays this failure");
                        std::panic::resume_unwind(panic);
                    }
                }
            });
        }
    });
}
