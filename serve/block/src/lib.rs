//! The block service: what every block front end shares of an object, which is a space or a file of a volume.
//!
//! ```text
//!   front end ─▶ Session ─▶ Target ─▶ ObjectService ─▶ BlockObject (core/device)
//!                   │          │           ├─ qos         limits, and the balance with others on the same disks
//!                   │          │           ├─ traffic     what was asked for, and how long it took
//!                   │          │           ├─ exclusion   parts of blocks are kept apart from all other writes of them
//!                   │          │           ├─ ranges      who watches a range hears of every change of it
//!                   │          │           └─ claims      exported any number of times, or held by one volume
//!                   │          └─ the same under the name of an export: its own limits and counters, read-only if so made
//!                   └─ one client's way: bytes to whole 4 KiB blocks, and the end of what waits when it leaves
//! ```
//!
//! Beside them [`Copier`] copies between objects inside the server, and [`Tokens`] are what clients hold of data that is
//! to be copied.
//!
//! It knows neither pools nor protocols.
//!
//! Invariant: this is the only way from a client to an object, so access, exclusion and quality of service are settled
//! here, once for all protocols.

mod blocks;
mod claims;
mod copy;
mod exclusion;
mod flushes;
mod qos;
mod ranges;
mod service;
mod session;
mod target;
mod tokens;
mod traffic;

pub use blocks::{blocks_around, clip};
pub use claims::{Claim, Claimed, Claims};
pub use copy::{Copier, CopyError, CopySettings, Order, Piece, Progress, Source};
pub use exclusion::{Exclusion, Held, Lane};
pub use flushes::LossCount;
pub use qos::{Balancer, Cost, Entry, FlowId, Limiter, NORMAL_BYTES, Qos, QueuedEntry};
pub use ranges::WatchedRange;
pub use service::ObjectService;
pub use session::{Change, Compared, Later, Session, Started};
pub use target::{Target, TargetInfo};
pub use tokens::{SECRET_BYTES, TOKEN_BYTES, Token, TokenEnd, TokenLimits, TokenSource, Tokens};
pub use traffic::{Counters, RequestKind, Totals, Traffic};
