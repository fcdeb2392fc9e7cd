//! What front ends see of files: one trait, whatever stands behind it.
//!
//! ```text
//!   FUSE · SMB · NFS ──▶ FileService ──▶ volume
//! ```
//!
//! Who asks comes with every request that depends on it: identity and access are checked behind this line, once. Times
//! are those of the one who serves.
//!
//! Invariant: a request that is answered with an error changed nothing, except a change of room and a clone, which go on
//! from the beginning of their range as far as they come.

use std::sync::Weak;

use bitflags::bitflags;
use holdfast_device::IoSlice;
use holdfast_identity::{AccessMask, Explanation, SecurityDescriptor};
use smallvec::SmallVec;

pub use crate::caller::{Caller, Groups};
use crate::error::{ErrorKind, VolumeError};
use crate::integrity::Integrity;
pub use crate::name_rules::NameRules;
pub use crate::renaming::{Remove, Rename};

/// A file for ever: its number, and the generation that tells it from another file of that number (NFS file handle).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Unique among the files of a volume that exist.
    pub number: u64,
    /// Differs from that of any earlier file of this number.
    pub generation: u32,
}

/// A moment, since 1970 in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds, before 1970 negative.
    pub seconds: i64,
    /// Nanoseconds after those, below 10^9.
    pub nanos: u32,
}

/// What a file is (POSIX.1 `<sys/stat.h>`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Bytes.
    Regular,
    /// Names of other files.
    Directory,
    /// A path.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device, with its number.
    CharDevice(u32),
    /// A block device, with its number.
    BlockDevice(u32),
}

bitflags! {
    /// Attributes that Windows knows of files ([MS-FSCC] 2.6).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DosAttributes: u32 {
        /// Callers with a token do not write to it, and do not remove it.
        const READ_ONLY = 0x0000_0001;
        /// Listings leave it out unless they are asked not to.
        const HIDDEN = 0x0000_0002;
        /// The operating system's.
        const SYSTEM = 0x0000_0004;
        /// It is a directory. Shown, not set.
        const DIRECTORY = 0x0000_0010;
        /// Its data changed since somebody took that away, as backups do.
        const ARCHIVE = 0x0000_0020;
        /// It was told that it has holes.
        const SPARSE = 0x0000_0200;
        /// It has a reparse point, or is a symbolic link. Shown, not set.
        const REPARSE_POINT = 0x0000_0400;
        /// Its data is elsewhere for now.
        const OFFLINE = 0x0000_1000;
        /// Searches do not look into it.
        const NOT_CONTENT_INDEXED = 0x0000_2000;
        /// Its data is to have checksums of its own. Shown, and set by [`FileService::set_integrity`].
        const INTEGRITY_STREAM = 0x0000_8000;
        /// Scrubs leave its data alone. Shown, and set as the one before.
        const NO_SCRUB_DATA = 0x0002_0000;
    }
}

impl DosAttributes {
    /// Those that callers set.
    pub const SETTABLE: Self = Self::all()
        .difference(Self::DIRECTORY)
        .difference(Self::REPARSE_POINT)
        .difference(Self::INTEGRITY_STREAM)
        .difference(Self::NO_SCRUB_DATA);
}

/// Facts about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its id.
    pub id: FileId,
    /// What it is.
    pub kind: FileKind,
    /// The twelve permission bits of POSIX: set-user-id, set-group-id, sticky, and read, write, execute of three
    /// classes.
    pub mode: u32,
    /// What Windows knows of it.
    pub dos: DosAttributes,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Names that it has; of a directory two more than directories in it.
    pub links: u32,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// Bytes of the device that its data and its streams take, and those of data that its record carries, which no quota
    /// counts. Never 0 where there is data.
    pub allocated_bytes: u64,
    /// When it was last read.
    pub accessed: Time,
    /// When its data last changed.
    pub modified: Time,
    /// When its data or attributes last changed.
    pub changed: Time,
    /// When it was created.
    pub created: Time,
    /// Grows with each change, also over a crash (NFSv4 change attribute).
    pub change: u64,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's present.
    Now,
    /// This one.
    At(Time),
}

/// Attributes to set: those that are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// The twelve permission bits.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The length: cuts off, or adds what reads as zeros.
    pub size_bytes: Option<u64>,
    /// When it was read.
    pub accessed: Option<SetTime>,
    /// When its data changed.
    pub modified: Option<SetTime>,
    /// When it was created.
    pub created: Option<SetTime>,
    /// What Windows knows of it: all that can be set, those left out are taken away.
    pub dos: Option<DosAttributes>,
}

