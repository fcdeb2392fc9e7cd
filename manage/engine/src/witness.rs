//! The witness of a pool: a small file in the state folder that breaks the tie between two equal halves of its disks.
//!
//! Invariant: what was answered as stored is on stable storage, and a later answer never stands before an earlier one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_device::{Io, IoError, IoErrorKind};
use holdfast_model::Uuid;
use holdfast_pool::{Witness, WitnessRecord};
use tokio::sync::oneshot;

use crate::state::{read_json, write_json};

/// The witness files of a state folder.
pub struct WitnessFiles {
    folder: PathBuf,
    runtime: tokio::runtime::Handle,
    writing: Arc<Mutex<()>>,
}

impl WitnessFiles {
    /// Witness files in `folder`, written by threads of `runtime`.
    pub fn new(folder: &Path, runtime: tokio::runtime::Handle) -> Self {
        Self { folder: folder.into(), runtime, writing: Arc::default() }
    }

    fn path(&self, pool: Uuid) -> PathBuf {
        self.folder.join(format!("witness-{pool}.json"))
    }

    /// Forgets a pool that was exported or destroyed.
    pub fn forget(&self, pool: Uuid) {
        let _ = std::fs::remove_file(self.path(pool));
    }
}

impl Witness for WitnessFiles {
    fn load(&self, pool: Uuid) -> Option<WitnessRecord> {
        match read_json(&self.path(pool), "move it away; the next change of the pool writes a new one") {
            Ok(record) => record,
            Err(error) => {
                tracing::error!("the witness of pool {pool} has no vote: {error}");
                None
            }
        }
    }

    fn store(&self, pool: Uuid, record: WitnessRecord) -> Io<()> {
        let (path, writing) = (self.path(pool), self.writing.clone());
        let (answer, answered) = oneshot::channel();
        let context = path.display().to_string();
        self.runtime.spawn_blocking(move || {
            let _one_at_a_time = writing.lock().unwrap_or_else(PoisonError::into_inner);
            let is_overtaken =
                matches!(read_json(&path, "it is written anew"), Ok(Some(known)) if is_beyond(&known, &record));
            let _ = answer.send(if is_overtaken { Ok(()) } else { write_json(&path, &record) });
        });
        Io::pending(async move {
            match answered.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(IoError::new(IoErrorKind::Media, format!("writing {context}: {error}"))),
                Err(_) => Err(IoError::new(IoErrorKind::Gone, format!("writing {context}: the daemon is stopping"))),
            }
        })
    }
}

/// Whether a record was overtaken by one that is known already: threads store in any order.
fn is_beyond(known: &WitnessRecord, record: &WitnessRecord) -> bool {
    (known.promised, known.tip) > (record.promised, record.tip)
}

#[cfg(test)]
mod tests {
    use holdfast_pool::Position;

    use super::*;

    #[tokio::test]
    async fn what_was_overtaken_takes_nothing_back() {
        let folder = tempfile::tempdir().unwrap();
        let files = WitnessFiles::new(folder.path(), tokio::runtime::Handle::current());
        let pool = Uuid::from_u128(7);
        let record = |promised, sequence| WitnessRecord { promised, tip: Position { generation: 3, sequence } };
        files.store(pool, record(3, 9)).await.unwrap();
        files.store(pool, record(3, 8)).await.unwrap();
        files.store(pool, record(2, 10)).await.unwrap();
        assert_eq!(files.load(pool), Some(record(3, 9)));
        files.store(pool, record(4, 2)).await.unwrap();
        assert_eq!(files.load(pool), Some(record(4, 2)), "a new generation begins where it was forced to");
    }

    #[tokio::test]
    async fn a_pool_is_remembered_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let files = WitnessFiles::new(folder.path(), tokio::runtime::Handle::current());
        let pool = Uuid::from_u128(7);
        assert_eq!(files.load(pool), None);
        let record = WitnessRecord { promised: 3, ..WitnessRecord::default() };
        files.store(pool, record).await.unwrap();
        assert_eq!(files.load(pool), Some(record));
        files.forget(pool);
        assert_eq!(files.load(pool), None);
    }
}
