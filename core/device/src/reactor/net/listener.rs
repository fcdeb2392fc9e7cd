//! Listening sockets.
//!
//! Invariant: a unix socket's path carries the asked-for mode from the first moment at which anybody can connect, and
//! is removed with its listener.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::stream::{Stream, poll_call};
use super::system;
use crate::reactor::waits::Readiness;

/// Connections that wait to be accepted, at most.
const BACKLOG: i32 = 1024;

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddress {
    /// Path of a unix socket.
    Unix(PathBuf),
    /// Address and port; a port that was asked for as 0 stands here as the one that was given.
    Tcp(SocketAddr),
}

impl std::fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    // Dropped before the descriptor, as a poll in the ring would keep it listening.
    readable: Readiness,
    fd: OwnedFd,
    address: LocalAddress,
    inode: Option<(u64, u64)>,
}

impl Listener {
    /// Listens on a unix socket at `path` whose permission bits are `mode`. A socket at `path` on which nobody listens
    /// any more is replaced.
    ///
    /// # Errors
    /// When somebody listens there, something else than a socket is there, or the path cannot be used.
    pub fn bind_unix(path: impl AsRef<Path>, mode: u32) -> io::Result<Self> {
        let path = path.as_ref();
        let explain =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {}: {error}", path.display()));
        remove_stale(path).map_err(explain)?;
        let fd = bind_unix_socket(path, mode).map_err(explain)?;
        let bound = std::fs::symlink_metadata(path).map_err(explain)?;
        Ok(Self::new(fd, LocalAddress::Unix(path.into()), Some((bound.dev(), bound.ino()))))
    }

    /// Listens on a TCP address; port 0 takes any that is free.
    ///
    /// # Errors
    /// When the address is in use or not of this machine.
    pub fn bind_tcp(address: SocketAddr) -> io::Result<Self> {
        let explain = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(explain)?;
        listener.set_nonblocking(true).map_err(explain)?;
        let address = listener.local_addr().map_err(explain)?;
        Ok(Self::new(listener.into(), LocalAddress::Tcp(address), None))
    }

    fn new(fd: OwnedFd, address: LocalAddress, inode: Option<(u64, u64)>) -> Self {
        Self { readable: Readiness::new(fd.as_raw_fd(), libc::POLLIN, true), fd, address, inode }
    }

    /// Where it listens.
    pub fn local_address(&self) -> &LocalAddress {
        &self.address
    }

    /// Waits for the next connection. One task at a time.
    ///
    /// # Errors
    /// When the process has no descriptors left, or the connection broke before it was taken: another call may succeed.
    pub async fn accept(&self) -> io::Result<Stream> {
        let fd = self.fd.as_raw_fd();
        poll_fn(|cx| poll_call(&self.readable, cx, || system::accept(fd))).await.map(Stream::accepted)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let LocalAddress::Unix(path) = &self.address else { return };
        let same = std::fs::symlink_metadata(path).is_ok_and(|found| Some((found.dev(), found.ino())) == self.inode);
        if same {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "something that is not a socket is there; choose another path",
        ));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens there; stop it or choose another path",
        )),
    }
}

/// The mode is set on the socket before it gets its name, and on the name before anybody can connect.
fn bind_unix_socket(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        let text = format!("a socket's path has at most {} bytes", address.sun_path.len() - 1);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let check = |result: i32| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the address is of this frame with its true size; the descriptor is new and owned from here on.
    let fd = unsafe {
        let fd = OwnedFd::from_raw_fd(check(libc::socket(libc::AF_UNIX, kind, 0))?);
        check(libc::fchmod(fd.as_raw_fd(), mode))?;
        let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        check(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len))?;
        fd
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    // SAFETY: a system call without pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) })?;
    Ok(fd)
}
