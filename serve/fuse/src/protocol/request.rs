//! Requests of the kernel: their header, and the body of each.
//!
//! Invariant: a request that is parsed has every name and value whole, and no name with a slash or without a letter.

use holdfast_model::wire::{Reader, WireError};

use super::constants::*;
use super::init::Init;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 40;
/// Bytes before the payload of a write.
pub const WRITE_HEAD_BYTES: usize = HEADER_BYTES + 40;

/// What every request begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the request, this header and a payload included.
    pub length: u32,
    /// What is asked.
    pub opcode: u32,
    /// The kernel's number for the request, given back with the answer.
    pub unique: u64,
    /// The node that it is about.
    pub node: u64,
    /// Who asks.
    pub uid: u32,
    /// The group of who asks.
    pub gid: u32,
    /// The thread that asks; 0 if it is of another namespace of processes, or the kernel itself.
    pub thread: u32,
    /// Bytes of extensions at the end.
    extension_bytes: u32,
}

impl Header {
    /// Parses the first [`HEADER_BYTES`].
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let (length, opcode, unique, node) = (reader.u32()?, reader.u32()?, reader.u64()?, reader.u64()?);
        let (uid, gid, thread) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let extension_bytes = u32::from(reader.u16()?) * 8;
        reader.u16()?;
        Ok(Self { length, opcode, unique, node, uid, gid, thread, extension_bytes })
    }
}

/// A range of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Number of the open file.
    pub handle: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u32,
    /// The flags of the request.
    pub flags: u32,
    /// How the file is open, and what the call adds to that (`O_DSYNC`).
    pub open_flags: u32,
}

/// Attributes to set; `valid` says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the wire")]
pub struct SetAttr {
    pub valid: u32,
    pub handle: u64,
    pub size: u64,
    pub atime: (i64, u32),
    pub mtime: (i64, u32),
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// A lock of a range of an open file, or of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Number of the open file.
    pub handle: u64,
    /// Whose it is: a number of the kernel for a table of descriptors, or for an open file.
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: u32,
    /// The process that asks, as the one that mounted sees it.
    pub process: u32,
    /// Whether it is one of `flock(2)`.
    pub is_flock: bool,
}

/// A copy within the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Open file and offset to copy from.
    pub from: (u64, u64),
    /// Node, open file and offset to copy to.
    pub to: (u64, u64, u64),
    /// Bytes.
    pub len: u64,
    /// None is defined.
    pub flags: u64,
}

/// Nodes that the kernel forgets.
#[derive(Clone, Copy, Debug)]
pub struct Forgets<'a>(Reader<'a>);

