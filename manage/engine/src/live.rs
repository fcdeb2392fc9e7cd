//! The sampler, and what consoles are told as it happens.
//!
//! ```text
//!   each second ─▶ history ─▶ sample ──┐
//!   each second, and at each event     ├──▶ one channel ──▶ every console
//!        ─▶ prints of the lists ───────┘
//! ```
//!
//! Invariants: whatever number of consoles listens, each message is made once; while none does, none is made. A console
//! that is too slow is told that every list changed, and goes on.

mod prints;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use holdfast_api::{HistoryKind, ListKind, ListsChanged, LiveSample};
use holdfast_block::Totals;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast, watch};

use crate::engine::Engine;
use crate::history::{Key, Reading, Second};
use prints::{Happened, Prints};

const INTERVAL: Duration = Duration::from_secs(1);
/// Changes that come within this are told together.
const GATHER: Duration = Duration::from_millis(50);
/// Messages that a console may be behind.
const BEHIND: usize = 64;

/// A message to all consoles: the name of the event and its JSON.
#[derive(Clone, Debug)]
pub struct Message {
    /// `sample`, `changed`, `noted` or `beat`.
    pub event: &'static str,
    /// A [`LiveSample`], [`ListsChanged`], [`holdfast_api::Event`] or nothing.
    pub data: Arc<str>,
}

impl Message {
    fn new<T: Serialize>(event: &'static str, data: &T) -> Self {
        Self { event, data: serde_json::to_string(data).unwrap_or_default().into() }
    }

    /// Tells that the server is there, and nothing else.
    pub fn beat() -> Self {
        Self { event: "beat", data: "{}".into() }
    }

    /// Tells that any list may have changed.
    pub fn everything() -> Self {
        Self::new("changed", &ListsChanged { kinds: ListKind::ALL.to_vec() })
    }
}

/// The channel to all consoles.
pub(crate) struct Live {
    consoles: broadcast::Sender<Message>,
    changed: Notify,
    happened: Happened,
}

impl Default for Live {
    fn default() -> Self {
        Self { consoles: broadcast::channel(BEHIND).0, changed: Notify::new(), happened: Happened::default() }
    }
}

impl Live {
    fn is_heard(&self) -> bool {
        self.consoles.receiver_count() > 0
    }

    fn tell(&self, message: Message) {
        let _ = self.consoles.send(message);
    }
}

/// Samples, and tells consoles, until `stop` says so or the engine is gone.
pub(crate) async fn run(engine: Weak<Engine>, mut stop: watch::Receiver<bool>) {
    let Some(mut events) = engine.upgrade().map(|engine| engine.events.follow(u64::MAX).1) else { return };
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let (mut prints, mut sampled) = (None, Instant::now());
    loop {
        let Some(changed) = engine.upgrade().map(|engine| engine.consoles.clone()) else { return };
        let told = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => None,
            () = changed.changed.notified() => Some(None),
            event = events.recv() => match event {
                Ok(event) => Some(Some(event)),
                Err(RecvError::Lagged(_)) => Some(None),
                Err(RecvError::Closed) => return,
            },
        };
        let Some(engine) = engine.upgrade() else { return };
        match told {
            None => {
                let elapsed = sampled.elapsed().as_secs_f64();
                sampled = Instant::now();
                let second = engine.sample(elapsed);
                if engine.consoles.is_heard() {
                    engine.consoles.tell(engine.live_sample(second));
                }
            }
            Some(_) if !engine.consoles.is_heard() => continue,
            Some(event) => {
                if let Some(event) = event {
                    engine.consoles.note(&event);
                    engine.consoles.tell(Message::new("noted", &event));
                }
                tokio::time::sleep(GATHER).await;
            }
        }
        compare(&engine, &mut prints).await;
    }
}

/// Tells which lists changed since the last look; whoever is the first to listen is told of all.
async fn compare(engine: &Arc<Engine>, prints: &mut Option<Prints>) {
    if !engine.consoles.is_heard() {
        *prints = None;
        return;
    }
    let Ok(now) = engine.prints().await else { return };
    match prints.replace(now.clone()).map(|before| now.changed_since(&before)) {
        None => engine.consoles.tell(Message::everything()),
        Some(kinds) if kinds.is_empty() => {}
        Some(kinds) => engine.consoles.tell(Message::new("changed", &ListsChanged { kinds })),
    }
}

