//! A node of a tree: a slotted page of 16 KiB, in the same form on the device and in memory.
//!
//! ```text
//!   0        64                                                          16384
//!   | header | slots ──▶        free        ◀── entries, low and high key |
//! ```
//!
//! Invariant: entries are in ascending order of their keys, and every key lies in `low <= key < high`.

use std::cmp::Ordering;

use holdfast_device::{IoBuf, IoSlice};
use holdfast_model::Uuid;
use holdfast_model::wire::{Reader, WireError, Writer};

use crate::superblock::MOST_COUNTED;
use crate::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// Bytes of a node.
pub const PAGE_BYTES: usize = 16 << 10;
const HEADER: usize = 64;
const MAGIC: u32 = u32::from_le_bytes(*b"HFvN");
const NO_HIGH: u16 = u16::MAX;
const ENTRY_HEAD: usize = 4;
/// Levels of a tree, at most: an inner node has 30 children at least, so none grows so high.
const MOST_LEVELS: u8 = 16;
/// Bytes of a [`NodeRef`] as the value of an inner node's entry.
pub const REF_BYTES: usize = 20;

/// Where a node stands, and what proves that it is the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeRef {
    /// Its offset on the device.
    pub address: u64,
    /// The checkpoint that wrote it.
    pub generation: u64,
    /// The CRC-32C of the page, but for the field that holds it.
    pub crc: u32,
}

impl NodeRef {
    /// As it stands in an inner node or a root slot.
    pub fn to_bytes(self) -> [u8; REF_BYTES] {
        let mut writer = Writer::new();
        writer.u64(self.address).u64(self.generation).u32(self.crc);
        writer.into_bytes().try_into().expect("twenty bytes")
    }

    /// Reads it back.
    ///
    /// # Errors
    /// Too few bytes.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { address: reader.u64()?, generation: reader.u64()?, crc: reader.u32()? })
    }
}

/// A page in memory.
#[derive(Clone)]
pub struct Page {
    bytes: Box<[u8; PAGE_BYTES]>,
    /// Bytes that entries and bounds take.
    used: usize,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Page(tree {}, level {}, {} entries)", self.tree(), self.level(), self.count())
    }
}

