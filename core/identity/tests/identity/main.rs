//! Descriptors against models of what they mean: forms, access, inheritance, and the views of POSIX and NFSv4.

mod access;
mod chmod;
mod common;
mod creators;
mod forms;
mod hostile;
mod inheritance;
mod nfs4;
mod posix;
mod sddl;
