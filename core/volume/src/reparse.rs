//! Reparse points: a tag and data by which somebody above the volume finds what a file stands for ([MS-FSCC] 2.1.2).
//!
//! ```text
//!   file │ 5 │ 0 (1)      tag, GUID, length │ data …
//!            │ 1, 2 …     data: 4,000 bytes a part, the last one fewer
//! ```
//!
//! A symbolic link of POSIX is shown as one, and is no other. Users of POSIX see the file as it is.
//!
//! Invariant: a file has all parts of a reparse point and its attribute, or neither.

use holdfast_identity::AccessMask;
use holdfast_model::wire::{Reader, WireError, Writer};

use crate::access::{self, WRITE};
use crate::change::{Need, Pair, Stop, View, refuse};
use crate::error::{ErrorKind, VolumeError};
use crate::keys::{self, kind};
use crate::record::Record;
use crate::service::{Caller, DosAttributes, FileId, FileKind, ReparsePoint, SYMLINK_TAG};
use crate::superblock::DESCRIPTORS;
use crate::volume::{Volume, put_record, record_of};

/// Bytes of the data, at most (`MAXIMUM_REPARSE_DATA_BUFFER_SIZE`, with the header).
const MAX_DATA: usize = (16 << 10) - HEADER_BYTES;
/// Tag, length and GUID of the longer form.
const HEADER_BYTES: usize = 24;
/// Bytes of a part.
const PART: usize = 4000;
/// In a tag: Microsoft's, so that it comes without a GUID.
const MICROSOFT: u32 = 1 << 31;
/// The link leads on from where it stands (`SYMLINK_FLAG_RELATIVE`).
const RELATIVE: u32 = 1;

/// Refuses what is no reparse point ([MS-FSCC] 2.1.2.1).
fn check(point: &ReparsePoint) -> Result<(), VolumeError> {
    let refuse = |text| Err(VolumeError::new(ErrorKind::Invalid, text));
    if matches!(point.tag, 0 | 1) {
        return refuse("the tags 0 and 1 of reparse points are reserved: nobody sets them");
    }
    if (point.tag & MICROSOFT == 0) != point.guid.is_some() {
        return refuse("a reparse point has a GUID where its tag is not one of Microsoft's, and only there");
    }
    if point.data.len() > MAX_DATA {
        return Err(VolumeError::new(ErrorKind::TooLarge, "a reparse point has 16 KiB at most"));
    }
    Ok(())
}

fn encode(point: &ReparsePoint) -> Vec<u8> {
    let mut writer = Writer::with_capacity(HEADER_BYTES + point.data.len());
    writer.u32(point.tag).raw(&point.guid.unwrap_or_default()).u32(point.data.len() as u32).raw(&point.data);
    writer.into_bytes()
}

fn decode(bytes: &[u8]) -> Option<ReparsePoint> {
    let read = |mut reader: Reader<'_>| -> Result<ReparsePoint, WireError> {
        let (tag, guid, len) = (reader.u32()?, reader.array::<16>()?, reader.u32()?);
        let data = reader.take(len as usize)?.to_vec();
        if reader.remaining() != 0 {
            return Err(WireError::Value("length"));
        }
        Ok(ReparsePoint { tag, guid: (tag & MICROSOFT == 0).then_some(guid), data })
    };
    read(Reader::new(bytes)).ok().filter(|point| check(point).is_ok())
}

/// What stands of a reparse point, in order.
fn parts(view: &View<'_>, file: u64) -> Result<Vec<Pair>, Stop> {
    let prefix = keys::prefix(file, kind::REPARSE);
    let mut all = view.range(keys::shard(file), &prefix, &prefix, 256)?;
    // Where a symbolic link leads stands under the bare kind.
    all.retain(|(key, _)| key.len() > prefix.len());
    Ok(all)
}

/// The one that parts make up, if they are all there.
fn read(parts: &[Pair]) -> Option<ReparsePoint> {
    let is_next = |(at, (key, value)): (usize, &Pair)| {
        key.last() == Some(&(at as u8)) && (at + 1 == parts.len() || value.len() == PART)
    };
    let is_whole = parts.iter().enumerate().all(is_next);
    let bytes: Vec<u8> = parts.iter().flat_map(|(_, value)| value.iter().copied()).collect();
    if is_whole { decode(&bytes) } else { None }
}

/// Whether a file and its reparse point agree.
pub(crate) fn is_right(view: &View<'_>, file: u64, record: &Record) -> Result<bool, Stop> {
    Ok(agrees(record.attributes & DosAttributes::REPARSE_POINT.bits() != 0, &parts(view, file)?))
}

/// Whether there is a whole reparse point where a record says so, and nothing of one elsewhere.
pub(crate) fn agrees(is_said: bool, parts: &[Pair]) -> bool {
    if is_said { read(parts).is_some() } else { parts.is_empty() }
}

/// Has a file have its reparse point where that can be read, or none.
pub(crate) fn put_right(view: &mut View<'_>, file: u64, record: &mut Record) -> Result<(), Stop> {
    let parts = parts(view, file)?;
    if read(&parts).is_some() {
        record.attributes |= DosAttributes::REPARSE_POINT.bits();
    } else {
        take_out(view, file, record, parts)?;
    }
    put_record(view, file, record)
}

