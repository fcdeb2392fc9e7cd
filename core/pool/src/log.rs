//! The metadata log of one disk: two halves, each a checkpoint of the whole configuration with the records after it.
//!
//! ```text
//!  half A   | zeros               | 7.121 | 7.122 | ... | 7.300 | (old bytes)
//!  half B   | checkpoint at 7.300 | 7.301 | 8.302 | 8.303 |            <- in use
//! ```
//!
//! A checkpoint goes into the half not in use and is durable before the other half is given up and a record follows it,
//! so one half is whole at any time. In pools of few disks that have the feature a half holds its log twice while that
//! fits, one copy in each half of it, and each block is taken from either copy. Behind the last block of the half in use
//! stands a block of zeros: a log that ends otherwise is damaged there, and one that ends so and is short was set back to
//! an older state. A record continues the log only if its sequence is the next one, its generation not lower, and its
//! frame carries the checksum of the payload before it: leftovers of an earlier use of the half never fit.
//!
//! An owner begins with a checkpoint of its own, in the half that the owner before it does not use: a record which that
//! one still sends does not reach what this one writes.

use std::sync::Arc;

use futures_util::future::try_join_all;
use holdfast_device::{Device, Durability, IoBuf, IoError, IoSlice};
use holdfast_model::wire::{Crc32c, crc32c};
use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::area::Area;
use crate::config::Config;
use crate::frame::{Frame, Header, Kind, Position};

const PIECE_BYTES: usize = 1 << 20;
const SCAN_BYTES: u64 = 64 << 10;
/// How often the end of a log is looked for: an owner that is alive may turn to the other half meanwhile.
const LOOKS: usize = 3;
/// Records are gathered into a checkpoint when they outgrow it, but not before they reach this.
pub(crate) const LEAST_RECORD_BYTES: u64 = 256 << 10;

/// Where the log of a disk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The last change that the disk holds.
    pub position: Position,
    half: usize,
    checkpoint_bytes: u64,
    /// Where it ends, counted from its checkpoint.
    end: u64,
    previous: u32,
    /// Whether there is a second copy.
    copied: bool,
}

impl Tip {
    /// Whether it stands on its disk twice.
    pub fn is_copied(&self) -> bool {
        self.copied
    }

    fn copies(&self) -> std::ops::Range<usize> {
        0..1 + usize::from(self.copied)
    }

    /// Whether it could be kept twice on a disk.
    fn fits_twice(&self, area: &Area) -> bool {
        (self.checkpoint_bytes + LEAST_RECORD_BYTES).max(self.end) <= area.log_copy_bytes()
    }

    /// The end of a log that has a checkpoint and no record yet.
    fn behind(header: &Header, half: usize) -> Self {
        Self {
            position: header.frame.position,
            half,
            checkpoint_bytes: header.total_bytes(),
            end: header.total_bytes(),
            previous: header.payload_crc,
            copied: false,
        }
    }

