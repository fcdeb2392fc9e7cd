//! Who somebody is and what they may do to a file, by the rules of Windows NT ([MS-DTYP] 2.4 and 2.5).
//!
//! ```text
//!   sid ─▶ token ──────────┐
//!    └──▶ ace ─▶ acl ─▶ descriptor ─▶ check ─▶ explain        what may this caller do, and why
//!                           ├─ binary · sddl · readable       the same in bytes, in text, for people
//!                           ├─ inherit · order                what a new file gets, what follows a change above it
//!                           ├─ mode · chmod · id_map          the view of POSIX
//!                           ├─ creator                        what a mode adds to what a new file inherits
//!                           └─ nfs4                           the view of NFSv4
//! ```
//!
//! A security descriptor is the one truth of a file's permissions; modes and NFSv4 entries are computed from it. Nothing
//! here does I/O, reads a clock or draws a random number.
//!
//! Invariant: what is not understood never grants anything, and is kept byte for byte or refused, never dropped.

mod ace;
mod acl;
mod binary;
mod check;
mod chmod;
mod creator;
mod descriptor;
mod error;
mod explain;
mod id_map;
mod inherit;
mod mask;
mod mode;
pub mod nfs4;
mod order;
mod readable;
mod removal;
pub mod sddl;
mod sid;
mod token;
pub mod well_known;

pub use ace::{Ace, AceBody, AceFlags, AceKind, OpaqueAce};
pub use acl::{Acl, AclState, MAX_ACL_BYTES};
pub use binary::MAX_DESCRIPTOR_BYTES;
pub use check::{Access, Cause, Refused, check, check_traverse};
pub use chmod::{ModeChange, ModeRefused, change_mode};
pub use creator::for_creator;
pub use descriptor::{Control, SecurityDescriptor};
pub use error::DescriptorError;
pub use explain::{Explanation, Reason, explain};
pub use id_map::{Domain, Id, IdMap, TooManyIds};
pub use inherit::{Creation, Node, create, reinherit};
pub use mask::AccessMask;
pub use mode::{computed, mode_of, trivial_mode};
pub use order::{is_canonical, sort_canonical};
pub use readable::describe;
pub use removal::{Removal, check_removal};
pub use sid::{MAX_SUBAUTHORITIES, Sid, SidError};
pub use token::{MAX_GROUPS, Membership, Privileges, Token, TooManyGroups};
