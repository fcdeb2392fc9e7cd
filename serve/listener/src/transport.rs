//! The two halves of a connection's stream, plain or encrypted.
//!
//! Invariant: dropping a future that receives loses no byte.

use std::io::{self, IoSlice, IoSliceMut};

use holdfast_device::reactor::net::{ReadHalf, WriteHalf};

use crate::tls::{TlsReceiver, TlsSender};

/// The half that receives.
pub enum Receiver {
    /// As it comes.
    Plain(ReadHalf),
    /// Encrypted.
    Tls(Box<TlsReceiver>),
}

/// The half that sends.
pub enum Sender {
    /// As it is.
    Plain(WriteHalf),
    /// Encrypted.
    Tls(Box<TlsSender>),
}

impl Receiver {
    /// At least one byte, or 0 at the end.
    pub async fn recv_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(half) => half.recv_vectored(bufs).await,
            Self::Tls(half) => half.recv_vectored(bufs).await,
        }
    }

    /// What is there now, or `WouldBlock`.
    pub fn try_recv_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(half) => half.try_recv_vectored(bufs),
            Self::Tls(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Sender {
    /// At least one byte.
    pub async fn send_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(half) => half.send_vectored(slices).await,
            Self::Tls(half) => half.send_vectored(slices).await,
        }
    }

    /// What there is room for now, or `WouldBlock`. An encrypted stream always takes the other way.
    pub fn try_send_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(half) => half.try_send_vectored(slices),
            Self::Tls(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// All of `bytes`.
    pub async fn send_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = self.send_vectored(&[IoSlice::new(bytes)]).await?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Says to the other end that nothing more comes.
    pub async fn close(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(half) => half.shutdown(std::net::Shutdown::Write),
            Self::Tls(half) => half.close().await,
        }
    }
}
