//! Looks at what disks in service say of their pool: whether another owner imported it, and whether labels, logs and
//! the metadata of slabs are whole; of the latter one disk and one row of each space at a time.
//!
//! Invariant: each pool is looked at by itself, so that a disk that does not answer keeps no look at another pool from
//! being made.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use holdfast_model::Uuid;
use holdfast_space::{Ended, Space};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::engine::{Engine, OpenPool};

/// The looks at a pool.
struct Looks {
    running: JoinHandle<()>,
    audited: Instant,
}

/// Looks at all pools until `stop` says so or the engine is gone. Looks that are under way then are waited for.
pub(crate) async fn watch(engine: Weak<Engine>, mut stop: watch::Receiver<bool>) {
    let settings = |engine: Arc<Engine>| (engine.settings.watch_interval, engine.settings.metadata_interval);
    let Some((interval, metadata_interval)) = engine.upgrade().map(settings) else { return };
    let mut looks: BTreeMap<Uuid, Looks> = BTreeMap::new();
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            () = tokio::time::sleep(interval) => {}
        }
        let Some(engine) = engine.upgrade() else { break };
        let pools: Vec<Arc<OpenPool>> = engine.live().pools.values().cloned().collect();
        looks.retain(|id, _| pools.iter().any(|open| open.pool.id() == *id));
        for open in pools {
            let id = open.pool.id();
            let known = looks.get(&id);
            if known.is_some_and(|looks| !looks.running.is_finished()) {
                continue;
            }
            let last = known.map(|looks| looks.audited);
            let due = last.is_none_or(|last| last.elapsed() >= metadata_interval);
            let audited = last.filter(|_| !due).unwrap_or_else(Instant::now);
            looks.insert(id, Looks { running: tokio::spawn(look(engine.clone(), open, due)), audited });
        }
    }
    for look in looks.into_values() {
        let _ = look.running.await;
    }
}

async fn look(engine: Arc<Engine>, open: Arc<OpenPool>, audits: bool) {
    let pool = open.pool.clone();
    let looked = engine.on_reactor(move || async move {
        pool.look_for_another_owner().await;
        match audits {
            true => pool.audit_next().await.map(drop),
            false => Ok(()),
        }
    });
    if let Ok(Err(error)) = looked.await {
        tracing::warn!("pool {}: labels and logs could not be checked: {error}", open.name());
    }
    if audits {
        let spaces: Vec<Arc<Space>> = open.spaces().values().cloned().collect();
        for space in spaces {
            let looked = engine.on_reactor({
                let space = space.clone();
                move || async move { space.audit_next().await }
            });
            // A row that cannot be read is reported by what fails there.
            if let Ok(Err(Ended::Failed(error))) = looked.await {
                tracing::debug!(space = %space.record().name, %error, "slab metadata could not be checked");
            }
        }
    }
}
