//! What is kept on a pool, as documents of its configuration: what must go along when another node imports it.
//!
//! | document | what it holds, as JSON |
//! | --- | --- |
//! | `export/NAME` | an export of one of its spaces, with its quality of service |
//! | `target/ID` | an iSCSI target with LUNs on it, or that it was destroyed: see `targets/known.rs` |
//! | `reservation/UNIT` | the persistent reservations of a LUN on it, as `serve/scsi` writes them |
//! | `volume/NAME` | a volume on one of its spaces, and where it is to be mounted |
//! | `qos/SPACE` | the quality of service of the space with this id |
//! | `alerts` | thresholds of its own, and which of those that hold were told: see `alerts.rs` |
//! | `job/KEY`, `scrubbed/SPACE`, `jobs` | jobs and times of scrubs: see `jobs/kept.rs` |
//!
//! The state folder has a copy of the exports as they were seen last, to show them while their pool is away. It counts
//! for nothing once the pool is here.
//!
//! Invariant: what a change of these was answered is on the pool's disks by then. A document that cannot be read stays
//! as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::{Code, Condition, Protocol, Qos, Severity};
use holdfast_model::Uuid;
use holdfast_pool::Pool;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, LiveExport, OpenPool};
use crate::error::{ApiResult, from_pool};
use crate::state::KnownExport;

/// What the names of documents begin with that are exports.
const EXPORTS: &str = "export/";

/// An export as its document has it. A pool keeps a thousand of them on disks of 256 MiB, so what the document's name,
/// its pool and its space tell is left out, and what is as usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ExportDocument {
    space: Uuid,
    #[serde(default, skip_serializing_if = "is_usual")]
    protocol: Protocol,
    #[serde(default, skip_serializing_if = "is_usual")]
    read_only: bool,
    #[serde(default, skip_serializing_if = "is_usual")]
    qos: Qos,
}

fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl ExportDocument {
    fn of(known: &KnownExport) -> Self {
        let KnownExport { space, protocol, read_only, qos, .. } = *known;
        Self { space, protocol, read_only, qos }
    }

    /// The export of this name on a pool.
    fn export(self, name: &str, open: &OpenPool) -> KnownExport {
        let Self { space, protocol, read_only, qos } = self;
        let record = open.pool.spaces().into_iter().find(|record| record.uuid == space);
        let of_pool = record.map_or_else(|| space.to_string(), |record| record.name.to_string());
        let path = format!("{}/{of_pool}", open.name());
        KnownExport { name: name.to_owned(), protocol, pool: open.pool.id(), space, path, read_only, qos }
    }
}

/// The name of the document of an export.
fn export_key(name: &str) -> String {
    format!("{EXPORTS}{name}")
}

/// The name of the document with the quality of service of a space.
pub(crate) fn qos_key(space: Uuid) -> String {
    format!("qos/{space}")
}

/// Why an export is not served whose name `other`'s has.
pub(crate) fn waiting(known: &KnownExport, other: &str) -> Condition {
    let (name, path) = (&known.name, &known.path);
    let cause = format!("is not served for space {path}: an export of space {other} has this name");
    let next = format!(
        "'holdfast nbd export {path} --name OTHER' serves it under another name; after 'holdfast nbd unexport {name}' it is \
         served under this one; 'holdfast nbd unexport {name} --space {path}' removes it"
    );
    Condition::new(cause, next)
}

/// What a document of a pool holds; `None` where there is none, or it cannot be read.
pub(crate) fn kept<T: DeserializeOwned>(pool: &Pool, key: &str) -> Option<T> {
    pool.document(key).and_then(|text| serde_json::from_slice(&text).ok())
}

impl Engine {
    /// Replaces a document of a pool, or removes it; durable when answered.
    ///
    /// # Errors
    /// If the pool takes no changes, or has no room for it; the document is as it was then.
    pub(crate) async fn keep<T: Serialize>(&self, pool: &Arc<Pool>, key: String, what: Option<&T>) -> ApiResult<()> {
        let object = format!("pool {}", pool.name());
        let unwritten = |error: serde_json::Error| {
            let next = "see the daemon's log";
            holdfast_api::ApiError::new(
                Code::Failed,
                &object,
                format!("document {key} cannot be written: {error}"),
                next,
            )
        };
        let text = what.map(serde_json::to_vec).transpose().map_err(unwritten)?;
        self.keep_text(pool, key, text).await
    }

    /// The same of what is text already.
    pub(crate) async fn keep_text(&self, pool: &Arc<Pool>, key: String, text: Option<Vec<u8>>) -> ApiResult<()> {
        let object = format!("pool {}", pool.name());
        let pool = pool.clone();
        let written = self.on_reactor(move || async move { pool.set_document(&key, text).await }).await?;
        written.map(drop).map_err(|error| from_pool(&object, error))
    }

