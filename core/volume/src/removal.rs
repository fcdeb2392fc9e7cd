//! Files that lost their last name: removed at once where little is to be done, else noted, and removed in steps.
//!
//! ```text
//!   last name gone ─▶ small, not open: all its keys in the same change
//!                 └─▶ noted as deferred ─▶ nobody has it open ─▶ keys in steps, the record and the note last
//!                                                             └─▶ no room for that: late, and tried again
//! ```
//!
//! Invariants: a file without a name is open, or known to somebody who has it stay, or noted; opening a volume ends what is noted. What a full volume could not end
//! is tried again by the maintenance, and before others are refused for want of room.

use crate::DEFERRED_TREE;
use crate::change::{Need, Stop, View};
use crate::error::{ErrorKind, VolumeError};
use crate::keys::{self, kind};
use crate::open_files::OpenFiles;
use crate::record::Record;
use crate::scan::judge;
use crate::service::FileId;
use crate::store::held;
use crate::volume::Volume;

/// Keys that one change takes out, at most.
pub(crate) const KEYS_AT_ONCE: usize = 24;
/// How much one change takes out: less where there is no room for more.
const STEPS: [usize; 3] = [KEYS_AT_ONCE, 4, 1];
/// What is deferred, as the note's value says.
const REMOVE: u8 = 1;
const CUT: u8 = 2;

/// What is left to do for a file that lost a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    /// Nothing: it has other names, is gone, or is open.
    Nothing,
    /// What of its data waits for a place needs none.
    Gone(u64),
    /// Its keys are to be taken out.
    Deferred(u64),
}

