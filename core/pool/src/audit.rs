//! Labels and logs, looked at while the pool is in use, and written anew from memory where they are damaged.
//!
//! What is damaged behind an owner's back does no harm to it, and is missing at the next import. Invariant: a disk in
//! service of which a look found nothing more to mend tells by itself, after any crash, that it is a member and what
//! the pool's configuration was.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdfast_device::{IoError, IoErrorKind};
use holdfast_model::DiskState;

use crate::PoolError;
use crate::committer::Committer;
use crate::disk::PoolDisk;
use crate::event::Severity;
use crate::log::{Checkpoint, LogPlace, Tip};
use crate::pool::Pool;
use crate::promise::{Shown, label_disk, shown, shown_at};

/// What was damaged of the metadata of disks, and was written anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Labels.
    pub labels: u64,
    /// Logs.
    pub logs: u64,
}

impl Audit {
    /// How many labels and logs.
    pub fn damaged(&self) -> u64 {
        self.labels + self.logs
    }
}

/// Why the metadata of a disk cannot be made whole.
enum Unmended {
    /// Another owner has the pool.
    Lost,
    /// The disk was set back to an older state.
    SetBack(String),
    /// The disk is of no use any more.
    Failed(DiskState, String),
}

impl Unmended {
    fn refused(error: &IoError) -> Self {
        let state = if error.kind == IoErrorKind::Gone { DiskState::Missing } else { DiskState::Failed };
        Self::Failed(state, format!("its damaged metadata could not be rewritten: {error}"))
    }
}

impl Pool {
    /// Looks at the metadata of each disk in service, as [`Pool::audit_disk`] does.
    ///
    /// # Errors
    /// No quorum, where a disk has to be taken out.
    pub async fn audit(&self) -> Result<Audit, PoolError> {
        let mut found = Audit::default();
        for disk in self.pool_disks() {
            let of_disk = self.audit_disk(disk.index).await?;
            found.labels += of_disk.labels;
            found.logs += of_disk.logs;
        }
        Ok(found)
    }

    /// The same of one disk, each time of the next one.
    ///
    /// # Errors
    /// As [`Pool::audit`].
    pub async fn audit_next(&self) -> Result<Audit, PoolError> {
        let last = self.audited.load(Ordering::Relaxed);
        let disks = self.pool_disks();
        let in_service = || disks.iter().filter(|disk| disk.in_service()).map(|disk| u32::from(disk.index));
        let Some(next) = in_service().find(|index| *index >= last).or_else(|| in_service().next()) else {
            return Ok(Audit::default());
        };
        self.audited.store(next + 1, Ordering::Relaxed);
        self.audit_disk(next as u16).await
    }

    /// Looks at both labels and the log of a disk, and writes anew what is damaged. A disk that does not take it goes
    /// out of service. Nothing is looked at where the pool takes no changes.
    ///
    /// # Errors
    /// No quorum, where the disk has to be taken out.
    pub async fn audit_disk(&self, index: u16) -> Result<Audit, PoolError> {
        let known = self.committer.lock().await.logs.get(&index).and_then(|log| Some((log.place.clone(), log.tip()?)));
        let Some((place, tip)) = known.filter(|_| self.refusal().is_none()) else { return Ok(Audit::default()) };
        // A log may be long, and changes go on meanwhile: one that seems damaged is looked at again while none does.
        let doubtful = !place.holds(&tip).await;
        let _admin = self.admin.lock().await;
        let mut committer = self.committer.lock().await;
        let Some(disk) = self.disk(index).filter(|disk| disk.in_service() && self.refusal().is_none()) else {
            return Ok(Audit::default());
        };
        match self.mend_disk(&disk, &mut committer, doubtful).await {
            Ok(found) => {
                self.tell_mended(&disk, found);
                Ok(found)
            }
            Err(unmended) => {
                match unmended {
                    Unmended::Lost => return Ok(Audit::default()),
                    Unmended::SetBack(why) => self.note_set_back(index, &why),
                    Unmended::Failed(state, why) => self.note_out(index, state, &why),
                }
                committer.leave(index);
                self.drain(&mut committer).await;
                self.refusal().map_or(Ok(Audit::default()), |_| Err(self.refused("a disk's state")))
            }
        }
    }

    async fn mend_disk(
        &self,
        disk: &Arc<PoolDisk>,
        committer: &mut Committer,
        doubtful: bool,
    ) -> Result<Audit, Unmended> {
        let position = committer.position;
        let Some(log) = committer.logs.get_mut(&disk.index) else { return Ok(Audit::default()) };
        let mut found = Audit { labels: self.mend_labels(disk, &log.place).await?, logs: 0 };
        let is_whole = async |place: &LogPlace, tip: Option<Tip>| match tip {
            Some(tip) => place.holds(&tip).await,
            None => true,
        };
        if doubtful && !is_whole(&log.place, log.tip()).await {
            // What the others can do without is copied anew rather than believed where nothing tells damage from an
            // older state.
            let away = self.pool_disks().iter().filter(|disk| !disk.in_service()).map(|disk| disk.index).collect();
            let spare = self.state().config.can_copy_anew(disk.index, &away);
            if let (Some(known), Some(shown)) = (log.tip(), log.place.find_tip().await)
                && log.place.ends_earlier(&shown, &known, spare).await
            {
                let why = format!(
                    "was set back to an older state in use: its log ends with change {}, and had all up to {}",
                    shown.position, known.position
                );
                return Err(Unmended::SetBack(why));
            }
            let checkpoint = Checkpoint::of(&self.state().config);
            log.checkpoint(position, &checkpoint, 0).await.map_err(|error| Unmended::refused(&error))?;
            found.logs = 1;
        }
        Ok(found)
    }

    /// Writes damaged labels anew, and tells how many there were.
    async fn mend_labels(&self, disk: &Arc<PoolDisk>, place: &LogPlace) -> Result<u64, Unmended> {
        let own = self.own_label(disk.id, &disk.area);
        let lost = |generation| {
            self.lose(generation);
            Unmended::Lost
        };
        match shown(&place.device, &disk.area, &own).await {
            Shown::Later(generation) => return Err(lost(generation)),
            Shown::Strange(why) => return Err(Unmended::Failed(DiskState::Failed, why)),
            Shown::Own | Shown::Damaged => {}
        }
        let mut damaged = 0;
        for offset in disk.area.labels() {
            match shown_at(&place.device, offset, &own).await {
                Shown::Own => {}
                Shown::Later(generation) => return Err(lost(generation)),
                Shown::Strange(_) | Shown::Damaged => damaged += 1,
            }
        }
        if damaged > 0 {
            label_disk(&place.device, &disk.area, &own).await.map_err(|error| Unmended::refused(&error))?;
        }
        Ok(damaged)
    }

    fn tell_mended(&self, disk: &PoolDisk, found: Audit) {
        if found.damaged() == 0 {
            return;
        }
        disk.counters.repaired.fetch_add(found.damaged(), Ordering::Relaxed);
        let labels = match found.labels {
            0 => None,
            1 => Some("a damaged label was rewritten"),
            _ => Some("both labels were damaged and were rewritten"),
        };
        let log = (found.logs > 0).then_some("its metadata log was damaged and was written anew");
        for cause in labels.into_iter().chain(log) {
            let object = self.disk_object(disk.index);
            self.emit(Severity::Warning, object, cause.into(), "watch the disk; replace it if errors continue");
        }
    }
}
