//! The system calls that mount and unmount, and what stands in their way. All of them may block: they are made on
//! threads of their own, never on a reactor that serves the mount.
//!
//! Invariant: a directory that something alive is mounted on is left alone; a mount whose server died is cleared away.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_device::reactor::message_device;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::FuseError;
use crate::holders::holders;
use crate::named_device::NamedDevice;
use crate::protocol::init::MAX_PAYLOAD_BYTES;
use crate::settings::MountSettings;

/// The type of the mount, as `mount` shows it, and that of one on a block device.
const TYPE: &str = "fuse.holdfast";
const BLOCK_TYPE: &str = "fuseblk.holdfast";
/// Mounts over each other that are cleared away at most.
const MOST_DEAD: usize = 16;
/// Names in a directory that a refusal tells.
const NAMED: usize = 3;
/// How often, and how far apart, a mount that is in use is tried to be taken away.
const BUSY_ATTEMPTS: u32 = 10;
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// How often, and how far apart, a mount that fails is asked whether it is dead.
const DYING_ATTEMPTS: u32 = 6;
const DYING_PAUSE: Duration = Duration::from_millis(20);

/// A line of `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) id: String,
    /// `MAJOR:MINOR`.
    pub(crate) device: String,
    pub(crate) directory: PathBuf,
    kind: String,
    source: String,
}

impl Mount {
    /// Whether a volume is mounted.
    fn is_ours(&self) -> bool {
        [TYPE, BLOCK_TYPE].contains(&self.kind.as_str())
    }
}

/// What is mounted, and where.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) directory: PathBuf,
    /// As `mount` shows it.
    pub(crate) source: String,
    pub(crate) named: Option<NamedDevice>,
    /// The kernel's device, opened several times.
    pub(crate) devices: Vec<OwnedFd>,
}

/// The block device that is to be mounted, where that is of use and can be had.
fn named_device(settings: &MountSettings) -> Option<NamedDevice> {
    let made = NamedDevice::new(settings.names.as_deref()?, &settings.source);
    made.unwrap_or_else(|error| {
        tracing::info!("'sync' does not reach {}, as there is no block device for it: {error}", settings.source);
        None
    })
}

/// Mounts `directory`, and opens the kernel's device once for each of `readers`. The first is also for notifications.
pub(crate) fn mount(directory: &Path, settings: &MountSettings, readers: usize) -> Result<Made, FuseError> {
    let directory = prepare(directory)?;
    if !settings.over_files {
        check_empty(&directory)?;
    }
    let device = message_device::open(&settings.device).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FuseError::NoDevice(settings.device.clone()),
        io::ErrorKind::PermissionDenied => FuseError::NotPermitted(directory.clone()),
        _ => FuseError::io("cannot open", &settings.device, error),
    })?;
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, settings.read_only);
    flags.set(MountFlags::NOSUID, settings.no_suid);
    flags.set(MountFlags::NODEV, settings.no_devices);
    let user = rustix::process::getuid().as_raw();
    let group = rustix::process::getgid().as_raw();
    let options = format!(
        "fd={},rootmode=40000,user_id={user},group_id={group},default_permissions,allow_other,\
         max_read={MAX_PAYLOAD_BYTES}",
        device.as_raw_fd()
    );
    let mount = |source: &str, kind: &str, more: &str| {
        let options = CString::new(format!("{options}{more}")).expect("numbers have no zero byte");
        rustix::mount::mount(source, &directory, kind, flags, options.as_c_str())
    };
    let mut named = named_device(settings);
    let mut source = settings.source.replace('\0', "");
    if let Some(device) = &mut named {
        let path = device.name().to_string_lossy().into_owned();
        match mount(&path, BLOCK_TYPE, ",blksize=4096") {
            Ok(()) => {
                device.let_go();
                source = path;
            }
            Err(error) => {
                tracing::info!("'sync' does not reach {source}, as its block device is not mounted: {error}");
                named = None;
            }
        }
    }
    if named.is_none() {
        mount(&source, TYPE, "").map_err(|error| match error {
            Errno::PERM | Errno::ACCESS => FuseError::NotPermitted(directory.clone()),
            Errno::NODEV => FuseError::NoDevice(settings.device.clone()),
            _ => FuseError::io("cannot mount on", &directory, error),
        })?;
    }
    let clones = (0..readers).map(|_| message_device::open_fuse_clone(&settings.device, device.as_fd()));
    match clones.collect::<io::Result<Vec<_>>>() {
        Ok(mut devices) => {
            devices.insert(0, device);
            Ok(Made { directory, source, named, devices })
        }
        Err(error) => {
            let _ = rustix::mount::unmount(&directory, UnmountFlags::DETACH);
            Err(FuseError::io("cannot open once more", &settings.device, error))
        }
    }
}

