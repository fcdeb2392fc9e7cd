//! Several front ends on one space at once: a real space on simulated disks, served by the real block service.
//!
//! ```text
//!   clients ─▶ Session ─┐
//!   clients ─▶ Session ─┼─▶ Target × 3 ─▶ ObjectService ─▶ Space ─▶ Pool ─▶ simulated disks
//!   clients ─▶ Session ─┘                                              └─ one fails; the power goes at any write
//! ```
//!
//! Clients write parts of the same few blocks, whole blocks, zeros and discards, and flush what others wrote. A front
//! end goes away and comes again while the others go on. The model says what each read may return, now and after the
//! power was cut, down to units of 16 bytes.
//!
//! `HOLDFAST_SEEDS=N` runs N seeds, with `HOLDFAST_FROM=F` from that one on, `HOLDFAST_SEED=S` exactly one.

#[path = "../../../core/space/tests/sim/model.rs"]
#[allow(dead_code)]
mod model;
#[path = "../../../core/space/tests/sim/world.rs"]
#[allow(dead_code)]
mod world;

mod client;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use holdfast_block::{Balancer, Claimed, ObjectService, Qos, Session, Target};
use holdfast_device::IoBuf;
use holdfast_device::sim::{Disappearance, ErrorPersistence, Latency, Sim, SimDiskSpec, SimRandom};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, Integrity, Layout, Provisioning, Shape};
use holdfast_pool::{Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings};

use model::Model;
use world::World;

const SIZE_BYTES: u64 = 1 << 20;
/// What a look at everything reads at a time.
const STRIDE: usize = 64 << 10;
const FRONT_ENDS: [&str; 3] = ["nbd", "iscsi", "vhost"];

/// Sessions that were ended with clients at work, and requests that never began since they still waited then.
static LEFT: AtomicU64 = AtomicU64::new(0);
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);
/// Changes of parts of blocks, and power cuts.
static PARTS: AtomicU64 = AtomicU64::new(0);
static CUTS: AtomicU64 = AtomicU64::new(0);

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// One run of a seed.
struct Run {
    world: World,
    model: Model,
    /// The unit of the model, at which requests begin and end.
    unit: u64,
    shape: Shape,
    settings: SpaceSettings,
    /// Spaces that are checked after every step.
    open: Rc<RefCell<Vec<Weak<Space>>>>,
    /// Names of the targets that there are, those that still drain among them.
    exported: RefCell<Vec<String>>,
    clean: Cell<bool>,
}

/// The pool, its space and the service of the space, of one power-on.
#[derive(Clone)]
struct Up {
    pool: Arc<Pool>,
    space: Arc<Space>,
    service: Arc<ObjectService>,
}

fn draw_shape(random: &SimRandom) -> Shape {
    let interleave = ByteSize::kib([4, 16, 64][random.range(0..3usize)]);
    let shape = match random.range(0..5u32) {
        0 => Shape::plain(Layout::Simple, random.range(1..3u16), interleave),
        1 => Shape::plain(Layout::Mirror { copies: 2 }, random.range(1..3u16), interleave),
        2 => Shape::plain(Layout::Mirror { copies: 3 }, 1, interleave),
        3 => Shape::plain(Layout::Parity { parity: 1 }, random.range(3..5u16), interleave),
        _ => Shape::plain(Layout::Parity { parity: 2 }, random.range(4..6u16), interleave),
    };
    shape.with_integrity(if random.chance(1, 2) { Integrity::Crc32c } else { Integrity::None })
}

impl Run {
    fn new(seed: u64) -> Rc<Self> {
        let sim = Sim::new(seed);
        sim.limit_steps(5_000_000);
        let random = sim.random();
        let shape = draw_shape(&random);
        let tear_bytes = [512, 4096][random.range(0..2usize)];
        let latency = if random.chance(1, 2) { Latency::Ssd } else { Latency::None };
        let spec = |index| SimDiskSpec {
            name: format!("disk{index}"),
            serial: format!("S{index}"),
            size_bytes: 96 << 20,
            tear_bytes,
            latency,
            ..SimDiskSpec::default()
        };
        let disks = usize::from(shape.columns) * usize::from(shape.layout.copies());
        let settings = SpaceSettings {
            open_rows: 2,
            write_buffer_bytes: [16 << 10, 256 << 10, 16 << 20][random.range(0..3usize)],
            staged_bytes: [0, usize::MAX][random.range(0..2usize)],
            ..SpaceSettings::default()
        };
        let open: Rc<RefCell<Vec<Weak<Space>>>> = Rc::default();
        let watched = open.clone();
        sim.after_every_step(move || watched.borrow().iter().filter_map(Weak::upgrade).for_each(|space| space.check()));
        let unit = [16, 512][random.range(0..2usize)];
        Rc::new(Self {
            world: World::new(sim, (0..disks).map(spec).collect()),
            model: Model::new(SIZE_BYTES, unit as usize),
            unit,
            shape,
            settings,
            open,
            exported: RefCell::default(),
            clean: Cell::new(false),
        })
    }