impl Iterator for Forgets<'_> {
    /// A node, and how many of its look-ups.
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        Some((self.0.u64().ok()?, self.0.u64().ok()?))
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are those of the wire")]
pub enum Operation<'a> {
    Lookup { name: &'a [u8] },
    Forget { lookups: u64 },
    BatchForget(Forgets<'a>),
    GetAttr,
    SetAttr(SetAttr),
    ReadLink,
    Symlink { name: &'a [u8], target: &'a [u8] },
    MkNod { name: &'a [u8], mode: u32, device: u32 },
    MkDir { name: &'a [u8], mode: u32 },
    Unlink { name: &'a [u8] },
    RmDir { name: &'a [u8] },
    Rename { name: &'a [u8], new_node: u64, new_name: &'a [u8], flags: u32 },
    Link { target: u64, name: &'a [u8] },
    Open { flags: u32, open_flags: u32 },
    Read(Range),
    Write(Range),
    StatFs,
    Release { handle: u64 },
    Fsync { flags: u32 },
    SetXattr { name: &'a [u8], value: &'a [u8], flags: u32 },
    GetXattr { name: &'a [u8], size: u32 },
    ListXattr { size: u32 },
    RemoveXattr { name: &'a [u8] },
    Flush { handle: u64, owner: u64 },
    GetLock(Lock),
    SetLock { lock: Lock, waits: bool },
    Init(Init),
    OpenDir,
    ReadDir { offset: u64, size: u32, plus: bool },
    ReleaseDir { handle: u64 },
    FsyncDir { flags: u32 },
    Access { mask: u32 },
    Create { name: &'a [u8], flags: u32, mode: u32 },
    Interrupt { unique: u64 },
    Destroy,
    Fallocate { handle: u64, offset: u64, len: u64, mode: u32 },
    Seek { handle: u64, offset: u64, whence: u32 },
    CopyFileRange { copy: Copy, wide: bool },
    SyncFs,
    TmpFile { flags: u32, mode: u32 },
    Statx,
    Unknown,
}

/// A name, which a zero byte ends.
fn name<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
    let found = text(reader)?;
    if found.is_empty() || found.contains(&b'/') { Err(WireError::Value("name")) } else { Ok(found) }
}

/// Bytes that a zero byte ends.
fn text<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
    let mut ahead = *reader;
    let rest = ahead.take(ahead.remaining())?;
    let end = rest.iter().position(|byte| *byte == 0).ok_or(WireError::Short)?;
    let found = reader.take(end)?;
    reader.u8()?;
    Ok(found)
}

/// The name of an extended attribute, which may have slashes.
fn attribute_name<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
    text(reader).and_then(|found| if found.is_empty() { Err(WireError::Value("name")) } else { Ok(found) })
}

fn forgets<'a>(reader: &mut Reader<'a>) -> Result<Forgets<'a>, WireError> {
    let count = reader.u64()? as u32;
    Ok(Forgets(Reader::new(reader.take(count as usize * 16)?)))
}

fn fsync(reader: &mut Reader<'_>) -> Result<u32, WireError> {
    reader.u64()?;
    reader.u32()
}

fn range(reader: &mut Reader<'_>) -> Result<Range, WireError> {
    let (handle, offset, size, flags) = (reader.u64()?, reader.u64()?, reader.u32()?, reader.u32()?);
    let _lock_owner = reader.u64()?;
    let (open_flags, _padding) = (reader.u32()?, reader.u32()?);
    Ok(Range { handle, offset, size, flags, open_flags })
}

fn set_attr(reader: &mut Reader<'_>) -> Result<SetAttr, WireError> {
    let valid = reader.u32()?;
    reader.take(4)?;
    let (handle, size) = (reader.u64()?, reader.u64()?);
    reader.take(8)?;
    let (atime, mtime, _ctime) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let (atime_nanos, mtime_nanos, _ctime_nanos) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let mode = reader.u32()?;
    reader.take(4)?;
    let (uid, gid) = (reader.u32()?, reader.u32()?);
    reader.take(4)?;
    if atime_nanos.max(mtime_nanos) >= 1_000_000_000 {
        return Err(WireError::Value("nanoseconds"));
    }
    let (atime, mtime) = ((atime as i64, atime_nanos), (mtime as i64, mtime_nanos));
    Ok(SetAttr { valid, handle, size, atime, mtime, mode, uid, gid })
}

fn lock(reader: &mut Reader<'_>) -> Result<Lock, WireError> {
    let (handle, owner, start, end) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
    let (kind, process, flags, _padding) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
    Ok(Lock { handle, owner, start, end, kind, process, is_flock: flags & LK_FLOCK != 0 })
}

fn copy(reader: &mut Reader<'_>) -> Result<Copy, WireError> {
    let mut next = || reader.u64();
    Ok(Copy { from: (next()?, next()?), to: (next()?, next()?, next()?), len: next()?, flags: next()? })
}

/// Parses a request. That of a write may be given without its payload.
pub fn parse(bytes: &[u8]) -> Result<(Header, Operation<'_>), WireError> {
    let header = Header::parse(bytes)?;
    let length = header.length as usize;
    let end = match header.opcode {
        WRITE => bytes.len().min(WRITE_HEAD_BYTES),
        _ if length == bytes.len() => length.saturating_sub(header.extension_bytes as usize),
        _ => return Err(WireError::Value("length of a request")),
    };
    let body = bytes.get(HEADER_BYTES..end).ok_or(WireError::Short)?;
    let operation = parse_body(&header, &mut Reader::new(body))?;
    Ok((header, operation))
}

fn parse_body<'a>(header: &Header, reader: &mut Reader<'a>) -> Result<Operation<'a>, WireError> {
    Ok(match header.opcode {
        LOOKUP => Operation::Lookup { name: name(reader)? },
        FORGET => Operation::Forget { lookups: reader.u64()? },
        BATCH_FORGET => Operation::BatchForget(forgets(reader)?),
        GETATTR => Operation::GetAttr,
        STATX => Operation::Statx,
        SETATTR => Operation::SetAttr(set_attr(reader)?),
        READLINK => Operation::ReadLink,
        ACCESS => Operation::Access { mask: reader.u32()? },
        STATFS => Operation::StatFs,
        SYNCFS => Operation::SyncFs,
        INIT => Operation::Init(Init::parse(reader)?),
        INTERRUPT => Operation::Interrupt { unique: reader.u64()? },
        DESTROY => Operation::Destroy,
        SYMLINK | MKNOD | MKDIR | UNLINK | RMDIR | RENAME | RENAME2 | LINK | CREATE | TMPFILE => {
            parse_names(header, reader)?
        }
        OPEN | READ | WRITE | RELEASE | FSYNC | FLUSH | GETLK | SETLK | SETLKW | FALLOCATE | LSEEK
        | COPY_FILE_RANGE | COPY_FILE_RANGE_64 => parse_data(header, reader)?,
        OPENDIR => Operation::OpenDir,
        READDIR | READDIRPLUS => {
            let range = range(reader)?;
            Operation::ReadDir { offset: range.offset, size: range.size, plus: header.opcode == READDIRPLUS }
        }
        RELEASEDIR => Operation::ReleaseDir { handle: reader.u64()? },
        FSYNCDIR => Operation::FsyncDir { flags: fsync(reader)? },
        SETXATTR => {
            let (size, flags) = (reader.u32()?, reader.u32()?);
            Operation::SetXattr { name: attribute_name(reader)?, value: reader.take(size as usize)?, flags }
        }
        GETXATTR => {
            let size = reader.u64()? as u32;
            Operation::GetXattr { name: attribute_name(reader)?, size }
        }
        LISTXATTR => Operation::ListXattr { size: reader.u32()? },
        REMOVEXATTR => Operation::RemoveXattr { name: attribute_name(reader)? },
        _ => Operation::Unknown,
    })
}

/// Changes of names.
fn parse_names<'a>(header: &Header, reader: &mut Reader<'a>) -> Result<Operation<'a>, WireError> {
    Ok(match header.opcode {
        SYMLINK => Operation::Symlink { name: name(reader)?, target: text(reader)? },
        MKNOD => {
            let (mode, device) = (reader.u32()?, reader.u32()?);
            reader.take(8)?;
            Operation::MkNod { name: name(reader)?, mode, device }
        }
        MKDIR => {
            let mode = reader.u64()? as u32;
            Operation::MkDir { name: name(reader)?, mode }
        }
        UNLINK => Operation::Unlink { name: name(reader)? },
        RMDIR => Operation::RmDir { name: name(reader)? },
        LINK => {
            let target = reader.u64()?;
            Operation::Link { target, name: name(reader)? }
        }
        CREATE | TMPFILE => {
            let (flags, mode) = (reader.u32()?, reader.u32()?);
            reader.take(8)?;
            if header.opcode == TMPFILE {
                return Ok(Operation::TmpFile { flags, mode });
            }
            Operation::Create { name: name(reader)?, flags, mode }
        }
        _ => {
            let new_node = reader.u64()?;
            let flags = if header.opcode == RENAME2 { reader.u64()? as u32 } else { 0 };
            Operation::Rename { name: name(reader)?, new_node, new_name: name(reader)?, flags }
        }
    })
}

