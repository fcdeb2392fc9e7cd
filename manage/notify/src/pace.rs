//! How often and how patiently messages are sent.
//!
//! Invariant: a channel sends no more than [`Pace::burst`] messages at once and one each [`Pace::refill_ms`] in the
//! long run.

/// Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Events that come within this go out together.
    pub(crate) collect_ms: i64,
    /// What was sent is not sent again within this, but counted.
    pub(crate) repeat_ms: i64,
    /// Messages of a channel in a row.
    pub(crate) burst: u32,
    /// After how long there may be one more.
    pub(crate) refill_ms: i64,
    /// How long the second attempt waits; each further one waits twice as long as the one before.
    pub(crate) first_retry_ms: i64,
    /// How long an attempt waits at most.
    pub(crate) last_retry_ms: i64,
    /// After how long a message is given up.
    pub(crate) give_up_ms: i64,
    /// After how many refusals of the server it is.
    pub(crate) refusals: u32,
    /// Messages of a channel that wait; events are collected on meanwhile.
    pub(crate) waiting: usize,
    /// Events that are older when they are heard of are not sent.
    pub(crate) stale_ms: i64,
}

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

impl Default for Pace {
    fn default() -> Self {
        Self {
            collect_ms: 5 * SECOND,
            repeat_ms: 15 * MINUTE,
            burst: 6,
            refill_ms: MINUTE,
            first_retry_ms: 10 * SECOND,
            last_retry_ms: 30 * MINUTE,
            give_up_ms: 24 * HOUR,
            refusals: 3,
            waiting: 3,
            stale_ms: 24 * HOUR,
        }
    }
}

impl Pace {
    /// How long an attempt waits after so many that failed.
    pub(crate) fn backoff_ms(&self, attempts: u32) -> i64 {
        let doubled = 1_i64.checked_shl(attempts.saturating_sub(1)).filter(|factor| *factor > 0).unwrap_or(i64::MAX);
        self.first_retry_ms.saturating_mul(doubled).min(self.last_retry_ms)
    }
}

/// What a channel may still send at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// When it is full again.
    full_ms: i64,
}

impl Bucket {
    /// A full one.
    pub(crate) fn new() -> Self {
        Self { full_ms: i64::MIN }
    }

    /// When the next message may be sent.
    pub(crate) fn next_ms(&self, pace: &Pace, now: i64) -> i64 {
        let most = i64::from(pace.burst) * pace.refill_ms;
        // A clock that was set back does not keep it empty for longer than it takes to fill.
        let full = self.full_ms.clamp(now, now + most);
        (full + pace.refill_ms - most).max(now)
    }

    /// Takes one.
    pub(crate) fn take(&mut self, pace: &Pace, now: i64) {
        let most = i64::from(pace.burst) * pace.refill_ms;
        self.full_ms = self.full_ms.clamp(now, now + most) + pace.refill_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_wait_twice_as_long_each_up_to_half_an_hour() {
        let pace = Pace::default();
        let seconds: Vec<i64> = (1..=10).map(|attempts| pace.backoff_ms(attempts) / SECOND).collect();
        assert_eq!(seconds, [10, 20, 40, 80, 160, 320, 640, 1280, 1800, 1800]);
        assert_eq!(pace.backoff_ms(u32::MAX), pace.last_retry_ms);
    }

    #[test]
    fn a_channel_sends_a_few_at_once_and_then_one_a_minute() {
        let (pace, mut bucket, mut now, mut sent) = (Pace::default(), Bucket::new(), 0, 0);
        while now < HOUR {
            match bucket.next_ms(&pace, now) {
                next if next > now => now = next,
                _ => {
                    bucket.take(&pace, now);
                    sent += 1;
                }
            }
        }
        assert_eq!(sent, 60 + i64::from(pace.burst) - 1);
        // A clock that was set back by a day.
        assert!(bucket.next_ms(&pace, now - 24 * HOUR) <= now - 24 * HOUR + pace.refill_ms);
    }
}