/// A file to create.
#[derive(Clone, Copy, Debug)]
pub struct NewFile<'a> {
    /// What it is.
    pub kind: FileKind,
    /// The twelve permission bits, with the creator's mask applied.
    pub mode: u32,
    /// The path of a symbolic link.
    pub target: &'a [u8],
}

/// Who knows files by more than their open handles, as a kernel does that keeps them in its memory.
pub trait Remembers: Send + Sync {
    /// Whether it knows a file. It answers at once, and asks no volume.
    fn knows(&self, id: FileId) -> bool;
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// The file.
    pub id: FileId,
    /// What it is, without the number of a device.
    pub kind: FileKind,
    /// Where a listing goes on behind this entry, whatever happens to the directory meanwhile. Never 0, below 2^63.
    pub cursor: u64,
    /// Its attributes, where they were asked for.
    pub attributes: Option<Attributes>,
}

/// Bytes that were read, in order.
#[derive(Clone, Debug, Default)]
pub struct Data {
    parts: SmallVec<[(IoSlice, usize, usize); 2]>,
}

impl Data {
    /// Adds `len` bytes of a buffer, from `at` on.
    pub fn push(&mut self, buf: IoSlice, at: usize, len: usize) {
        assert!(at.checked_add(len).is_some_and(|end| end <= buf.len()), "part {at}+{len} of {}", buf.len());
        if len > 0 {
            self.parts.push((buf, at, len));
        }
    }

    /// The bytes, in pieces.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|(buf, at, len)| &buf[*at..at + len])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|(.., len)| len).sum()
    }

    /// Whether there are none: the end of the file.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// All of them in one place.
    pub fn to_vec(&self) -> Vec<u8> {
        self.parts().collect::<Vec<_>>().concat()
    }
}

/// What an open file is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenMode {
    /// Reads.
    pub read: bool,
    /// Writes.
    pub write: bool,
    /// Cut to nothing first.
    pub truncate: bool,
}

/// A change of the room that a range of a file takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Room is set aside: writes to the range find it (`posix_fallocate`). The file grows to the end of the range
    /// unless `keep_size`.
    Reserve {
        /// The file's length stays.
        keep_size: bool,
    },
    /// The range reads as zeros and takes no room (`FALLOC_FL_PUNCH_HOLE`). The length stays.
    Punch,
    /// The range reads as zeros and has room (`FALLOC_FL_ZERO_RANGE`).
    Zero {
        /// The file's length stays.
        keep_size: bool,
    },
}

/// What to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte of data (`SEEK_DATA`).
    Data,
    /// The next byte of a hole; the end of the file is one (`SEEK_HOLE`).
    Hole,
}

/// Whether an extended attribute may be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMode {
    /// It may.
    Any,
    /// It must not (`XATTR_CREATE`).
    Create,
    /// It must (`XATTR_REPLACE`).
    Replace,
}

bitflags! {
    /// Parts of a security descriptor (`SECURITY_INFORMATION`, [MS-DTYP] 2.4.7).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SecurityParts: u32 {
        /// Who owns the file.
        const OWNER = 1;
        /// Its primary group.
        const GROUP = 2;
        /// Who may do what.
        const DACL = 4;
        /// What is audited.
        const SACL = 8;
    }
}

/// A stream of data beside that of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its name, which no other stream of the file has, in any case.
    pub name: Vec<u8>,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// Bytes that it counts for in the room of its file.
    pub allocated_bytes: u64,
}

/// The tag of a symbolic link (`IO_REPARSE_TAG_SYMLINK`, [MS-FSCC] 2.1.2.1).
pub const SYMLINK_TAG: u32 = 0xa000_000c;
/// The tag of a directory that stands for another one (`IO_REPARSE_TAG_MOUNT_POINT`).
pub const MOUNT_POINT_TAG: u32 = 0xa000_0003;

/// What a file stands for, as whoever knows the tag understands it ([MS-FSCC] 2.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReparsePoint {
    /// Who understands the data.
    pub tag: u32,
    /// The same beyond doubt, for tags that are not Microsoft's.
    pub guid: Option<[u8; 16]>,
    /// The data, without a header.
    pub data: Vec<u8>,
}

/// How much a flush makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Data, and what is needed to read it (`fdatasync`).
    Data,
    /// All of the file, its name too (`fsync`).
    All,
}