impl Engine {
    /// What is told to consoles from now on.
    pub fn listen_live(&self) -> broadcast::Receiver<Message> {
        self.consoles.consoles.subscribe()
    }

    /// Says that accounts or tokens are not as they were.
    pub fn accounts_changed(&self) {
        self.consoles.accounts_changed();
    }

    /// Says that channels or rules of notifications are not as they were.
    pub fn notifications_changed(&self) {
        self.consoles.notifications_changed();
    }

    /// Shows all counters to the history.
    fn sample(&self, elapsed: f64) -> Second {
        use std::sync::atomic::Ordering::Relaxed;
        let (pools, targets, luns) = {
            let live = self.live();
            let luns = live.targets.values().flat_map(|target| target.served());
            let luns = luns.map(|lun| (lun.name, lun.known.id, lun.block.clone())).collect::<Vec<_>>();
            let targets =
                live.exports.values().filter_map(|export| Some((export.known.name.clone(), export.target.clone()?)));
            (live.pools.values().cloned().collect::<Vec<_>>(), targets.collect::<Vec<_>>(), luns)
        };
        let volumes: Vec<_> = pools.iter().flat_map(|open| open.volume_traffic()).collect();
        self.history.sample(Timestamp::now().as_second(), elapsed, |take| {
            for open in pools {
                let within = Key::new(HistoryKind::Pool, open.pool.id());
                for disk in open.pool.pool_disks() {
                    let counters = &disk.counters;
                    take(Reading {
                        key: Key::new(HistoryKind::Disk, disk.id),
                        name: "",
                        within: None,
                        totals: Totals {
                            reads: counters.reads.load(Relaxed),
                            read_bytes: counters.read_bytes.load(Relaxed),
                            writes: counters.writes.load(Relaxed),
                            written_bytes: counters.written_bytes.load(Relaxed),
                        },
                        latencies: &|| (counters.read_latency.counts(), counters.write_latency.counts()),
                    });
                }
                for (name, service) in open.named_services() {
                    take(Reading {
                        key: Key::new(HistoryKind::Space, service.id()),
                        name: &name,
                        within: Some(within.clone()),
                        totals: service.traffic().totals(),
                        latencies: &|| service.traffic().latencies(),
                    });
                }
            }
            for traffic in &volumes {
                take(Reading {
                    key: Key::new(HistoryKind::Volume, traffic.id),
                    name: &traffic.name,
                    within: None,
                    totals: traffic.totals(),
                    latencies: &|| traffic.latencies.clone(),
                });
            }
            for (name, id, target) in &luns {
                take(Reading {
                    key: Key::new(HistoryKind::Lun, id),
                    name,
                    within: None,
                    totals: target.traffic().totals(),
                    latencies: &|| target.traffic().latencies(),
                });
            }
            for (name, target) in &targets {
                take(Reading {
                    key: Key::new(HistoryKind::Export, name),
                    name,
                    within: None,
                    totals: target.traffic().totals(),
                    latencies: &|| target.traffic().latencies(),
                });
            }
        })
    }

    fn live_sample(&self, second: Second) -> Message {
        let mut jobs = self.jobs(None, None);
        jobs.retain(|job| !job.state.has_ended());
        let mut sample = LiveSample {
            time_ms: Timestamp::now().as_millisecond(),
            server: second.server,
            spaces: Default::default(),
            exports: Default::default(),
            luns: Default::default(),
            volumes: Default::default(),
            jobs,
        };
        for (kind, name, rates) in second.objects {
            match kind {
                HistoryKind::Space => _ = sample.spaces.insert(name, rates),
                HistoryKind::Export => _ = sample.exports.insert(name, rates),
                HistoryKind::Lun => _ = sample.luns.insert(name, rates),
                HistoryKind::Volume => _ = sample.volumes.insert(name, rates),
                HistoryKind::Server | HistoryKind::Pool | HistoryKind::Disk => {}
            }
        }
        Message::new("sample", &sample)
    }
}
