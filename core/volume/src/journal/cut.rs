//! The oldest records taken out, when a journal outgrew its size, and all of them, when it is off.
//!
//! ```text
//!   size + slack reached ─▶ steps of a few records, one before each change ─▶ size reached
//! ```
//!
//! Invariant: `first` moves in the same transaction as the records before it go.

use super::switch::put_header;
use super::{Header, record_key, span_of, usn_of};
use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::store::Store;
use crate::volume::Volume;
use crate::{JOURNAL_TREE, SETTINGS_TREE, SETTINGS_TWIN};

/// Entries that one step takes out; fewer where there is no room for more.
const STEPS: [usize; 2] = [24, 1];

impl Store {
    /// Takes a few entries out of a journal that is to be cut; says whether more are left. What fails is tried again later.
    pub(crate) async fn cut_journal(&self) -> bool {
        for most in STEPS {
            match self.cut_step(most).await {
                Ok(is_more) => {
                    if !is_more {
                        self.journal.end_cut();
                    }
                    return is_more;
                }
                Err(error) if error.kind == ErrorKind::NoSpace => {}
                Err(error) if error.kind == ErrorKind::Corrupt => {
                    // What is lost is as good as cut.
                    let first = self.journal.header().map_or(0, |header| header.first);
                    for key in [vec![0], record_key(first)] {
                        if matches!(self.mend_journal(&key).await, Ok(true)) {
                            return true;
                        }
                    }
                    break;
                }
                Err(_) => break,
            }
        }
        self.journal.put_off_cut();
        false
    }

    async fn cut_step(&self, most: usize) -> Result<bool, VolumeError> {
        let trees = [SETTINGS_TREE, SETTINGS_TWIN, JOURNAL_TREE];
        self.attempt(&trees, Need::Less, |mut view, pins| {
            let Some(header) = self.journal.header() else { return Ok(false) };
            // The first record that stays.
            let stays = if header.is_on { header.next.saturating_sub(header.max_bytes) } else { u64::MAX };
            let entries = view.range(JOURNAL_TREE, &[0], b"", most)?;
            let (mut first, mut count) = (header.first, 0);
            for (key, value) in &entries {
                match usn_of(key) {
                    Some(usn) if usn < header.first => {}
                    Some(usn) if usn < stays => first = usn.saturating_add(span_of(value)).min(header.next),
                    // Notes of a journal that is off.
                    None if !header.is_on => {}
                    _ => break,
                }
                view.remove(JOURNAL_TREE, key.clone())?;
                count += 1;
            }
            if count == 0 {
                if !header.is_on && header.first < header.next {
                    put_header(&mut view, &Header { first: header.next, ..header })?;
                    view.commit(Need::Less, pins)?;
                }
                return Ok(false);
            }
            if first != header.first {
                put_header(&mut view, &Header { first, ..header })?;
            }
            view.commit(Need::Less, pins)?;
            Ok(count == most)
        })
        .await
    }
}

impl Volume {
    /// Cuts the journal as far as it is to be cut, at once; changes do it bit by bit.
    ///
    /// # Errors
    /// The volume takes no changes.
    pub async fn settle_journal(&self) -> Result<(), VolumeError> {
        self.settle_journal_some(usize::MAX).await
    }

    /// The same in so many steps at most.
    pub(crate) async fn settle_journal_some(&self, most: usize) -> Result<(), VolumeError> {
        for _ in 0..most {
            if !self.store.journal.wants_cut() {
                break;
            }
            self.store.check_failed()?;
            self.store.check_interrupted()?;
            if !self.store.cut_journal().await {
                break;
            }
            crate::scan::give_way().await;
        }
        Ok(())
    }
}
