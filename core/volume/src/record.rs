//! The record of a file: all that is known of it but its data, further names and extended attributes.
//!
//! ```text
//!   version │ generation, kind, device │ attributes, mode, owner, group, security │ links, size, blocks, quota tree
//!           │ four times │ change │ first name: parent, its generation, name │ inline data
//! ```
//!
//! Invariant: a record that cannot be read back as it was written is corrupt, and only its file suffers.

use holdfast_model::wire::{Reader, WireError, Writer};

use crate::error::VolumeError;
use crate::service::{Attributes, DosAttributes, FileId, FileKind, Time};

const VERSION: u8 = 1;
/// Bytes of a record without its name and data, or a few more.
const FIXED_BYTES: usize = 128;
/// Bytes of data that a record carries itself, at most.
pub(crate) const INLINE_BYTES: usize = 2048;
/// From 1601, where NT counts from, to 1970 (MS-DTYP 2.3.3).
const EPOCH_SECONDS: i64 = 11_644_473_600;
const TICKS: i64 = 10_000_000;

/// The name that a file had first, or that took its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub parent: u64,
    pub parent_generation: u32,
    /// Empty where the file has no name.
    pub name: Vec<u8>,
}

/// What a file counts for: whose it is, and the blocks of its data. The descriptor says whose where there is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub uid: u32,
    pub gid: u32,
    /// The number of its security descriptor, or 0.
    pub security: u32,
    /// The directory tree; 0 for none.
    pub tree: u32,
    pub blocks: u64,
}

impl Share {
    /// Blocks of a file, at most.
    const MOST_BLOCKS: u64 = 1 << 51;

    /// Looks at the value of a record, without reading the rest of it.
    pub fn of(value: &[u8]) -> Option<Self> {
        let read = |mut reader: Reader<'_>| -> Result<Self, WireError> {
            if reader.u8()? != VERSION {
                return Err(WireError::Value("version"));
            }
            // Generation, kind, device, attributes and mode; then links and size.
            reader.take(4 + 1 + 4 + 4 + 4)?;
            let (uid, gid, security) = (reader.u32()?, reader.u32()?, reader.u32()?);
            reader.take(4 + 8)?;
            let blocks = reader.u64()?.min(Self::MOST_BLOCKS);
            Ok(Self { uid, gid, security, tree: reader.u32()?, blocks })
        };
        read(Reader::new(value)).ok()
    }
}

/// The number of the security descriptor that the value of a record names, without reading the rest of it.
pub(crate) fn security_of(value: &[u8]) -> Option<u32> {
    let read = |mut reader: Reader<'_>| -> Result<u32, WireError> {
        if reader.u8()? != VERSION {
            return Err(WireError::Value("version"));
        }
        // Generation, kind, device, attributes, mode, user and group.
        reader.take(4 + 1 + 4 + 4 + 4 + 4 + 4)?;
        reader.u32()
    };
    read(Reader::new(value)).ok()
}

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub generation: u32,
    pub kind: FileKind,
    /// DOS attributes (MS-FSCC 2.6).
    pub attributes: u32,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// The number of its security descriptor; 0 where mode and owner are all.
    pub security: u32,
    pub links: u32,
    /// Bytes of a file, names of a directory.
    pub size: u64,
    /// Blocks of the device that its data takes.
    pub blocks: u64,
    /// The directory tree whose quota it counts for; 0 for none.
    pub quota_tree: u32,
    pub accessed: Time,
    pub modified: Time,
    pub changed: Time,
    pub created: Time,
    pub change: u64,
    pub link: Link,
    /// The bytes of a small file; such a file has no extents.
    pub inline: Option<Vec<u8>>,
}

fn put_time(writer: &mut Writer, time: Time) {
    let most = i64::MAX / TICKS - EPOCH_SECONDS - 1;
    let seconds = time.seconds.clamp(-most, most);
    writer.u64(((seconds + EPOCH_SECONDS) * TICKS + i64::from(time.nanos / 100)) as u64).u8((time.nanos % 100) as u8);
}

fn read_time(reader: &mut Reader<'_>) -> Result<Time, WireError> {
    let (ticks, rest) = (reader.u64()? as i64, reader.u8()?);
    if rest > 99 {
        return Err(WireError::Value("time"));
    }
    let seconds = ticks.div_euclid(TICKS) - EPOCH_SECONDS;
    Ok(Time { seconds, nanos: (ticks.rem_euclid(TICKS) * 100) as u32 + u32::from(rest) })
}

