//! Sockets: listeners and streams over TCP and unix sockets.
//!
//! Every call goes to the kernel at once and nonblocking; a task waits only when the kernel has nothing. A stream
//! belongs to the reactor that waits for it first; before that it may move to another thread as a plain descriptor
//! ([`Stream::into_raw`], [`Stream::from_raw`]).
//!
//! Invariant: dropping a future of this module loses no byte: what it would have moved stays where it was.

mod listener;
mod stream;
mod system;

pub use listener::{Listener, LocalAddress};
pub use stream::{Peer, ReadHalf, Stream, WriteHalf};
pub(super) use stream::{attempt, poll_call};
