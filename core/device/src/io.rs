//! The answer of a device: often there at once, else a future. An answer that is there at once costs no allocation.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::IoError;

/// A request under way. It goes on when this is dropped; only its answer is lost then.
pub enum Io<T> {
    /// Answered already; `None` once taken.
    Ready(Option<Result<T, IoError>>),
    /// Will be answered.
    Pending(Pin<Box<dyn Future<Output = Result<T, IoError>>>>),
}

impl<T> Io<T> {
    /// An answer that is there already.
    pub fn ready(result: Result<T, IoError>) -> Self {
        Self::Ready(Some(result))
    }

    /// Polls `future` once: an answer that needs no waiting is there at once, any other will be brought.
    pub fn eager(future: impl Future<Output = Result<T, IoError>> + 'static) -> Self {
        let mut future = Box::pin(future);
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Self::ready(result),
            Poll::Pending => Self::Pending(future),
        }
    }

    /// An answer that `future` will bring.
    pub fn pending(future: impl Future<Output = Result<T, IoError>> + 'static) -> Self {
        Self::Pending(Box::pin(future))
    }
}

impl<T: Unpin> Future for Io<T> {
    type Output = Result<T, IoError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Ready(result) => Poll::Ready(result.take().expect("an answered request is polled once")),
            Self::Pending(future) => future.as_mut().poll(cx),
        }
    }
}
