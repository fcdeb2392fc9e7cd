//! How long a simulated disk takes.
//!
//! ```text
//!   rotating   one head; of the first `queue_depth` requests the next one upwards is served (elevator)
//!              time = seek(distance) + rotation (uniform, half a turn on average) + bytes / rate
//!              a request that starts where the last one ended costs its transfer alone
//!   solid      `channels` requests at once, each its latency; all share one bus of `bytes_per_second`
//! ```
//!
//! Invariant: times are those of the medium. A volatile cache decides what a power cut may take, never how fast a
//! write is answered, so figures do not depend on how full a cache would be.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::random::Stream;

/// A rotating disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HddModel {
    /// One turn of the platter.
    pub turn: Duration,
    /// Seek to the neighbouring track.
    pub seek_min: Duration,
    /// Seek across the whole disk; in between the time grows with the square root of the distance.
    pub seek_max: Duration,
    /// Transfer rate.
    pub bytes_per_second: u64,
    /// Requests that the disk sorts; more wait in order of arrival.
    pub queue_depth: usize,
    /// A flush of the volatile cache.
    pub flush: Duration,
}

impl HddModel {
    /// 10,000 rpm: 3 ms for half a turn, seeks of 0.7 to 8 ms, 150 MB/s. About 130 random reads a second at depth 1.
    pub const RPM_10K: Self = Self {
        turn: Duration::from_micros(6_000),
        seek_min: Duration::from_micros(700),
        seek_max: Duration::from_micros(8_000),
        bytes_per_second: 150_000_000,
        queue_depth: 32,
        flush: Duration::from_micros(6_000),
    };
    /// 7,200 rpm: 4.17 ms for half a turn, seeks of 1 to 15 ms, 200 MB/s. About 79 random reads a second at depth 1.
    pub const RPM_7200: Self = Self {
        turn: Duration::from_micros(8_333),
        seek_min: Duration::from_micros(1_000),
        seek_max: Duration::from_micros(15_000),
        bytes_per_second: 200_000_000,
        queue_depth: 32,
        flush: Duration::from_micros(8_333),
    };

    fn service(&self, from: u64, task: &Work, size_bytes: u64, random: &mut Stream) -> u64 {
        if task.kind == WorkKind::Flush {
            return nanos(self.flush);
        }
        let transfer = transfer_nanos(task.len, self.bytes_per_second);
        let distance = from.abs_diff(task.offset);
        if distance == 0 {
            return transfer;
        }
        let span = nanos(self.seek_max).saturating_sub(nanos(self.seek_min));
        let seek = nanos(self.seek_min) + (span as f64 * (distance as f64 / size_bytes.max(1) as f64).sqrt()) as u64;
        seek + random.below_u64(nanos(self.turn).max(1)) + transfer
    }
}

/// A solid-state disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SsdModel {
    /// Latency of a read before its transfer.
    pub read: Duration,
    /// Latency of a write before its transfer.
    pub write: Duration,
    /// Latency of a flush or discard.
    pub flush: Duration,
    /// Requests served at once.
    pub channels: usize,
    /// Transfer rate of all channels together.
    pub bytes_per_second: u64,
}

impl SsdModel {
    /// 80 µs for a read, 20 µs for a write, 16 channels, 2 GB/s.
    pub const NVME: Self = Self {
        read: Duration::from_micros(80),
        write: Duration::from_micros(20),
        flush: Duration::from_micros(50),
        channels: 16,
        bytes_per_second: 2_000_000_000,
    };
}

/// How long requests of a simulated disk take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Latency {
    /// No model: a request ends at a random later point of the schedule, in any order, and the clock moves by up to
    /// [`INSTANT_MAX`] for it.
    #[default]
    None,
    /// [`HddModel::RPM_10K`].
    Hdd10k,
    /// [`HddModel::RPM_7200`].
    Hdd7200,
    /// [`SsdModel::NVME`].
    Ssd,
    /// A rotating disk of one's own.
    Rotating(HddModel),
    /// A solid-state disk of one's own.
    Solid(SsdModel),
}

/// The most that the clock moves for one request without a latency model, so that timers also run out under load.
pub const INSTANT_MAX: Duration = Duration::from_micros(20);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkKind {
    Read,
    Write,
    Flush,
}

/// What a request means to the mechanics.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) request: u64,
    pub(super) kind: WorkKind,
    pub(super) offset: u64,
    pub(super) len: u64,
}

pub(super) struct Head {
    model: HddModel,
    position: u64,
    busy: Option<u64>,
    sorted: BTreeMap<(u64, u64), Work>,
    waiting: VecDeque<Work>,
}

