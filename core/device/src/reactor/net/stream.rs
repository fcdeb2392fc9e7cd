//! A connected socket and its two halves.
//!
//! Invariant: each half is one task's at a time (its calls take `&mut self`), so no waiting task is forgotten.

use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll};

use super::system;
use crate::reactor::waits::Readiness;
use crate::reactor::with_core;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine.
    Unix {
        /// Its user.
        uid: u32,
        /// Its number when it connected.
        pid: i32,
    },
    /// Over the network.
    Tcp(SocketAddr),
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix { uid, pid } => write!(f, "process {pid} of user {uid}"),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// A connected socket.
#[derive(Debug)]
pub struct Stream {
    read: ReadHalf,
    write: WriteHalf,
}

/// The half of a [`Stream`] that receives.
#[derive(Debug)]
pub struct ReadHalf {
    socket: Rc<Socket>,
}

/// The half of a [`Stream`] that sends.
#[derive(Debug)]
pub struct WriteHalf {
    socket: Rc<Socket>,
}

struct Socket {
    // Dropped before the descriptor: a poll in the ring would keep the connection open.
    readable: Readiness,
    writable: Readiness,
    fd: OwnedFd,
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Socket({})", self.raw())
    }
}

impl Socket {
    fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Does `call`, again if it was interrupted, and notes that something moved.
pub(in crate::reactor) fn attempt<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => {
                if outcome.is_ok() {
                    with_core(|core| core.note_progress());
                }
                return outcome;
            }
        }
    }
}

/// Does `call` now, or says when to poll again.
pub(in crate::reactor) fn poll_call<T>(
    readiness: &Readiness,
    cx: &Context<'_>,
    call: impl FnMut() -> io::Result<T>,
) -> Poll<io::Result<T>> {
    if !with_core(|core| core.spend_budget()).expect("sockets are used on a reactor's thread") {
        cx.waker().wake_by_ref();
        return Poll::Pending;
    }
    match attempt(call) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            readiness.wait(cx);
            Poll::Pending
        }
        outcome => Poll::Ready(outcome),
    }
}

impl Stream {
    /// Takes over a connected stream socket, for instance one of the standard library, or one that another reactor
    /// accepted.
    ///
    /// # Errors
    /// When the descriptor cannot be made nonblocking.
    pub fn from_raw(fd: impl Into<OwnedFd>) -> io::Result<Self> {
        let fd = fd.into();
        system::set_nonblocking(fd.as_raw_fd())?;
        Ok(Self::accepted(fd))
    }

    /// As [`from_raw`](Self::from_raw).
    ///
    /// # Errors
    /// When the descriptor cannot be made nonblocking.
    pub fn from_std(stream: impl Into<OwnedFd>) -> io::Result<Self> {
        Self::from_raw(stream)
    }

    pub(super) fn accepted(fd: OwnedFd) -> Self {
        let raw = fd.as_raw_fd();
        // Refused by unix sockets, which have nothing to delay.
        let _ = system::set_option(raw, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        // A peer that lost its power is noticed some day.
        let _ = system::set_option(raw, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
        let readable = Readiness::new(raw, libc::POLLIN | libc::POLLRDHUP, false);
        let writable = Readiness::new(raw, libc::POLLOUT, false);
        let socket = Rc::new(Socket { readable, writable, fd });
        Self { read: ReadHalf { socket: socket.clone() }, write: WriteHalf { socket } }
    }

    /// The plain descriptor, for a reactor on another thread.
    pub fn into_raw(self) -> OwnedFd {
        drop(self.write);
        let socket = Rc::into_inner(self.read.socket).expect("a whole stream has both halves");
        let Socket { readable, writable, fd } = socket;
        drop((readable, writable));
        fd
    }

    /// The halves, for two tasks of this reactor.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        (self.read, self.write)
    }

    /// The whole again.
    ///
    /// # Panics
    /// If the halves are of different streams.
    pub fn unsplit(read: ReadHalf, write: WriteHalf) -> Self {
        assert!(Rc::ptr_eq(&read.socket, &write.socket), "only halves of one stream are joined");
        Self { read, write }
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// When the connection is gone already.
    pub fn peer(&self) -> io::Result<Peer> {
        if let Some(address) = system::peer_address(self.read.socket.raw())? {
            return Ok(Peer::Tcp(address));
        }
        let found = system::credentials(self.read.socket.raw())?;
        Ok(Peer::Unix { uid: found.uid, pid: found.pid })
    }

    /// The address at this end; none on a unix socket.
    ///
    /// # Errors
    /// When the connection is gone already.
    pub fn local(&self) -> io::Result<Option<SocketAddr>> {
        system::local_address(self.read.socket.raw())
    }

    /// Asks the kernel to hold so many bytes that were sent and not yet received, and received and not yet taken. The
    /// kernel may give less.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_buffers(&self, send_bytes: usize, receive_bytes: usize) -> io::Result<()> {
        let fd = self.read.socket.raw();
        let clamp = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
        system::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, clamp(send_bytes))?;
        system::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, clamp(receive_bytes))
    }

    /// See [`ReadHalf::recv`].
    ///
    /// # Errors
    /// When the connection failed.
    pub async fn recv(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read.recv(buf).await
    }

    /// See [`ReadHalf::recv_vectored`].
    ///
    /// # Errors
    /// When the connection failed.
    pub async fn recv_vectored(&mut self, bufs: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        self.read.recv_vectored(bufs).await
    }

    /// See [`ReadHalf::try_recv`].
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there, others when the connection failed.
    pub fn try_recv(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read.try_recv(buf)
    }

    /// See [`WriteHalf::send`].
    ///
    /// # Errors
    /// When the connection failed.
    pub async fn send(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write.send(buf).await
    }

    /// See [`WriteHalf::send_vectored`].
    ///
    /// # Errors
    /// When the connection failed.
    pub async fn send_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.write.send_vectored(bufs).await
    }

    /// See [`WriteHalf::try_send_vectored`].
    ///
    /// # Errors
    /// `WouldBlock` when there is no room, others when the connection failed.
    pub fn try_send_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.write.try_send_vectored(bufs)
    }

    /// Closes a direction for both ends; tasks that wait for it wake.
    ///
    /// # Errors
    /// When the connection is gone already.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        system::shutdown(self.read.socket.raw(), how)
    }
}

