//! The built daemon with real clients. Each test has a daemon and a folder of its own.

mod access;
mod bad_input;
mod change;
mod clients;
mod crash;
mod damage;
mod data_base;
mod enclosures;
mod exports;
mod file_system;
mod footprint;
mod full;
mod integrity;
mod life;
mod losses;
mod notifications;
mod parity;
mod promises;
mod qos;
mod quotas;
mod salvage;
mod shrink;
mod tls;
mod torture;
mod volumes;
mod wrecks;
