//! A real kernel and its mounts, over files in memory.

mod by_handle;
mod change;
mod data;
mod life;
mod listings;
mod names;
mod over_ring;
mod posix;
mod privileges;
mod requests;
mod special;
mod support;
