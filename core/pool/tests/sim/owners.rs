//! Two owners of one pool, alive on the same disks: one goes on while the other imports, and whoever imports last must
//! find whatever either of them was answered.
//!
//! Requests of both are carried out in any order. `HOLDFAST_SEEDS=N` runs N seeds, `HOLDFAST_FROM=F` begins with
//! another one, `HOLDFAST_SEED=S` runs exactly one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use holdfast_device::sim::{Disappearance, SimRandom};
use holdfast_harness::over_seeds;
use holdfast_model::{Layout, PoolState, Provisioning};
use holdfast_pool::{Candidate, Env, Pool, PoolError, PoolErrorKind, Severity};

/// The names of the spaces that the answers to owners confirm.
type Answered = Rc<RefCell<BTreeSet<String>>>;

/// An owner in its own process, on its own host or on the same one.
struct Owner {
    name: &'static str,
    pool: Arc<Pool>,
    made: Cell<u32>,
    answered: Answered,
}

impl Owner {
    fn new(name: &'static str, pool: Arc<Pool>, answered: &Answered) -> Rc<Self> {
        Rc::new(Self { name, pool, made: Cell::new(0), answered: answered.clone() })
    }

    async fn make(&self) -> Result<(), PoolError> {
        let name = format!("{}{}", self.name, self.made.replace(self.made.get() + 1));
        self.pool.create_space(spec(&name, Layout::Simple, 1, Provisioning::Thin, MIB)).await?;
        self.answered.borrow_mut().insert(name);
        Ok(())
    }

    /// Makes spaces until one is refused. Few enough that a log never turns to its other half.
    async fn work(self: Rc<Self>, random: SimRandom, most: u32) {
        for _ in 0..most {
            if let Err(error) = self.make().await {
                assert!(matches!(error.kind, PoolErrorKind::ReadOnly | PoolErrorKind::NoQuorum), "{error}");
                return;
            }
            if random.chance(1, 4) {
                let clock = self.pool.env().clock.clone();
                clock.sleep(Duration::from_micros(random.range(0..50))).await;
            }
        }
    }
}

/// Scans and imports, once.
async fn take_over(env: Env, candidates: Vec<Candidate>) -> Result<Arc<Pool>, PoolError> {
    let found = holdfast_pool::scan(candidates).await.pools.pop().expect("a pool is there");
    Pool::import(env, found, false).await
}

fn spaces(pool: &Pool) -> BTreeSet<String> {
    pool.spaces().into_iter().map(|space| space.name.to_string()).collect()
}

/// What the events of a lost pool and everything that it answers must say.
fn check_lost(lab: &Lab, owner: &Rc<Owner>) {
    let asked = owner.clone();
    let error = lab.run(async move { asked.make().await }).expect_err("another owner has it");
    let why = owner.pool.refusal().expect("it takes no changes");
    assert!(owner.pool.is_lost() && why.contains("imported by another owner as generation"), "{why}");
    assert!(error.kind == PoolErrorKind::ReadOnly && error.context.contains(&why), "{error}");
    assert!(error.context.contains("export it here to let it go"), "{error}");
    let status = owner.pool.status();
    assert_eq!(status.state, PoolState::ReadOnly);
    assert!(
        status.conditions[0].cause == why && status.conditions[0].next_action.contains("export it here"),
        "{status:?}"
    );
}

fn live(seed: u64) {
    let mut lab = Lab::new(seed, &[]);
    let random = lab.sim.random();
    let disks: Vec<usize> = (0..random.range(1..=5usize)).map(|_| lab.add_disk(SMALL)).collect();
    let answered = Answered::default();
    let mut pool = lab.created(&disks);
    if random.chance(1, 2) {
        lab.kill(pool);
        pool = lab.imported(&disks);
    }
    let first = Owner::new("first", pool, &answered);
    // Where the second one is on another host, it has a witness of its own, which never heard of the pool.
    let shared = random.chance(1, 2);
    let env = |shared: bool| match shared {
        true => lab.env(),
        false => Env { witness: Arc::new(MemoryWitness::default()), ..lab.env() },
    };
    let lost = disks.len() > 2 && random.chance(1, 4);
    if lost {
        lab.disks[0].disappear(Disappearance::Cable);
    }

    let mut workers = vec![lab.sim.spawn_handle(first.clone().work(random.clone(), random.range(1..12)))];
    if random.chance(1, 3) {
        workers.push(lab.sim.spawn_handle(first.clone().work(random.clone(), random.range(1..12))));
    }
    let (later, candidates, clock) = (env(shared), lab.candidates(&disks[usize::from(lost)..]), lab.sim.clock());
    let (chance, began) = (random.clone(), answered.clone());
    let imported = lab.sim.spawn_handle(async move {
        clock.sleep(Duration::from_micros(chance.range(0..200))).await;
        let pool = take_over(later, candidates).await?;
        let second = Owner::new("second", pool, &began);
        second.clone().work(chance.clone(), chance.range(1..12)).await;
        Ok::<_, PoolError>(second)
    });
    let second = lab.run(async move {
        for worker in workers {
            worker.await;
        }
        imported.await
    });
    let second = match second {
        Ok(second) => second,
        Err(error) => {
            let reported = matches!(error.kind, PoolErrorKind::NoQuorum | PoolErrorKind::Conflict);
            assert!(reported, "seed {seed}: {error}");
            return check_third(seed, &lab, env(true), &disks, &[first], &answered);
        }
    };
    assert!(!second.pool.is_lost(), "seed {seed}: nobody imported it after the second owner");
    lab.run({
        let second = second.clone();
        async move { second.make().await }
    })
    .expect("it is the second owner's");
    match random.chance(1, 2) {
        true => {
            let idle = first.pool.clone();
            lab.run(async move { idle.look_for_another_owner().await });
            assert!(first.pool.is_lost(), "seed {seed}: an idle owner notices");
        }
        false => check_lost(&lab, &first),
    }
    check_lost(&lab, &first);
    let reported = lab.events.take();
    let reported = reported.iter().filter(|event| event.cause.contains("imported by another owner"));
    assert_eq!(
        reported.filter(|event| event.severity == Severity::Error).count(),
        1,
        "seed {seed}: it is reported once"
    );
    check_third(seed, &lab, env(shared), &disks, &[first, second], &answered);
}

/// A third import finds all that was answered, and nobody before it may change anything any more.
fn check_third(seed: u64, lab: &Lab, env: Env, disks: &[usize], before: &[Rc<Owner>], answered: &Answered) {
    lab.disks.iter().for_each(|disk| disk.reappear());
    let third = lab.run(take_over(env, lab.candidates(disks))).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let check = |third: &Pool| {
        let lacking: Vec<String> = answered.borrow().difference(&spaces(third)).cloned().collect();
        assert!(lacking.is_empty(), "seed {seed}: these were answered as made and are gone: {lacking:?}");
        check_allotment(third);
    };
    check(&third);
    before.iter().for_each(|owner| check_lost(lab, owner));
    lab.space(&third, spec("third", Layout::Simple, 1, Provisioning::Thin, MIB)).expect("it is the third owner's");
    drop(third);
    lab.sim.kill();
    lab.sim.run_until_idle();
    let last = lab.imported(disks);
    check(&last);
    assert!(spaces(&last).contains("third"));
}

#[test]
fn nothing_that_either_of_two_owners_was_answered_is_lost() {
    over_seeds(2000, live);
}
