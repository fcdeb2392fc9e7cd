//! Zones that nothing is in any more, taken from nodes for data, and from data for nodes.
//!
//! ```text
//!   a zone is wanted, and none is nobody's ─▶ one of the other kind that is clear? ─▶ it is nobody's
//!                                             one of nodes with few in it ─▶ these written elsewhere ─▶ clear
//! ```
//!
//! Invariant: a zone changes hands only when neither of the two newest roots has anything in it, and after a checkpoint
//! that does not have it.

use crate::TREES;
use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::store::{Store, held};

/// Checkpoints after which a zone whose nodes were written elsewhere is clear.
const CHECKPOINTS: usize = 3;

/// Who has a zone that is to be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Nodes,
    Data,
}

impl Store {
    /// Has a zone be nobody's that nothing is in; false where there is none.
    pub(crate) async fn turn_over(&self, from: Holder) -> Result<bool, VolumeError> {
        if self.give_up_clear(from).await? {
            return Ok(true);
        }
        let _one = match from {
            Holder::Nodes => self.turning.lock().await,
            Holder::Data => return Ok(false),
        };
        if self.give_up_clear(from).await? {
            return Ok(true);
        }
        // What snapshots have is not written elsewhere.
        if self.snapshots.are_any() {
            return Ok(false);
        }
        let margin = self.needed(0, Need::More);
        let sparse = held(&self.zones).close_sparse(margin);
        let Some(zone) = sparse else { return Ok(false) };
        let emptied = Box::pin(self.empty_zone_of_nodes(zone)).await;
        self.end_reading();
        if emptied.is_ok() && held(&self.zones).is_clear(zone) {
            return self.give_up_clear(from).await;
        }
        held(&self.zones).open_again(zone);
        match emptied {
            // It stays as it is.
            Err(error) if matches!(error.kind, ErrorKind::NoSpace | ErrorKind::Corrupt) => Ok(false),
            emptied => emptied.map(|()| false),
        }
    }

    /// Has nodes of a zone be written elsewhere.
    async fn empty_zone_of_nodes(&self, zone: u32) -> Result<(), VolumeError> {
        let (from, until) = (self.address_in(zone, 0), self.address_in(zone + 1, 0));
        for tree in 0..TREES {
            self.vacate_tree(tree, from..until, &NoSteps).await?;
        }
        for _ in 0..CHECKPOINTS {
            self.checkpoint().await?;
        }
        Ok(())
    }

    /// Takes a zone that is clear from those who have it.
    async fn give_up_clear(&self, from: Holder) -> Result<bool, VolumeError> {
        {
            let _no_cut = self.checkpoint.lock().await;
            self.check_failed()?;
            let margin = self.needed(0, Need::More);
            let found = match from {
                Holder::Nodes => held(&self.zones).clear_one(margin),
                Holder::Data => held(&self.rooms).leave_clear_one(),
            };
            let Some(zone) = found else { return Ok(false) };
            // Others go on meanwhile, and are given nothing of it.
            let disowned = self.disown_zones(&[zone]).await;
            held(&self.rooms).end_leaving();
            disowned?;
        }
        self.checkpoint().await?;
        Ok(true)
    }
}

/// Work that nobody waits for, nor stops.
struct NoSteps;

impl crate::shrink::Steps for NoSteps {
    fn step(&self, _: u64) -> std::pin::Pin<Box<dyn Future<Output = bool> + '_>> {
        Box::pin(async { true })
    }

    fn done(&self, _: u64) {}
}
