//! What the simulation tests share: a world with disks, a pool and spaces, and a model of what every read may return.

pub mod model;
pub mod world;
