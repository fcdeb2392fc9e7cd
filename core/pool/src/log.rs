//! The metadata log of one disk: two halves, each a checkpoint of the whole configuration with the records after it.
//!
//! ```text
//!  half A   | zeros               | 7.121 | 7.122 | ... | 7.300 | (old bytes)
//!  half B   | checkpoint at 7.300 | 7.301 | 8.302 | 8.303 |            <- in use
//! ```
//!
//! A checkpoint goes into the half not in use and is durable before the other half is given up and a record follows it,
//! so one half is whole at any time. Behind the last block of the half in use stands a block of zeros: a log that ends
//! otherwise is damaged there, and one that ends so and is short was set back to an older state. A record continues the
//! log only if its sequence is the next one, its generation not lower, and its frame carries the checksum of the
//! payload before it: leftovers of an earlier use of the half never fit.
//!
//! An owner begins with a checkpoint of its own, in the half that the owner before it does not use: a record which that
//! one still sends does not reach what this one writes.

use std::sync::Arc;

use futures_util::future::try_join_all;
use holdfast_device::{Device, Durability, IoBuf, IoError, IoSlice};
use holdfast_model::wire::{Crc32c, crc32c};
use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::area::Area;
use crate::frame::{Frame, Header, Kind, Position};

const PIECE_BYTES: usize = 1 << 20;
const SCAN_BYTES: u64 = 64 << 10;
/// Records are gathered into a checkpoint when they outgrow it, but not before they reach this.
pub(crate) const LEAST_RECORD_BYTES: u64 = 256 << 10;

/// Where the log of a disk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The last change that the disk holds.
    pub position: Position,
    half: usize,
    checkpoint_bytes: u64,
    end: u64,
    previous: u32,
}

impl Tip {
    /// Whether a record continues the log that ends here.
    fn precedes(&self, header: &Header) -> bool {
        let frame = &header.frame;
        frame.position.sequence == self.position.sequence + 1
            && frame.position.generation >= self.position.generation
            && frame.previous == self.previous
    }
}

/// The metadata log of a disk that is open for appending.
pub struct DiskLog {
    /// Where it is.
    pub place: LogPlace,
    tip: Option<Tip>,
    /// Whether this owner wrote the checkpoint that it stands on.
    own: bool,
}

/// A log whose place is known.
#[derive(Clone)]
pub struct LogPlace {
    /// The disk.
    pub device: Arc<dyn Device>,
    /// Its division.
    pub area: Area,
    /// The pool that it belongs to.
    pub pool: Uuid,
    /// Its identity.
    pub disk: Uuid,
}

async fn read(device: &Arc<dyn Device>, offset: u64, len: u64) -> Option<IoBuf> {
    device.read(offset, IoBuf::new(len as usize)).await.ok()
}

impl LogPlace {
    /// Finds the newer of the two halves; `None` where there is none, or where its checkpoint is damaged: the older
    /// half is whole then, but what was added to the newer one since is lost, so the disk is not to be believed.
    pub async fn find_tip(&self) -> Option<Tip> {
        let mut best: Option<Tip> = None;
        for half in 0..2 {
            let limit = self.area.log_half(half) + self.area.log_half_bytes();
            if let Some(tip) = self.half_tip(half, limit).await
                && best.is_none_or(|known| tip.position > known.position)
            {
                best = Some(tip);
            }
        }
        let best = best?;
        let header = self.checkpoint_header(best.half).await?;
        self.checkpoint_pieces(best.half, &header, |_| {}).await.then_some(best)
    }

    /// The payloads of the log up to `tip` with their positions: the checkpoint's, then each record's. `None` if a
    /// checksum fails.
    pub async fn payloads(&self, tip: &Tip) -> Option<Vec<(Position, Vec<u8>)>> {
        let start = self.area.log_half(tip.half);
        let header = self.checkpoint_header(tip.half).await?;
        let mut payloads = vec![(header.frame.position, self.checkpoint_payload(tip.half, &header).await?)];
        let mut offset = start + header.total_bytes();
        let mut window = Window::default();
        while offset < tip.end {
            let (header, payload) = window.record(self, offset, tip.end).await?;
            payloads.push((header.frame.position, payload));
            offset += header.total_bytes();
        }
        Some(payloads)
    }

