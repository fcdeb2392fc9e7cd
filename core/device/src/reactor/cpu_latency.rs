//! Asks the kernel that sleeping processors wake quickly, while reactors are under load (PM QoS,
//! `Documentation/power/pm_qos_interface` of Linux: a 32-bit number of microseconds, written to `/dev/cpu_dma_latency`,
//! holds until another is written or the file closes).
//!
//! A client that waits for its answer leaves its processor idle. If that goes to sleep, waking it can take longer than
//! the request: on a virtual machine the way through its host, 30 µs and more. A reactor that spins spares itself that
//! wait, but not the client.
//!
//! ```text
//!   none asked ── many short waits in a row ──▶ asked ── no reactor had such for a while ──▶ none asked
//! ```
//!
//! Invariant: what was asked is taken back a moment after the load ends, and by the kernel when the process does.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const DEVICE: &str = "/dev/cpu_dma_latency";
const IDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
/// Its way to sleep is a halt that the host ends; the kernel counts that as 1 µs, so that only zero keeps it from being
/// used.
const HALTS_TO_THE_HOST: &str = "haltpoll";
/// What such a halt takes to end, at the least.
const HALT: Duration = Duration::from_micros(30);
/// What takes a request back: the kernel's own default.
const NONE: i32 = -1;
/// For how long load speaks for more. Each change sends an interrupt to every processor that sleeps.
const LASTS: Duration = Duration::from_millis(50);
/// How much later the end must be to be written down, so that reactors do not take its cache line from each other at
/// each turn.
const STEP: Duration = Duration::from_millis(1);

/// The process's request, shared by its reactors.
#[derive(Debug)]
pub struct CpuLatency {
    file: Mutex<File>,
    bound: i32,
    asked: AtomicBool,
    /// When it is to be taken back, in nanoseconds of the monotonic clock.
    until: AtomicU64,
}

impl CpuLatency {
    /// Opens the kernel's interface; nothing is asked yet. Sleeping processors are to wake within `bound`, rounded down
    /// to microseconds; zero keeps them from sleeping. Where sleep is a halt that the host ends, any bound shorter than
    /// that does so.
    ///
    /// # Errors
    /// When the kernel has no such interface, or the process may not use it: it belongs to root.
    pub fn open(bound: Duration) -> io::Result<Self> {
        let halts = std::fs::read_to_string(IDLE_DRIVER).is_ok_and(|driver| driver.trim() == HALTS_TO_THE_HOST);
        Self::open_at(Path::new(DEVICE), if halts && bound < HALT { Duration::ZERO } else { bound })
    }

    pub(super) fn open_at(path: &Path, bound: Duration) -> io::Result<Self> {
        let explain =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot open {}: {error}", path.display()));
        let file = OpenOptions::new().write(true).open(path).map_err(explain)?;
        let bound = i32::try_from(bound.as_micros()).unwrap_or(i32::MAX);
        Ok(Self { file: Mutex::new(file), bound, asked: AtomicBool::new(false), until: AtomicU64::new(0) })
    }

    /// Whether the request stands now.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// What is asked, in microseconds.
    pub fn bound_us(&self) -> i32 {
        self.bound
    }

    /// There is load at `now`.
    pub(crate) fn renew(&self, now: Duration) {
        let until = nanoseconds(now + LASTS);
        if until >= self.until.load(Ordering::Relaxed) + nanoseconds(STEP) {
            self.until.fetch_max(until, Ordering::Relaxed);
        }
        if !self.is_asked() {
            self.follow(now);
        }
    }

    /// For how long it still stands, if it does. If its time is over at `now` it is taken back.
    pub(crate) fn remaining(&self, now: Duration) -> Option<Duration> {
        if self.is_asked() && self.left(now).is_zero() {
            self.follow(now);
        }
        self.is_asked().then(|| self.left(now))
    }

    fn left(&self, now: Duration) -> Duration {
        Duration::from_nanos(self.until.load(Ordering::Relaxed).saturating_sub(nanoseconds(now)))
    }

    /// Asks while time is left at `now`, and takes back when none is, unless somebody did so.
    fn follow(&self, now: Duration) {
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let asked = !self.left(now).is_zero();
        if self.is_asked() == asked {
            return;
        }
        let value = if asked { self.bound } else { NONE };
        // Nothing depends on it but time: what the kernel refuses is not asked again until the load ends.
        let _ = file.write(&value.to_ne_bytes());
        self.asked.store(asked, Ordering::Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request that goes to a file, and what was written to the file.
    fn recorded(name: &str, bound: Duration) -> (CpuLatency, impl Fn() -> Vec<i32>) {
        let path = std::env::temp_dir().join(format!("holdfast-{name}-{}", std::process::id()));
        std::fs::write(&path, []).expect("a file");
        let latency = CpuLatency::open_at(&path, bound).expect("opened");
        let reader = File::open(&path).expect("opened");
        std::fs::remove_file(&path).expect("removed");
        let asked = move || {
            let mut bytes = Vec::new();
            io::Seek::rewind(&mut &reader).expect("a file");
            io::Read::read_to_end(&mut &reader, &mut bytes).expect("read");
            bytes.chunks(4).map(|value| i32::from_ne_bytes(value.try_into().expect("four bytes"))).collect()
        };
        (latency, asked)
    }

    #[test]
    fn it_is_asked_once_and_taken_back_once() {
        let (latency, asked) = recorded("latency", Duration::from_nanos(3999));
        let start = Duration::from_secs(5);
        assert_eq!(latency.remaining(start), None);
        latency.renew(start);
        latency.renew(start + LASTS / 2);
        assert_eq!((asked(), latency.is_asked()), (vec![3], true));
        assert_eq!(latency.remaining(start + LASTS), Some(LASTS / 2));
        assert_eq!(latency.remaining(start + LASTS / 2 + LASTS), None);
        assert_eq!(latency.remaining(start + 9 * LASTS), None);
        assert_eq!(asked(), [3, NONE]);
        latency.renew(start + 10 * LASTS);
        assert_eq!(asked(), [3, NONE, 3]);
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let error = CpuLatency::open_at(Path::new("/nowhere/latency"), Duration::ZERO).expect_err("not there");
        assert!(error.to_string().contains("/nowhere/latency"), "{error}");
    }
}
