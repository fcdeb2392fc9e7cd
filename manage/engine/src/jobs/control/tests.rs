use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;

use super::*;

/// A clock that sleeps by going forward.
#[derive(Default)]
struct Leaping(Mutex<Duration>);

impl Leaping {
    fn forward(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

impl Clock for Leaping {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        self.forward(duration);
        Box::pin(std::future::ready(()))
    }
}

struct Rig {
    clock: Arc<Leaping>,
    requests: Arc<AtomicU64>,
    control: Control,
}

impl Rig {
    fn new(priority: JobPriority, cap: Option<u64>) -> Self {
        let (clock, requests) = (Arc::new(Leaping::default()), Arc::new(AtomicU64::new(7)));
        let counted = requests.clone();
        let control = Control::new(
            clock.clone(),
            move || counted.load(Ordering::Relaxed),
            1 << 20,
            JobPace { priority, cap_bytes_per_second: cap },
        );
        Self { clock, requests, control }
    }

    /// A step that takes `work`, with `requests` of clients meanwhile; how long it was waited for.
    fn step(&self, bytes: u64, work: Duration, requests: u64) -> Duration {
        let before = self.clock.now();
        self.control.step(bytes).now_or_never().expect("the clock leaps").expect("nobody stops it");
        let waited = self.clock.now() - before;
        self.clock.forward(work);
        self.requests.fetch_add(requests, Ordering::Relaxed);
        self.control.done(bytes);
        waited
    }
}

const WORK: Duration = Duration::from_millis(10);

#[test]
fn clients_are_made_way_for_by_priority() {
    for (priority, expected) in [(JobPriority::Low, 4), (JobPriority::Normal, 1), (JobPriority::High, 0)] {
        let rig = Rig::new(priority, None);
        assert_eq!(rig.step(1, WORK, 0), Duration::ZERO);
        assert_eq!(rig.step(1, WORK, 1), Duration::ZERO, "nobody asked for anything");
        assert_eq!(rig.step(1, WORK, 0), WORK * expected, "{priority:?}");
        assert_eq!(rig.step(1, WORK * 1000, 1), Duration::ZERO, "and nobody does any more");
        assert_eq!(rig.step(1, WORK, 0), PAUSE.min(WORK * 1000 * expected), "{priority:?}");
    }
}

#[test]
fn no_more_is_done_than_the_cap_and_one_step() {
    let rig = Rig::new(JobPriority::High, Some(1000));
    for _ in 0..50 {
        rig.step(100, Duration::from_millis(1), 0);
    }
    let elapsed = rig.clock.now().as_secs_f64();
    let most = 1000.0 * elapsed + 100.0;
    assert!((4.8..=5.1).contains(&elapsed) && 5000.0 <= most + 1.0, "5,000 bytes at 1,000 a second took {elapsed} s");
    rig.control.set_pace(JobPace { priority: JobPriority::High, cap_bytes_per_second: None });
    assert_eq!(rig.step(1 << 30, WORK, 0), Duration::ZERO, "without a cap nothing is owed");
    rig.control.set_pace(JobPace { priority: JobPriority::High, cap_bytes_per_second: Some(1 << 30) });
    assert!(rig.step(1, WORK, 0) <= Duration::from_secs(1));
}

#[test]
fn time_that_passes_pays_the_debt() {
    let rig = Rig::new(JobPriority::Normal, Some(1000));
    assert_eq!(rig.step(500, Duration::from_millis(200), 0), Duration::ZERO);
    let waited = rig.step(1, WORK, 0);
    assert!(waited.abs_diff(Duration::from_millis(300)) < Duration::from_millis(1), "{waited:?}");
}

#[tokio::test]
async fn a_held_gate_waits_and_a_shut_one_ends() {
    let rig = Rig::new(JobPriority::Normal, None);
    rig.control.set_gate(JobGate::Held);
    assert!(rig.control.step(1).now_or_never().is_none());
    let (stepped, ()) = tokio::join!(rig.control.step(1), async { rig.control.set_gate(JobGate::Open) });
    assert_eq!(stepped, Ok(()));
    rig.control.set_gate(JobGate::Held);
    let (stepped, ()) = tokio::join!(rig.control.step(1), async { rig.control.set_gate(JobGate::Shut) });
    assert_eq!(stepped, Err(Stopped));
    rig.control.set_gate(JobGate::Open);
    assert_eq!(rig.control.step(1).now_or_never(), Some(Err(Stopped)), "it stays shut");
}