/// Requests about open files.
fn parse_data(header: &Header, reader: &mut Reader<'_>) -> Result<Operation<'static>, WireError> {
    Ok(match header.opcode {
        OPEN => Operation::Open { flags: reader.u32()?, open_flags: reader.u32()? },
        READ => Operation::Read(range(reader)?),
        WRITE => {
            let range = range(reader)?;
            if header.length as usize != WRITE_HEAD_BYTES + range.size as usize {
                return Err(WireError::Value("length of a write"));
            }
            Operation::Write(range)
        }
        RELEASE => Operation::Release { handle: reader.u64()? },
        FSYNC => Operation::Fsync { flags: fsync(reader)? },
        FLUSH => {
            let (handle, _unused, owner) = (reader.u64()?, reader.u64()?, reader.u64()?);
            Operation::Flush { handle, owner }
        }
        GETLK => Operation::GetLock(lock(reader)?),
        SETLK | SETLKW => Operation::SetLock { lock: lock(reader)?, waits: header.opcode == SETLKW },
        FALLOCATE => {
            let (handle, offset, len) = (reader.u64()?, reader.u64()?, reader.u64()?);
            Operation::Fallocate { handle, offset, len, mode: reader.u32()? }
        }
        LSEEK => Operation::Seek { handle: reader.u64()?, offset: reader.u64()?, whence: reader.u32()? },
        _ => Operation::CopyFileRange { copy: copy(reader)?, wide: header.opcode == COPY_FILE_RANGE_64 },
    })
}
