//! Targets kept: on every pool here that has a LUN of them, then in the state folder.
//!
//! Invariant: a change that could not be kept everywhere is kept nowhere; one that a crash cut short is found by the
//! document that was changed more often. A document that cannot be read is never replaced.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::ApiError;
use holdfast_model::Uuid;

use super::known::{Document, GoneTarget, KnownTarget, target_key};
use super::merge::on_pool;
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, unwritten};
use crate::exports::about_export;
use crate::state::State;

/// Destroyed targets that are remembered at most, for pools that are away.
const MOST_GONE: usize = 512;

impl Engine {
    /// The pools in service with these ids.
    pub(super) fn open_pools(&self, ids: &BTreeSet<Uuid>) -> Vec<Arc<OpenPool>> {
        self.live().pools.values().filter(|open| ids.contains(&open.pool.id())).cloned().collect()
    }

    /// Replaces what is kept of a target: `before` by `after`, of which one may be none.
    ///
    /// # Errors
    /// If it cannot be kept somewhere; all is as it was then.
    pub(super) async fn keep_target(&self, before: Option<&KnownTarget>, after: Option<&KnownTarget>) -> ApiResult<()> {
        let Some(known) = after.or(before) else { return Ok(()) };
        let object = known.object();
        let ids: BTreeSet<Uuid> = before.into_iter().chain(after).flat_map(KnownTarget::pools).collect();
        let open = self.open_pools(&ids);
        for pool in &open {
            self.refuse_unread(pool, known.id, &object.to_string())?;
        }
        let gone = before.filter(|_| after.is_none()).map(|before| self.gone(before, &open));
        let gone = gone.filter(|gone| !gone.pools.is_empty());
        let document = |pool: Uuid| match after {
            Some(after) => on_pool(after, pool),
            None => gone.clone().map(Document::Gone),
        };
        let mut done = 0;
        let mut kept = Ok(());
        for pool in &open {
            kept = self.keep_document(pool, known.id, document(pool.pool.id())).await;
            if kept.is_err() {
                break;
            }
            done += 1;
        }
        let kept = kept.map_err(|error| about_export(&object, error));
        let kept =
            kept.and_then(|()| self.change_state(|state| remember(state, known.id, after, gone)).map_err(unwritten));
        if kept.is_err() {
            for pool in &open[..done] {
                let id = pool.pool.id();
                let back = before.and_then(|before| on_pool(before, id));
                if let Err(error) = self.keep_document(pool, known.id, back).await {
                    tracing::error!("{object}: a change that was refused stays on pool {}: {error}", pool.name());
                }
            }
        }
        kept
    }

    /// Replaces the document of a target on a pool, or removes it.
    pub(super) async fn keep_document(&self, open: &OpenPool, id: Uuid, document: Option<Document>) -> ApiResult<()> {
        self.keep(&open.pool, target_key(id), document.as_ref()).await
    }

    /// Refuses to replace a document that this version cannot read.
    fn refuse_unread(&self, open: &OpenPool, id: Uuid, object: &str) -> ApiResult<()> {
        let key = target_key(id);
        let Some(text) = open.pool.document(&key) else { return Ok(()) };
        match Document::read(&key, &text) {
            Ok(_) => Ok(()),
            Err(why) => Err(unread(object, &open.name(), &why)),
        }
    }

    /// What is remembered of a target that ends, for its pools that are not here.
    fn gone(&self, before: &KnownTarget, here: &[Arc<OpenPool>]) -> GoneTarget {
        let mut pools = before.pools();
        here.iter().for_each(|open| _ = pools.remove(&open.pool.id()));
        GoneTarget { id: before.id, name: before.name.clone(), changes: before.changes + 1, pools }
    }
}

fn unread(object: &str, pool: &str, why: &str) -> ApiError {
    let message = format!("its document on pool {pool} cannot be read ({why}), and stays as it is");
    conflict(object, message, "run the version that wrote it")
}

/// Writes down how a target is, or that it is no more.
fn remember(state: &mut State, id: Uuid, after: Option<&KnownTarget>, gone: Option<GoneTarget>) {
    state.targets.retain(|known| known.id != id);
    state.targets.extend(after.cloned());
    state.gone_targets.retain(|known| known.id != id);
    state.gone_targets.extend(gone);
    let surplus = state.gone_targets.len().saturating_sub(MOST_GONE);
    state.gone_targets.drain(..surplus);
    state.targets.sort_by(|a, b| a.name.cmp(&b.name));
}