    /// Whether a log ends at `tip` as it was left: what follows there is zeros.
    pub async fn ends_in_order(&self, tip: &Tip) -> bool {
        let limit = self.area.log_half(tip.half) + self.area.log_half_bytes();
        if tip.end + BLOCK_BYTES > limit {
            return true;
        }
        read(&self.device, tip.end, BLOCK_BYTES).await.is_some_and(|block| block.iter().all(|byte| *byte == 0))
    }

    /// Whether a log that is to end at `known` ends earlier as it was left there once, in either half, which a disk
    /// does that was set back. With `appended` also where something stands behind that: what was written after it was
    /// set back, or what is behind damage.
    pub async fn ends_earlier(&self, shown: &Tip, known: &Tip, appended: bool) -> bool {
        if shown.position.sequence + 1 >= known.position.sequence {
            return false;
        }
        if shown.half != known.half {
            // A checkpoint is taken from the disk as soon as the next one is there.
            return true;
        }
        let end = if appended { shown.end } else { known.end };
        let end = end.max(shown.end + BLOCK_BYTES);
        read(&self.device, shown.end, end - shown.end).await.is_some_and(|gap| gap.iter().all(|byte| *byte == 0))
    }

    /// The last change that any whole block of the two halves names: what the disk held once, be its log damaged before
    /// that or not.
    pub async fn furthest(&self) -> Option<Position> {
        let mut best = None;
        for half in 0..2 {
            let start = self.area.log_half(half);
            let end = start + self.area.log_half_bytes();
            let mut offset = start;
            while offset < end {
                let len = (end - offset).min(PIECE_BYTES as u64);
                // What cannot be read as a whole is looked at block by block.
                match read(&self.device, offset, len).await {
                    Some(piece) => best = best.max(self.last_in(&piece, offset)),
                    None => {
                        for at in (offset..offset + len).step_by(BLOCK_BYTES as usize) {
                            if let Some(block) = read(&self.device, at, BLOCK_BYTES).await {
                                best = best.max(self.last_in(&block, at));
                            }
                        }
                    }
                }
                offset += len;
            }
        }
        best
    }

    fn last_in(&self, bytes: &[u8], offset: u64) -> Option<Position> {
        let blocks = bytes.chunks_exact(BLOCK_BYTES as usize).zip((offset..).step_by(BLOCK_BYTES as usize));
        let own = blocks.filter_map(|(block, at)| {
            let header = Frame::open(block).ok()?;
            let own = self.owns(&header, Kind::Record, at) || self.owns(&header, Kind::Checkpoint, at);
            own.then_some(header.frame.position)
        });
        own.max()
    }

    /// Whether the log still ends where it was found to end.
    pub async fn ends_at(&self, tip: &Tip) -> bool {
        let Some(header) = self.checkpoint_header(tip.half).await else { return false };
        if header.total_bytes() != tip.checkpoint_bytes || header.frame.position > tip.position {
            return false;
        }
        let limit = self.area.log_half(tip.half) + self.area.log_half_bytes();
        let next = Window::default().record(self, tip.end, limit).await;
        next.is_none_or(|(header, _)| !tip.precedes(&header))
    }

    fn owns(&self, header: &Header, kind: Kind, offset: u64) -> bool {
        let frame = &header.frame;
        frame.kind == kind && frame.pool == self.pool && frame.disk == self.disk && frame.offset == offset
    }

    async fn checkpoint_header(&self, half: usize) -> Option<Header> {
        let start = self.area.log_half(half);
        let block = read(&self.device, start, BLOCK_BYTES).await?;
        let header = Frame::open(&block).ok()?;
        let fits = header.payload_at == BLOCK_BYTES as usize && header.total_bytes() <= self.area.log_half_bytes();
        (fits && self.owns(&header, Kind::Checkpoint, start)).then_some(header)
    }

    async fn checkpoint_payload(&self, half: usize, header: &Header) -> Option<Vec<u8>> {
        let mut payload = Vec::with_capacity(header.payload_len);
        let whole = self.checkpoint_pieces(half, header, |piece| payload.extend_from_slice(piece)).await;
        whole.then_some(payload)
    }

