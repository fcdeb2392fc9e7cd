//! What the end-to-end tests and the benchmark share: the daemon as users run it, and clients that judge it.
//!
//! ```text
//!   scene.rs     a folder of its own for each test, in memory where there is room; small_fs.rs a file system that can be full
//!   command.rs   programs that run to their end, within a time
//!   daemon.rs    the daemon: started, asked, killed, started again
//!   nbd.rs       a small NBD client that knows which of its requests were answered
//!   load.rs      writes that remember what each block may hold, and hold the daemon to it
//!   fio.rs       fio as a load and as a judge
//!   flow.rs      a load that is the same over iSCSI (flow_iscsi.rs) and over NBD (flow_nbd.rs)
//!   losses.rs    disks that are pulled and put back
//!   faulty.rs    a disk whose reads or writes fail when told to
//!   postgres.rs  PostgreSQL as a load and as a judge
//!   metrics.rs   what the daemon counts
//!   files.rs     what benchmarks of files do, on any directory
//!   over_ring.rs the kernel's switch for mounts over io_uring
//!   loops.rs     loop devices as disks; janitor.rs takes them away, however the run ends
//!   receivers.rs   a mail server and a web server that remember what they are sent
//!   qos.rs       two clients that want the same disks
//!   rounds.rs    what benchmarks are told, and medians
//!   in_process.rs  what benchmarks of the core alone run a pool on
//!   iscsi.rs     initiators and a peer; an initiator of our own in iscsi/
//!   machine.rs   an emulated machine with a kernel's initiator; relay.rs a path that can be lost
//!   wounded.rs   a volume that lost names and records
//!   crashed.rs   a volume whose process is killed, and what the next one takes
//!   process.rs   memory and processor time of a running process
//!   ports.rs     ports of this machine for daemons
//! ```
//!
//! Invariant: nothing that deals with the daemon knows it from inside; it is its command line, its sockets and its
//! files only.

pub mod command;
pub mod corruption;
pub mod crashed;
pub mod daemon;
pub mod faulty;
pub mod files;
pub mod fio;
pub mod flow;
pub mod flow_iscsi;
pub mod flow_nbd;
pub mod in_process;
pub mod iscsi;
pub mod janitor;
pub mod load;
pub mod loops;
pub mod losses;
pub mod machine;
pub mod metrics;
pub mod nbd;
pub mod over_ring;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod qos;
pub mod random;
pub mod receivers;
pub mod relay;
pub mod rounds;
pub mod scene;
pub mod small_fs;
pub mod wounded;