    fn serve(&self, pool: &Arc<Pool>, id: u32) -> Up {
        let space = Space::open(pool.clone(), id, self.settings).expect("the space opens");
        *self.open.borrow_mut() = vec![Arc::downgrade(&space)];
        let balancer = Balancer::new(self.world.disks().len());
        let service = Arc::new(ObjectService::new(space.clone(), balancer, self.world.sim.clock()));
        Up { pool: pool.clone(), space, service }
    }

    fn first_power_on(self: &Rc<Self>) -> Up {
        let (create, run) = (self.world.create("tank"), self.clone());
        let up = self.world.sim.run(async move {
            let pool = create.await;
            let record = pool.create_space(SpaceSpec {
                name: "vol".parse().expect("a name"),
                shape: run.shape,
                provisioning: Provisioning::Thin,
                size_bytes: SIZE_BYTES,
                journal_bytes: None,
                enclosure_aware: false,
            });
            let record = record.await.expect("a thin space takes no room");
            run.serve(&pool, record.id)
        });
        up.expect("no power cut yet")
    }

    /// All disks are there again, and what is read is what the space holds from now on.
    fn power_on(self: &Rc<Self>) -> Up {
        for disk in self.world.disks() {
            disk.clear_faults();
            if !disk.is_present() {
                disk.reappear();
            }
        }
        let (import, run) = (self.world.import(), self.clone());
        let clean = self.clean.take();
        let up = self.world.sim.run(async move {
            let pool = import.await.unwrap_or_else(|error| panic!("import failed: {error}"));
            assert!(clean || !pool.was_closed(), "the pool knows that it was not closed in good order");
            let up = run.serve(&pool, pool.spaces()[0].id);
            for offset in (0..SIZE_BYTES).step_by(STRIDE) {
                let data = up.space.read(offset, IoBuf::new(STRIDE)).await.expect("everything can be read");
                run.model.settle(offset, &data).unwrap_or_else(|why| panic!("{why}"));
            }
            run.bring_in_step(&up).await;
            up
        });
        up.expect("no power cut is planned")
    }

    async fn bring_in_step(&self, up: &Up) {
        for _ in 0..20 {
            for member in up.pool.disks().into_iter().filter(|member| member.record.state != DiskState::Online) {
                let index = member.record.serial.trim_start_matches('S').parse().expect("a number");
                up.pool.disk_back(self.world.candidate(index)).await.expect("a member");
            }
            up.space.maintain_once().await.expect("maintenance works");
            if up.space.status().stale_slabs == 0 {
                return;
            }
        }
        panic!("a slab does not come in step: {:?}", up.space.status());
    }

    /// Front ends at work until their clients are done or the power goes.
    fn round(self: &Rc<Self>, up: Up) {
        let random = self.world.sim.random();
        let end = random.range(0..6u32);
        if end < 4 {
            self.world.sim.cut_power_after(random.range(0..[60, 600][random.range(0..2usize)]));
        }
        if random.chance(1, 2) {
            self.world.sim.spawn(up.space.clone().background_destage());
        }
        let mut tasks: Vec<_> = FRONT_ENDS[..random.range(2..=FRONT_ENDS.len())]
            .iter()
            .map(|name| self.world.sim.spawn_handle(self.clone().front_end(up.service.clone(), name)))
            .collect();
        tasks.push(self.world.sim.spawn_handle(self.clone().operator(up.clone())));
        let done = self.world.sim.run(async move {
            for task in tasks {
                task.await;
            }
        });
        match (done, end) {
            (Ok(()), 4) => self.close(up),
            (Ok(()), 5) => {
                drop(up);
                self.world.sim.kill();
            }
            _ => {
                drop(up);
                count(&CUTS);
                self.world.sim.cut_power();
                self.world.sim.restart();
            }
        }
        self.exported.borrow_mut().clear();
        self.model.crash();
    }

    /// A front end that exports the space, serves clients and goes away, as often as it likes. Where it goes while
    /// clients are at work, what still waits for its turn never begins.
    async fn front_end(self: Rc<Self>, service: Arc<ObjectService>, name: &'static str) {
        let random = self.world.sim.random();
        for _ in 0..random.range(1..=3u32) {
            let limited = random.chance(1, 3).then(|| [50, 2_000, 100_000][random.range(0..3usize)]);
            let qos = Qos { max_iops: limited, ..Qos::default() };
            let target = Target::new(name, String::new(), service.clone(), random.chance(1, 10), &qos);
            let session = Rc::new(Session::new(Arc::new(target.expect("no volume lies on it"))));
            self.exported.borrow_mut().push(name.into());
            let left = Rc::new(Cell::new(false));
            let clients: Vec<_> = (0..random.range(1..=4u32))
                .map(|_| self.world.sim.spawn_handle(self.clone().client(session.clone(), left.clone())))
                .collect();
            if random.chance(1, 2) {
                self.world.sim.clock().sleep(Duration::from_micros(random.range(0..5_000))).await;
                if clients.iter().any(|client| !client.is_finished()) {
                    count(&LEFT);
                }
                left.set(true);
                session.end();
            }
            for client in clients {
                client.await;
            }
            drop(Rc::into_inner(session).expect("nobody else has it"));
            let mut exported = self.exported.borrow_mut();
            let at = exported.iter().position(|other| other == name).expect("it was exported");
            exported.remove(at);
        }
    }