pub(crate) fn kind_number(kind: FileKind) -> (u8, u32) {
    match kind {
        FileKind::Regular => (1, 0),
        FileKind::Directory => (2, 0),
        FileKind::Symlink => (3, 0),
        FileKind::Fifo => (4, 0),
        FileKind::Socket => (5, 0),
        FileKind::CharDevice(device) => (6, device),
        FileKind::BlockDevice(device) => (7, device),
    }
}

fn kind_of(number: u8, device: u32) -> Option<FileKind> {
    Some(match number {
        1 => FileKind::Regular,
        2 => FileKind::Directory,
        3 => FileKind::Symlink,
        4 => FileKind::Fifo,
        5 => FileKind::Socket,
        6 => FileKind::CharDevice(device),
        7 => FileKind::BlockDevice(device),
        _ => return None,
    })
}

impl Record {
    /// As a value of a tree.
    pub fn encode(&self) -> Vec<u8> {
        let variable = self.link.name.len() + self.inline.as_ref().map_or(0, Vec::len);
        let mut writer = Writer::with_capacity(FIXED_BYTES + variable);
        let (kind, device) = kind_number(self.kind);
        writer.u8(VERSION).u32(self.generation).u8(kind).u32(device);
        writer.u32(self.attributes).u32(self.mode).u32(self.uid).u32(self.gid).u32(self.security);
        writer.u32(self.links).u64(self.size).u64(self.blocks).u32(self.quota_tree);
        for time in [self.accessed, self.modified, self.changed, self.created] {
            put_time(&mut writer, time);
        }
        writer.u64(self.change).u64(self.link.parent).u32(self.link.parent_generation);
        writer.u16(self.link.name.len() as u16).raw(&self.link.name);
        match &self.inline {
            Some(bytes) => writer.u8(1).u16(bytes.len() as u16).raw(bytes),
            None => writer.u8(0),
        };
        writer.into_bytes()
    }

    /// Reads it from a value.
    pub fn decode(file: u64, value: &[u8]) -> Result<Self, VolumeError> {
        let read = |reader: &mut Reader<'_>| -> Result<Self, WireError> {
            if reader.u8()? != VERSION {
                return Err(WireError::Value("version"));
            }
            let generation = reader.u32()?;
            let (kind, device) = (reader.u8()?, reader.u32()?);
            let kind = kind_of(kind, device).ok_or(WireError::Value("kind"))?;
            let (attributes, mode, uid, gid) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
            let (security, links, size, blocks) = (reader.u32()?, reader.u32()?, reader.u64()?, reader.u64()?);
            let quota_tree = reader.u32()?;
            let mut times = [Time::default(); 4];
            for time in &mut times {
                *time = read_time(reader)?;
            }
            let [accessed, modified, changed, created] = times;
            let (change, parent, parent_generation) = (reader.u64()?, reader.u64()?, reader.u32()?);
            let name = reader.u16().and_then(|len| reader.take(len.into()))?.to_vec();
            let inline = match reader.u8()? {
                0 => None,
                1 => Some(reader.u16().and_then(|len| reader.take(len.into()))?.to_vec()),
                _ => return Err(WireError::Value("inline")),
            };
            let is_sound = mode <= 0o7777
                && size <= i64::MAX as u64
                && inline.as_ref().is_none_or(|bytes| bytes.len() <= INLINE_BYTES && bytes.len() as u64 == size);
            if !is_sound {
                return Err(WireError::Value("record"));
            }
            let link = Link { parent, parent_generation, name };
            Ok(Self {
                generation,
                kind,
                attributes,
                mode,
                uid,
                gid,
                security,
                links,
                size,
                blocks,
                quota_tree,
                accessed,
                modified,
                changed,
                created,
                change,
                link,
                inline,
            })
        };
        let wrong = |_| VolumeError::corrupt(format!("the record of file {file} cannot be read"));
        read(&mut Reader::new(value)).map_err(wrong)
    }

    /// What callers see of it.
    pub fn facts(&self, number: u64) -> Attributes {
        Attributes {
            id: FileId { number, generation: self.generation },
            kind: self.kind,
            mode: self.mode,
            dos: self.dos(),
            uid: self.uid,
            gid: self.gid,
            links: self.links,
            size_bytes: self.size,
            // Whoever archives a file that takes nothing takes it for a hole, so bytes in the record count here.
            allocated_bytes: (self.blocks.saturating_mul(holdfast_model::BLOCK_BYTES))
                .saturating_add(self.inline.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            accessed: self.accessed,
            modified: self.modified,
            changed: self.changed,
            created: self.created,
            change: self.change,
        }
    }

    /// What Windows knows of it, with what follows from what it is.
    pub fn dos(&self) -> DosAttributes {
        let mut dos = DosAttributes::from_bits_truncate(self.attributes) - DosAttributes::DIRECTORY;
        dos.set(DosAttributes::DIRECTORY, self.is_directory());
        dos |= if self.kind == FileKind::Symlink { DosAttributes::REPARSE_POINT } else { DosAttributes::empty() };
        dos
    }

    /// Whether callers who know of that do not write to it.
    pub fn is_read_only(&self) -> bool {
        self.dos().contains(DosAttributes::READ_ONLY)
    }

    /// Whether its blocks get checksums of their own.
    pub fn is_strict(&self) -> bool {
        self.dos().contains(DosAttributes::INTEGRITY_STREAM)
    }

    /// Its data changed.
    pub fn note_data(&mut self) {
        if self.kind == FileKind::Regular {
            self.attributes |= DosAttributes::ARCHIVE.bits();
        }
    }

    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

/// What an entry of a directory says: the file, what it is, and the name as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryEntry {
    pub child: FileId,
    pub kind: FileKind,
    pub name: Vec<u8>,
}

