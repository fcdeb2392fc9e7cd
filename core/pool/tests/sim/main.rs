//! Pools on simulated disks: what every import finds, whatever happened to disks, power and other owners before.

mod balance;
mod changes;
mod common;
mod copies;
mod damage;
mod documents;
mod enclosures;
mod evacuation;
mod features;
mod health;
mod hostile_log;
mod import;
mod life;
mod metadata;
mod model;
mod owners;
mod parity;
mod records;
mod removal;
mod salvage;
mod simulate;
