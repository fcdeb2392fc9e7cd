//! How fast long work may go, and whether it is to go on. The caller hands this in; what carries the work out
//! asks before each step, so that a pause or an end takes hold between two steps and never within one.

use std::future::Future;
use std::pin::Pin;

use holdfast_device::IoError;

/// The work was asked to end before it was done. What it did so far stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Says when work may go on.
pub trait Pace: Send + Sync {
    /// Waits until a step that moves or checks about so many bytes may begin.
    ///
    /// # Errors
    /// [`Stopped`] if no further step may begin.
    fn step(&self, bytes: u64) -> Pin<Box<dyn Future<Output = Result<(), Stopped>> + '_>>;

    /// So many bytes are done, of those that the work's plan counts.
    fn done(&self, bytes: u64);

    /// It waits, from now on or no more, until other work of the space has moved what that moves.
    fn waits(&self, _waits: bool) {}
}

/// As fast as it goes, to the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

impl Pace for Unlimited {
    fn step(&self, _bytes: u64) -> Pin<Box<dyn Future<Output = Result<(), Stopped>> + '_>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn done(&self, _bytes: u64) {}
}

/// Why long work ended early.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// It was asked to.
    #[error("it was stopped")]
    Stopped,
    /// It could not go on.
    #[error(transparent)]
    Failed(#[from] IoError),
}

impl From<Stopped> for Ended {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}