impl ReadHalf {
    /// Receives at least one byte, or 0 at the end of the stream.
    ///
    /// # Errors
    /// When the connection failed.
    pub async fn recv(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let socket = &*self.socket;
        poll_fn(|cx| poll_call(&socket.readable, cx, || system::receive(socket.raw(), buf))).await
    }

    /// As [`recv`](Self::recv), into several buffers in order.
    ///
    /// # Errors
    /// When the connection failed.
    pub async fn recv_vectored(&mut self, bufs: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        let socket = &*self.socket;
        poll_fn(|cx| poll_call(&socket.readable, cx, || system::receive_vectored(socket.raw(), bufs))).await
    }

    /// Receives what is there now; works on any thread.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there, others when the connection failed.
    pub fn try_recv(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        attempt(|| system::receive(self.socket.raw(), buf))
    }

    /// As [`try_recv`](Self::try_recv), into several buffers in order.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there or the task has had its share of the reactor, others when the connection
    /// failed.
    pub fn try_recv_vectored(&mut self, bufs: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        if with_core(|core| core.spend_budget()) == Some(false) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        attempt(|| system::receive_vectored(self.socket.raw(), bufs))
    }

    /// Fills `buf` whole.
    ///
    /// # Errors
    /// `UnexpectedEof` when the stream ends before, others when the connection failed.
    pub async fn recv_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.recv(&mut buf[filled..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                received => filled += received,
            }
        }
        Ok(())
    }

    /// Closes a direction for both ends; tasks that wait for it wake.
    ///
    /// # Errors
    /// When the connection is gone already.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        system::shutdown(self.socket.raw(), how)
    }
}

impl WriteHalf {
    /// Sends at least one byte of `buf`.
    ///
    /// # Errors
    /// When the connection failed.
    pub async fn send(&mut self, buf: &[u8]) -> io::Result<usize> {
        let socket = &*self.socket;
        poll_fn(|cx| poll_call(&socket.writable, cx, || system::send(socket.raw(), buf))).await
    }

    /// As [`send`](Self::send), from several buffers in order.
    ///
    /// # Errors
    /// When the connection failed.
    pub async fn send_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let socket = &*self.socket;
        poll_fn(|cx| poll_call(&socket.writable, cx, || system::send_vectored(socket.raw(), bufs))).await
    }

    /// Sends what there is room for now; works on any thread.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room, others when the connection failed.
    pub fn try_send(&mut self, buf: &[u8]) -> io::Result<usize> {
        attempt(|| system::send(self.socket.raw(), buf))
    }

    /// As [`try_send`](Self::try_send), from several buffers in order.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room, others when the connection failed.
    pub fn try_send_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        attempt(|| system::send_vectored(self.socket.raw(), bufs))
    }

    /// Sends all of `buf`.
    ///
    /// # Errors
    /// When the connection failed.
    pub async fn send_all(&mut self, buf: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while sent < buf.len() {
            sent += self.send(&buf[sent..]).await?;
        }
        Ok(())
    }

    /// Closes a direction for both ends; tasks that wait for it wake.
    ///
    /// # Errors
    /// When the connection is gone already.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        system::shutdown(self.socket.raw(), how)
    }
}
