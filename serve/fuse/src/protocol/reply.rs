//! Bodies of answers, and the headers before them.
//!
//! Invariant: the length in a header is that of the header and all that is sent behind it.

use std::time::Duration;

use holdfast_model::wire::Writer;
use holdfast_volume::service::{Attributes, FileKind, Time, Usage};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;
const BLOCK_BYTES: u64 = 4096;
const SECTOR_BYTES: u64 = 512;
/// Bytes of an entry (`fuse_entry_out`).
pub const ENTRY_BYTES: usize = 128;
/// Bytes of a name in a listing without the name (`fuse_dirent`).
pub const DIRENT_BYTES: usize = 24;

/// For how long the kernel may answer by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// That a name is of a file, or of none.
    pub entry: Duration,
    /// What the attributes of a file are.
    pub attributes: Duration,
}

/// The header of an answer with `body_bytes` behind it, or of an error, or of a notification.
pub fn header(unique: u64, error: i32, body_bytes: usize) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&((HEADER_BYTES + body_bytes) as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&error.to_le_bytes());
    bytes[8..].copy_from_slice(&unique.to_le_bytes());
    bytes
}

/// The type of a file as `st_mode` has it.
pub fn type_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Fifo => 0o010_000,
        FileKind::CharDevice(_) => 0o020_000,
        FileKind::Directory => 0o040_000,
        FileKind::BlockDevice(_) => 0o060_000,
        FileKind::Regular => 0o100_000,
        FileKind::Symlink => 0o120_000,
        FileKind::Socket => 0o140_000,
    }
}

/// The kind of file that `st_mode` and a number of a device mean.
pub fn kind_of(mode: u32, device: u32) -> Option<FileKind> {
    Some(match mode & 0o170_000 {
        0o010_000 => FileKind::Fifo,
        0o020_000 => FileKind::CharDevice(device),
        0o040_000 => FileKind::Directory,
        0o060_000 => FileKind::BlockDevice(device),
        // POSIX.1 mknod: without a type it is a regular file.
        0o100_000 | 0 => FileKind::Regular,
        0o140_000 => FileKind::Socket,
        _ => return None,
    })
}

fn device_of(kind: FileKind) -> u32 {
    match kind {
        FileKind::CharDevice(number) | FileKind::BlockDevice(number) => number,
        _ => 0,
    }
}

/// `fuse_attr`.
fn attributes(writer: &mut Writer, found: &Attributes) {
    writer.u64(found.id.number).u64(found.size_bytes).u64(found.allocated_bytes.div_ceil(SECTOR_BYTES));
    for time in [found.accessed, found.modified, found.changed] {
        writer.u64(time.seconds as u64);
    }
    for time in [found.accessed, found.modified, found.changed] {
        writer.u32(time.nanos);
    }
    writer.u32(type_bits(found.kind) | found.mode).u32(found.links).u32(found.uid).u32(found.gid);
    writer.u32(device_of(found.kind)).u32(BLOCK_BYTES as u32).u32(0);
}

/// `fuse_attr_out`.
pub fn attributes_out(writer: &mut Writer, found: &Attributes, timeouts: &Timeouts) {
    writer.u64(timeouts.attributes.as_secs()).u32(timeouts.attributes.subsec_nanos()).u32(0);
    attributes(writer, found);
}

/// `fuse_entry_out`.
pub fn entry(writer: &mut Writer, node: u64, found: &Attributes, timeouts: &Timeouts) {
    writer.u64(node).u64(found.id.generation.into());
    entry_times(writer, timeouts);
    attributes(writer, found);
}

/// That a name is of no file.
pub fn no_entry(writer: &mut Writer, timeouts: &Timeouts) {
    writer.u64(0).u64(0);
    entry_times(writer, timeouts);
    writer.raw(&[0; ENTRY_BYTES - 40]);
}

fn entry_times(writer: &mut Writer, timeouts: &Timeouts) {
    writer.u64(timeouts.entry.as_secs()).u64(timeouts.attributes.as_secs());
    writer.u32(timeouts.entry.subsec_nanos()).u32(timeouts.attributes.subsec_nanos());
}

/// `fuse_open_out`.
pub fn open(writer: &mut Writer, handle: u64, flags: u32) {
    writer.u64(handle).u32(flags).u32(0);
}

/// `fuse_lk_out`: a lock from its first byte to its last, as `fcntl(2)` calls it, and whose it is.
pub fn lock(writer: &mut Writer, (start, end): (u64, u64), kind: u32, process: u32) {
    writer.u64(start).u64(end).u32(kind).u32(process);
}

/// Bytes that a name of `len` bytes takes in a listing.
pub fn dirent_bytes(len: usize) -> usize {
    (DIRENT_BYTES + len).next_multiple_of(8)
}

