//! Tests of the simulated world itself, one file for each of its promises.

mod durability;
mod faults;
mod latency;
mod scheduling;

use std::sync::Arc;

use super::{Sim, SimDisk, SimDiskSpec};
use crate::{Device, Durability, IoBuf, IoError, IoSlice};

fn disk_of(sim: &Sim, change: impl FnOnce(&mut SimDiskSpec)) -> Arc<SimDisk> {
    let mut spec = SimDiskSpec { size_bytes: 1 << 20, ..SimDiskSpec::default() };
    change(&mut spec);
    SimDisk::new(sim, spec)
}

fn filled(byte: u8, len: usize) -> IoSlice {
    let mut buf = IoBuf::new(len);
    buf.fill(byte);
    buf.freeze()
}

fn write(sim: &Sim, disk: &Arc<SimDisk>, offset: u64, data: IoSlice, durability: Durability) -> Result<(), IoError> {
    let disk = disk.clone();
    sim.run(async move { disk.write(offset, data, durability).await }).expect("the power stays on")
}

fn read(sim: &Sim, disk: &Arc<SimDisk>, offset: u64, len: usize) -> Result<Vec<u8>, IoError> {
    let disk = disk.clone();
    sim.run(async move { disk.read(offset, IoBuf::new(len)).await.map(|buf| buf.to_vec()) })
        .expect("the power stays on")
}

fn flush(sim: &Sim, disk: &Arc<SimDisk>) -> Result<(), IoError> {
    let disk = disk.clone();
    sim.run(async move { disk.flush().await }).expect("the power stays on")
}