    /// Hands the payload on piece by piece; false if it cannot be read or its checksum fails.
    async fn checkpoint_pieces(&self, half: usize, header: &Header, mut each: impl FnMut(&[u8])) -> bool {
        let start = self.area.log_half(half) + BLOCK_BYTES;
        let mut sum = Crc32c::new();
        let mut at = 0;
        while at < header.payload_len {
            let len = (header.payload_len - at).min(PIECE_BYTES);
            let Some(piece) = read(&self.device, start + at as u64, (len as u64).next_multiple_of(BLOCK_BYTES)).await
            else {
                return false;
            };
            sum.add(&piece[..len]);
            each(&piece[..len]);
            at += len;
        }
        sum.value() == header.payload_crc
    }

    /// Whether the log is whole up to `tip`, and nothing stands in the half that is not in use.
    pub async fn holds(&self, tip: &Tip) -> bool {
        let Some(header) = self.checkpoint_header(tip.half).await else { return false };
        self.checkpoint_header(1 - tip.half).await.is_none()
            && self.half_tip(tip.half, tip.end).await.is_some_and(|found| found == *tip)
            && self.checkpoint_pieces(tip.half, &header, |_| {}).await
    }

    /// Where a half ends, which is looked at up to `limit`.
    async fn half_tip(&self, half: usize, limit: u64) -> Option<Tip> {
        let start = self.area.log_half(half);
        let header = self.checkpoint_header(half).await?;
        let mut tip = Tip {
            position: header.frame.position,
            half,
            checkpoint_bytes: header.total_bytes(),
            end: start + header.total_bytes(),
            previous: header.payload_crc,
        };
        let mut window = Window::default();
        while let Some((header, _)) = window.record(self, tip.end, limit).await {
            if !tip.precedes(&header) {
                break;
            }
            tip.position = header.frame.position;
            tip.end += header.total_bytes();
            tip.previous = header.payload_crc;
        }
        Some(tip)
    }
}

/// Reads records in larger pieces than one.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    async fn record(&mut self, place: &LogPlace, offset: u64, limit: u64) -> Option<(Header, Vec<u8>)> {
        let block = self.bytes(place, offset, BLOCK_BYTES, limit).await?;
        let header = Frame::open(block).ok()?;
        if !place.owns(&header, Kind::Record, offset) {
            return None;
        }
        let (header, payload) =
            Frame::open_inline(self.bytes(place, offset, header.total_bytes(), limit).await?).ok()?;
        Some((header, payload.to_vec()))
    }

    async fn bytes(&mut self, place: &LogPlace, offset: u64, len: u64, limit: u64) -> Option<&[u8]> {
        if offset.checked_add(len)? > limit {
            return None;
        }
        let held = offset >= self.start && offset + len <= self.start + self.bytes.len() as u64;
        if !held {
            let want = len.max(SCAN_BYTES).min(limit - offset);
            // A block behind the log that cannot be read does not matter.
            let window = match read(&place.device, offset, want).await {
                Some(window) => window,
                None => read(&place.device, offset, len).await?,
            };
            self.bytes = window.to_vec();
            self.start = offset;
        }
        let at = (offset - self.start) as usize;
        self.bytes.get(at..at + len as usize)
    }
}

/// A whole configuration ready for writing, in memory once for all disks.
pub struct Checkpoint {
    pieces: Vec<IoSlice>,
    len: usize,
    crc: u32,
}

impl Checkpoint {
    /// From its payload.
    pub fn new(payload: &[u8]) -> Self {
        Self {
            pieces: payload.chunks(PIECE_BYTES).map(IoSlice::padded).collect(),
            len: payload.len(),
            crc: crc32c(payload),
        }
    }

    /// Bytes of payload.
    pub fn payload_len(&self) -> usize {
        self.len
    }
}

impl DiskLog {
    /// Opens the log of a disk for appending. Without a tip it is empty until its first checkpoint.
    pub fn new(place: LogPlace, tip: Option<Tip>) -> Self {
        Self { place, tip, own: false }
    }

    /// Where it ends.
    pub fn tip(&self) -> Option<Tip> {
        self.tip
    }

    /// The last change that the disk holds.
    pub fn position(&self) -> Option<Position> {
        self.tip.map(|tip| tip.position)
    }

