//! The block service: what every block front end shares of an object, which is a space or a file of a volume.
//!
//! ```text
//!   front end ─▶ Session ─▶ Target ─▶ ObjectService ─▶ BlockObject (core/device)
//!                   │          │           ├─ qos         limits, and the balance with others on the same disks
//!                   │          │           ├─ traffic     what was asked for, and how long it took
//!                   │          │           ├─ exclusion   parts of blocks are kept apart from all other writes of them
//!                   │          │           └─ claims      exported any number of times, or held by one volume
//!                   │          └─ the same under the name of an export: its own limits and counters, read-only if so made
//!                   └─ one client's way: bytes to whole 4 KiB blocks, and the end of what waits when it leaves
//! ```
//!
//! It knows neither pools nor protocols.
//!
//! Invariant: this is the only way from a client to an object, so access, exclusion and quality of service are settled
//! here, once for all protocols.

mod claims;
mod exclusion;
mod qos;
mod service;
mod session;
mod target;
mod traffic;

pub use claims::{Claim, Claimed, Claims};
pub use exclusion::{Exclusion, Held, Lane};
pub use qos::{Balancer, Cost, Entry, FlowId, Limiter, NORMAL_BYTES, Qos, QueuedEntry};
pub use service::ObjectService;
pub use session::{Change, Later, Session, Started, blocks_around, clip};
pub use target::{Target, TargetInfo};
pub use traffic::{Counters, RequestKind, Totals, Traffic};