    /// Keeps an export on the pool of its space.
    pub(crate) async fn keep_export(&self, pool: &Arc<Pool>, known: &KnownExport) -> ApiResult<()> {
        self.keep(pool, export_key(&known.name), Some(&ExportDocument::of(known))).await
    }

    /// Keeps an export no more.
    pub(crate) async fn drop_export(&self, pool: &Arc<Pool>, name: &str) -> ApiResult<()> {
        self.keep::<ExportDocument>(pool, export_key(name), None).await
    }

    /// The exports that a pool keeps.
    fn kept_exports(&self, open: &OpenPool) -> Vec<KnownExport> {
        let read = |(key, text): (String, Vec<u8>)| match serde_json::from_slice::<ExportDocument>(&text) {
            Ok(document) => Some(document.export(&key[EXPORTS.len()..], open)),
            Err(error) => {
                let cause = format!("its document {key} cannot be read ({error}); it stays as it is");
                let next = "run the version that wrote it, or make the export anew";
                self.events.emit(Severity::Error, &open.object(), &cause, next);
                None
            }
        };
        open.pool.documents(EXPORTS).into_iter().filter_map(read).collect()
    }

    /// Gives a pool that lost its documents, as a salvage leaves it, the exports of which this node knows.
    pub(crate) async fn restore_exports(&self, open: &OpenPool) {
        if !open.pool.documents("").is_empty() {
            return;
        }
        let id = open.pool.id();
        let known: Vec<KnownExport> = {
            let live = self.live();
            live.exports.values().filter(|export| export.known.pool == id).map(|export| export.known.clone()).collect()
        };
        for known in known {
            if let Err(error) = self.keep_export(&open.pool, &known).await {
                tracing::warn!("export {} is not kept on its pool: {error}", known.name);
            }
        }
    }

    /// Takes over the exports that a pool keeps. One whose name is taken by another pool's stays on its pool, and is
    /// served as soon as the name is free; `at_import` says so.
    pub(crate) fn adopt_exports(&self, open: &OpenPool, at_import: bool) {
        let id = open.pool.id();
        let kept = self.kept_exports(open);
        let mut taken = Vec::new();
        {
            let mut live = self.live_mut();
            // What was remembered while the pool was away may have been changed elsewhere.
            let is_kept = |name: &str| kept.iter().any(|known| known.name == name);
            live.exports.retain(|name, export| !at_import || export.known.pool != id || is_kept(name));
            for known in kept {
                match live.exports.get_mut(&known.name) {
                    Some(other) if other.known.pool != id => taken.push((known, other.known.path.clone())),
                    Some(own) => own.known = known,
                    None => drop(live.exports.insert(known.name.clone(), LiveExport { known, target: None })),
                }
            }
        }
        for (known, other) in taken.into_iter().filter(|_| at_import) {
            let told = waiting(&known, &other);
            let object = crate::exports::export_object(&known.name);
            self.events.emit(Severity::Warning, &object, &told.cause, &told.next_action);
        }
    }

    /// The exports that a pool keeps and that are not served, since those of other pools have their names, each with
    /// the space that has its name.
    pub(crate) fn waiting_exports(&self, open: &OpenPool) -> Vec<(KnownExport, String)> {
        let id = open.pool.id();
        let taken: BTreeMap<String, String> = {
            let live = self.live();
            let others = live.exports.values().filter(|export| export.known.pool != id);
            let taken = others.filter(|export| open.pool.document(&export_key(&export.known.name)).is_some());
            taken.map(|export| (export.known.name.clone(), export.known.path.clone())).collect()
        };
        if taken.is_empty() {
            return Vec::new();
        }
        self.kept_exports(open)
            .into_iter()
            .filter_map(|known| Some((taken.get(&known.name)?.clone(), known)))
            .map(|(other, known)| (known, other))
            .collect()
    }

    /// Serves the exports whose name was taken so far and is free now.
    pub(crate) fn serve_waiting_exports(&self) {
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        for open in pools {
            self.adopt_exports(&open, false);
            self.remake_exports(&open);
        }
    }

    /// Keeps nothing of a space that is gone.
    pub(crate) async fn forget_space(&self, open: &OpenPool, space: Uuid) -> ApiResult<()> {
        for known in self.kept_exports(open).into_iter().filter(|known| known.space == space) {
            self.drop_export(&open.pool, &known.name).await?;
        }
        self.keep::<Qos>(&open.pool, qos_key(space), None).await
    }
}
