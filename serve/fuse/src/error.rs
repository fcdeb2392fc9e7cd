//! What can go wrong with a mount. What goes wrong with one request goes to the process that made it.

use std::io;
use std::path::PathBuf;

use crate::holders::{Holder, words};

/// An error of a mount.
#[derive(Debug, thiserror::Error)]
pub enum FuseError {
    /// The kernel has no FUSE.
    #[error(
        "{0} is not there: the kernel has no FUSE; load it with 'modprobe fuse', or hand the device in to the container"
    )]
    NoDevice(PathBuf),
    /// Mounting is for administrators.
    #[error("mounting on {0} is not permitted; run as root, in a container with CAP_SYS_ADMIN")]
    NotPermitted(PathBuf),
    /// The directory is not there.
    #[error("the directory {0} does not exist")]
    NoDirectory(PathBuf),
    /// Something else than a directory is there.
    #[error("{0} is not a directory; a volume is mounted on one")]
    NotDirectory(PathBuf),
    /// Something is mounted there.
    #[error("{source_name} is mounted on {directory} already; unmount it first or choose another directory")]
    AlreadyMounted {
        /// Where.
        directory: PathBuf,
        /// What.
        source_name: String,
    },
    /// A mount would hide files.
    #[error("{directory} is not empty: a mount would hide {names}")]
    NotEmpty {
        /// Where.
        directory: PathBuf,
        /// The first names in it.
        names: String,
    },
    /// Programs use the mount.
    #[error("{directory} is in use by {}", words(holders))]
    InUse {
        /// Where.
        directory: PathBuf,
        /// Who uses it, as far as that is known.
        holders: Vec<Holder>,
    },
    /// A call failed.
    #[error("{what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// How it failed.
        source: io::Error,
    },
    /// The kernel is too old.
    #[error("the kernel speaks FUSE {0}.{1}, and 7.31 is needed: Linux 5.4 or newer")]
    TooOld(u32, u32),
    /// The mount ended before it began.
    #[error("{0} was unmounted before the kernel began to use it")]
    Gone(PathBuf),
    /// There is nothing that could serve.
    #[error("a mount needs at least one reactor")]
    NoReactor,
}

impl FuseError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io { what, path: path.into(), source: source.into() }
    }
}
