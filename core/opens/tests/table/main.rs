//! The table of opens against a plain model, rules by hand, many threads, and its limits.

mod aside;
mod fcntl;
mod histories;
mod leases;
mod limits;
mod model;
mod shares;
mod support;
mod threads;
mod world;
