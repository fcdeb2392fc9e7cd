//! Pools and spaces on simulated disks: a world with disks that fail, a model of what every read may return, and what
//! is done with them. What threads alone can break is tried on real reactors.

mod background_destage;
mod capabilities;
mod checksums;
mod enclosures;
mod extents;
mod hostile_journal;
mod journal;
mod large;
mod model;
mod parity;
mod plan;
mod proofs;
mod protection;
mod rebalance;
mod resize;
mod salvage;
mod salvage_journal;
mod scenarios;
mod scrub;
mod simulate;
mod spoil;
mod staging;
mod threads;
mod world;
