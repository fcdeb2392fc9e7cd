//! Blocks given back that no snapshot has any more.
//!
//! ```text
//!   map of owners, in the order of places ─▶ kept, and no snapshot lies in the span? ─▶ taken out, and free
//! ```
//!
//! Invariant: what may be given back stays so, whatever snapshots are made meanwhile: they are younger than any of it. So
//! one that is cut short begins anew, and one that is told to end early loses nothing.

use crate::OWNER_TREE;
use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::keys;
use crate::page::PAGE_BYTES;
use crate::scan::{Owner, give_way};
use crate::shrink::Steps;
use crate::volume::Volume;

/// Entries that one change takes out.
const AT_ONCE: usize = 32;

impl Volume {
    /// Whether destroyed snapshots have left blocks that are to be given back.
    pub fn is_to_be_reclaimed(&self) -> bool {
        self.store.snapshots.is_to_be_reclaimed()
    }

    /// Bytes that only snapshots have, or had.
    pub fn kept_bytes(&self) -> u64 {
        self.store.snapshots.kept_blocks() * holdfast_model::BLOCK_BYTES
    }

    /// Gives back what destroyed snapshots have left; answers how many bytes. Files are in use meanwhile.
    ///
    /// # Errors
    /// It was stopped, a node of the map of owners is damaged, or the device failed. What was given back by then stays so.
    pub async fn reclaim(&self, steps: &dyn Steps) -> Result<u64, VolumeError> {
        let _one = self.reclaiming.lock().await;
        let Some(removals) = self.store.snapshots.to_be_reclaimed() else { return Ok(0) };
        let (mut next, mut freed) = (Some(Vec::new()), 0);
        while let Some(from) = next {
            let (some, then) = self.store.look([OWNER_TREE], |view| self.left_over(view, &from)).await?;
            next = then;
            for places in some.chunks(AT_ONCE) {
                match self.give_back_kept(places).await {
                    // A change of fewer entries needs less room for nodes.
                    Err(error) if error.kind == ErrorKind::NoSpace => {
                        for place in places {
                            freed += self.give_back_kept(std::slice::from_ref(place)).await?;
                        }
                    }
                    done => freed += done?,
                }
            }
            let bytes = PAGE_BYTES as u64;
            steps.done(bytes);
            self.store.check_step(steps, bytes).await?;
            give_way().await;
        }
        self.store.snapshots.note_reclaimed(removals);
        Ok(freed * holdfast_model::BLOCK_BYTES)
    }

    /// Entries of one leaf of the map of owners that nothing needs any more, and where those behind the leaf begin.
    fn left_over(
        &self,
        view: &crate::change::View<'_>,
        from: &[u8],
    ) -> Result<(Vec<u64>, Option<Vec<u8>>), crate::change::Stop> {
        let (entries, next) = view.entries_from(OWNER_TREE, from)?;
        let is_left = |value: &[u8]| {
            let span = Owner::decode(value).ok().and_then(|owner| owner.kept);
            span.is_some_and(|span| !self.store.snapshots.have(span))
        };
        let left = entries.into_iter().filter(|(_, value)| is_left(value));
        Ok((left.filter_map(|(key, _)| keys::number(&key, 0)).collect(), next))
    }

    /// Takes entries out, if they are as they were; answers how many blocks that frees.
    async fn give_back_kept(&self, places: &[u64]) -> Result<u64, VolumeError> {
        let change = self.store.change([OWNER_TREE], Need::Least, |view| {
            let mut freed = 0;
            for place in places {
                let value = view.get(OWNER_TREE, &keys::owner(*place))?;
                let owner = value.and_then(|value| Owner::decode(&value).ok());
                if let Some(Owner { kept: Some(span), blocks, .. }) = owner
                    && !self.store.snapshots.have(span)
                {
                    view.remove(OWNER_TREE, keys::owner(*place))?;
                    freed += u64::from(blocks);
                }
            }
            Ok(freed)
        });
        Ok(change.await?.0)
    }
}
