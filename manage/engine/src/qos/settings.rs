//! What was set, kept on the pool and handed to what is open.
//!
//! Invariant: settings are on the pool before they hold.

use std::sync::Arc;

use holdfast_api::{ExportChanged, Qos, SetExport, SetQos};
use holdfast_block::ObjectService;
use holdfast_device::reactor::clock;
use holdfast_model::{ObjectRef, Uuid};
use holdfast_pool::Pool;

use crate::engine::Engine;
use crate::error::{ApiResult, not_found};
use crate::exports::{about_export, export_object};
use crate::kept::{kept, qos_key};

impl Engine {
    /// What was set for a space.
    fn qos_of(&self, space: Uuid) -> Qos {
        let key = qos_key(space);
        self.live().pools.values().find_map(|open| kept(&open.pool, &key)).unwrap_or_default()
    }

    /// Keeps what was set for a space on its pool.
    async fn keep_qos(&self, pool: &Arc<Pool>, space: Uuid, qos: Qos) -> ApiResult<()> {
        self.keep(pool, qos_key(space), Some(&qos).filter(|qos| **qos != Qos::default())).await
    }

    /// Hands a space that is open what is set for it and its exports.
    pub(crate) fn apply_qos(&self, service: &ObjectService) {
        let space = service.id();
        let of_space = |min: u64, known: &crate::state::KnownExport| {
            if known.space == space { min.saturating_add(known.qos.min_iops.unwrap_or(0)) } else { min }
        };
        let exports_min = self.live().exports.values().map(|export| &export.known).fold(0, of_space);
        let luns_min = self.least_of_luns(space);
        service.set_qos(self.qos_of(space), exports_min.saturating_add(luns_min), clock().now());
    }

    /// Sets the quality of service of a space. Answers whether it was another.
    pub(crate) async fn set_space_qos(
        &self,
        object: &ObjectRef,
        pool: &Arc<Pool>,
        service: &ObjectService,
        set: &SetQos,
    ) -> ApiResult<bool> {
        let before = service.qos();
        let qos = set.applied_to(before);
        super::check(&object.to_string(), &qos).map_err(|error| error.inside("qos"))?;
        if qos == before {
            return Ok(false);
        }
        self.keep_qos(pool, service.id(), qos).await?;
        self.apply_qos(service);
        self.note(object, &format!("has another quality of service: {}", describe(&qos)));
        Ok(true)
    }

    /// Changes an export in use.
    pub(crate) async fn change_export(&self, name: &str, request: SetExport) -> ApiResult<ExportChanged> {
        let object = export_object(name);
        let mut known = {
            let live = self.live();
            let export = live.exports.get(name).map(|export| export.known.clone());
            export.ok_or_else(|| not_found(&object, "'holdfast nbd list' lists the exports"))?
        };
        let before = known.clone();
        known.qos = request.qos.unwrap_or_default().applied_to(known.qos);
        known.read_only = request.read_only.unwrap_or(known.read_only);
        super::check(&object.to_string(), &known.qos).map_err(|error| error.inside("qos"))?;
        if known == before {
            return Ok(ExportChanged { changed: false, export: self.export(name)? });
        }
        let open = self.pool_of_export(&object, &known)?;
        self.keep_export(&open.pool, &known).await.map_err(|error| about_export(&object, error))?;
        let target = {
            let mut live = self.live_mut();
            let export = live.exports.get_mut(name).ok_or_else(|| not_found(&object, "ask again"))?;
            export.known = known.clone();
            export.target.clone()
        };
        self.remember_seen();
        if let Some(target) = target {
            target.limiter().set(&known.qos, clock().now());
            self.apply_qos(target.object());
        }
        if known.qos != before.qos {
            self.note(&object, &format!("has another quality of service: {}", describe(&known.qos)));
        }
        if known.read_only != before.read_only {
            self.serve_anew(name).await;
            self.note(&object, if known.read_only { "is read-only" } else { "can be written to" });
        }
        Ok(ExportChanged { changed: true, export: self.export(name)? })
    }
}

/// The settings for people.
pub(crate) fn describe(qos: &Qos) -> String {
    use holdfast_model::ByteSize;
    let ios = |value: Option<u64>, what: &str| value.map(|value| format!("{what} {value} IOPS"));
    let bytes = |value: Option<u64>, what: &str| value.map(|value| format!("{what} {}/s", ByteSize(value)));
    let parts = [
        ios(qos.max_iops, "at most"),
        qos.burst_iops.map(|burst| format!("after a rest {burst} I/Os beyond")),
        bytes(qos.max_bytes_per_second, "at most"),
        qos.burst_bytes_per_second.map(|burst| format!("after a rest {} beyond", ByteSize(burst))),
        ios(qos.min_iops, "at least"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "no limits".into() } else { parts.join(", ") }
}