/// The directory without links, with nothing mounted on it.
fn prepare(directory: &Path) -> Result<PathBuf, FuseError> {
    for _ in 0..MOST_DEAD {
        let (path, dead) = match directory.canonicalize() {
            Ok(path) => (path, false),
            Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
                (resolve_parent(directory).map_err(|error| FuseError::io("cannot find", directory, error))?, true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FuseError::NoDirectory(directory.into()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(FuseError::NotDirectory(directory.into()));
            }
            Err(error) => return Err(FuseError::io("cannot find", directory, error)),
        };
        // Links resolve without a look at what is mounted at their end.
        let dead = dead || is_dead(&path);
        match mounted_on(&path)? {
            Some(found) if dead && found.is_ours() => {
                tracing::warn!("{} of {} has no server any more; unmounting it", path.display(), found.source);
                rustix::mount::unmount(&path, UnmountFlags::DETACH)
                    .map_err(|error| FuseError::io("cannot unmount", &path, error))?;
            }
            Some(found) => return Err(FuseError::AlreadyMounted { directory: path, source_name: found.source }),
            None if !path.is_dir() => return Err(FuseError::NotDirectory(path)),
            None => return Ok(path),
        }
    }
    Err(FuseError::AlreadyMounted { directory: directory.into(), source_name: "too much that is dead".into() })
}

/// Refuses a directory with files, which a mount would hide.
fn check_empty(directory: &Path) -> Result<(), FuseError> {
    let entries = directory.read_dir().map_err(|error| FuseError::io("cannot list", directory, error))?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let mut first: Vec<String> = names
        .take(NAMED + 1)
        .collect::<io::Result<_>>()
        .map_err(|error| FuseError::io("cannot list", directory, error))?;
    if first.is_empty() {
        return Ok(());
    }
    if first.len() > NAMED {
        first[NAMED] = "…".into();
    }
    Err(FuseError::NotEmpty { directory: directory.into(), names: first.join(", ") })
}

/// Whether what is mounted on a directory, the uppermost, is a volume of this name.
pub(crate) fn is_there(directory: &Path, source: &str) -> bool {
    let found = mounted_on(directory).ok().flatten();
    found.is_some_and(|mount| mount.is_ours() && mount.source == source)
}

/// Whether a mount is there that nobody serves. The kernel may keep attributes; how full a mount is it asks each time.
pub(crate) fn is_dead(directory: &Path) -> bool {
    for _ in 0..DYING_ATTEMPTS {
        match rustix::fs::statfs(directory) {
            Ok(_) => return false,
            Err(Errno::NOTCONN) => return true,
            // What was asked of a server just before its end is aborted, in one of several ways.
            Err(_) => std::thread::sleep(DYING_PAUSE),
        }
    }
    false
}

fn resolve_parent(directory: &Path) -> io::Result<PathBuf> {
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = directory.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(parent.canonicalize()?.join(name))
}

/// What is mounted on a directory, the uppermost.
fn mounted_on(directory: &Path) -> Result<Option<Mount>, FuseError> {
    Ok(mounts()?.into_iter().rfind(|mount| mount.directory == directory))
}

/// All mounts, those that came later further down.
pub(crate) fn mounts() -> Result<Vec<Mount>, FuseError> {
    const TABLE: &str = "/proc/self/mountinfo";
    let table = std::fs::read(TABLE).map_err(|error| FuseError::io("cannot read", TABLE, error))?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

fn parse(line: &[u8]) -> Option<Mount> {
    let text = |field: &[u8]| String::from_utf8_lossy(&unescape(field)).into_owned();
    let mut fields = line.split(|byte| *byte == b' ');
    let (id, device) = (text(fields.next()?), text(fields.nth(1)?));
    let directory = PathBuf::from(std::ffi::OsString::from_vec(unescape(fields.nth(1)?)));
    let mut behind = fields.skip_while(|field| *field != b"-").skip(1);
    Some(Mount { id, device, directory, kind: text(behind.next()?), source: text(behind.next()?) })
}

/// Octal escapes of the table: space, tab, line feed, backslash.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, behind)) = rest.split_first() {
        let octal = behind.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &behind[3..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    bytes
}

/// Takes a mount away that nobody uses.
pub(crate) fn unmount_unused(directory: &Path) -> Result<(), FuseError> {
    for _ in 0..BUSY_ATTEMPTS {
        match rustix::mount::unmount(directory, UnmountFlags::empty()) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            // A look at it by anybody uses it for a moment.
            Err(Errno::BUSY) => std::thread::sleep(BUSY_PAUSE),
            Err(error) => return Err(FuseError::io("cannot unmount", directory, error)),
        }
    }
    Err(FuseError::InUse { directory: directory.into(), holders: holders(directory) })
}

/// Takes a mount away. Where files of it are open it only disappears, and what is open fails as soon as its server is
/// gone.
pub(crate) fn unmount(directory: &Path) -> Result<(), FuseError> {
    match rustix::mount::unmount(directory, UnmountFlags::empty()) {
        // Somebody else was faster.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
        Err(Errno::BUSY) => {}
        Err(error) => return Err(FuseError::io("cannot unmount", directory, error)),
    }
    tracing::warn!("{} is in use: it is taken away all the same, and what is open on it fails", directory.display());
    // What programs wrote to memory that is mapped, and what the kernel keeps of their writes, goes to the volume
    // first.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, rustix::fs::Mode::empty()) {
        Ok(root) => rustix::fs::syncfs(root).map_err(|error| FuseError::io("cannot write back", directory, error))?,
        Err(error) => tracing::warn!("{} cannot be opened to write it back: {error}", directory.display()),
    }
    match rustix::mount::unmount(directory, UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(FuseError::io("cannot unmount", directory, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_mounts_is_read() {
        let line = b"36 35 98:0 / /mnt/a\\040b rw,noatime master:1 - fuse.holdfast tank/v\\134x rw,user_id=0";
        let expected = Mount {
            id: "36".into(),
            device: "98:0".into(),
            directory: "/mnt/a b".into(),
            kind: "fuse.holdfast".into(),
            source: "tank/v\\x".into(),
        };
        assert_eq!(parse(line), Some(expected));
        assert_eq!((parse(b""), parse(b"36 35 98:0 / /mnt rw")), (None, None));
        assert_eq!(unescape(b"a\\"), b"a\\");
    }

    #[test]
    fn what_stands_in_the_way_of_a_mount_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = prepare(&folder.path().join("missing")).expect_err("nothing is there");
        assert!(matches!(missing, FuseError::NoDirectory(_)), "{missing}");
        let file = folder.path().join("file");
        std::fs::write(&file, b"").expect("written");
        let other = prepare(&file).expect_err("it is a file");
        assert!(matches!(other, FuseError::NotDirectory(_)), "{other}");
        let taken = prepare(Path::new("/proc")).expect_err("it is taken");
        assert!(matches!(taken, FuseError::AlreadyMounted { .. }), "{taken}");
        let settings = MountSettings { device: folder.path().join("fuse"), ..MountSettings::default() };
        let full = mount(folder.path(), &settings, 1).expect_err("a mount would hide a file");
        assert!(full.to_string().contains("not empty: a mount would hide file"), "{full}");
        let settings = MountSettings { over_files: true, ..settings };
        let device = mount(folder.path(), &settings, 1).expect_err("there is no device");
        assert!(matches!(device, FuseError::NoDevice(_)), "{device}");
        assert_eq!(prepare(folder.path()).expect("free"), folder.path().canonicalize().expect("it is there"));
    }
}
