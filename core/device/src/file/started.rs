//! A request that a disk works on: the right to its answer, without memory of its own.
//!
//! Invariant: it is awaited on the reactor that started it, and goes on when it is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Inner;
use crate::IoError;
use crate::reactor::{Action, OperationHandle};

/// How an answer of the kernel becomes one of the device, for the range that was asked for.
pub(super) type Answer<T> = fn(&Inner, (u64, u64), Action, Result<(), i32>) -> Result<T, IoError>;

/// A request that a file or block device works on.
pub struct Started<T> {
    operation: OperationHandle,
    device: Arc<Inner>,
    /// Offset and length.
    range: (u64, u64),
    answer: Answer<T>,
}

impl<T> Started<T> {
    pub(super) fn new(operation: OperationHandle, device: Arc<Inner>, range: (u64, u64), answer: Answer<T>) -> Self {
        Self { operation, device, range, answer }
    }
}

impl<T> Future for Started<T> {
    type Output = Result<T, IoError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (action, outcome) = std::task::ready!(Pin::new(&mut self.operation).poll(cx));
        Poll::Ready((self.answer)(&self.device, self.range, action, outcome))
    }
}
