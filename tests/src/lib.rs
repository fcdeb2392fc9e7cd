//! What the end-to-end tests and the benchmark share: the daemon as users run it, and clients that judge it.
//!
//! ```text
//!   scene.rs     a folder of its own for each test, in memory where there is room
//!   command.rs   programs that run to their end, within a time
//!   daemon.rs    the daemon: started, asked, killed, started again
//!   nbd.rs       a small NBD client that knows which of its requests were answered
//!   load.rs      writes that remember what each block may hold, and hold the daemon to it
//!   fio.rs       fio as a load and as a judge
//!   losses.rs    disks that are pulled and put back
//!   metrics.rs   what the daemon counts
//!   rounds.rs    what benchmarks are told, and medians
//!   process.rs   memory and processor time of a running process
//! ```
//!
//! Invariant: nothing here knows the daemon from inside; it is its command line, its sockets and its files only.

pub mod command;
pub mod corruption;
pub mod daemon;
pub mod fio;
pub mod load;
pub mod losses;
pub mod metrics;
pub mod nbd;
pub mod process;
pub mod random;
pub mod rounds;
pub mod scene;
