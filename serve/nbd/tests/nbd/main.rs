//! The server over a memory target, against a client that speaks the protocol byte by byte.

mod commands;
mod handshake;
mod limits;
mod partial;
mod pipelines;
mod shared;
mod support;
mod tls;
mod turns;