/// `fuse_dirent`: a name, and where the listing goes on behind it.
pub fn dirent(writer: &mut Writer, number: u64, cursor: u64, kind: FileKind, name: &[u8]) {
    writer.u64(number).u64(cursor).u32(name.len() as u32).u32(type_bits(kind) >> 12).raw(name);
    writer.raw(&[0; 8][..dirent_bytes(name.len()) - DIRENT_BYTES - name.len()]);
}

/// `fuse_statfs_out`.
pub fn usage(writer: &mut Writer, usage: &Usage, name_bytes: u32) {
    let free = usage.free_bytes / BLOCK_BYTES;
    writer.u64(usage.total_bytes / BLOCK_BYTES).u64(free).u64(free);
    // There is no table of files that could fill up: as many more as blocks are free, unless a limit says otherwise.
    let files = usage.free_files.unwrap_or(free);
    writer.u64(usage.files.saturating_add(files)).u64(files);
    writer.u32(BLOCK_BYTES as u32).u32(name_bytes).u32(BLOCK_BYTES as u32).raw(&[0; 28]);
}

/// `fuse_statx_out`.
pub fn statx(writer: &mut Writer, found: &Attributes, timeouts: &Timeouts) {
    /// `STATX_BASIC_STATS | STATX_BTIME`.
    const MASK: u32 = 0xfff;
    writer.u64(timeouts.attributes.as_secs()).u32(timeouts.attributes.subsec_nanos()).u32(0).raw(&[0; 16]);
    writer.u32(MASK).u32(BLOCK_BYTES as u32).u64(0).u32(found.links).u32(found.uid).u32(found.gid);
    writer.u16((type_bits(found.kind) | found.mode) as u16).u16(0).u64(found.id.number).u64(found.size_bytes);
    writer.u64(found.allocated_bytes.div_ceil(SECTOR_BYTES)).u64(0);
    for Time { seconds, nanos } in [found.accessed, found.created, found.changed, found.modified] {
        writer.u64(seconds as u64).u32(nanos).u32(0);
    }
    let device = device_of(found.kind);
    writer.u32(device >> 8 & 0xfff).u32(device & 0xff | device >> 12 & 0xf_ff00).u64(0).raw(&[0; 112]);
}

#[cfg(test)]
mod tests {
    use holdfast_volume::service::{DosAttributes, FileId};

    use super::*;

    const TIMEOUTS: Timeouts = Timeouts { entry: Duration::from_secs(1), attributes: Duration::from_millis(1500) };

    fn found() -> Attributes {
        let time = Time { seconds: -1, nanos: 7 };
        Attributes {
            id: FileId { number: 9, generation: 3 },
            kind: FileKind::CharDevice(0x0010_0105),
            mode: 0o4755,
            dos: DosAttributes::empty(),
            uid: 1,
            gid: 2,
            links: 4,
            size_bytes: 5000,
            allocated_bytes: 8192,
            accessed: time,
            modified: time,
            changed: time,
            created: time,
            change: 1,
        }
    }

    /// The sizes of the records in `linux/fuse.h`.
    #[test]
    fn records_have_the_sizes_of_the_kernels() {
        let len = |write: &dyn Fn(&mut Writer)| {
            let mut writer = Writer::new();
            write(&mut writer);
            writer.len()
        };
        assert_eq!(len(&|writer| entry(writer, 9, &found(), &TIMEOUTS)), ENTRY_BYTES);
        assert_eq!(len(&|writer| no_entry(writer, &TIMEOUTS)), ENTRY_BYTES);
        assert_eq!(len(&|writer| attributes_out(writer, &found(), &TIMEOUTS)), 104);
        assert_eq!(len(&|writer| open(writer, 1, 2)), 16);
        assert_eq!(len(&|writer| lock(writer, (1, 2), 3, 4)), 24);
        assert_eq!(len(&|writer| statx(writer, &found(), &TIMEOUTS)), 288);
        assert_eq!(
            len(&|writer| usage(writer, &Usage { total_bytes: 0, free_bytes: 0, files: 0, free_files: None }, 255)),
            80
        );
        for name in [&b"a"[..], b"12345678", b"123456789"] {
            assert_eq!(len(&|writer| dirent(writer, 1, 2, FileKind::Fifo, name)), dirent_bytes(name.len()));
        }
    }

    #[test]
    fn a_device_is_split_as_the_kernel_numbers_it() {
        let mut writer = Writer::new();
        statx(&mut writer, &found(), &TIMEOUTS);
        let bytes = writer.into_bytes();
        let at = 288 - 112 - 16;
        assert_eq!((bytes[at], bytes[at + 1], bytes[at + 4], bytes[at + 5]), (1, 0, 5, 1));
        assert_eq!(kind_of(0o020_644, 7), Some(FileKind::CharDevice(7)));
        assert_eq!((kind_of(0o644, 0), kind_of(0o120_000, 0)), (Some(FileKind::Regular), None));
    }
}
