//! Named streams of data beside that of a file or directory ([MS-FSCC] 2.1.5, [MS-FSA] 2.1.1.5).
//!
//! ```text
//!   file │ 3 │ slot of the name (8) │ 0    (2) │   version, length, name
//!                                   │ 1, 2 …   │   4,000 bytes each, the last one fewer
//! ```
//!
//! They are small: what programs note about a file beside it. So they stand in the tree of their file, are kept by its
//! snapshots and removed with it, and each part counts as a block of the file. Names differ in more than case.
//!
//! Invariants: a stream has all of its parts and no other; each request on it is one change. Whoever may read the data of a
//! file reads its streams, and whoever may write it writes them.

use holdfast_identity::AccessMask;
use holdfast_model::BLOCK_BYTES;
use holdfast_model::wire::{Reader, WireError, Writer};

use crate::access::{self, READ, WRITE};
use crate::change::{Need, Pair, Stop, View, refuse};
use crate::error::{ErrorKind, VolumeError};
use crate::keys::{self, kind};
use crate::record::Record;
use crate::service::{Caller, FileId, FileKind, SetMode, Stream};
use crate::superblock::DESCRIPTORS;
use crate::volume::{Volume, put_record, record_of};

/// Bytes of a stream, at most: all of it is changed at once.
pub(crate) const MAX_STREAM_BYTES: u64 = 64 << 10;
/// Bytes of a part.
pub(crate) const PART: usize = 4000;
/// Bytes of a name, at most: 255 characters of Windows as UTF-8.
const MAX_NAME: usize = 765;
/// Streams of a file, at most.
const MOST_STREAMS: usize = 1024;
const VERSION: u8 = 1;

/// What the first part of a stream says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub len: u64,
    pub name: Vec<u8>,
}

impl Head {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(9 + self.name.len());
        writer.u8(VERSION).u64(self.len).raw(&self.name);
        writer.into_bytes()
    }

    /// Reads it from a value.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let read = |mut reader: Reader<'_>| -> Result<Self, WireError> {
            if reader.u8()? != VERSION {
                return Err(WireError::Value("version"));
            }
            Ok(Self { len: reader.u64()?, name: reader.take(reader.remaining())?.to_vec() })
        };
        let is_sound = |head: &Self| head.len <= MAX_STREAM_BYTES && check_name(&head.name).is_ok();
        read(Reader::new(value)).ok().filter(is_sound)
    }

    /// Parts that it has beside this one.
    pub fn parts(&self) -> u64 {
        self.len.div_ceil(PART as u64)
    }

    /// Bytes that one of its parts has, from 1 on.
    pub fn part_bytes(&self, part: u16) -> u64 {
        let before = (u64::from(part) - 1) * PART as u64;
        self.len.saturating_sub(before).min(PART as u64)
    }
}

/// Refuses what is no name of a stream ([MS-FSCC] 2.1.5.3).
fn check_name(name: &[u8]) -> Result<(), VolumeError> {
    if name.len() > MAX_NAME {
        return Err(VolumeError::new(ErrorKind::NameTooLong, "the name of a stream has 765 bytes at most"));
    }
    let is_bad = |byte: &u8| matches!(byte, 0 | b'/' | b'\\' | b':');
    if name.is_empty() || name.iter().any(is_bad) || std::str::from_utf8(name).is_err() {
        let text = "the name of a stream is UTF-8, not empty, and has no NUL, slash, backslash or colon";
        return Err(VolumeError::new(ErrorKind::BadName, text));
    }
    Ok(())
}

/// A stream that is there.
struct Found {
    slot: u64,
    head: Head,
}

/// What a request on a stream needs of its file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

fn check_file(view: &View<'_>, caller: &Caller, record: &Record, how: Use) -> Result<(), Stop> {
    if !matches!(record.kind, FileKind::Regular | FileKind::Directory) {
        return refuse(ErrorKind::Invalid, "only files and directories have streams");
    }
    let (mask, right) = match how {
        Use::Read => (READ, AccessMask::READ_DATA),
        Use::Write => (WRITE, AccessMask::WRITE_DATA),
    };
    if how == Use::Write {
        access::allow_change(caller, record)?;
    }
    // Of a directory it is the same right as that to list it, or to put a file into it.
    if access::allow_rights(view, caller, record, right)? { Ok(()) } else { access::allow(view, caller, record, mask) }
}