impl Page {
    /// An empty page that covers `low` up to `high`, or to the end of all keys.
    pub fn new(tree: u8, level: u8, low: &[u8], high: Option<&[u8]>) -> Self {
        let mut page = Self { bytes: Box::new([0; PAGE_BYTES]), used: 0 };
        page.bytes[40] = tree;
        page.bytes[41] = level;
        page.set_u16(44, PAGE_BYTES as u16);
        page.set_bound(48, low);
        match high {
            Some(high) => page.set_bound(52, high),
            None => page.set_u16(54, NO_HIGH),
        }
        page
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    fn set_u16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    fn set_bound(&mut self, field: usize, key: &[u8]) {
        let at = self.heap() - key.len();
        self.bytes[at..at + key.len()].copy_from_slice(key);
        self.set_u16(44, at as u16);
        self.set_u16(field, at as u16);
        self.set_u16(field + 2, key.len() as u16);
        self.used += key.len();
    }

    fn bound(&self, field: usize) -> &[u8] {
        let (at, len) = (self.u16(field) as usize, self.u16(field + 2) as usize);
        &self.bytes[at..at + len]
    }

    /// The tree that it belongs to.
    pub fn tree(&self) -> u8 {
        self.bytes[40]
    }

    /// Its height above the leaves.
    pub fn level(&self) -> u8 {
        self.bytes[41]
    }

    /// Its entries.
    pub fn count(&self) -> usize {
        self.u16(42).into()
    }

    fn heap(&self) -> usize {
        self.u16(44).into()
    }

    /// The least key that it may hold.
    pub fn low(&self) -> &[u8] {
        self.bound(48)
    }

    /// The key that bounds it from above; `None` for the end of all keys.
    pub fn high(&self) -> Option<&[u8]> {
        (self.u16(54) != NO_HIGH).then(|| self.bound(52))
    }

    /// The generation that wrote it.
    pub fn generation(&self) -> u64 {
        self.u64(32)
    }

    /// The key and the value of an entry.
    pub fn entry(&self, index: usize) -> (&[u8], &[u8]) {
        debug_assert!(index < self.count());
        let at = self.u16(HEADER + 2 * index) as usize;
        let (key, value) = (self.u16(at) as usize, self.u16(at + 2) as usize);
        let start = at + ENTRY_HEAD;
        (&self.bytes[start..start + key], &self.bytes[start + key..start + key + value])
    }

    /// The key of an entry.
    pub fn key(&self, index: usize) -> &[u8] {
        debug_assert!(index < self.count());
        let at = self.u16(HEADER + 2 * index) as usize;
        let (start, len) = (at + ENTRY_HEAD, self.u16(at) as usize);
        &self.bytes[start..start + len]
    }

    /// The child that an entry of an inner node names.
    pub fn child(&self, index: usize) -> NodeRef {
        NodeRef::read(&mut Reader::new(self.entry(index).1)).expect("a checked inner node holds references")
    }

    /// Where a key is, or would be.
    pub fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut from, mut until) = (0, self.count());
        while from < until {
            let middle = from.midpoint(until);
            match order(self.key(middle), key) {
                Ordering::Equal => return Ok(middle),
                Ordering::Less => from = middle + 1,
                Ordering::Greater => until = middle,
            }
        }
        Err(from)
    }

    /// The entry of an inner node whose child covers a key.
    pub fn child_of(&self, key: &[u8]) -> usize {
        self.find(key).unwrap_or_else(|next| next.saturating_sub(1))
    }

    /// The bounds of the child that an entry of an inner node names.
    pub fn bounds_of(&self, index: usize) -> (&[u8], Option<&[u8]>) {
        let next = index + 1;
        (self.key(index), if next < self.count() { Some(self.key(next)) } else { self.high() })
    }

    /// Whether another page is what stands below an entry of this one.
    pub fn is_parent_of(&self, index: usize, child: &Self) -> bool {
        let (low, high) = self.bounds_of(index);
        (child.tree(), child.level() + 1) == (self.tree(), self.level()) && (child.low(), child.high()) == (low, high)
    }

    /// Whether a key lies within its bounds.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.low() <= key && self.high().is_none_or(|high| key < high)
    }

    /// Bytes between slots and entries.
    fn gap(&self) -> usize {
        self.heap() - HEADER - 2 * self.count()
    }

    /// Bytes that entries and bounds take.
    pub fn used(&self) -> usize {
        self.used
    }

    fn count_used(&self) -> usize {
        let bounds = self.low().len() + self.high().map_or(0, <[u8]>::len);
        bounds + (0..self.count()).map(|index| self.entry_bytes(index)).sum::<usize>()
    }

    fn entry_bytes(&self, index: usize) -> usize {
        let (key, value) = self.entry(index);
        2 + ENTRY_HEAD + key.len() + value.len()
    }

    /// Bytes that an entry takes.
    pub fn bytes_of(key: &[u8], value: &[u8]) -> usize {
        2 + ENTRY_HEAD + key.len() + value.len()
    }

    /// Bytes for entries and bounds.
    pub const ROOM: usize = PAGE_BYTES - HEADER;

    /// Puts an entry in, in place of one of the same key; false, and nothing is changed, if there is no room.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        debug_assert!(key.len() <= MAX_KEY_BYTES && value.len() <= MAX_VALUE_BYTES);
        debug_assert!(self.covers(key), "a key beyond the node");
        let need = Self::bytes_of(key, value);
        let found = self.find(key);
        if let Ok(index) = found
            && self.entry(index).1.len() == value.len()
        {
            let start = self.u16(HEADER + 2 * index) as usize + ENTRY_HEAD + key.len();
            self.bytes[start..start + value.len()].copy_from_slice(value);
            return true;
        }
        let freed = found.map_or(0, |index| self.entry_bytes(index));
        if self.gap() < need {
            if self.used() - freed + need > Self::ROOM {
                return false;
            }
            if let Ok(index) = found {
                self.drop_slot(index);
            }
            self.compact();
        } else if let Ok(index) = found {
            self.drop_slot(index);
        }
        self.insert(found.unwrap_or_else(|index| index), key, value);
        true
    }

    /// Puts an entry in at an index that is its place. There is room.
    fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) {
        let need = Self::bytes_of(key, value);
        let at = self.heap() - (need - 2);
        self.set_u16(at, key.len() as u16);
        self.set_u16(at + 2, value.len() as u16);
        let start = at + ENTRY_HEAD;
        self.bytes[start..start + key.len()].copy_from_slice(key);
        self.bytes[start + key.len()..start + key.len() + value.len()].copy_from_slice(value);
        self.set_u16(44, at as u16);
        let (slot, end) = (HEADER + 2 * index, HEADER + 2 * self.count());
        self.bytes.copy_within(slot..end, slot + 2);
        self.set_u16(slot, at as u16);
        self.set_u16(42, self.count() as u16 + 1);
        self.used += need;
    }

    fn drop_slot(&mut self, index: usize) {
        self.used -= self.entry_bytes(index);
        let (slot, end) = (HEADER + 2 * index, HEADER + 2 * self.count());
        self.bytes.copy_within(slot + 2..end, slot);
        self.set_u16(42, self.count() as u16 - 1);
    }

    /// Takes an entry out.
    pub fn remove(&mut self, index: usize) {
        self.drop_slot(index);
    }

    fn compact(&mut self) {
        *self = self.part(0..self.count(), self.low().to_vec().as_slice(), self.high().map(<[u8]>::to_vec).as_deref());
    }

    /// Entries of it as a page of their own, with these bounds.
    pub fn part(&self, entries: std::ops::Range<usize>, low: &[u8], high: Option<&[u8]>) -> Self {
        let mut part = Self::new(self.tree(), self.level(), low, high);
        for index in entries {
            let (key, value) = self.entry(index);
            debug_assert!(part.gap() >= Self::bytes_of(key, value), "a part is no larger than the whole");
            part.insert(part.count(), key, value);
        }
        part
    }

    /// This page and the one right of it as one, where they fit.
    pub fn joined(&self, right: &Self) -> Option<Self> {
        debug_assert_eq!(self.high(), Some(right.low()));
        let mut joined = self.part(0..self.count(), self.low(), right.high());
        (0..right.count()).all(|index| joined.put(right.key(index), right.entry(index).1)).then_some(joined)
    }

    /// Writes the child of an inner node's entry anew.
    pub fn set_child(&mut self, index: usize, child: NodeRef) {
        let at = self.u16(HEADER + 2 * index) as usize;
        let start = at + ENTRY_HEAD + self.u16(at) as usize;
        self.bytes[start..start + REF_BYTES].copy_from_slice(&child.to_bytes());
    }

    /// The page as it is written at `address` by checkpoint `generation`, with what names it.
    pub fn seal(&mut self, volume: Uuid, address: u64, generation: u64) -> (NodeRef, IoSlice) {
        self.bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        self.bytes[8..24].copy_from_slice(volume.as_bytes());
        self.bytes[24..32].copy_from_slice(&address.to_le_bytes());
        self.bytes[32..40].copy_from_slice(&generation.to_le_bytes());
        let crc = crc_of(&self.bytes[8..]);
        self.bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        (NodeRef { address, generation, crc }, IoSlice::padded(&self.bytes[..]))
    }

    /// Whether bytes begin as those of a page do.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC.to_le_bytes())
    }

    /// Reads a page that stands at `address`; refuses what is not whole, or not a page of this volume and place.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(volume: Uuid, address: u64, buf: &IoBuf) -> Result<(Self, u32), &'static str> {
        let bytes: Box<[u8; PAGE_BYTES]> = buf[..].to_vec().try_into().map_err(|_| "it has another length")?;
        let mut page = Self { bytes, used: 0 };
        let crc = u32::from_le_bytes(page.bytes[4..8].try_into().expect("four bytes"));
        if page.bytes[..4] != MAGIC.to_le_bytes() || page.bytes[8..24] != *volume.as_bytes() {
            return Err("it is no node of this volume");
        }
        if crc != crc_of(&page.bytes[8..]) {
            return Err("its checksum is wrong");
        }
        if page.u64(24) != address {
            return Err("it was written for another place");
        }
        page.used = page.check()?;
        Ok((page, crc))
    }

    /// Bytes that entries and bounds take, if every offset lies within, and keys are in order and within the bounds.
    fn check(&self) -> Result<usize, &'static str> {
        if self.generation() >= MOST_COUNTED {
            return Err("no checkpoint counts so far");
        }
        if self.level() >= MOST_LEVELS {
            return Err("it stands higher than trees are");
        }
        let slots = HEADER + 2 * self.count();
        let heap = self.heap();
        if heap < slots || heap > PAGE_BYTES {
            return Err("its entries begin outside");
        }
        let within = |at: usize, len: usize| at >= heap && at + len <= PAGE_BYTES;
        if slots > PAGE_BYTES || !within(self.u16(48).into(), self.u16(50).into()) {
            return Err("its bounds lie outside");
        }
        if self.u16(54) != NO_HIGH && !within(self.u16(52).into(), self.u16(54).into()) {
            return Err("its bounds lie outside");
        }
        if self.low().len() > MAX_KEY_BYTES || self.high().is_some_and(|high| high.len() > MAX_KEY_BYTES) {
            return Err("its bounds are no keys");
        }
        let mut last: Option<&[u8]> = None;
        for index in 0..self.count() {
            let at = self.u16(HEADER + 2 * index) as usize;
            if !within(at, ENTRY_HEAD) {
                return Err("an entry lies outside");
            }
            let (key, value) = (self.u16(at) as usize, self.u16(at + 2) as usize);
            if !within(at, ENTRY_HEAD + key + value) || key > MAX_KEY_BYTES || value > MAX_VALUE_BYTES {
                return Err("an entry lies outside");
            }
            if self.level() > 0 && value != REF_BYTES {
                return Err("an inner node has something else than children");
            }
            let key = self.key(index);
            if last.is_some_and(|last| last >= key) {
                return Err("its keys are out of order");
            }
            if key < self.low() || self.high().is_some_and(|high| key >= high) {
                return Err("a key is beyond its bounds");
            }
            last = Some(key);
        }
        let used = self.count_used();
        if used > Self::ROOM {
            return Err("its entries overlap");
        }
        if self.level() > 0 && (self.count() == 0 || self.key(0) != self.low()) {
            return Err("its first child does not begin where it does");
        }
        Ok(used)
    }
}

