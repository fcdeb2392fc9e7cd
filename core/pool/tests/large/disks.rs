//! Pools of many large disks, whose equal metadata is in memory once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use holdfast_device::{Device, Durability, Geometry, Io, IoBuf, IoSlice};
use holdfast_pool::frame::{Frame, Kind};
use holdfast_pool::{Candidate, DiskInfo, FoundPool, Position};

use crate::common::{path, serial};

/// A disk that keeps what it is handed by reference, so that equal metadata of many disks is in memory once.
pub struct SharingDisk {
    size_bytes: u64,
    blocks: Mutex<BTreeMap<u64, (IoSlice, usize)>>,
    pub written: AtomicU64,
}

impl Device for SharingDisk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: self.size_bytes,
            logical_sector_bytes: 512,
            physical_sector_bytes: 4096,
            rotational: true,
            discard: false,
        }
    }

    fn read(&self, offset: u64, mut buf: IoBuf) -> Io<IoBuf> {
        let blocks = self.blocks.lock().expect("no panic while held");
        for (at, block) in buf.chunks_mut(4096).enumerate() {
            match blocks.get(&(offset / 4096 + at as u64)) {
                Some((slice, from)) => block.copy_from_slice(&slice[*from..*from + 4096]),
                None => block.fill(0),
            }
        }
        Io::ready(Ok(buf))
    }

    fn write(&self, offset: u64, data: IoSlice, _durability: Durability) -> Io<()> {
        self.written.fetch_add(data.len() as u64, Ordering::Relaxed);
        let mut blocks = self.blocks.lock().expect("no panic while held");
        for from in (0..data.len()).step_by(4096) {
            blocks.insert((offset + from as u64) / 4096, (data.clone(), from));
        }
        Io::ready(Ok(()))
    }

    fn flush(&self) -> Io<()> {
        Io::ready(Ok(()))
    }

    fn discard(&self, _offset: u64, _len: u64) -> Io<()> {
        Io::ready(Ok(()))
    }
}

pub fn sharing_disks(count: usize, size_bytes: u64) -> Vec<Arc<SharingDisk>> {
    let fresh = || SharingDisk { size_bytes, blocks: Mutex::default(), written: AtomicU64::new(0) };
    (0..count).map(|_| Arc::new(fresh())).collect()
}

/// Puts a configuration into the second log half of every disk, as the last word. Answers its length.
pub fn put_checkpoint(found: &FoundPool) -> u64 {
    let payload = found.config.checkpoint();
    let pieces: Vec<IoSlice> = payload.chunks(1 << 20).map(IoSlice::padded).collect();
    let position = Position { sequence: found.position.sequence + 1, ..found.position };
    for member in &found.members {
        let start = member.area.log_half(1);
        let frame =
            Frame { kind: Kind::Checkpoint, pool: found.id, disk: member.id, offset: start, position, previous: 0 };
        let header = frame.seal_detached(payload.len(), holdfast_model::wire::crc32c(&payload)).freeze();
        let mut at = start;
        for piece in std::iter::once(&header).chain(&pieces) {
            drop(member.candidate.device.write(at, piece.clone(), Durability::Durable));
            at += piece.len() as u64;
        }
    }
    payload.len() as u64
}

pub fn candidates(disks: &[Arc<SharingDisk>]) -> Vec<Candidate> {
    let candidate = |(index, disk): (usize, &Arc<SharingDisk>)| {
        let info = DiskInfo { path: path(index), serial: serial(index), ..DiskInfo::default() };
        Candidate { device: disk.clone(), info }
    };
    disks.iter().enumerate().map(candidate).collect()
}