    fn advance(&mut self, header: &Header) {
        self.position = header.frame.position;
        self.end += header.total_bytes();
        self.previous = header.payload_crc;
    }

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
        for _ in 0..LOOKS {
            if let Some(tip) = self.look_for_tip().await {
                return Some(tip);
            }
        }
        None
    }

    async fn look_for_tip(&self) -> Option<Tip> {
        let mut best: Option<Tip> = None;
        for half in 0..2 {
            if let Some(tip) = self.half_tip(half).await
                && best.is_none_or(|known| (tip.position, tip.copied) > (known.position, known.copied))
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
        let header = self.checkpoint_header(tip.half).await?;
        let mut payloads = vec![(header.frame.position, self.checkpoint_payload(tip.half, &header).await?)];
        let mut at = Tip::behind(&header, tip.half);
        let mut reader = Records::of(self, tip.half);
        while at.end < tip.end {
            let (header, payload) = reader.next(&at).await?;
            at.advance(&header);
            payloads.push((header.frame.position, payload));
        }
        Some(payloads)
    }

    /// Where one of the copies of the log in a half begins, and where that must end.
    fn copy(&self, half: usize, copy: usize) -> (u64, u64) {
        let end = self.area.log_half(half) + self.area.log_half_bytes();
        (self.area.log_half(half) + copy as u64 * self.area.log_copy_bytes(), end)
    }

    /// Whether a log ends at `tip` as it was left: what follows there, in one of its copies, is zeros.
    pub async fn ends_in_order(&self, tip: &Tip) -> bool {
        for copy in tip.copies() {
            let (start, limit) = self.copy(tip.half, copy);
            if start + tip.end + BLOCK_BYTES > limit || self.is_zeros(start + tip.end, BLOCK_BYTES).await {
                return true;
            }
        }
        false
    }

    async fn is_zeros(&self, offset: u64, len: u64) -> bool {
        read(&self.device, offset, len).await.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
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
        let gap = end.max(shown.end + BLOCK_BYTES) - shown.end;
        for copy in shown.copies() {
            if self.is_zeros(self.copy(shown.half, copy).0 + shown.end, gap).await {
                return true;
            }
        }
        false
    }

    /// The last change that any whole block of the two halves names: what the disk held once, be its log damaged before
    /// that or not.
    pub async fn furthest(&self) -> Option<Position> {
        let mut best = None;
        for half in 0..2 {
            let start = self.area.log_half(half);
            best = best.max(self.furthest_in(start, start + self.area.log_half_bytes()).await);
        }
        best
    }

    /// The same of the room that records behind `tip` may take in its half.
    pub async fn furthest_behind(&self, tip: &Tip) -> Option<Position> {
        let room = tip.checkpoint_bytes.max(LEAST_RECORD_BYTES);
        let mut best = None;
        for copy in tip.copies() {
            let (start, limit) = self.copy(tip.half, copy);
            let end = (start + (tip.checkpoint_bytes + room).max(tip.end + LEAST_RECORD_BYTES)).min(limit);
            best = best.max(self.furthest_in(start + tip.end, end).await);
        }
        best
    }

    async fn furthest_in(&self, start: u64, end: u64) -> Option<Position> {
        let (mut best, mut offset) = (None, start);
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
        Records::of(self, tip.half).next(tip).await.is_none()
    }

    fn owns(&self, header: &Header, kind: Kind, offset: u64) -> bool {
        let frame = &header.frame;
        frame.kind == kind && frame.pool == self.pool && frame.disk == self.disk && frame.offset == offset
    }

    async fn header_of_copy(&self, half: usize, copy: usize) -> Option<Header> {
        let (start, limit) = self.copy(half, copy);
        let block = read(&self.device, start, BLOCK_BYTES).await?;
        let header = Frame::open(&block).ok()?;
        let fits = header.payload_at == BLOCK_BYTES as usize && header.total_bytes() <= limit - start;
        (fits && self.owns(&header, Kind::Checkpoint, start)).then_some(header)
    }

    /// The head of the newer copy, or of the first of two that are the same.
    async fn checkpoint_header(&self, half: usize) -> Option<Header> {
        let (first, second) = (self.header_of_copy(half, 0).await, self.header_of_copy(half, 1).await);
        let position = |header: &Option<Header>| header.as_ref().map(|header| header.frame.position);
        if position(&second) > position(&first) { second } else { first }
    }

    async fn checkpoint_payload(&self, half: usize, header: &Header) -> Option<Vec<u8>> {
        let mut payload = Vec::with_capacity(header.payload_len);
        for copy in 0..2 {
            payload.clear();
            if self.pieces_of_copy(half, copy, header, |piece| payload.extend_from_slice(piece)).await {
                return Some(payload);
            }
        }
        None
    }

    /// Hands the payload on piece by piece; false if it can be read in no copy as its checksum says.
    async fn checkpoint_pieces(&self, half: usize, header: &Header, mut each: impl FnMut(&[u8])) -> bool {
        self.pieces_of_copy(half, 0, header, &mut each).await || self.pieces_of_copy(half, 1, header, each).await
    }

    async fn pieces_of_copy(&self, half: usize, copy: usize, header: &Header, mut each: impl FnMut(&[u8])) -> bool {
        let (start, limit) = self.copy(half, copy);
        if header.total_bytes() > limit - start {
            return false;
        }
        let start = start + BLOCK_BYTES;
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

    /// Whether the log is whole up to `tip`, in each of its copies, and nothing stands in the half that is not in use.
    pub async fn holds(&self, tip: &Tip) -> bool {
        for copy in 0..2 {
            if self.header_of_copy(1 - tip.half, copy).await.is_some() {
                return false;
            }
        }
        for copy in tip.copies() {
            if self.copy_tip(tip, copy).await != Some(tip.position) {
                return false;
            }
        }
        tip.copied == self.header_of_copy(tip.half, 1).await.is_some()
    }

    /// Whether the log is whole in each copy that it is to have, in two with `twice`; but for its last change where that
    /// may have been cut short.
    pub async fn is_whole(&self, tip: &Tip, twice: bool, cut_short: bool) -> bool {
        if twice && !tip.copied && tip.fits_twice(&self.area) {
            return false;
        }
        for copy in tip.copies() {
            let reaches = |end: Position| end.sequence + u64::from(cut_short) >= tip.position.sequence;
            if !self.copy_tip(tip, copy).await.is_some_and(reaches) {
                return false;
            }
        }
        true
    }

    /// How far up to `tip` one copy of its log is whole.
    async fn copy_tip(&self, tip: &Tip, copy: usize) -> Option<Position> {
        let header = self.header_of_copy(tip.half, copy).await?;
        if !self.pieces_of_copy(tip.half, copy, &header, |_| {}).await {
            return None;
        }
        let mut at = Tip::behind(&header, tip.half);
        let mut reader = Records { copies: copy..copy + 1, ..Records::of(self, tip.half) };
        while at.end < tip.end
            && let Some((header, _)) = reader.next(&at).await
        {
            at.advance(&header);
        }
        Some(at.position)
    }

    /// Where a half ends.
    async fn half_tip(&self, half: usize) -> Option<Tip> {
        let header = self.checkpoint_header(half).await?;
        let mut tip = Tip::behind(&header, half);
        let same = |other: Header| {
            (other.frame.position, other.payload_len, other.payload_crc)
                == (header.frame.position, header.payload_len, header.payload_crc)
        };
        tip.copied = self.header_of_copy(half, 1).await.is_some_and(same);
        let mut reader = Records::of(self, half);
        while let Some((header, _)) = reader.next(&tip).await {
            tip.advance(&header);
        }
        Some(tip)
    }
}

/// Reads the records of a half, each from the first copy of it that is whole.
struct Records<'a> {
    place: &'a LogPlace,
    half: usize,
    copies: std::ops::Range<usize>,
    windows: [Window; 2],
}