fn take_out(view: &mut View<'_>, file: u64, record: &mut Record, parts: Vec<Pair>) -> Result<(), Stop> {
    for (key, _) in parts.into_iter().take(32) {
        view.remove(keys::shard(file), key)?;
    }
    record.attributes &= !DosAttributes::REPARSE_POINT.bits();
    Ok(())
}

/// A symbolic link as Windows has it ([MS-FSCC] 2.1.2.4): the path in UTF-16 with backslashes, twice.
fn of_link(target: &[u8]) -> ReparsePoint {
    let text = String::from_utf8_lossy(target).replace('/', "\\");
    let path: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let len = path.len() as u16;
    let flags = if target.starts_with(b"/") { 0 } else { RELATIVE };
    let mut writer = Writer::with_capacity(12 + 2 * path.len());
    // Where the name to use and the name to show begin, and how long they are.
    writer.u16(0).u16(len).u16(len).u16(len).u32(flags).raw(&path).raw(&path);
    ReparsePoint { tag: SYMLINK_TAG, guid: None, data: writer.into_bytes() }
}

/// Refuses another tag than the file has, or another GUID ([MS-FSA] 2.1.5.9.30, 2.1.5.9.5).
fn check_same(before: &ReparsePoint, tag: u32, guid: Option<[u8; 16]>) -> Result<(), Stop> {
    if (before.tag, before.guid) == (tag, guid) {
        return Ok(());
    }
    refuse(ErrorKind::OtherReparse, "the file has a reparse point of another tag: remove that one first")
}

fn no_reparse<T>() -> Result<T, Stop> {
    refuse(ErrorKind::NoReparse, "the file has no reparse point")
}

fn check_caller(view: &View<'_>, caller: &Caller, record: &Record) -> Result<(), Stop> {
    access::allow_change(caller, record)?;
    if access::allow_rights(view, caller, record, AccessMask::WRITE_ATTRIBUTES)? || caller.is_owner(record) {
        return Ok(());
    }
    access::allow(view, caller, record, WRITE)
}

impl Volume {
    pub(crate) async fn reparse_of(&self, caller: &Caller, id: FileId) -> Result<ReparsePoint, VolumeError> {
        let look = self.store.look([keys::shard(id.number)], |view| {
            let record = record_of(view, id)?;
            access::allow_rights(view, caller, &record, AccessMask::READ_ATTRIBUTES)?;
            if record.kind == FileKind::Symlink {
                let target = view.get(keys::shard(id.number), &keys::reparse(id.number))?;
                return Ok(of_link(&target.unwrap_or_default()));
            }
            if record.attributes & DosAttributes::REPARSE_POINT.bits() == 0 {
                return no_reparse();
            }
            let found = read(&parts(view, id.number)?);
            found.ok_or_else(|| VolumeError::corrupt("the reparse point of the file cannot be read: scan it").into())
        });
        look.await
    }

    pub(crate) async fn set_reparse_of(
        &self,
        caller: &Caller,
        id: FileId,
        point: &ReparsePoint,
    ) -> Result<(), VolumeError> {
        check(point)?;
        let now = self.now();
        let change = self.store.change([keys::shard(id.number)], Need::More, |view| {
            let mut record = record_of(view, id)?;
            match record.kind {
                FileKind::Regular => {}
                // What is in a directory that stands for another one would be out of reach.
                FileKind::Directory if record.size > 0 => {
                    return refuse(ErrorKind::NotEmpty, "only an empty directory gets a reparse point");
                }
                FileKind::Directory => {}
                _ => return refuse(ErrorKind::Invalid, "only files and directories get reparse points"),
            }
            check_caller(view, caller, &record)?;
            let before = parts(view, id.number)?;
            if let Some(before) = read(&before) {
                check_same(&before, point.tag, point.guid)?;
            }
            view.need_feature(DESCRIPTORS)?;
            take_out(view, id.number, &mut record, before)?;
            for (number, part) in encode(point).chunks(PART).enumerate() {
                view.put(keys::shard(id.number), keys::reparse_part(id.number, number as u8), part.to_vec())?;
            }
            record.attributes |= DosAttributes::REPARSE_POINT.bits();
            (record.changed, record.change) = (now, self.next_change());
            put_record(view, id.number, &record)
        });
        change.await.map(drop)
    }

    pub(crate) async fn remove_reparse_of(
        &self,
        caller: &Caller,
        id: FileId,
        (tag, guid): (u32, Option<[u8; 16]>),
    ) -> Result<(), VolumeError> {
        let now = self.now();
        let change = self.store.change([keys::shard(id.number)], Need::Less, |view| {
            let mut record = record_of(view, id)?;
            check_caller(view, caller, &record)?;
            let before = parts(view, id.number)?;
            if before.is_empty() {
                return no_reparse();
            }
            if let Some(before) = read(&before) {
                check_same(&before, tag, guid)?;
            }
            take_out(view, id.number, &mut record, before)?;
            (record.changed, record.change) = (now, self.next_change());
            put_record(view, id.number, &record)
        });
        change.await.map(drop)
    }
}