    /// Whether a record of `payload_len` bytes can be appended without a checkpoint before it.
    pub fn has_room(&self, payload_len: usize) -> bool {
        let Some(tip) = self.tip.filter(|_| self.own) else { return false };
        let start = self.place.area.log_half(tip.half);
        let end = tip.end + record_bytes(payload_len);
        let records = end - start - tip.checkpoint_bytes;
        let most_records = tip.checkpoint_bytes.max(LEAST_RECORD_BYTES).max(record_bytes(payload_len));
        end <= start + self.place.area.log_half_bytes() && records <= most_records
    }

    /// Whether a checkpoint of `payload_len` bytes, with a record behind it, fits a half of this disk.
    pub fn fits(area: &Area, payload_len: usize) -> bool {
        BLOCK_BYTES + (payload_len as u64).next_multiple_of(BLOCK_BYTES) + LEAST_RECORD_BYTES <= area.log_half_bytes()
    }

    /// Writes the whole configuration, as it is at `position`, into the half not in use.
    pub async fn checkpoint(&mut self, position: Position, checkpoint: &Checkpoint) -> Result<(), IoError> {
        if !Self::fits(&self.place.area, checkpoint.len) {
            return Err(too_small("the pool's configuration"));
        }
        let half = self.tip.map_or(0, |tip| 1 - tip.half);
        let start = self.place.area.log_half(half);
        let mut offset = start + BLOCK_BYTES;
        for pieces in checkpoint.pieces.chunks(4) {
            let writes = pieces.iter().map(|piece| {
                let write = self.place.device.write(offset, piece.clone(), Durability::Cached);
                offset += piece.len() as u64;
                write
            });
            try_join_all(writes.collect::<Vec<_>>()).await?;
        }
        if offset < start + self.place.area.log_half_bytes() {
            self.place.device.write(offset, IoSlice::padded(&[0; BLOCK_BYTES as usize]), Durability::Cached).await?;
        }
        self.place.device.flush().await?;
        let frame = self.frame(Kind::Checkpoint, start, position, 0);
        let header = frame.seal_detached(checkpoint.len, checkpoint.crc).freeze();
        self.place.device.write(start, header, Durability::Durable).await?;
        // Were the older half left, a later loss of this one would bring it back as if it were the last word.
        let older = IoSlice::padded(&[0; BLOCK_BYTES as usize]);
        self.place.device.write(self.place.area.log_half(1 - half), older, Durability::Durable).await?;
        let checkpoint_bytes = BLOCK_BYTES + (checkpoint.len as u64).next_multiple_of(BLOCK_BYTES);
        self.tip =
            Some(Tip { position, half, checkpoint_bytes, end: start + checkpoint_bytes, previous: checkpoint.crc });
        self.own = true;
        Ok(())
    }

    /// Appends a record, durably. There must be room for it.
    pub async fn append(&mut self, position: Position, payload: &[u8]) -> Result<(), IoError> {
        let tip = self.tip.expect("a log begins with a checkpoint");
        let area = &self.place.area;
        if tip.end + record_bytes(payload.len()) > area.log_half(tip.half) + area.log_half_bytes() {
            return Err(too_small("the record"));
        }
        let frame = self.frame(Kind::Record, tip.end, position, tip.previous);
        let block = frame.seal(payload);
        let end = tip.end + block.len() as u64;
        let room = end < area.log_half(tip.half) + area.log_half_bytes();
        let mut ended = IoBuf::zeroed(block.len() + if room { BLOCK_BYTES as usize } else { 0 });
        ended[..block.len()].copy_from_slice(&block);
        self.place.device.write(tip.end, ended.freeze(), Durability::Durable).await?;
        self.tip = Some(Tip { position, end, previous: crc32c(payload), ..tip });
        Ok(())
    }

    fn frame(&self, kind: Kind, offset: u64, position: Position, previous: u32) -> Frame {
        Frame { kind, pool: self.place.pool, disk: self.place.disk, offset, position, previous }
    }
}

fn too_small(what: &str) -> IoError {
    let context = format!("the reserved area of the disk is too small for {what}");
    IoError::new(holdfast_device::IoErrorKind::NoSpace, context)
}

fn record_bytes(payload_len: usize) -> u64 {
    ((crate::frame::HEADER_BYTES + payload_len) as u64).next_multiple_of(BLOCK_BYTES)
}
