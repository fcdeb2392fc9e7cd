//! What snapshots keep counted anew, while changes and checkpoints go on.
//!
//! ```text
//!   map of owners   ├── counted ──┤── not yet ────────┤
//!                        ▲         ▲
//!    changes here: counted, too    the next leaf is counted, and the end of what is counted moves
//!
//!   the last leaf ─▶ under the same locks: what is told is what was found, and what the trees lack of it is written next
//! ```
//!
//! Invariant: while the map of owners is locked, what was found is what all of it before `next` keeps. A leaf is counted
//! under that lock, as is each change of what was counted; what a change does behind it the walk comes to see.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::change::{Stop, View};
use crate::error::VolumeError;
use crate::scan::{give_way, kept_of, readable};
use crate::snapshots::told_kept;
use crate::store::{Store, held};
use crate::transaction::Operation;
use crate::{OWNER_TREE, SNAPSHOT_TREE};

/// By the end of their spans: blocks that are kept.
type Blocks = BTreeMap<u64, u64>;

/// What was counted so far.
#[derive(Default)]
struct Tally {
    /// Keys before this one are counted.
    next: Vec<u8>,
    found: Blocks,
}

/// A count that may be under way.
#[derive(Default)]
pub(crate) struct Recount {
    is_on: AtomicBool,
    tally: Mutex<Option<Tally>>,
    /// Held by the one that is.
    one: tokio::sync::Mutex<()>,
}

/// Ends a count, however it goes.
struct Begun<'a>(&'a Recount);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// What a step of a count came to.
enum Step {
    /// There is more.
    More(Vec<u8>),
    /// All was counted; whether it was told otherwise.
    Over(bool),
    /// What it counts changed in another way than it can follow.
    Lost,
}

impl Recount {
    fn begin(&self) -> Begun<'_> {
        *held(&self.tally) = Some(Tally::default());
        self.is_on.store(true, Ordering::Release);
        Begun(self)
    }

    /// Has a count that is under way come to nothing.
    pub fn give_up(&self) {
        self.is_on.store(false, Ordering::Release);
        *held(&self.tally) = None;
    }

    /// Whether changes of the map of owners are to be told.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Operations that are about to be made to the map of owners, which is locked; `before` looks up what a key has.
    pub fn follow<'a, E>(
        &self,
        operations: impl Iterator<Item = &'a Operation>,
        before: impl Fn(&[u8]) -> Result<Option<Vec<u8>>, E>,
    ) {
        // What is said last of a key counts.
        let last: BTreeMap<&[u8], Option<&[u8]>> =
            operations.map(|Operation { key, value, .. }| (key.as_slice(), value.as_deref())).collect();
        let mut tally = held(&self.tally);
        let Some(Tally { next, found }) = tally.as_mut() else { return };
        let mut is_followed = true;
        for (key, after) in last.range(..next.as_slice()) {
            let Ok(before) = before(key) else {
                is_followed = false;
                break;
            };
            if let Some((span, blocks)) = kept_of(key, before.as_deref()) {
                let counted = found.entry(span.death).or_default();
                is_followed &= *counted >= blocks.into();
                *counted = counted.saturating_sub(blocks.into());
            }
            if let Some((span, blocks)) = kept_of(key, *after) {
                *found.entry(span.death).or_default() += u64::from(blocks);
            }
        }
        if !is_followed {
            *tally = None;
        }
    }
}

impl Store {
    /// Counts what is kept for snapshots anew; answers whether it was counted wrong, or nothing where that cannot be known.
    pub(crate) async fn recount_kept(&self) -> Result<Option<bool>, VolumeError> {
        let _one = self.recount.one.lock().await;
        let begun = self.recount.begin();
        let mut from = Vec::new();
        let was_wrong = loop {
            self.check_interrupted()?;
            match readable(self.look([OWNER_TREE], |view| self.recount_leaf(view, &from)).await)? {
                Some(Step::More(next)) => from = next,
                Some(Step::Over(was_wrong)) => break was_wrong,
                Some(Step::Lost) | None => return Ok(None),
            }
            give_way().await;
        };
        drop(begun);
        if was_wrong {
            self.checkpoint().await?;
        }
        Ok(Some(was_wrong))
    }

    /// Counts the leaf that a key is in, from the key on; with the last one what is told is put right.
    fn recount_leaf(&self, view: &View<'_>, from: &[u8]) -> Result<Step, Stop> {
        let mut leaf = Blocks::new();
        let next = view.visit(OWNER_TREE, from, |key, value| {
            if let Some((span, blocks)) = kept_of(key, Some(value)) {
                *leaf.entry(span.death).or_default() += u64::from(blocks);
            }
            ControlFlow::Continue(())
        })?;
        let stored = match next {
            Some(_) => Vec::new(),
            None => view.range(SNAPSHOT_TREE, b"", b"", usize::MAX)?,
        };
        // From here on nothing is missed any more, so what is counted is counted once.
        let mut tally = held(&self.recount.tally);
        let Some(under_way) = tally.as_mut() else { return Ok(Step::Lost) };
        leaf.into_iter().for_each(|(end, blocks)| *under_way.found.entry(end).or_default() += blocks);
        if let Some(next) = next {
            under_way.next.clone_from(&next);
            return Ok(Step::More(next));
        }
        let found = tally.take().unwrap_or_default().found;
        let stored = stored.iter().filter_map(|(key, value)| told_kept(key, value)).collect();
        Ok(Step::Over(self.snapshots.put_right(&found, &stored)))
    }
}
