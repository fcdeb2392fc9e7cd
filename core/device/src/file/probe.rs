//! Looking at disks before they are used: what a path is, and which disks there are.
//!
//! Invariant: looking changes nothing on the disk, and takes nothing from those who use it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::BLOCK_BYTES;
use super::access::{self, AccessMode};
use super::sysfs::{self, BlockDirectory, EnclosureSlot};

/// What a path stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The path that was asked about.
    pub path: PathBuf,
    /// The path behind symbolic links.
    pub real_path: PathBuf,
    /// Its size in bytes, not rounded.
    pub size_bytes: u64,
    /// Smallest unit that it can address.
    pub logical_sector_bytes: u32,
    /// Unit that it writes whole.
    pub physical_sector_bytes: u32,
    /// Whether far reads cost a seek; of a file, whether they do on the disk below.
    pub rotational: Option<bool>,
    /// Whether discards reach it.
    pub discard: bool,
    /// Serial number of the disk.
    pub serial: Option<String>,
    /// Vendor and model of the disk.
    pub model: Option<String>,
    /// Where it sits, if its enclosure tells.
    pub slot: Option<EnclosureSlot>,
    /// A block device, else a regular file.
    pub is_block_device: bool,
    /// How it would be accessed.
    pub mode: AccessMode,
    /// Who keeps it from being used, in words.
    pub in_use_by: Option<String>,
}

/// Looks at a file or block device.
///
/// # Errors
/// When it does not exist, is neither, or may not be read.
pub fn probe(path: impl AsRef<Path>) -> io::Result<Probe> {
    let path = path.as_ref();
    let explain =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot look at {}: {error}", path.display()));
    let real_path = std::fs::canonicalize(path).map_err(explain)?;
    let kind = std::fs::metadata(&real_path).map_err(explain)?.file_type();
    let is_block_device = kind.is_block_device();
    if !is_block_device && !kind.is_file() {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "it is neither a regular file nor a block device");
        return Err(explain(error));
    }
    let open = |flags: i32| OpenOptions::new().read(true).custom_flags(flags | libc::O_NONBLOCK).open(&real_path);
    let direct = open(libc::O_DIRECT);
    let takes_direct = direct.is_ok();
    let file = direct.or_else(|_| open(0)).map_err(explain)?;
    let metadata = file.metadata().map_err(explain)?;
    let mode = if !is_block_device && access::is_memory(&file).map_err(explain)? {
        AccessMode::Memory
    } else if takes_direct && access::transfers_directly(&file) {
        AccessMode::Direct
    } else {
        AccessMode::Buffered
    };
    let traits = access::traits(&metadata, mode);
    let directory = if is_block_device { BlockDirectory::of_number(metadata.rdev()) } else { None };
    let in_use_by = match &directory {
        Some(directory) => directory.used_by().or_else(|| claimed(open)),
        None if is_block_device => claimed(open),
        None => sysfs::loop_over(&real_path)
            .map(|name| format!("part of {name}"))
            .or_else(|| sysfs::is_locked(&metadata).then(|| "open for exclusive use".into())),
    };
    Ok(Probe {
        path: path.into(),
        size_bytes: access::size_of(&file, &metadata).map_err(explain)?,
        logical_sector_bytes: traits.logical_sector_bytes,
        physical_sector_bytes: traits.physical_sector_bytes,
        rotational: traits.rotational,
        discard: traits.discard,
        serial: directory.as_ref().and_then(BlockDirectory::serial),
        model: directory.as_ref().and_then(BlockDirectory::model),
        slot: directory.as_ref().and_then(BlockDirectory::slot),
        is_block_device,
        mode,
        in_use_by,
        real_path,
    })
}

/// Whether a block device is claimed is found out only by claiming it for a moment, which no two threads do at once.
fn claimed(open: impl Fn(i32) -> io::Result<File>) -> Option<String> {
    static CLAIMING: Mutex<()> = Mutex::new(());
    let _claiming = CLAIMING.lock();
    let busy = open(libc::O_EXCL).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY));
    busy.then(|| "open for exclusive use".into())
}

/// Makes a sparse file of `size` bytes to be used as a disk, readable by its owner only. It is durable when this
/// returns.
///
/// # Errors
/// When something is at `path` already, or the size is not a positive multiple of 4 KiB, or there is no room for it.
pub fn create(path: impl AsRef<Path>, size: u64) -> io::Result<()> {
    let path = path.as_ref();
    let explain = |error: io::Error| io::Error::new(error.kind(), format!("cannot create {}: {error}", path.display()));
    if size == 0 || !size.is_multiple_of(BLOCK_BYTES) {
        let text = format!("the size of a disk is a multiple of 4 KiB, not {size} bytes");
        return Err(explain(io::Error::new(io::ErrorKind::InvalidInput, text)));
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(explain)?;
    let made = file.set_len(size).and_then(|()| file.sync_all()).and_then(|()| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()
    });
    made.map_err(|error| {
        let _ = std::fs::remove_file(path);
        explain(error)
    })
}

/// Looks at every whole block device that has a size and may be read, in order of name.
///
/// # Errors
/// Never at present; devices that cannot be looked at are left out.
pub fn list_block_devices() -> io::Result<Vec<Probe>> {
    let names = sysfs::disk_names().into_iter().filter(|name| !name.starts_with("ram"));
    // The kernel writes slashes in a device's name as exclamation marks.
    let probes = names.filter_map(|name| probe(Path::new("/dev").join(name.replace('!', "/"))).ok());
    Ok(probes.filter(|found| found.size_bytes > 0).collect())
}
