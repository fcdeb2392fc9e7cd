//! A real engine on file disks in memory: its changes, and its life.

mod capacity;
mod changes;
mod disks;
mod enclosures;
mod leaving;
mod life;
mod parity;
mod support;
