//! Keys of the trees of files. All of a file stands together, in the order of the kinds.
//!
//! ```text
//!   file (8) │ 0                              its record
//!            │ 1 │ parent (8) │ slot (8)      a further name
//!            │ 2 │ slot (8)                   an entry of the directory
//!            │ 3 │ slot (8) │ part (2)        a stream: what it is, and its bytes
//!            │ 4 │ name, 0, part (1)          an extended attribute
//!            │ 5                              where a symbolic link leads
//!            │ 5 │ part (1)                   a reparse point
//!            │ 6 │ stream (4) │ end (8)       an extent, by the block of the file behind it
//!   owner:     place (8)                      whose a block is, or was when a snapshot was made that keeps it
//!              zone (8) │ …                   one who has blocks that are shared (references.rs)
//! ```
//!
//! Numbers are most significant byte first, so that the order of keys is theirs.

use holdfast_model::wire::Writer;

use crate::SHARED_TREES;
use crate::snapshots::Span;

/// Files whose ids stand in one run: those of one directory, where it can be.
pub(crate) const RUN: u64 = 64;

/// The kinds of what a file consists of.
pub(crate) mod kind {
    pub const RECORD: u8 = 0;
    pub const LINK: u8 = 1;
    pub const ENTRY: u8 = 2;
    pub const STREAM: u8 = 3;
    pub const EXTENDED: u8 = 4;
    pub const REPARSE: u8 = 5;
    pub const EXTENT: u8 = 6;
}

/// The tree of files that a file's keys are in.
pub(crate) fn shard(file: u64) -> u8 {
    (file / RUN % u64::from(SHARED_TREES)) as u8
}

fn part(file: u64, kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + rest.len());
    key.extend_from_slice(&file.to_be_bytes());
    key.push(kind);
    key.extend_from_slice(rest);
    key
}

pub(crate) fn record(file: u64) -> Vec<u8> {
    part(file, kind::RECORD, &[])
}

/// Whether a key is that of a file's record.
pub(crate) fn is_record(tree: u8, key: &[u8]) -> bool {
    tree < SHARED_TREES && key.len() == 9 && key[8] == kind::RECORD
}

/// What begins all keys of a kind of a file.
pub(crate) fn prefix(file: u64, kind: u8) -> Vec<u8> {
    part(file, kind, &[])
}

pub(crate) fn link(file: u64, parent: u64, slot: u64) -> Vec<u8> {
    let mut key = part(file, kind::LINK, &parent.to_be_bytes());
    key.extend_from_slice(&slot.to_be_bytes());
    key
}

pub(crate) fn entry(directory: u64, slot: u64) -> Vec<u8> {
    part(directory, kind::ENTRY, &slot.to_be_bytes())
}

pub(crate) fn extended(file: u64, name: &[u8], number: u8) -> Vec<u8> {
    let mut key = part(file, kind::EXTENDED, name);
    key.extend_from_slice(&[0, number]);
    key
}

/// A part of a stream; 0 says what it is.
pub(crate) fn stream(file: u64, slot: u64, number: u16) -> Vec<u8> {
    let mut key = part(file, kind::STREAM, &slot.to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// What begins the keys of all streams whose names meet in a bucket, by its first slot.
pub(crate) fn stream_bucket(file: u64, slot: u64) -> Vec<u8> {
    part(file, kind::STREAM, &slot.to_be_bytes()[..7])
}

/// Slot and part of the key of a stream.
pub(crate) fn read_stream(key: &[u8]) -> Option<(u64, u16)> {
    if key.len() != 19 || key[8] != kind::STREAM {
        return None;
    }
    Some((number(key, 9)?, u16::from_be_bytes(key[17..19].try_into().expect("two bytes"))))
}

/// A part of a reparse point.
pub(crate) fn reparse_part(file: u64, number: u8) -> Vec<u8> {
    part(file, kind::REPARSE, &[number])
}

pub(crate) fn reparse(file: u64) -> Vec<u8> {
    part(file, kind::REPARSE, &[])
}

/// An extent by its end: the first key behind that of a block is of the extent that has the block, or of the next one.
pub(crate) fn extent(file: u64, stream: u32, end: u64) -> Vec<u8> {
    let mut key = part(file, kind::EXTENT, &stream.to_be_bytes());
    key.extend_from_slice(&end.to_be_bytes());
    key
}

/// What begins the keys of the extents of a stream.
pub(crate) fn extents(file: u64, stream: u32) -> Vec<u8> {
    part(file, kind::EXTENT, &stream.to_be_bytes())
}

/// The number at a place of a key.
pub(crate) fn number(key: &[u8], at: usize) -> Option<u64> {
    key.get(at..at + 8).map(|bytes| u64::from_be_bytes(bytes.try_into().expect("eight bytes")))
}

/// File, stream and end of the key of an extent.
pub(crate) fn read_extent(tree: u8, key: &[u8]) -> Option<(u64, u32, u64)> {
    if tree >= SHARED_TREES || key.len() != 21 || key[8] != kind::EXTENT {
        return None;
    }
    let stream = u32::from_be_bytes(key[9..13].try_into().expect("four bytes"));
    Some((number(key, 0)?, stream, number(key, 13)?))
}

pub(crate) fn owner(place: u64) -> Vec<u8> {
    place.to_be_bytes().to_vec()
}

/// What a flag adds that says whether blocks hold data, where only snapshots have them.
pub(crate) const KEPT: u8 = 2;

fn owned(file: u64, stream: u32, block: u64, blocks: u32, flags: u8) -> Writer {
    let mut writer = Writer::new();
    writer.u64(file).u32(stream).u64(block).u32(blocks).u8(flags);
    writer
}

/// File, stream, block of the file, how many blocks, and whether they hold data: all that an extent is made of again.
pub(crate) fn owner_value(file: u64, stream: u32, block: u64, blocks: u32, is_written: bool) -> Vec<u8> {
    owned(file, stream, block, blocks, is_written.into()).into_bytes()
}

/// The same of blocks that their file has no more, and snapshots have.
pub(crate) fn kept_value(file: u64, stream: u32, block: u64, blocks: u32, is_written: bool, span: Span) -> Vec<u8> {
    let mut writer = owned(file, stream, block, blocks, KEPT | u8::from(is_written));
    writer.u64(span.birth).u64(span.death);
    writer.into_bytes()
}
