//! The unix socket, and who may connect to it.
//!
//! Invariant: the socket is never there with wider permissions than 0600, and who connects all the same is answered
//! only if the kernel says that it is root or the daemon's own user.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another server answers there.
    #[error("socket {0} is in use by another daemon: stop that one, or name another socket with --socket")]
    InUse(PathBuf),
    /// Something that is no socket is there.
    #[error("{0} exists and is not a socket: name another one with --socket")]
    NotASocket(PathBuf),
    /// The operating system refused.
    #[error("socket {0} cannot be made: {1}; check that its folder is there and the path is shorter than 100 bytes")]
    System(PathBuf, io::Error),
}

/// A listening socket for root and our own user.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
    socket: UnixListener,
    own_uid: u32,
}

impl Listener {
    /// Listens at `path`. A server that was killed may answer for a moment longer, so it is waited for, `patience` at
    /// most.
    pub(crate) fn bind(path: &Path, patience: Duration) -> Result<Self, ListenError> {
        let deadline = Instant::now() + patience;
        loop {
            match Self::bind_now(path) {
                Err(ListenError::InUse(_)) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(20))
                }
                bound => return bound,
            }
        }
    }

    fn bind_now(path: &Path) -> Result<Self, ListenError> {
        let system = |error| ListenError::System(path.into(), error);
        match fs::symlink_metadata(path) {
            Ok(data) if !data.file_type().is_socket() => return Err(ListenError::NotASocket(path.into())),
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                return Err(ListenError::InUse(path.into()));
            }
            Ok(_) | Err(_) => {}
        }
        // Made under another name, narrowed, and only then put where clients look; this also replaces a dead socket.
        let mut hidden = path.as_os_str().to_owned();
        hidden.push(".new");
        let hidden = PathBuf::from(hidden);
        let _ = fs::remove_file(&hidden);
        let socket = UnixListener::bind(&hidden).map_err(system)?;
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600)).map_err(system)?;
        fs::rename(&hidden, path).map_err(system)?;
        Ok(Self { path: path.into(), socket, own_uid: rustix::process::geteuid().as_raw() })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn may_connect(uid: u32, own_uid: u32) -> bool {
    uid == 0 || uid == own_uid
}

impl axum::serve::Listener for Listener {
    type Io = UnixStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.socket.accept().await {
                Ok((stream, address)) => match stream.peer_cred() {
                    Ok(peer) if may_connect(peer.uid(), self.own_uid) => return (stream, address),
                    Ok(peer) => {
                        tracing::warn!(uid = peer.uid(), pid = peer.pid(), "a client without permission was refused")
                    }
                    Err(error) => tracing::warn!("a client without credentials was refused: {error}"),
                },
                Err(error) => {
                    tracing::error!("accepting a client: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.socket.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_our_own_user_may_connect() {
        assert!(may_connect(0, 1000) && may_connect(1000, 1000));
        assert!(!may_connect(1001, 1000) && !may_connect(1001, 0));
    }

    #[tokio::test]
    async fn a_live_socket_is_left_alone_and_a_dead_one_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let first = Listener::bind(&path, Duration::ZERO).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(Listener::bind(&path, Duration::ZERO), Err(ListenError::InUse(_))));
        drop(first);
        Listener::bind(&path, Duration::ZERO).unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(matches!(Listener::bind(&folder.path().join("file"), Duration::ZERO), Err(ListenError::NotASocket(_))));
    }
}