impl DirectoryEntry {
    /// As a value of a tree.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(13 + self.name.len());
        writer.u64(self.child.number).u32(self.child.generation).u8(kind_number(self.kind).0).raw(&self.name);
        writer.into_bytes()
    }

    /// Reads it from a value.
    pub fn decode(directory: u64, value: &[u8]) -> Result<Self, VolumeError> {
        let read = |reader: &mut Reader<'_>| -> Result<Self, WireError> {
            let child = FileId { number: reader.u64()?, generation: reader.u32()? };
            let kind = kind_of(reader.u8()?, 0).ok_or(WireError::Value("kind"))?;
            Ok(Self { child, kind, name: reader.take(reader.remaining())?.to_vec() })
        };
        let wrong = |_| VolumeError::corrupt(format!("an entry of directory {directory} cannot be read"));
        read(&mut Reader::new(value)).map_err(wrong)
    }
}

impl Link {
    /// As the value of a further name.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u32(self.parent_generation).raw(&self.name);
        writer.into_bytes()
    }

    /// Reads it from there.
    pub fn decode(file: u64, parent: u64, value: &[u8]) -> Result<Self, VolumeError> {
        let read = |reader: &mut Reader<'_>| -> Result<Self, WireError> {
            Ok(Self { parent, parent_generation: reader.u32()?, name: reader.take(reader.remaining())?.to_vec() })
        };
        read(&mut Reader::new(value)).map_err(|_| VolumeError::corrupt(format!("a name of file {file} cannot be read")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were() {
        let record = Record {
            generation: 7,
            kind: FileKind::BlockDevice(77),
            attributes: 32,
            mode: 0o4755,
            uid: 1,
            gid: 2,
            security: 3,
            links: 4,
            size: 3,
            blocks: 6,
            quota_tree: 8,
            accessed: Time { seconds: -5, nanos: 999_999_999 },
            modified: Time { seconds: 1_800_000_000, nanos: 123_456_789 },
            changed: Time { seconds: 0, nanos: 0 },
            created: Time { seconds: -11_644_473_700, nanos: 1 },
            change: u64::MAX,
            link: Link { parent: 1, parent_generation: 9, name: b"name".to_vec() },
            inline: Some(b"abc".to_vec()),
        };
        let bytes = record.encode();
        assert_eq!(Record::decode(5, &bytes), Ok(record.clone()));
        assert_eq!(Share::of(&bytes), Some(Share { uid: 1, gid: 2, security: 3, tree: 8, blocks: 6 }));
        assert_eq!(Share::of(&bytes[..53]), None);
        assert_eq!((security_of(&bytes), security_of(&bytes[..28])), (Some(3), None));
        for len in 0..bytes.len() {
            assert!(Record::decode(5, &bytes[..len]).is_err(), "cut to {len}");
        }
        let wrong = Record { size: 4, ..record };
        assert!(Record::decode(5, &wrong.encode()).is_err(), "more data than it has");
        let far = Time { seconds: i64::MAX, nanos: 0 };
        let mut writer = Writer::new();
        put_time(&mut writer, far);
        let back = read_time(&mut Reader::new(&writer.into_bytes())).expect("a time");
        assert!(back.seconds > 1 << 38, "far away, but a time: {back:?}");
    }
}
