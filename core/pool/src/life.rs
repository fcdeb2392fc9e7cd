//! Signs of life: what the owner of a pool writes on its disks while it has it, so that whoever is about to import the
//! pool elsewhere sees that it is in use, and by whom.
//!
//! ```text
//!   block 1 of each disk:   | frame: generation of the owner, number of the sign | host | seconds since 1970 |
//! ```
//!
//! Invariant: they are a word to people, and nothing depends on them: who owns a pool is what the promises in the labels
//! say. A disk without one tells nothing.

use holdfast_device::IoBuf;
use holdfast_model::BLOCK_BYTES;
use holdfast_model::wire::{Reader, Writer};

use crate::frame::{Frame, Kind, Position};
use crate::log::LogPlace;

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
    pub(crate) fn seal(&self, place: &LogPlace) -> IoBuf {
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
