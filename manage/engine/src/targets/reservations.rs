//! Persistent reservations: kept with the pool of their LUN, shown, and cleared by hand.
//!
//! Invariant: what an initiator was answered to outlive a loss of power is on the pool's disks by then.

use std::sync::{Arc, OnceLock, Weak};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_api::{Changed, Registrant, Reservation, Severity};
use holdfast_model::Uuid;
use holdfast_scsi::{ReservationKeeper, Unit};

use super::known::KnownLun;
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, not_confirmed, not_found};

/// The name of the document with the reservations of a LUN.
pub(crate) fn reservation_key(unit: Uuid) -> String {
    format!("reservation/{unit}")
}

const _: () = assert!(holdfast_scsi::KEPT_BYTES <= holdfast_pool::MOST_DOCUMENT_BYTES, "a pool keeps all of them");

/// Keeps reservations on pools.
#[derive(Default)]
pub(crate) struct Keeper {
    engine: OnceLock<Weak<Engine>>,
}

impl Keeper {
    /// The engine whose pools keep them.
    pub(crate) fn set_engine(&self, engine: &Arc<Engine>) {
        let _ = self.engine.set(Arc::downgrade(engine));
    }
}

impl ReservationKeeper for Keeper {
    fn keep(&self, unit: Uuid, kept: Option<Vec<u8>>) -> BoxFuture<'static, Result<(), String>> {
        let engine = self.engine.get().and_then(Weak::upgrade);
        async move {
            let engine = engine.ok_or("the daemon is stopping")?;
            let open = engine.pool_of_unit(unit).ok_or("its pool is not in service")?;
            let done = engine.keep_text(&open.pool, reservation_key(unit), kept).await;
            done.map_err(|error| error.message)
        }
        .boxed()
    }
}

impl Engine {
    /// The pool with a LUN of this id.
    fn pool_of_unit(&self, unit: Uuid) -> Option<Arc<OpenPool>> {
        let live = self.live();
        let mut luns = live.targets.values().flat_map(|target| target.known.luns.values());
        let pool = luns.find(|lun| lun.id == unit)?.pool;
        live.pools.values().find(|open| open.pool.id() == pool).cloned()
    }

    /// The unit of a LUN that is served.
    fn unit_of(&self, target: &str, lun: u16) -> ApiResult<Arc<Unit>> {
        let known = self.known_target(target)?;
        let object = known.lun_object(lun);
        if !known.luns.contains_key(&lun) {
            return Err(not_found(object, format!("'holdfast target show {target}' lists its LUNs")));
        }
        let unit = self.live().targets.get(target).and_then(|live| Some(live.luns.get(&lun)?.unit.clone()));
        unit.ok_or_else(|| conflict(object, "it is not served", format!("'holdfast target show {target}' tells why")))
    }

    /// Who reserved a LUN, or is registered for it.
    ///
    /// # Errors
    /// If there is no such LUN, or it is not served.
    pub fn reservation(&self, target: &str, lun: u16) -> ApiResult<Reservation> {
        let view = self.unit_of(target, lun)?.reservations();
        Ok(Reservation {
            lun: format!("{target}/{lun}"),
            kind: view.kind.map(str::to_owned),
            generation: view.generation,
            persists: view.aptpl,
            reserved_by: view.reserved_by.map(|initiator| initiator.to_string()),
            unreadable: view.unreadable,
            registrants: view
                .registrants
                .iter()
                .map(|one| Registrant {
                    initiator: one.initiator.to_string(),
                    key: format!("{:#018x}", one.key),
                    holder: one.holder,
                })
                .collect(),
        })
    }

    /// Ends all registrations and reservations of a LUN by hand.
    ///
    /// # Errors
    /// If it is not confirmed, or there is no such LUN, or that cannot be kept.
    pub async fn clear_reservation(self: &Arc<Self>, target: String, lun: u16, confirmed: bool) -> ApiResult<Changed> {
        self.change(move |engine| async move {
            let (unit, known) = (engine.unit_of(&target, lun)?, engine.known_target(&target)?);
            let object = known.lun_object(lun);
            let view = unit.reservations();
            let is_reserved = view.kind.is_some() || view.reserved_by.is_some() || view.unreadable.is_some();
            if view.registrants.is_empty() && !is_reserved {
                return Ok(Changed { changed: false, message: format!("{object} is not reserved") });
            }
            if !confirmed {
                let message = "its initiators lose what keeps them from writing over each other";
                return Err(not_confirmed(
                    object,
                    message,
                    "end the programs that reserved it, then repeat with --yes",
                ));
            }
            let cleared = unit.clear_reservations().await;
            cleared.map_err(|why| {
                conflict(&object, format!("they cannot be kept as cleared: {why}"), "see the health of its pool")
            })?;
            engine.events.emit(Severity::Warning, &object, "its reservations were cleared by hand", "");
            Ok(Changed { changed: true, message: format!("the reservations of {object} are cleared") })
        })
        .await
    }

    /// Takes away what a pool keeps of the reservations of a LUN that is not there; answers what that was.
    pub(super) async fn take_reservations(&self, open: &OpenPool, unit: Uuid) -> ApiResult<Option<Vec<u8>>> {
        let key = reservation_key(unit);
        let kept = open.pool.document(&key);
        if kept.is_some() {
            self.keep_text(&open.pool, key, None).await?;
        }
        Ok(kept)
    }

    /// Gives back what was taken away.
    pub(super) async fn keep_again(&self, open: &OpenPool, unit: Uuid, kept: Option<Vec<u8>>) {
        let Some(kept) = kept else { return };
        if let Err(error) = self.keep_text(&open.pool, reservation_key(unit), Some(kept)).await {
            tracing::warn!("reservations of {unit} are kept on pool {} no more: {error}", open.name());
        }
    }

    /// Keeps nothing of the reservations of a LUN that is gone.
    pub(super) async fn forget_reservations(&self, lun: &KnownLun, name: &str) {
        let open = self.live().pools.values().find(|open| open.pool.id() == lun.pool).cloned();
        let Some(open) = open else { return };
        if let Err(error) = self.keep_text(&open.pool, reservation_key(lun.id), None).await {
            tracing::warn!("reservations of LUN {name} are still kept on pool {}: {error}", open.name());
        }
    }
}
