//! Composition: disks, pools, spaces and exports as one running whole, and everything that management asks of it.
//!
//! ```text
//!  engine.rs    what is open; start and shutdown            state.rs, witness.rs   what outlives the process
//!  state_room.rs   a state folder that is full
//!  disks.rs     what is there, what it carries, opening it   foreign.rs             what blkid says
//!  pools.rs, disk_changes.rs, spaces.rs, exports.rs          the changes, each idempotent
//!  front_ends.rs   what serves exports, one a protocol       volumes.rs             files on spaces, and their mounts
//!  targets.rs   iSCSI targets and their LUNs
//!  leaving.rs   disks that leave their pool                  locate.rs, tools.rs    lights, programs of the system
//!  health.rs    how well disks are                          smart.rs               what they tell of it
//!  import.rs    finding pools on disks                       watch.rs               disks that go and come
//!  plan.rs      what a space would be                        verify.rs              whether copies and parity agree
//!  protection.rs what a space survives now, and why
//!  capacity.rs  what a pool could still hold                 alerts.rs              pools that fill up
//!  view.rs      pools, disks and spaces as the API shows them
//!  preferences.rs  settings that are changed while it runs
//!  kept.rs      what goes along with a pool                qos.rs                 limits of spaces and exports
//!  history.rs   what clients ask for over time               live.rs                what consoles are told as it happens
//!  events.rs, status.rs, metrics.rs, notify.rs               what it tells
//!  causes.rs    what is wrong, once each
//! ```
//!
//! Management runs on tokio; the storage floors run on reactors, and are reached by messages only.
//!
//! Invariants: changes run one at a time and to their end; a change that is refused has changed nothing, and one that
//! is repeated says that it changed nothing.

mod alerts;
mod capacity;
mod causes;
mod disk_changes;
mod disks;
mod engine;
mod error;
mod events;
mod exports;
mod foreign;
mod front_ends;
mod health;
mod history;
mod import;
mod jobs;
mod kept;
mod leaving;
mod live;
mod locate;
mod metadata;
mod metrics;
mod notify;
mod plan;
mod pools;
mod preferences;
mod protection;
mod qos;
mod restore;
mod salvage;
mod settings;
mod smart;
mod spaces;
mod state;
mod state_room;
mod status;
mod targets;
mod tools;
mod verify;
mod view;
mod volumes;
mod watch;
mod witness;

pub use engine::{Engine, StartError};
pub use error::ApiResult;
pub use events::EventLog;
pub use holdfast_iscsi::{IscsiSettings, TargetLimits};
pub use holdfast_listener::{Address, ListenSettings, TlsRequired, TlsSettings};
pub use holdfast_nbd::NbdSettings;
pub use live::Message;
pub use metrics::CONTENT_TYPE as METRICS_CONTENT_TYPE;
pub use restore::{RestoreError, restore};
pub use settings::{Given, Settings};
pub use state::StateError;
pub use volumes::{DifferencesAsked, JournalAsked, ListingAsked};