pub(super) struct Channels {
    model: SsdModel,
    free_at: Vec<u64>,
    bus_free_at: u64,
}

/// When a request ends.
pub(super) enum Served {
    /// At any later point of the schedule.
    Anytime,
    /// At this time, in nanoseconds.
    At(u64),
    /// Not known yet: it waits for the head.
    Queued,
}

/// The mechanics of one disk.
pub(super) enum Mechanics {
    None,
    Head(Head),
    Channels(Channels),
}

impl Mechanics {
    pub(super) fn new(latency: Latency) -> Self {
        let model = match latency {
            Latency::None => return Self::None,
            Latency::Ssd => return Self::solid(SsdModel::NVME),
            Latency::Solid(model) => return Self::solid(model),
            Latency::Hdd10k => HddModel::RPM_10K,
            Latency::Hdd7200 => HddModel::RPM_7200,
            Latency::Rotating(model) => model,
        };
        Self::Head(Head { model, position: 0, busy: None, sorted: BTreeMap::new(), waiting: VecDeque::new() })
    }

    fn solid(model: SsdModel) -> Self {
        Self::Channels(Channels { model, free_at: vec![0; model.channels.max(1)], bus_free_at: 0 })
    }

    pub(super) fn is_timed(&self) -> bool {
        !matches!(self, Self::None)
    }

    pub(super) fn accept(&mut self, work: Work, now: u64, size_bytes: u64, random: &mut Stream) -> Served {
        match self {
            Self::None => Served::Anytime,
            Self::Channels(channels) => Served::At(channels.serve(&work, now)),
            Self::Head(head) => {
                head.waiting.push_back(work);
                head.start(now, size_bytes, random).map_or(Served::Queued, |(_, at)| Served::At(at))
            }
        }
    }

    /// Takes note that `request` has ended; where that frees the head, gives the next request and when it will end.
    pub(super) fn finished(
        &mut self,
        request: u64,
        now: u64,
        size_bytes: u64,
        random: &mut Stream,
    ) -> Option<(u64, u64)> {
        let Self::Head(head) = self else { return None };
        if head.busy != Some(request) {
            return None;
        }
        head.busy = None;
        head.start(now, size_bytes, random)
    }

    /// Forgets every request: the disk lost its power or its cable.
    pub(super) fn reset(&mut self) {
        match self {
            Self::None => {}
            Self::Head(head) => {
                head.busy = None;
                head.sorted.clear();
                head.waiting.clear();
            }
            Self::Channels(channels) => {
                channels.free_at.fill(0);
                channels.bus_free_at = 0;
            }
        }
    }
}

impl Head {
    fn start(&mut self, now: u64, size_bytes: u64, random: &mut Stream) -> Option<(u64, u64)> {
        if self.busy.is_some() {
            return None;
        }
        while self.sorted.len() < self.model.queue_depth.max(1) {
            let Some(work) = self.waiting.pop_front() else { break };
            let place = if work.kind == WorkKind::Flush { self.position } else { work.offset };
            self.sorted.insert((place, work.request), work);
        }
        let upwards = self.sorted.range((self.position, 0)..).next().map(|(place, _)| *place);
        let place = upwards.or_else(|| self.sorted.keys().next().copied())?;
        let work = self.sorted.remove(&place)?;
        let at = now + self.model.service(self.position, &work, size_bytes, random);
        if work.kind != WorkKind::Flush {
            self.position = work.offset + work.len;
        }
        self.busy = Some(work.request);
        Some((work.request, at))
    }
}

impl Channels {
    fn serve(&mut self, work: &Work, now: u64) -> u64 {
        let latency = match work.kind {
            WorkKind::Read => self.model.read,
            WorkKind::Write => self.model.write,
            WorkKind::Flush => self.model.flush,
        };
        let channel = (0..self.free_at.len()).min_by_key(|channel| self.free_at[*channel]).unwrap_or(0);
        let start = now.max(self.free_at[channel]);
        let done = if work.kind == WorkKind::Flush {
            start + nanos(latency)
        } else {
            self.bus_free_at = start.max(self.bus_free_at) + transfer_nanos(work.len, self.model.bytes_per_second);
            self.bus_free_at + nanos(latency)
        };
        self.free_at[channel] = done;
        done
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn transfer_nanos(len: u64, bytes_per_second: u64) -> u64 {
    (u128::from(len) * 1_000_000_000 / u128::from(bytes_per_second.max(1))) as u64
}