    /// One disk fails, as far as the layout bears it; housekeeping goes on; nobody takes the space from its front ends.
    async fn operator(self: Rc<Self>, up: Up) {
        let random = self.world.sim.random();
        let breaks = self.shape.layout.tolerates() > 0 && random.chance(2, 3);
        let at = random.range(0..8u32);
        for step in 0..8 {
            self.world.sim.clock().sleep(Duration::from_micros(random.range(0..2_000))).await;
            if breaks && step == at {
                self.break_disk(&up.pool, &random).await;
            }
            match random.range(0..3u32) {
                0 => up.space.maintain_once().await.expect("maintenance works"),
                1 => self.check_claims(&up.service),
                _ => {}
            }
        }
    }

    async fn break_disk(&self, pool: &Pool, random: &SimRandom) {
        let index = random.range(0..self.world.disks().len());
        let disk = self.world.disk(index);
        let area = || {
            let start = random.range(4 << 20..60 << 20u64) / BLOCK_BYTES * BLOCK_BYTES;
            start..start + random.range(1..512u64) * BLOCK_BYTES
        };
        match random.range(0..6u32) {
            0..=1 => {
                disk.disappear(if random.chance(1, 2) { Disappearance::PowerLoss } else { Disappearance::Cable });
                let member = pool.disks().into_iter().find(|member| member.record.serial == format!("S{index}"));
                let member = member.expect("a member").record.index;
                pool.disk_out(member, DiskState::Missing, "pulled").await.expect("a quorum is there");
            }
            2 => (0..6).for_each(|_| disk.fail_reads(area(), ErrorPersistence::UntilRewritten)),
            3 => (0..4).for_each(|_| disk.fail_writes(area(), ErrorPersistence::Times(2))),
            4 => disk.fail_next_writes(random.range(1..4)),
            _ => disk.fail_next_flushes(1),
        }
    }

    /// The space is held by all that export it, those that still drain among them, and by nobody else.
    fn check_claims(&self, service: &Arc<ObjectService>) {
        let mut exported = self.exported.borrow().clone();
        exported.sort();
        match service.claims().hold("files") {
            Ok(_) => assert!(exported.is_empty(), "a volume took the space from {exported:?}"),
            Err(Claimed::ByExports(mut names)) => {
                names.sort();
                assert_eq!(names, exported);
            }
            Err(Claimed::ByVolume(other)) => panic!("volume {other} held the space, which nobody gave it"),
        }
    }

    /// The space is served no more and closed in good order.
    fn close(self: &Rc<Self>, up: Up) {
        let run = self.clone();
        let closed = self.world.sim.run(async move {
            let held = up.service.claims().hold("files").expect("no front end is left");
            let refused = Target::new("nbd", String::new(), up.service.clone(), false, &Qos::default()).err();
            assert_eq!(refused, Some(Claimed::ByVolume("files".into())));
            drop(held);
            let flush = run.model.begin_flush();
            let settled = up.space.close().await.expect("closes");
            run.model.end_flush(flush);
            if settled {
                up.pool.export().await.expect("exports");
            }
            settled
        });
        self.clean.set(closed.expect("the power stays on"));
        self.world.sim.kill();
    }
}

fn simulate(seed: u64) {
    let run = Run::new(seed);
    let mut up = run.first_power_on();
    for _ in 0..3 {
        run.round(up);
        up = run.power_on();
    }
    let at_rest = run.clone();
    let done = run.world.sim.run(async move {
        assert!(up.space.close().await.expect("closes"), "in good order");
        at_rest.world.compare_copies(&up.space).await;
        let found = up.space.verify().await.expect("everything can be read");
        assert_eq!(found.mismatched_blocks, 0, "{found:?}");
    });
    done.expect("no power cut is planned");
}

#[test]
fn no_front_end_undoes_what_another_was_answered() {
    holdfast_harness::over_seeds(300, simulate);
    let told = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!("{} changes of parts of blocks, {} power cuts", told(&PARTS), told(&CUTS));
    println!("{} sessions ended at work, {} requests never began", told(&LEFT), told(&GIVEN_UP));
}

/// Seeds that found something once: parity that was computed anew while clients were at work, and that a crash undid, as
/// the journal had it from before (700917).
#[test]
fn seeds_that_found_something_stay_good() {
    simulate(700_917);
}
