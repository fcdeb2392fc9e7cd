//! A node of the journal that cannot be read, taken out of its tree: the journal begins behind what it held.
//!
//! What the journal holds is in no other place, and readers know how to go on without it: they look at all files once. So
//! a lost node is no reason to refuse changes of files, nor to take the volume away for a repair.
//!
//! Invariant: no record is believed to follow one that it does not follow: whatever is lost lies before `first`.

use super::switch::put_header;
use super::{Header, NOTE, record_key, usn_of};
use std::sync::Arc;

use crate::cache::NodeCache;
use crate::change::{Need, Stop, View};
use crate::error::{ErrorKind, VolumeError};
use crate::graft::Graft;
use crate::page::Page;
use crate::store::Store;
use crate::tree::{Missing, Tree};
use crate::{JOURNAL_TREE, SETTINGS_TREE, SETTINGS_TWIN};

/// A node that is lost: where it stands, and the keys that it covers.
struct Lost {
    address: u64,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

/// The node on the way to a key that cannot be read, if there is one.
fn lost_on_way(tree: &Tree, key: &[u8], cache: &NodeCache) -> Result<Option<Lost>, Missing> {
    let lost = |missing, low: &[u8], high: Option<&[u8]>| match missing {
        Missing::Node(node) if !cache.is_lost(node) => Err(missing),
        Missing::Node(node) | Missing::Misplaced(node) => {
            Ok(Some(Lost { address: node.address, low: low.to_vec(), high: high.map(<[u8]>::to_vec) }))
        }
    };
    let mut look = match tree.top(cache) {
        Ok(Some(look)) => look,
        Ok(None) => return Ok(None),
        Err(missing) => return lost(missing, b"", None),
    };
    while look.page().level() > 0 {
        let index = look.page().child_of(key);
        let next = match look.child(index, cache) {
            Ok(next) => next,
            Err(missing) => {
                let page = look.page();
                let high = if index + 1 < page.count() { Some(page.key(index + 1)) } else { page.high() };
                return lost(missing, page.key(index), high);
            }
        };
        look = next;
    }
    Ok(None)
}

impl Store {
    /// Takes the node on the way to a key out of the journal if it cannot be read; says whether there was one.
    pub(crate) async fn mend_journal(&self, key: &[u8]) -> Result<bool, VolumeError> {
        self.check_failed()?;
        let found = self.attempt(&[JOURNAL_TREE], Need::Sure, |mut view, _| {
            let tree = view.tree(JOURNAL_TREE);
            let Some(lost) = lost_on_way(tree, key, &self.cache)? else { return Ok(None) };
            tree.graft(lost.address, &lost.low, Graft::Empty, &self.cache)?;
            Ok(Some(lost))
        });
        let Some(Lost { low, high, .. }) = found.await? else { return Ok(false) };
        self.journal.forget_notes();
        if low.first() != Some(&NOTE) {
            self.begin_journal_behind(high.as_deref().and_then(usn_of)).await?;
        }
        Ok(true)
    }

    /// Has the journal begin at a position, or behind all that it has.
    pub(crate) async fn begin_journal_behind(&self, usn: Option<u64>) -> Result<(), VolumeError> {
        let trees = [SETTINGS_TREE, SETTINGS_TWIN, JOURNAL_TREE];
        let begin = self.attempt(&trees, Need::Less, |mut view, pins| {
            let Some(header) = self.journal.header() else { return Ok(()) };
            let first = usn.map_or(header.next, |usn| usn.min(header.next)).max(header.first);
            put_header(&mut view, &Header { first, ..header })?;
            view.commit(Need::Less, pins).map(drop)
        });
        begin.await?;
        self.journal.forget_notes();
        self.journal.want_cut();
        Ok(())
    }

    /// Makes a change that is recorded. If the journal is to be cut, a few of its records go first; if it alone cannot be
    /// read, it is mended, and the change is tried again.
    pub(crate) async fn change_recorded<T>(
        &self,
        trees: &[u8],
        need: Need,
        mut attempt: impl FnMut(&mut View<'_>) -> Result<T, Stop>,
    ) -> Result<(T, u64), VolumeError> {
        if self.journal.wants_cut() {
            self.cut_journal().await;
        }
        let trees = [trees, &[JOURNAL_TREE]].concat();
        let mut make = |mut view: View<'_>, pins: &mut Vec<Arc<Page>>| {
            let answer = attempt(&mut view)?;
            Ok((answer, view.commit(need, pins)?))
        };
        match self.attempt(&trees, need, &mut make).await {
            Err(error) if error.kind == ErrorKind::Corrupt => {
                if !self.mend_journal_end().await? {
                    return Err(error);
                }
                self.attempt(&trees, need, make).await
            }
            made => made,
        }
    }

    /// Has changes find the end of the journal, and the notes, as far as nodes on the way are lost; says whether some were.
    pub(crate) async fn mend_journal_end(&self) -> Result<bool, VolumeError> {
        let Some(header) = self.journal.header().filter(|header| header.is_on) else { return Ok(false) };
        let mut were_lost = false;
        for key in [record_key(header.next), vec![NOTE], vec![NOTE; 9]] {
            were_lost |= self.mend_journal(&key).await?;
        }
        Ok(were_lost)
    }
}
