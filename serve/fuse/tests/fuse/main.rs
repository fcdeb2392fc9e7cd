//! A real kernel and its mounts, over files in memory.

mod by_handle;
mod change;
mod data;
mod life;
mod listings;
mod locks;
mod names;
mod on_volume;
mod over_ring;
mod posix;
mod privileges;
mod programs;
mod requests;
mod shared;
mod special;
mod support;
