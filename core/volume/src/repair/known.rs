//! What the last scan found, repaired without reading anything else of the volume: what takes the volume away from its
//! users takes as long as there are findings, however many files there are.
//!
//! ```text
//!   what cannot be read ─▶ names at wrong slots ─▶ all other names and extents ─▶ kept: what is left for repair in use
//! ```
//!
//! Invariant: a finding that was kept is a hint, never a fact. Each is decided again before anything is changed, so one
//! that is old, made up or repaired before a power cut changes nothing.

use std::cell::OnceCell;

use futures_util::stream::{self, StreamExt};

use crate::error::{ErrorKind, VolumeError};
use crate::keys;
use crate::repair::{Repaired, Spotfixed};
use crate::verbs::Verb;
use crate::volume::Volume;

/// Parts that are repaired at once, and the findings of each: neighbours share nodes, so they go one after the other.
const AT_ONCE: usize = 16;
const OF_PART: usize = 32;

/// The order of repairs: names find their slots before files are taken for nameless ones.
fn rank(verb: &Verb) -> u8 {
    match verb {
        Verb::RecordLost { .. } => 0,
        Verb::Unreadable { .. } => 1,
        Verb::WrongSlot { .. } => 2,
        _ => 3,
    }
}

/// Where a finding stands in the order of keys: trees that are repaired in that order are read and written once.
fn place(verb: &Verb) -> (u8, [u64; 3]) {
    let numbers = verb.numbers();
    (keys::shard(numbers[0]), numbers)
}

/// Whether a repair may read much, and is made while the volume is in use.
fn is_for_later(verb: &Verb) -> bool {
    use Verb::{Bitmap, Count, KeptWrong, Leak, NodeFree, NodeLeak, OwnerAlone, QuotaWrong, SharerAlone};
    matches!(
        verb,
        Count { .. }
            | Leak { .. }
            | Bitmap { .. }
            | OwnerAlone { .. }
            | NodeFree { .. }
            | NodeLeak { .. }
            | QuotaWrong { .. }
            | KeptWrong { .. }
            | SharerAlone { .. }
    )
}

/// Whether no other finding can be repaired, either.
fn is_end(error: &VolumeError) -> bool {
    matches!(error.kind, ErrorKind::ReadOnly | ErrorKind::NoSpace | ErrorKind::Busy)
}

impl Volume {
    /// Repairs what the last scan found as far as that needs no other part of the volume to be read; `None`, with
    /// nothing done, where nothing was found or a finding needs more. What is left is repaired in use: a scan afterwards
    /// tells what that is. Nobody may use the volume meanwhile.
    ///
    /// # Errors
    /// Files are open, no room, or the device failed.
    pub async fn spotfix_known(&self) -> Result<Option<Spotfixed>, VolumeError> {
        self.close_left().await;
        if self.open.are_used() {
            return Err(VolumeError::new(ErrorKind::Busy, "files of the volume are open: close them first"));
        }
        let _held_back = self.hold_back().await;
        let mut verbs = match self.findings().await {
            Ok(known) => known,
            Err(error) if error.kind == ErrorKind::Corrupt => return Ok(None),
            Err(error) => return Err(error),
        };
        if verbs.is_empty() || verbs.iter().any(Verb::needs_all) {
            return Ok(None);
        }
        let mut done = Spotfixed::default();
        verbs.sort_by_key(|verb| (rank(verb), place(verb)));
        for some in verbs.chunk_by(|one, other| rank(one) == rank(other)) {
            // While one waits for the device, others are repaired. What has begun is not dropped.
            let end = OnceCell::new();
            let parts = stream::iter(some.chunks(OF_PART)).map(|part| self.repair_part(part, &end));
            let mut parts = std::pin::pin!(parts.buffered(AT_ONCE));
            while let Some(Spotfixed { fixed, left }) = parts.next().await {
                done.fixed += fixed;
                done.left.extend(left);
            }
            if let Some(error) = end.get() {
                return Err(error.clone());
            }
        }
        self.keep_verbs(&done.left).await?;
        self.checkpoint().await?;
        Ok(Some(done))
    }

    /// Repairs findings one after the other, until an error says that no other can be repaired, either.
    async fn repair_part(&self, verbs: &[Verb], end: &OnceCell<VolumeError>) -> Spotfixed {
        let mut done = Spotfixed::default();
        for verb in verbs {
            if end.get().is_some() {
                break;
            }
            match self.repair_known(verb).await {
                Ok((fixed, left)) => {
                    done.fixed += fixed;
                    done.left.extend(left);
                }
                Err(error) if is_end(&error) => _ = end.set(error),
                Err(_) => done.left.push(verb.clone()),
            }
        }
        done
    }

    async fn repair_known(&self, verb: &Verb) -> Result<(u64, Option<Verb>), VolumeError> {
        self.store.check_interrupted()?;
        let done = match verb {
            verb if is_for_later(verb) => return Ok((0, Some(verb.clone()))),
            Verb::Unreadable { tree, key } => self.repair_unreadable(*tree, key).await?,
            Verb::RecordLost { directory, slot, name } => self.restore_record(*directory, *slot, name, verb).await?,
            verb => return self.repair_some(verb).await,
        };
        Ok((u64::from(done == Repaired::Fixed), None))
    }
}
