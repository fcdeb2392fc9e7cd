//! Work on several things side by side, none of which holds up another.
//!
//! Invariant: on one thing at most one work is under way.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use holdfast_model::Uuid;

/// What is under way.
#[derive(Default)]
pub(super) struct SideBySide<'a> {
    works: FuturesUnordered<BoxFuture<'a, Uuid>>,
    busy: BTreeSet<Uuid>,
}

impl<'a> SideBySide<'a> {
    /// Begins work on a thing, unless some is under way there.
    pub(super) fn begin(&mut self, on: Uuid, work: impl Future<Output = ()> + Send + 'a) {
        if self.busy.insert(on) {
            self.works.push(work.map(move |()| on).boxed());
        }
    }

    /// Takes the works on, until one of them has ended; for ever where there is none. It may be dropped at any time.
    pub(super) async fn ended(&mut self) {
        match self.works.next().await {
            Some(on) => _ = self.busy.remove(&on),
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_does_not_end_holds_up_itself_alone() {
        let (stuck, other) = (Uuid::new_v4(), Uuid::new_v4());
        let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mut works = SideBySide::default();
        for round in 1..=3 {
            works.begin(stuck, async {
                begun.fetch_add(1, Ordering::SeqCst);
                std::future::pending().await
            });
            works.begin(other, async { _ = done.fetch_add(1, Ordering::SeqCst) });
            works.ended().await;
            assert_eq!((begun.load(Ordering::SeqCst), done.load(Ordering::SeqCst)), (1, round));
        }
        assert!(works.ended().now_or_never().is_none(), "the other still waits");
        assert!(SideBySide::default().ended().now_or_never().is_none(), "nothing ends where nothing is");
    }
}
