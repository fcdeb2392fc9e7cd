//! A stream that breaks when its peer stops taking what it is sent, or sends nothing for long where that is a rule.
//!
//! Invariant: a peer that stands still holds a connection for a bounded time only.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// For how long a peer may stand still in one direction; `None` is for ever.
struct Patience {
    limit: Option<Duration>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    fn new(limit: Option<Duration>) -> Self {
        Self { limit, deadline: None }
    }

    /// Passes on what was polled; what waits too long fails.
    fn check<T>(&mut self, polled: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let (Poll::Pending, Some(limit)) = (&polled, self.limit) else {
            self.deadline = None;
            return polled;
        };
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(limit)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A stream with patience.
pub(crate) struct Stalling<S> {
    stream: S,
    reading: Patience,
    writing: Patience,
}

impl<S> Stalling<S> {
    pub(crate) fn new(stream: S, reading: Option<Duration>, writing: Option<Duration>) -> Self {
        Self { stream, reading: Patience::new(reading), writing: Patience::new(writing) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        this.reading.check(polled, context)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(context, data);
        this.writing.check(polled, context)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_flush(context);
        this.writing.check(polled, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_shutdown(context);
        this.writing.check(polled, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn who_takes_nothing_or_sends_nothing_is_left() {
        let (near, mut far) = duplex(16);
        let mut near = Stalling::new(near, Some(SHORT), Some(SHORT));
        assert_eq!(near.write_all(&[7; 64]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(near.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut near = Stalling::new(near, None, None);
        far.write_u8(9).await.unwrap();
        assert_eq!(near.read_u8().await.unwrap(), 9);
    }
}
