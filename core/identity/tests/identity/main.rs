//! Descriptors against models of what they mean: forms, access, inheritance, and the views of POSIX and NFSv4.

mod access;
mod common;
mod forms;
mod inheritance;
mod sddl;
mod speed;