/// How full a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes that may still be written.
    pub free_bytes: u64,
    /// Files that exist.
    pub files: u64,
    /// Files that may still be created, where their number is limited.
    pub free_files: Option<u64>,
}

fn not_here<T>(what: &str) -> Result<T, VolumeError> {
    Err(VolumeError::new(ErrorKind::NotSupported, format!("these files have no {what}")))
}

/// Files, for front ends. Requests may be made side by side; each is all or nothing to the others.
#[expect(async_fn_in_trait, reason = "requests stay on the reactor that they arrived at")]
pub trait FileService: Send + Sync + 'static {
    /// An open file. It lives as long as that, also without a name.
    type Handle: Clone + 'static;

    /// The directory that everything is in.
    fn root(&self) -> FileId;

    /// The file of a name, if there is one. `.` and `..` are names like any here, and found nowhere.
    async fn lookup(&self, caller: &Caller, dir: FileId, name: &[u8]) -> Result<Option<Attributes>, VolumeError>;

    /// The directory that a directory is in; the root's is itself.
    async fn parent(&self, dir: FileId) -> Result<Attributes, VolumeError>;

    /// The file that has a number now, of whatever generation, for handles that outlive what knew the file. One without
    /// a name is not found.
    async fn find(&self, number: u64) -> Result<Attributes, VolumeError>;

    /// Facts about a file.
    async fn stat(&self, id: FileId) -> Result<Attributes, VolumeError>;

    /// Sets attributes, all or none.
    async fn set(&self, caller: &Caller, id: FileId, set: &SetAttributes) -> Result<Attributes, VolumeError>;

    /// Whether the caller may do all of `mask` (POSIX `access`: 4 read, 2 write, 1 execute).
    async fn access(&self, caller: &Caller, id: FileId, mask: u32) -> Result<(), VolumeError>;

    /// Creates a file; the name must be free.
    async fn create(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        new: &NewFile<'_>,
    ) -> Result<Attributes, VolumeError>;

    /// Creates a regular file without a name, which [`FileService::link`] may give it one, in the place of `dir`
    /// (`O_TMPFILE`).
    async fn create_unnamed(
        &self,
        caller: &Caller,
        dir: FileId,
        new: &NewFile<'_>,
    ) -> Result<(Attributes, Self::Handle), VolumeError>;

    /// The path of a symbolic link.
    async fn read_link(&self, id: FileId) -> Result<Vec<u8>, VolumeError>;

    /// Gives a file another name.
    async fn link(&self, caller: &Caller, id: FileId, dir: FileId, name: &[u8]) -> Result<Attributes, VolumeError>;

    /// Takes a name away, and the file with its last one, once nobody has it open.
    async fn remove(&self, caller: &Caller, dir: FileId, name: &[u8], what: Remove) -> Result<(), VolumeError>;

    /// Gives a file another name in place of one that it has.
    async fn rename(
        &self,
        caller: &Caller,
        from: (FileId, &[u8]),
        to: (FileId, &[u8]),
        mode: Rename,
    ) -> Result<(), VolumeError>;

    /// Names in a directory behind a cursor (0: from the beginning), `most` at most; fewer only at the end.
    /// A name that is there all the time is listed once.
    async fn list(
        &self,
        caller: &Caller,
        dir: FileId,
        cursor: u64,
        most: usize,
        attributes: bool,
    ) -> Result<Vec<Entry>, VolumeError>;

    /// Opens a regular file.
    async fn open(&self, caller: &Caller, id: FileId, mode: OpenMode) -> Result<Self::Handle, VolumeError>;

    /// The same open file, whose reads go to the disks and leave nothing in memory (`O_DIRECT`,
    /// `FILE_NO_INTERMEDIATE_BUFFERING`).
    fn unbuffered(&self, handle: Self::Handle) -> Self::Handle {
        handle
    }

    /// Has what a directory is of, such as a snapshot, stay as long as the answer is not [closed](Self::close); `None` where
    /// it stays anyhow.
    async fn hold_directory(&self, id: FileId) -> Result<Option<Self::Handle>, VolumeError> {
        let _ = id;
        Ok(None)
    }

    /// Has files that lose their last name stay for somebody who knows them, where the
    /// [caller](Caller::keeps_unnamed) says so. Whoever does not know a file any more says that by
    /// [`FileService::forgotten`].
    fn remember(&self, who: Weak<dyn Remembers>) {
        let _ = who;
    }

    /// How many files lost their last name so far, or were about to. Who learns of a file, and finds that this changed
    /// meanwhile, looks at whether the file is still there: it may be gone without a look at who knows it.
    fn removals(&self) -> u64 {
        0
    }

    /// Whether a file has no name and stays because somebody knows it.
    fn is_left(&self, id: FileId) -> bool {
        let _ = id;
        false
    }

    /// Somebody does not know a file any more, which may go now.
    async fn forgotten(&self, id: FileId) -> Result<(), VolumeError> {
        let _ = id;
        Ok(())
    }

    /// Ends the use of an open file; its last clone must be closed rather than dropped.
    async fn close(&self, handle: Self::Handle) -> Result<(), VolumeError>;

    /// Reads up to `len` bytes; fewer only at the end of the file.
    async fn read(&self, handle: &Self::Handle, offset: u64, len: usize) -> Result<Data, VolumeError>;

    /// Writes the first `len` bytes of a buffer; answers how many, fewer only where there is no room for the rest. They are
    /// seen by every later read, and durable after a flush.
    async fn write(&self, handle: &Self::Handle, offset: u64, data: IoSlice, len: usize) -> Result<usize, VolumeError>;

    /// Changes the room that a range takes.
    async fn allocate(&self, handle: &Self::Handle, offset: u64, len: u64, how: Allocate) -> Result<(), VolumeError>;

    /// The next byte of data or hole from `offset` on. Beyond the last one, and the end:
    /// [`ErrorKind::NoData`].
    async fn seek(&self, handle: &Self::Handle, offset: u64, what: Seek) -> Result<u64, VolumeError>;

    /// Has a range of a file hold what a range of another one holds, or of another part of it, without a copy of the data
    /// where it can be: neither sees afterwards what is written to the other (`FICLONERANGE`). Offsets are multiples of
    /// a block of 4096 bytes; so is `len`, unless the range ends where `from` ends, and at the end of `to` or behind it.
    /// The range counts for the owner of `to` as data of its own. A request that fails has done a part from the
    /// beginning of the range on, or none.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for ranges that are none of these, overlap within a file or reach
    /// behind the end of `from`; [`ErrorKind::NotSupported`] where the service cannot do
    /// it.
    async fn clone_range(
        &self,
        from: (&Self::Handle, u64),
        to: (&Self::Handle, u64),
        len: u64,
    ) -> Result<(), VolumeError> {
        let _ = (from, to, len);
        Err(VolumeError::new(ErrorKind::NotSupported, "files cannot share data here: copy it"))
    }

    /// Copies bytes within the volume; answers how many, fewer at the end of `from` (`copy_file_range`). Where the ranges
    /// lie alike in their blocks, data need not be copied.
    async fn copy(&self, from: (&Self::Handle, u64), to: (&Self::Handle, u64), len: u64) -> Result<u64, VolumeError>;

    /// Makes a file durable as it is now.
    async fn flush(&self, id: FileId, how: Flush) -> Result<(), VolumeError>;

    /// The value of an extended attribute.
    async fn extended(&self, caller: &Caller, id: FileId, name: &[u8]) -> Result<Option<Vec<u8>>, VolumeError>;

    /// Sets an extended attribute.
    async fn set_extended(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<(), VolumeError>;

    /// Removes an extended attribute; [`ErrorKind::NoData`] if it is not there.
    async fn remove_extended(&self, caller: &Caller, id: FileId, name: &[u8]) -> Result<(), VolumeError>;

    /// The names of all extended attributes.
    async fn list_extended(&self, caller: &Caller, id: FileId) -> Result<Vec<Vec<u8>>, VolumeError>;

    /// Creates a file with a security descriptor, of which what is left out is inherited or that of the creator; the name
    /// must be free.
    async fn create_secured(
        &self,
        _caller: &Caller,
        _dir: FileId,
        _name: &[u8],
        _new: &NewFile<'_>,
        _given: &SecurityDescriptor,
    ) -> Result<Attributes, VolumeError> {
        not_here("security descriptors")
    }

    /// The security descriptor of a file, its own or the one that owner, group and mode amount to; with its SACL for those
    /// who may read that ([MS-FSA] 2.1.5.14).
    async fn security(&self, _caller: &Caller, _id: FileId) -> Result<SecurityDescriptor, VolumeError> {
        not_here("security descriptors")
    }

    /// Puts parts of a descriptor in place of those of a file ([MS-FSA] 2.1.5.17). What is below a directory stays as it
    /// is. Where nothing is left but what owner, group and mode say, the file has no descriptor of its own afterwards.
    async fn set_security(
        &self,
        _caller: &Caller,
        _id: FileId,
        _parts: SecurityParts,
        _given: &SecurityDescriptor,
    ) -> Result<Attributes, VolumeError> {
        not_here("security descriptors")
    }

    /// The rights that a caller gets of those that are asked for: all of them, or an error; of
    /// [`AccessMask::MAXIMUM_ALLOWED`] all there are. The right to delete a file may come from its directory ([MS-FSA]
    /// 2.1.5.1.2.1). Nothing counts as checked here.
    async fn granted(&self, _caller: &Caller, _id: FileId, _desired: AccessMask) -> Result<AccessMask, VolumeError> {
        not_here("security descriptors")
    }

    /// What the descriptor of a file grants a caller of what is asked for, and which entry, privilege or rule decided.
    async fn explain(&self, _caller: &Caller, _id: FileId, _desired: AccessMask) -> Result<Explanation, VolumeError> {
        not_here("security descriptors")
    }

    /// The streams that a file or directory has beside its data.
    async fn streams(&self, _caller: &Caller, _id: FileId) -> Result<Vec<Stream>, VolumeError> {
        not_here("streams")
    }

    /// Makes a stream, or finds it: with [`SetMode::Replace`] it is empty afterwards. Names that differ in case only are
    /// the same.
    async fn create_stream(
        &self,
        _caller: &Caller,
        _id: FileId,
        _name: &[u8],
        _mode: SetMode,
    ) -> Result<Stream, VolumeError> {
        not_here("streams")
    }

    /// Reads up to `len` bytes of a stream; fewer only at its end.
    async fn read_stream(
        &self,
        _caller: &Caller,
        _id: FileId,
        _name: &[u8],
        _offset: u64,
        _len: usize,
    ) -> Result<Vec<u8>, VolumeError> {
        not_here("streams")
    }

    /// Writes to a stream, all or nothing; a stream has 64 KiB at most.
    async fn write_stream(
        &self,
        _caller: &Caller,
        _id: FileId,
        _name: &[u8],
        _offset: u64,
        _bytes: &[u8],
    ) -> Result<(), VolumeError> {
        not_here("streams")
    }

    /// Cuts a stream, or adds zeros.
    async fn set_stream_length(
        &self,
        _caller: &Caller,
        _id: FileId,
        _name: &[u8],
        _len: u64,
    ) -> Result<(), VolumeError> {
        not_here("streams")
    }

    /// Takes a stream away.
    async fn remove_stream(&self, _caller: &Caller, _id: FileId, _name: &[u8]) -> Result<(), VolumeError> {
        not_here("streams")
    }

    /// Gives a stream another name, in place of another stream if `replaces`.
    async fn rename_stream(
        &self,
        _caller: &Caller,
        _id: FileId,
        _name: &[u8],
        _to: &[u8],
        _replaces: bool,
    ) -> Result<(), VolumeError> {
        not_here("streams")
    }

    /// What a file stands for; a symbolic link is shown as one of Windows. Where it is itself:
    /// [`ErrorKind::NoReparse`].
    async fn reparse(&self, _caller: &Caller, _id: FileId) -> Result<ReparsePoint, VolumeError> {
        not_here("reparse points")
    }

    /// Has a file, or an empty directory, stand for something, of which the data alone may change:
    /// [`ErrorKind::OtherReparse`] otherwise.
    async fn set_reparse(&self, _caller: &Caller, _id: FileId, _point: &ReparsePoint) -> Result<(), VolumeError> {
        not_here("reparse points")
    }

    /// Has a file be itself again; the tag, and the GUID, must be those that it has.
    async fn remove_reparse(
        &self,
        _caller: &Caller,
        _id: FileId,
        _tag: u32,
        _guid: Option<[u8; 16]>,
    ) -> Result<(), VolumeError> {
        not_here("reparse points")
    }

    /// Has a file keep something else to prove that its data is what was written, or a directory hand that on to what is
    /// made in it. What a file holds has checksums afterwards if it is to be strict. Who may set attributes may do it.
    async fn set_integrity(&self, _caller: &Caller, _id: FileId, _to: Integrity) -> Result<Attributes, VolumeError> {
        not_here("checksums of their own")
    }

    /// How full the volume is for files in a directory, which may have a limit of its own.
    async fn usage(&self, at: FileId) -> Result<Usage, VolumeError>;

    /// Makes all that was answered so far durable.
    async fn sync(&self) -> Result<(), VolumeError>;
}