impl Volume {
    fn find_stream(&self, view: &View<'_>, file: u64, name: &[u8]) -> Result<Option<Found>, Stop> {
        let found = self.streams_in(view, file, &keys::stream_bucket(file, self.names.bucket(name).start))?;
        let exact = found.iter().position(|one| one.head.name == name);
        let alike = || found.iter().position(|one| self.names.is_alike(&one.head.name, name));
        let at = exact.or_else(alike);
        Ok(at.and_then(|at| found.into_iter().nth(at)))
    }

    /// Those whose keys begin so.
    fn streams_in(&self, view: &View<'_>, file: u64, prefix: &[u8]) -> Result<Vec<Found>, Stop> {
        let mut found = Vec::new();
        view.each(keys::shard(file), prefix, prefix, usize::MAX, |key, value| {
            if let Some((slot, 0)) = keys::read_stream(key) {
                let head = Head::decode(value);
                let head =
                    head.ok_or_else(|| VolumeError::corrupt(format!("a stream of file {file} cannot be read")))?;
                found.push(Found { slot, head });
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The stream, which must be there.
    fn stream(&self, view: &View<'_>, file: u64, name: &[u8]) -> Result<Found, Stop> {
        match self.find_stream(view, file, name)? {
            Some(found) => Ok(found),
            None => refuse(ErrorKind::NotFound, "the file has no such stream"),
        }
    }

    pub(crate) async fn streams_of(&self, caller: &Caller, id: FileId) -> Result<Vec<Stream>, VolumeError> {
        let look = self.store.look([keys::shard(id.number)], |view| {
            let record = record_of(view, id)?;
            access::allow_rights(view, caller, &record, AccessMask::READ_ATTRIBUTES)?;
            self.streams_in(view, id.number, &keys::prefix(id.number, kind::STREAM))
        });
        let shown = |Found { head, .. }: Found| Stream {
            size_bytes: head.len,
            allocated_bytes: (head.parts() + 1) * BLOCK_BYTES,
            name: head.name,
        };
        Ok(look.await?.into_iter().map(shown).collect())
    }

    pub(crate) async fn read_stream_of(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, VolumeError> {
        let shard = keys::shard(id.number);
        let look = self.store.look([shard], |view| {
            let record = record_of(view, id)?;
            check_file(view, caller, &record, Use::Read)?;
            let Found { slot, head } = self.stream(view, id.number, name)?;
            let end = head.len.min(offset.saturating_add(len as u64));
            let mut bytes = Vec::new();
            let mut at = offset;
            while at < end {
                let part = stream_part(view, id.number, slot, &head, at)?;
                let (from, to) = (at as usize % PART, ((end - at) as usize + at as usize % PART).min(part.len()));
                bytes.extend_from_slice(&part[from..to]);
                at += (to - from) as u64;
            }
            Ok(bytes)
        });
        look.await
    }

    pub(crate) async fn create_stream_of(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        mode: SetMode,
    ) -> Result<Stream, VolumeError> {
        check_name(name)?;
        let change = self.change_streams(caller, id, Need::More, |view, record| {
            let found = self.find_stream(view, id.number, name)?;
            let head = match (found, mode) {
                (Some(_), SetMode::Create) => return refuse(ErrorKind::Exists, "the file has such a stream already"),
                (None, SetMode::Replace) => return refuse(ErrorKind::NotFound, "the file has no such stream"),
                (Some(Found { slot, head }), SetMode::Replace) => {
                    let empty = Head { len: 0, ..head.clone() };
                    put_stream(view, id.number, record, (slot, Some(&head)), (&empty, 0, &[]))?;
                    empty
                }
                (Some(found), SetMode::Any) => found.head,
                (None, _) => {
                    let all = self.streams_in(view, id.number, &keys::prefix(id.number, kind::STREAM))?;
                    if all.len() >= MOST_STREAMS {
                        return refuse(ErrorKind::NoSpace, "the file has as many streams as it can have");
                    }
                    let taken: Vec<u64> = all.iter().map(|one| one.slot).collect();
                    let slot = self.names.bucket(name).find(|slot| !taken.contains(slot));
                    let Some(slot) = slot else {
                        return refuse(ErrorKind::NoSpace, "too many names of streams of the file are alike");
                    };
                    view.need_feature(DESCRIPTORS)?;
                    let head = Head { len: 0, name: name.to_vec() };
                    put_stream(view, id.number, record, (slot, None), (&head, 0, &[]))?;
                    head
                }
            };
            let allocated_bytes = (head.parts() + 1) * BLOCK_BYTES;
            Ok(Stream { size_bytes: head.len, allocated_bytes, name: head.name })
        });
        change.await
    }

    pub(crate) async fn write_stream_of(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), VolumeError> {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > MAX_STREAM_BYTES {
            return Err(VolumeError::new(ErrorKind::TooLarge, TOO_LARGE));
        }
        let change = self.change_streams(caller, id, Need::More, |view, record| {
            let Found { slot, head } = self.stream(view, id.number, name)?;
            let new = Head { len: head.len.max(if bytes.is_empty() { 0 } else { end }), ..head.clone() };
            put_stream(view, id.number, record, (slot, Some(&head)), (&new, offset, bytes))
        });
        change.await
    }

    pub(crate) async fn set_stream_length_of(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        len: u64,
    ) -> Result<(), VolumeError> {
        if len > MAX_STREAM_BYTES {
            return Err(VolumeError::new(ErrorKind::TooLarge, TOO_LARGE));
        }
        let change = self.change_streams(caller, id, Need::More, |view, record| {
            let Found { slot, head } = self.stream(view, id.number, name)?;
            put_stream(view, id.number, record, (slot, Some(&head)), (&Head { len, ..head.clone() }, 0, &[]))
        });
        change.await
    }

    pub(crate) async fn remove_stream_of(&self, caller: &Caller, id: FileId, name: &[u8]) -> Result<(), VolumeError> {
        let change = self.change_streams(caller, id, Need::Less, |view, record| {
            let Found { slot, head } = self.stream(view, id.number, name)?;
            take_stream(view, id.number, record, slot, &head)
        });
        change.await
    }

    pub(crate) async fn rename_stream_of(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        to: &[u8],
        replaces: bool,
    ) -> Result<(), VolumeError> {
        check_name(to)?;
        let change = self.change_streams(caller, id, Need::More, |view, record| {
            let Found { slot, head } = self.stream(view, id.number, name)?;
            let there = self.find_stream(view, id.number, to)?.filter(|there| there.slot != slot);
            let renamed = Head { name: to.to_vec(), ..head.clone() };
            if self.names.bucket(to).contains(&slot) && there.is_none() {
                // Its case only, as a rule.
                return view.put(keys::shard(id.number), keys::stream(id.number, slot, 0), renamed.encode());
            }
            if there.is_some() && !replaces {
                return refuse(ErrorKind::Exists, "the file has such a stream already");
            }
            let mut bytes = Vec::with_capacity(head.len as usize);
            while (bytes.len() as u64) < head.len {
                bytes.extend(stream_part(view, id.number, slot, &head, bytes.len() as u64)?);
            }
            let free = match there {
                Some(there) => {
                    // It goes with what it held: what comes in its place is as long as it is.
                    take_stream(view, id.number, record, there.slot, &there.head)?;
                    Some(there.slot)
                }
                None => {
                    let bucket = self.names.bucket(to);
                    let in_bucket = self.streams_in(view, id.number, &keys::stream_bucket(id.number, bucket.start))?;
                    bucket.into_iter().find(|slot| in_bucket.iter().all(|one| one.slot != *slot))
                }
            };
            let Some(free) = free else {
                return refuse(ErrorKind::NoSpace, "too many names of streams of the file are alike");
            };
            take_stream(view, id.number, record, slot, &head)?;
            put_stream(view, id.number, record, (free, None), (&renamed, 0, &bytes))
        });
        change.await
    }

    /// Changes streams of a file, and notes that.
    async fn change_streams<T>(
        &self,
        caller: &Caller,
        id: FileId,
        need: Need,
        mut change: impl FnMut(&mut View<'_>, &mut Record) -> Result<T, Stop>,
    ) -> Result<T, VolumeError> {
        let now = self.now();
        let change = self.store.change([keys::shard(id.number)], need, |view| {
            let mut record = record_of(view, id)?;
            check_file(view, caller, &record, Use::Write)?;
            view.enforce(caller.limits());
            let done = change(view, &mut record)?;
            (record.changed, record.change) = (now, self.next_change());
            record.note_data();
            put_record(view, id.number, &record)?;
            Ok(done)
        });
        Ok(change.await?.0)
    }
}

const TOO_LARGE: &str = "a stream beside the data of a file has 64 KiB at most";

/// The part of a stream that has a byte.
fn stream_part(view: &View<'_>, file: u64, slot: u64, head: &Head, at: u64) -> Result<Vec<u8>, Stop> {
    let part = (at / PART as u64 + 1) as u16;
    let value = view.get(keys::shard(file), &keys::stream(file, slot, part))?;
    let whole = value.filter(|value| value.len() as u64 == head.part_bytes(part));
    whole.ok_or_else(|| VolumeError::corrupt(format!("a stream of file {file} lacks bytes: scan the volume")).into())
}

/// Has a stream be as long as `new` says, with bytes written over what it had from an offset on.
fn put_stream(
    view: &mut View<'_>,
    file: u64,
    record: &mut Record,
    (slot, old): (u64, Option<&Head>),
    (new, offset, bytes): (&Head, u64, &[u8]),
) -> Result<(), Stop> {
    let shard = keys::shard(file);
    let old_len = old.map_or(0, |old| old.len);
    let end = offset + bytes.len() as u64;
    for part in 1..=new.parts() as u16 {
        let (from, len) = ((u64::from(part) - 1) * PART as u64, new.part_bytes(part));
        let before = old.map_or(0, |old| old.part_bytes(part));
        let is_written = !bytes.is_empty() && offset < from + len && from < end;
        if !is_written && before == len {
            continue;
        }
        let mut value = match old {
            Some(old) if from < old_len => stream_part(view, file, slot, old, from)?,
            _ => Vec::new(),
        };
        value.resize(len as usize, 0);
        if is_written {
            let (first, last) = (offset.max(from), end.min(from + len));
            let source = &bytes[(first - offset) as usize..(last - offset) as usize];
            value[(first - from) as usize..(last - from) as usize].copy_from_slice(source);
        }
        view.put(shard, keys::stream(file, slot, part), value)?;
    }
    let parts = old.map_or(0, Head::parts);
    for part in new.parts() + 1..=parts {
        view.remove(shard, keys::stream(file, slot, part as u16))?;
    }
    if old != Some(new) {
        view.put(shard, keys::stream(file, slot, 0), new.encode())?;
    }
    let had = old.map_or(0, |old| old.parts() + 1);
    record.blocks = record.blocks.saturating_add(new.parts() + 1).saturating_sub(had);
    Ok(())
}

/// Takes a stream out.
fn take_stream(view: &mut View<'_>, file: u64, record: &mut Record, slot: u64, head: &Head) -> Result<(), Stop> {
    for part in 0..=head.parts() as u16 {
        view.remove(keys::shard(file), keys::stream(file, slot, part))?;
    }
    record.blocks = record.blocks.saturating_sub(head.parts() + 1);
    Ok(())
}

/// Whether a stream has all its parts, and stands where its name is looked for.
pub(crate) fn is_whole(volume: &Volume, view: &View<'_>, file: u64, slot: u64) -> Result<bool, Stop> {
    let parts = parts_of(view, file, slot)?;
    let Some((_, first)) = parts.first() else { return Ok(true) };
    let Some(head) = Head::decode(first) else { return Ok(false) };
    let is_placed = volume.names.bucket(&head.name).contains(&slot);
    let right = |(at, (key, value)): (usize, &Pair)| {
        keys::read_stream(key) == Some((slot, at as u16))
            && (at == 0 || value.len() as u64 == head.part_bytes(at as u16))
    };
    Ok(is_placed && parts.len() as u64 == head.parts() + 1 && parts.iter().enumerate().all(right))
}

/// All that stands of a stream, in order.
pub(crate) fn parts_of(view: &View<'_>, file: u64, slot: u64) -> Result<Vec<Pair>, Stop> {
    let first = keys::stream(file, slot, 0);
    let prefix = &first[..first.len() - 2];
    view.range(keys::shard(file), prefix, prefix, usize::MAX)
}