impl<'a> Records<'a> {
    fn of(place: &'a LogPlace, half: usize) -> Self {
        Self { place, half, copies: 0..2, windows: Default::default() }
    }

    /// The record that continues the log behind `tip`.
    async fn next(&mut self, tip: &Tip) -> Option<(Header, Vec<u8>)> {
        for copy in self.copies.clone() {
            let (start, limit) = self.place.copy(self.half, copy);
            let record = self.windows[copy].record(self.place, start + tip.end, limit).await;
            if let Some(record) = record.filter(|(header, _)| tip.precedes(header)) {
                return Some(record);
            }
        }
        None
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
    twice: bool,
}

impl Checkpoint {
    /// From its payload, to be kept twice or not.
    pub fn new(payload: &[u8], twice: bool) -> Self {
        let pieces = payload.chunks(PIECE_BYTES).map(IoSlice::padded).collect();
        Self { pieces, len: payload.len(), crc: crc32c(payload), twice }
    }

    /// That of a configuration.
    pub fn of(config: &Config) -> Self {
        Self::new(&config.checkpoint(), config.keeps_logs_twice())
    }

    /// Whether it is kept twice, and the records behind it, where that fits.
    pub fn is_twice(&self) -> bool {
        self.twice
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

    /// Whether a record of `payload_len` bytes can be appended without a checkpoint before it; not where the log is to be
    /// kept twice and is not.
    pub fn has_room(&self, payload_len: usize, twice: bool) -> bool {
        let Some(tip) = self.tip.filter(|_| self.own) else { return false };
        if twice && !tip.copied && tip.fits_twice(&self.place.area) {
            return false;
        }
        let end = tip.end + record_bytes(payload_len);
        let most_records = tip.checkpoint_bytes.max(LEAST_RECORD_BYTES).max(record_bytes(payload_len));
        end <= self.limit(&tip) && end - tip.checkpoint_bytes <= most_records
    }

    /// Where a log must end, counted from its checkpoint.
    fn limit(&self, tip: &Tip) -> u64 {
        if tip.copied { self.place.area.log_copy_bytes() } else { self.place.area.log_half_bytes() }
    }

    /// Whether a checkpoint of `payload_len` bytes, with a record behind it, fits a half of this disk.
    pub fn fits(area: &Area, payload_len: usize) -> bool {
        BLOCK_BYTES + (payload_len as u64).next_multiple_of(BLOCK_BYTES) + LEAST_RECORD_BYTES <= area.log_half_bytes()
    }

    /// Writes the whole configuration, as it is at `position`, into the half not in use, so that a record with `next`
    /// bytes of payload has room behind it.
    pub async fn checkpoint(
        &mut self,
        position: Position,
        checkpoint: &Checkpoint,
        next: usize,
    ) -> Result<(), IoError> {
        if !Self::fits(&self.place.area, checkpoint.len) {
            return Err(too_small("the pool's configuration"));
        }
        let half = self.tip.map_or(0, |tip| 1 - tip.half);
        let checkpoint_bytes = BLOCK_BYTES + (checkpoint.len as u64).next_multiple_of(BLOCK_BYTES);
        let records = record_bytes(next).max(LEAST_RECORD_BYTES);
        let copied = checkpoint.twice && checkpoint_bytes + records <= self.place.area.log_copy_bytes();
        let tip = Tip { position, half, checkpoint_bytes, end: checkpoint_bytes, previous: checkpoint.crc, copied };
        if self.tip.is_none() {
            self.clear_heads(half, 0).await?;
        } else if !copied && checkpoint_bytes < self.place.area.log_copy_bytes() {
            self.clear_heads(half, 1).await?;
        }
        for copy in tip.copies() {
            let start = self.place.copy(half, copy).0;
            let mut offset = start + BLOCK_BYTES;
            for pieces in checkpoint.pieces.chunks(4) {
                let writes = pieces.iter().map(|piece| {
                    let write = self.place.device.write(offset, piece.clone(), Durability::Cached);
                    offset += piece.len() as u64;
                    write
                });
                try_join_all(writes.collect::<Vec<_>>()).await?;
            }
            if tip.end < self.limit(&tip) {
                self.place.device.write(offset, zeros(), Durability::Cached).await?;
            }
        }
        self.place.device.flush().await?;
        let heads = tip.copies().map(|copy| {
            let start = self.place.copy(half, copy).0;
            let frame = self.frame(Kind::Checkpoint, start, position, 0);
            let header = frame.seal_detached(checkpoint.len, checkpoint.crc).freeze();
            self.place.device.write(start, header, Durability::Durable)
        });
        try_join_all(heads.collect::<Vec<_>>()).await?;
        // Were the older half left, a later loss of this one would bring it back as if it were the last word.
        self.clear_heads(1 - half, 0).await?;
        self.tip = Some(tip);
        self.own = true;
        Ok(())
    }

    /// Makes zeros of where the copies of a half begin, from one of them on.
    async fn clear_heads(&self, half: usize, from: usize) -> Result<(), IoError> {
        let write = |copy| self.place.device.write(self.place.copy(half, copy).0, zeros(), Durability::Durable);
        try_join_all((from..2).map(write).collect::<Vec<_>>()).await.map(drop)
    }

    /// Appends a record, durably. There must be room for it.
    pub async fn append(&mut self, position: Position, payload: &[u8]) -> Result<(), IoError> {
        let tip = self.tip.expect("a log begins with a checkpoint");
        let end = tip.end + record_bytes(payload.len());
        if end > self.limit(&tip) {
            return Err(too_small("the record"));
        }
        let room = end < self.limit(&tip);
        let writes = tip.copies().map(|copy| {
            let at = self.place.copy(tip.half, copy).0 + tip.end;
            let block = self.frame(Kind::Record, at, position, tip.previous).seal(payload);
            let mut ended = IoBuf::zeroed(block.len() + if room { BLOCK_BYTES as usize } else { 0 });
            ended[..block.len()].copy_from_slice(&block);
            self.place.device.write(at, ended.freeze(), Durability::Durable)
        });
        try_join_all(writes.collect::<Vec<_>>()).await?;
        self.tip = Some(Tip { position, end, previous: crc32c(payload), ..tip });
        Ok(())
    }

    fn frame(&self, kind: Kind, offset: u64, position: Position, previous: u32) -> Frame {
        Frame { kind, pool: self.place.pool, disk: self.place.disk, offset, position, previous }
    }
}

fn zeros() -> IoSlice {
    IoSlice::padded(&[0; BLOCK_BYTES as usize])
}

fn too_small(what: &str) -> IoError {
    let context = format!("the reserved area of the disk is too small for {what}");
    IoError::new(holdfast_device::IoErrorKind::NoSpace, context)
}

fn record_bytes(payload_len: usize) -> u64 {
    ((crate::frame::HEADER_BYTES + payload_len) as u64).next_multiple_of(BLOCK_BYTES)
}
