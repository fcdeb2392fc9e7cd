//! Signs of life: what the owner of a pool writes on its disks every few seconds while it has it, so that whoever is about
//! to import the pool elsewhere sees that it is in use, and by whom.
//!
//! ```text
//!   block 1 of each disk:   | frame: generation of the owner, count | host | seconds since 1970 |
//! ```
//!
//! Invariant: they are a word to people, and nothing depends on them: who owns a pool is what the promises in the labels
//! say. A disk without one tells nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use holdfast_device::{Clock, Durability, IoBuf};
use holdfast_model::BLOCK_BYTES;
use holdfast_model::wire::{Reader, Writer};

use crate::event::WitnessRecord;
use crate::frame::{Frame, Kind, Position};
use crate::log::LogPlace;
use crate::pool::Pool;
use crate::promise::promised;
use crate::scan::{FoundPool, Member};

/// How often a pool that was found is looked at while it is watched.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Bytes that the name of a host may have.
const MOST_HOST_BYTES: usize = 255;

/// The last sign of life of an owner that a disk shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOfLife {
    /// The generation of the owner, and the number of the sign.
    pub position: Position,
    /// The owner's host.
    pub host: String,
    /// When, in seconds since 1970.
    pub at_seconds: u64,
}

impl SignOfLife {
    fn seal(&self, place: &LogPlace) -> IoBuf {
        let mut writer = Writer::new();
        writer.text(&self.host).u64(self.at_seconds);
        Self::frame(place, self.position).seal(&writer.into_bytes())
    }

    fn frame(place: &LogPlace, position: Position) -> Frame {
        let offset = place.area.sign_of_life();
        Frame { kind: Kind::SignOfLife, pool: place.pool, disk: place.disk, offset, position, previous: 0 }
    }

    pub(crate) async fn read(place: &LogPlace) -> Option<Self> {
        let block = place.device.read(place.area.sign_of_life(), IoBuf::new(BLOCK_BYTES as usize)).await.ok()?;
        let (header, payload) = Frame::open_inline(&block).ok()?;
        let position = header.frame.position;
        let mut reader = Reader::new(payload);
        let (host, at_seconds) = (reader.text().ok()?.to_owned(), reader.u64().ok()?);
        (header.frame == Self::frame(place, position)).then_some(Self { position, host, at_seconds })
    }
}

impl Pool {
    /// Writes a sign of life of this owner, on this host at this time, on each disk in service.
    pub async fn show_life(&self, host: &str, at_seconds: u64) {
        if !self.may_be_lost() {
            return;
        }
        let host: String = host.chars().take(MOST_HOST_BYTES / 4).collect();
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
