//! Pools that may only be read here: they use a feature which a writer must know.
//!
//! Invariant: nothing is written to any disk of such a pool, nor to its witness. It is served only where that needs no
//! repair: it was closed in good order, and each of its disks that counts has all changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_device::{Device, Durability, Geometry, Io, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::DiskState;

use crate::area::Area;
use crate::committer::Committer;
use crate::disk::PoolDisk;
use crate::event::Env;
use crate::features::Features;
use crate::pool::Pool;
use crate::scan::FoundPool;
use crate::{PoolError, PoolErrorKind};

/// A disk that takes no changes.
struct ReadOnly(Arc<dyn Device>);

fn refused() -> IoError {
    IoError::new(IoErrorKind::ReadOnly, "a disk of a pool that may only be read")
}

impl Device for ReadOnly {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.0.read(offset, buf)
    }

    fn write(&self, _offset: u64, _data: IoSlice, _durability: Durability) -> Io<()> {
        Io::ready(Err(refused()))
    }

    fn flush(&self) -> Io<()> {
        Io::ready(Ok(()))
    }

    fn discard(&self, _offset: u64, _len: u64) -> Io<()> {
        Io::ready(Err(refused()))
    }
}

/// Why a pool takes no changes here.
fn why(name: &str, flags: u64) -> String {
    format!(
        "pool {name} is read-only: it uses features of a later version, read-only flags {flags:#x}, which {} does not know: use that version to change it",
        env!("CARGO_PKG_VERSION")
    )
}

/// Takes a pool into use for reading alone. Its disks must be enough for an import.
///
/// # Errors
/// A pool that was not closed in good order.
pub(crate) fn adopt_for_reading(env: Env, found: FoundPool, flags: u64) -> Result<Arc<Pool>, PoolError> {
    let why = why(&found.name(), flags);
    if !found.config.closed {
        let more = "; it was not exported, and a resync would change it: import and export it there first";
        return Err(PoolError::new(PoolErrorKind::ReadOnly, why + more));
    }
    let FoundPool { id, mut config, position, members, .. } = found;
    config.features = config.features.with(Features { read_only_compatible: flags, ..Features::NONE });
    let devices: BTreeMap<_, Arc<dyn Device>> = members
        .into_iter()
        .filter(|member| member.tip.is_some_and(|tip| tip.position == position))
        .map(|member| (member.id, Arc::new(ReadOnly(member.candidate.device)) as Arc<dyn Device>))
        .collect();
    let mut disks = BTreeMap::new();
    for record in config.disks.values() {
        let area = Area::of_disk(record.label(), record.disk_bytes)?;
        let device = devices.get(&record.id).filter(|_| record.state == DiskState::Online).cloned();
        disks.insert(record.index, Arc::new(PoolDisk::new(record.index, record.id, area, device, env.clock.clone())));
    }
    let pool = Pool::assemble(env, id, config, disks, Committer::new(BTreeMap::new(), position));
    pool.refuse_changes(&why);
    Ok(pool)
}
