//! The NBD protocol server (newstyle), over unix sockets and TCP.
pub mod negotiate;
pub mod protocol;
