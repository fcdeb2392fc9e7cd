//! A pool that another owner has taken: how its owner here notices, and what becomes of it.
//!
//! Invariant: once a later promise was seen, nothing of the pool is read or written here any more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use holdfast_device::{Device, Durability, Geometry, Io, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::Uuid;

use crate::area::Area;
use crate::event::Severity;
use crate::label::Label;
use crate::pool::Pool;
use crate::promise::{Shown, shown};
use crate::refusal::Refusal;
use crate::{PoolError, PoolErrorKind};

/// A disk of a pool that another owner has.
struct Lost {
    geometry: Geometry,
    why: String,
}

impl Lost {
    fn refused<T: Unpin + 'static>(&self) -> Io<T> {
        Io::ready(Err(IoError::new(IoErrorKind::ReadOnly, self.why.clone())))
    }
}

impl Device for Lost {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, _offset: u64, _buf: IoBuf) -> Io<IoBuf> {
        self.refused()
    }

    fn write(&self, _offset: u64, _data: IoSlice, _durability: Durability) -> Io<()> {
        self.refused()
    }

    fn flush(&self) -> Io<()> {
        self.refused()
    }

    fn discard(&self, _offset: u64, _len: u64) -> Io<()> {
        self.refused()
    }
}

impl Pool {
    /// Whether another owner imported it: then nothing of it is read or written here any more.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Looks at the promise of each disk in service. Where one shows that of a later import, the pool is lost: see
    /// [`Pool::is_lost`]. Costs a read of 4 KiB a disk.
    pub async fn look_for_another_owner(&self) {
        if !self.may_be_lost() {
            return;
        }
        let disks: Vec<_> = self.pool_disks().into_iter().filter(|disk| disk.in_service()).collect();
        let looks = disks.iter().filter_map(|disk| Some((disk, disk.device()?))).map(|(disk, device)| async move {
            let own = self.own_label(disk.id, &disk.area);
            shown(&device, &disk.area, &own).await
        });
        let later = |shown: Shown| if let Shown::Later(generation) = shown { Some(generation) } else { None };
        if let Some(generation) = join_all(looks).await.into_iter().filter_map(later).max() {
            self.lose(generation);
        }
    }

    /// The label that a member has here.
    pub(crate) fn own_label(&self, disk: Uuid, area: &Area) -> Label {
        let promised = self.position.lock().expect("no panic while held").generation;
        Label { pool: self.id(), disk, disk_bytes: area.disk_bytes, promised, features: self.features() }
    }

    /// Gives the pool up to another owner, whose import promised this generation.
    pub(crate) fn lose(&self, generation: u64) -> PoolError {
        let why = format!("pool {} was imported by another owner as generation {generation}", self.name());
        let next_action = "export it here to let it go; to have it back, export it there and import it here";
        if self.may_be_lost() && !self.lost.swap(true, Ordering::AcqRel) {
            for disk in self.pool_disks() {
                if let Some(geometry) = disk.geometry() {
                    disk.stand_in(Arc::new(Lost { geometry, why: why.clone() }));
                }
            }
            self.refuse(Refusal { why: why.clone(), next_action, is_over: false, reopens: false });
            self.emit(Severity::Error, self.object(), why.clone(), next_action);
        }
        PoolError::new(PoolErrorKind::ReadOnly, format!("{why}; {next_action}"))
    }
}