fn note(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A file lost its last name. Up to `most` keys are taken out at once, unless somebody who knows it has it stay (`is_left`).
pub(crate) fn bury(
    view: &mut View<'_>,
    open: &OpenFiles,
    (id, is_left): (FileId, bool),
    record: Record,
    most: usize,
) -> Result<Removed, Stop> {
    let shard = keys::shard(id.number);
    let is_open = is_left || open.is_used(id.number);
    let own = id.number.to_be_bytes();
    let all = view.range(shard, &own, &own, most + 1)?;
    if !is_open && all.len() <= most {
        for (key, _) in all {
            view.remove(shard, key)?;
        }
        return Ok(if open.get(id.number).is_some() { Removed::Gone(id.number) } else { Removed::Nothing });
    }
    let links = keys::prefix(id.number, kind::LINK);
    for (key, _) in view.range(shard, &links, &links, KEYS_AT_ONCE)? {
        view.remove(shard, key)?;
    }
    let record = Record { links: 0, link: Default::default(), ..record };
    view.put(shard, keys::record(id.number), record.encode())?;
    view.put(DEFERRED_TREE, note(id.number), vec![REMOVE])?;
    Ok(if is_open { Removed::Nothing } else { Removed::Deferred(id.number) })
}

/// Notes that a file without a name exists as long as it is open.
pub(crate) fn defer(view: &mut View<'_>, number: u64) -> Result<(), Stop> {
    view.put(DEFERRED_TREE, note(number), vec![REMOVE])
}

/// Notes that what lies beyond the end of a file is to be given back.
pub(crate) fn defer_cut(view: &mut View<'_>, number: u64) -> Result<(), Stop> {
    view.put(DEFERRED_TREE, note(number), vec![CUT])
}

/// A file that was noted has a name again, or was cut.
pub(crate) fn keep(view: &mut View<'_>, number: u64) -> Result<(), Stop> {
    view.remove(DEFERRED_TREE, note(number))
}

/// Whether a file is noted to be removed.
fn is_removed(view: &View<'_>, number: u64) -> Result<bool, Stop> {
    Ok(view.get(DEFERRED_TREE, &note(number))?.as_deref() == Some(&[REMOVE]))
}

impl Volume {
    /// Makes a change that gives room back, of as much at once as there is room for: on a full volume, of one key.
    pub(crate) async fn give_back<T>(
        &self,
        trees: &[u8],
        mut attempt: impl FnMut(&mut View<'_>, usize) -> Result<T, Stop>,
    ) -> Result<(T, u64), VolumeError> {
        let mut refused = None;
        for most in STEPS {
            match self.store.change(trees, Need::Less, |view| attempt(view, most)).await {
                Err(error) if error.kind == ErrorKind::NoSpace => refused = Some(error),
                done => return done,
            }
        }
        Err(refused.expect("each try was refused"))
    }

    pub(crate) async fn finish_removal(&self, removed: Removed) -> Result<(), VolumeError> {
        match removed {
            Removed::Nothing => Ok(()),
            Removed::Gone(number) => {
                Box::pin(self.discard(number)).await;
                Ok(())
            }
            Removed::Deferred(number) => {
                Box::pin(async move {
                    self.discard(number).await;
                    let removed = self.remove_keys(number).await;
                    self.note_late(number, removed)
                })
                .await
            }
        }
    }

    /// Takes a file out that is noted, unless it has a name or is open again.
    pub(crate) async fn remove_keys(&self, number: u64) -> Result<(), VolumeError> {
        let shard = keys::shard(number);
        let trees = [shard, DEFERRED_TREE];
        loop {
            let (is_over, _) = self
                .give_back(&trees, |view, most| {
                    if judge::record(view, number)?.is_some_and(|record| record.links > 0) {
                        // A note is no reason to remove what has names.
                        keep(view, number)?;
                        return Ok(true);
                    }
                    let is_kept = self.open.get(number).is_some() || self.remembered.has_left(number);
                    if is_kept || !is_removed(view, number)? {
                        return Ok(true);
                    }
                    let from = keys::prefix(number, kind::RECORD + 1);
                    let own = number.to_be_bytes();
                    let some = view.range(shard, &from, &own, most + 1)?;
                    let is_last = some.len() < most;
                    for (key, _) in some.into_iter().take(most) {
                        view.remove(shard, key)?;
                    }
                    if is_last {
                        view.remove(shard, keys::record(number))?;
                        keep(view, number)?;
                    }
                    Ok(is_last)
                })
                .await?;
            if is_over {
                return Ok(());
            }
        }
    }

    /// Remembers a file for which there was no room to end what is noted of it.
    fn note_late<T>(&self, number: u64, done: Result<T, VolumeError>) -> Result<T, VolumeError> {
        if done.as_ref().is_err_and(|error| error.kind == ErrorKind::NoSpace) {
            held(&self.late).insert(number);
        }
        done
    }

    /// Ends what is noted for a file that nobody uses, and has the journal close it. Neither keeps the other from its end.
    pub(crate) async fn end_unused(&self, number: u64) -> Result<(), VolumeError> {
        match self.finish_note(number, false).await {
            Ok(()) => self.note_closed(number).await,
            Err(error) => Box::pin(self.close_unended(number, error)).await,
        }
    }

    /// Has the journal close a file of which something stays noted.
    pub(crate) async fn close_unended(&self, number: u64, error: VolumeError) -> Result<(), VolumeError> {
        let failed = self.note_late(number, Err(error));
        self.note_closed(number).await?;
        failed
    }

    /// Tries again what there was no room for, until there is none again. No tree may be held, nor a checkpoint be kept from
    /// being made.
    pub(crate) async fn finish_late(&self) {
        loop {
            let Some(number) = held(&self.late).pop_first() else { return };
            // One that is used again is ended when it is closed.
            if self.open.get(number).is_some() {
                continue;
            }
            let ended = Box::pin(self.end_unused(number)).await;
            if ended.is_err_and(|error| error.kind == ErrorKind::NoSpace) {
                return;
            }
        }
    }

    /// Ends what is noted for a file that the caller holds alone (`is_held`) or nobody uses, if anything is. What is left
    /// when somebody opens the latter stays noted.
    pub(crate) async fn finish_note(&self, number: u64, is_held: bool) -> Result<(), VolumeError> {
        let key = note(number);
        match self.store.look([DEFERRED_TREE], |view| view.get(DEFERRED_TREE, &key)).await?.as_deref() {
            None => Ok(()),
            Some(&[CUT]) => Box::pin(self.cut_beyond_end(number, is_held)).await,
            Some(_) => Box::pin(self.remove_keys(number)).await,
        }
    }

    /// Ends what an earlier opening left noted. What cannot be ended now stays noted, and keeps no other from its end.
    pub(crate) async fn finish_deferred(&self) -> Result<(), VolumeError> {
        for (key, what) in self.store.range(DEFERRED_TREE, b"", usize::MAX).await? {
            let Some(number) = keys::number(&key, 0) else {
                return Err(VolumeError::corrupt("a note of what is to be removed names no file"));
            };
            let done = match what[..] {
                [CUT] => self.cut_beyond_end(number, false).await,
                _ => self.remove_keys(number).await,
            };
            let done = self.note_late(number, done);
            if done.is_err() {
                self.store.check_failed()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
