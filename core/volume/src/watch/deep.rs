//! Whether a directory lay below the watched one when something happened in it: followed upwards, later.
//!
//! ```text
//!   directory ─▶ known? ─▶ else what happened to it since: where it was before that ─▶ upwards
//!                     └──▶ nothing did: where it is now ───────────────────────────┘
//! ```
//!
//! Invariant: what is answered is how it was at the moment of the entry. Whatever moved since waits in the queue behind it.

use super::queue::{At, Happening, Known, Place, Queue};
use crate::keys;
use crate::scan::judge;
use crate::service::FileId;
use crate::volume::{ROOT, Volume};

/// Directories above each other that are followed, at most.
const MOST_STEPS: usize = 4096;

impl Volume {
    /// Finds out which places of what happened lie below a directory.
    pub(super) async fn resolve(&self, root: FileId, queue: &Queue, happening: &Happening, at: &At) -> Known {
        let mut learned = Vec::new();
        let mut found = [false; 2];
        for (place, found) in [&happening.from, &happening.to].into_iter().zip(&mut found) {
            let Some(Place { directory, .. }) = place else { continue };
            match self.was_below(root, queue, directory.number, at, &mut learned).await {
                Some(is_below) => *found = is_below,
                None => return Known::Nothing,
            }
        }
        let [from, to] = found;
        Known::Places { from, to, learned }
    }

    /// `None` where it cannot be found out.
    async fn was_below(
        &self,
        root: FileId,
        queue: &Queue,
        directory: u64,
        at: &At,
        learned: &mut Vec<(u64, bool)>,
    ) -> Option<bool> {
        let (mut way, mut number) = (Vec::new(), directory);
        let is_below = loop {
            if let Some(is_below) = queue.is_below(at, number) {
                break is_below;
            }
            if way.len() >= MOST_STEPS {
                return None;
            }
            way.push(number);
            let look = self.store.look([keys::shard(number)], |view| judge::record(view, number));
            // Whatever happens to it from here on waits in the queue.
            let now = look.await.ok()?.filter(|record| record.links > 0).map(|record| record.link.parent);
            let parent = match queue.parent_then(at, number) {
                Some(then) => then?,
                None => now?,
            };
            if parent == number && number != ROOT {
                return None;
            }
            number = parent;
        };
        debug_assert!(number != root.number || is_below);
        learned.extend(way.into_iter().map(|number| (number, is_below)));
        Some(is_below)
    }
}