/// CRC-32C.
pub(crate) fn crc_of(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// How two keys are in order. Eight bytes at a time: most keys differ in the first or second of those.
fn order(mut one: &[u8], mut other: &[u8]) -> Ordering {
    while let (Some((first, rest)), Some((second, others))) = (one.split_first_chunk::<8>(), other.split_first_chunk())
    {
        if first != second {
            return u64::from_be_bytes(*first).cmp(&u64::from_be_bytes(*second));
        }
        (one, other) = (rest, others);
    }
    one.cmp(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume() -> Uuid {
        Uuid::from_u128(7)
    }

    #[test]
    fn entries_stay_in_order_and_room_comes_back() {
        let mut page = Page::new(3, 0, b"", None);
        let value = [7u8; 100];
        let mut keys: Vec<u32> = (0..).map(|n: u32| n.wrapping_mul(2_654_435_761)).take(120).collect();
        for key in &keys {
            assert!(page.put(&key.to_be_bytes(), &value), "120 entries of 110 bytes fit");
        }
        for key in &keys {
            assert!(page.put(&key.to_be_bytes(), &value[..50]), "shorter ones fit in their place");
        }
        keys.sort_unstable();
        let found: Vec<u32> =
            (0..page.count()).map(|at| u32::from_be_bytes(page.key(at).try_into().expect("four bytes"))).collect();
        assert_eq!(found, keys);
        while page.put(&(page.count() as u64).to_be_bytes(), &value) {}
        assert!(page.used() > Page::ROOM - 120 && page.used() <= Page::ROOM);
    }

    #[test]
    fn keys_are_in_order_byte_by_byte() {
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for len in 1..20usize {
            for at in [0, len / 2, len - 1] {
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut key = vec![0x40; len];
                    key[at] = byte;
                    keys.push(key);
                }
            }
        }
        for one in &keys {
            assert!(keys.iter().all(|other| order(one, other) == one.cmp(other)), "{one:?}");
        }
    }

    #[test]
    fn what_was_sealed_is_read_and_anything_else_is_refused() {
        let mut page = Page::new(1, 0, b"a", Some(b"q"));
        assert!(page.put(b"b", b"one") && page.put(b"c", b"two"));
        let (reference, data) = page.seal(volume(), 1 << 20, 5);
        let buf = IoBuf::padded(&data);
        let (read, crc) = Page::open(volume(), 1 << 20, &buf).expect("it is whole");
        assert_eq!((read.entry(1), crc, read.generation()), ((&b"c"[..], &b"two"[..]), reference.crc, 5));
        assert_eq!((read.low(), read.high()), (&b"a"[..], Some(&b"q"[..])));
        assert!(Page::open(volume(), 2 << 20, &buf).is_err() && Page::open(Uuid::from_u128(8), 1 << 20, &buf).is_err());
        for at in 0..PAGE_BYTES {
            let mut wrong = IoBuf::padded(&data);
            wrong[at] ^= 0x10;
            assert!(Page::open(volume(), 1 << 20, &wrong).is_err(), "byte {at}");
        }
    }

    #[test]
    fn hostile_pages_with_a_good_checksum_are_refused() {
        let mut page = Page::new(1, 0, b"a", Some(b"q"));
        assert!(page.put(b"b", b"one"));
        for at in 40..HEADER + 2 {
            for wrong in [0xff, 0x80, 0x01] {
                let mut other = page.clone();
                other.bytes[at] ^= wrong;
                let (_, data) = other.seal(volume(), 0, 1);
                // Whatever passes must not be read beyond its end.
                if let Ok((read, _)) = Page::open(volume(), 0, &IoBuf::padded(&data)) {
                    let _ = (0..read.count()).map(|index| read.entry(index).0.len()).sum::<usize>() + read.used();
                }
            }
        }
    }
}
