//! Blocks of disks that were wrong or could not be read, and were rewritten: told once at first, and then by sums.
//!
//! Invariant: what is told of a disk comes once a minute at most, and each block is in one of these sums.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use holdfast_model::counted;
use holdfast_pool::{Pool, Severity};

/// How often a disk is told of.
const EVERY: Duration = Duration::from_secs(60);

/// What was rewritten on a disk and is not told yet.
#[derive(Default)]
struct Sum {
    blocks: u64,
    /// When something was told last.
    told: Option<Duration>,
}

impl Sum {
    /// Takes what is due at a time out.
    fn due(&mut self, now: Duration) -> Option<u64> {
        let is_due = self.blocks > 0 && self.told.is_none_or(|told| now.saturating_sub(told) >= EVERY);
        is_due.then(|| {
            self.told = Some(now);
            std::mem::take(&mut self.blocks)
        })
    }
}

/// Sums by disk, for one space.
#[derive(Default)]
pub struct Repairs(Mutex<BTreeMap<u16, Sum>>);

impl Repairs {
    /// Counts blocks of a disk, and tells them if nothing was told of it for a minute.
    pub fn note(&self, pool: &Pool, path: &str, disk: u16, blocks: u64) {
        let now = pool.env().clock.now();
        let due = {
            let mut sums = self.0.lock().expect("no panic while held");
            let sum = sums.entry(disk).or_default();
            sum.blocks += blocks;
            sum.due(now)
        };
        due.into_iter().for_each(|blocks| tell(pool, path, disk, blocks));
    }

    /// Tells what is due, or with `all` whatever was not told yet.
    pub fn tell_due(&self, pool: &Pool, path: &str, all: bool) {
        let now = pool.env().clock.now();
        let due: Vec<(u16, u64)> = {
            let mut sums = self.0.lock().expect("no panic while held");
            let due = |(disk, sum): (&u16, &mut Sum)| {
                let blocks = if all { Some(std::mem::take(&mut sum.blocks)) } else { sum.due(now) };
                Some((*disk, blocks.filter(|blocks| *blocks > 0)?))
            };
            sums.iter_mut().filter_map(due).collect()
        };
        due.into_iter().for_each(|(disk, blocks)| tell(pool, path, disk, blocks));
    }
}

fn tell(pool: &Pool, path: &str, disk: u16, blocks: u64) {
    let cause = counted(
        blocks,
        &format!("block of space {path} was wrong or could not be read, and was rewritten"),
        &format!("blocks of space {path} were wrong or could not be read, and were rewritten"),
    );
    pool.emit(Severity::Warning, pool.disk_object(disk), cause, "watch the disk; replace it if errors continue");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_the_rest_by_the_minute() {
        let (mut sum, second) = (Sum::default(), Duration::from_secs);
        assert_eq!(sum.due(second(5)), None);
        sum.blocks += 1;
        assert_eq!(sum.due(second(5)), Some(1));
        sum.blocks += 9_000;
        assert_eq!(sum.due(second(64)), None);
        sum.blocks += 999;
        assert_eq!([sum.due(second(65)), sum.due(second(200))], [Some(9_999), None]);
    }
}
