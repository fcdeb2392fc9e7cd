//! Whether somebody has a pool that was found: owners show that they live, and importers watch for that.
//!
//! Invariant: nothing is written but signs of life, and none by who lost the pool.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use holdfast_device::{Clock, Durability};

use crate::event::WitnessRecord;
use crate::frame::Position;
use crate::life::SignOfLife;
use crate::log::LogPlace;
use crate::pool::Pool;
use crate::promise::promised;
use crate::scan::{FoundPool, Member};

/// How often a pool that was found is looked at while it is watched.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Characters that the name of a host may have.
const MOST_HOST_CHARS: usize = 64;

impl Pool {
    /// Writes a sign of life of this owner, on this host at this time, on each disk in service.
    pub async fn show_life(&self, host: &str, at_seconds: u64) {
        if !self.may_be_lost() {
            return;
        }
        let host: String = host.chars().take(MOST_HOST_CHARS).collect();
        let generation = self.position.lock().expect("no panic while held").generation;
        let sequence = self.signs.fetch_add(1, Ordering::Relaxed) + 1;
        let sign = SignOfLife { position: Position { generation, sequence }, host, at_seconds };
        let disks: Vec<_> = self.pool_disks().into_iter().filter(|disk| disk.in_service()).collect();
        let writes = disks.iter().filter_map(|disk| Some((disk, disk.device()?))).map(|(disk, device)| {
            let place = LogPlace { device, area: disk.area, pool: self.id(), disk: disk.id };
            let block = sign.seal(&place).freeze();
            // A disk that takes no writes is found by those that count.
            async move { drop(place.device.write(place.area.sign_of_life(), block, Durability::Cached).await) }
        });
        join_all(writes).await;
    }
}

impl FoundPool {
    /// The highest generation that any of its disks promised.
    fn promised(&self) -> u64 {
        self.members.iter().map(|member| member.promised).max().unwrap_or(0)
    }

    /// The last sign of life of who had it last, where that left any.
    pub fn last_owner(&self) -> Option<&SignOfLife> {
        let promised = self.promised();
        let signs = self.members.iter().filter_map(|member| member.sign_of_life.as_ref());
        signs.filter(|sign| sign.position.generation >= promised).max_by_key(|sign| sign.position)
    }

    /// Whether the owner with this witness had it last, or whoever had it last closed it in good order.
    pub fn is_free_for(&self, witness: Option<WitnessRecord>) -> bool {
        self.config.closed || witness.is_some_and(|witness| witness.promised >= self.promised())
    }

    /// Watches its disks for so long, and answers whether anybody writes to them as an owner does: signs of life, records
    /// in the logs, promises.
    pub async fn is_in_use(&self, clock: &Arc<dyn Clock>, watched: Duration) -> bool {
        let until = clock.now() + watched;
        while clock.now() < until {
            clock.sleep(LOOK_INTERVAL.min(watched)).await;
            if join_all(self.members.iter().map(|member| self.moved(member))).await.contains(&true) {
                return true;
            }
        }
        false
    }

    async fn moved(&self, member: &Member) -> bool {
        let log = member.log(self.id);
        let sign = SignOfLife::read(&log).await;
        let lives = sign.is_some_and(|sign| {
            sign.position.generation >= self.promised() && Some(&sign) != member.sign_of_life.as_ref()
        });
        if lives || promised(&log).await.is_some_and(|promised| promised > member.promised) {
            return true;
        }
        match &member.tip {
            Some(tip) => !log.ends_at(tip).await,
            None => false,
        }
    }
}
