//! The answer of a device: often there at once, else a future. Neither an answer that is there at once nor one that a
//! disk will give costs an allocation.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::IoError;
use crate::file::Started;

/// A request under way. It goes on when this is dropped; only its answer is lost then.
pub enum Io<T> {
    /// Answered already; `None` once taken.
    Ready(Option<Result<T, IoError>>),
    /// Will be answered.
    Pending(BoxedIo<T>),
    /// Will be answered by a disk.
    Started(Started<T>),
    /// Will be answered, and its end is reported to an observer.
    Watched(BoxedIo<T>, Watch),
    /// Waits for its turn, and then begins. One that is dropped before has not begun and never will.
    Queued(BoxedStart<T>),
}

/// The answer that will come.
pub type BoxedIo<T> = Pin<Box<dyn Future<Output = Result<T, IoError>>>>;
/// The turn that will come.
pub type BoxedStart<T> = Pin<Box<dyn Future<Output = Io<T>>>>;

/// What tells one request under way from another, to the one who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTag {
    /// When it was asked for, by the watcher's clock.
    pub asked: Duration,
    /// What the watcher wants to know it by.
    pub tag: u64,
}

/// Hears of the end of requests.
pub trait Watcher: Send + Sync {
    /// A request was answered, or its answer is not waited for any more.
    fn ended(&self, tag: RequestTag);
}

/// Tells a watcher when it is dropped.
pub struct Watch {
    watcher: Arc<dyn Watcher>,
    tag: RequestTag,
}

impl Watch {
    /// Tells `watcher` of the end of the request that it knows by `tag`.
    pub fn new(watcher: Arc<dyn Watcher>, tag: RequestTag) -> Self {
        Self { watcher, tag }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watcher.ended(self.tag);
    }
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

    /// A request that `turn` will begin.
    pub fn queued(turn: impl Future<Output = Self> + 'static) -> Self {
        Self::Queued(Box::pin(turn))
    }

    /// The same request; `watch` is dropped with its answer.
    pub fn watched(self, watch: Watch) -> Self
    where
        T: 'static,
    {
        match self {
            Self::Pending(answer) => Self::Watched(answer, watch),
            Self::Started(answer) => Self::Watched(Box::pin(answer), watch),
            Self::Queued(turn) => Self::queued(async move { turn.await.watched(watch) }),
            other => {
                debug_assert!(matches!(other, Self::Ready(_)), "a request is watched once, from its beginning");
                other
            }
        }
    }
}

impl<T: Unpin> Future for Io<T> {
    type Output = Result<T, IoError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match &mut *self {
                Self::Ready(result) => return Poll::Ready(result.take().expect("an answered request is polled once")),
                Self::Pending(answer) => return answer.as_mut().poll(cx),
                Self::Started(answer) => return Pin::new(answer).poll(cx),
                Self::Watched(answer, _) => {
                    let Poll::Ready(result) = answer.as_mut().poll(cx) else { return Poll::Pending };
                    *self = Self::Ready(None);
                    return Poll::Ready(result);
                }
                Self::Queued(turn) => match turn.as_mut().poll(cx) {
                    Poll::Ready(begun) => *self = begun,
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }
}
