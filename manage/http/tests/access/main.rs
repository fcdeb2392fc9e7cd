//! Management on a network: the real listener with real TLS, a real engine, and clients that mean no good.

mod audit;
mod console;
mod logins;
mod permissions;
mod requests;
mod rig;
mod transport;
