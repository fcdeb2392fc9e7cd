//! Turns at the bands of a row, and places that are kept while they are read.
//!
//! Invariant: who changes what is in the place of a band has its turn alone; who puts lost pieces together shares it.

use std::sync::Arc;
use std::task::Poll;

use crate::row::Row;

use super::BandState;

/// The right to look at a band, or to change what is in its place.
pub struct BandTurn {
    row: Arc<Row>,
    id: u64,
}

impl Drop for BandTurn {
    fn drop(&mut self) {
        self.row.bands().lock().lines.leave(self.id);
    }
}

/// Keeps a place from being used anew.
pub struct PlaceInUse {
    row: Arc<Row>,
    place: u16,
}

impl Drop for PlaceInUse {
    fn drop(&mut self) {
        self.row.bands().lock().readers[usize::from(self.place)] -= 1;
    }
}

impl Row {
    /// Waits for the right to change what is in the place of a band.
    pub async fn band_turn(self: &Arc<Self>, band: u32) -> BandTurn {
        let entered = self.bands().lock().lines.enter(band, band + 1);
        self.granted(entered).await
    }

    /// Waits until what is in the place of a band does not change, and keeps it so.
    pub async fn shared_turn(self: &Arc<Self>, band: u32) -> BandTurn {
        let entered = self.bands().lock().lines.enter_shared(band, band + 1);
        self.granted(entered).await
    }

    /// Waits until nothing of a band is on its way into the journal.
    pub async fn log_done(&self, band: u32) {
        std::future::poll_fn(|context| {
            let mut state = self.bands().lock();
            if state.logging.contains(&band) {
                state.log_waiters.push(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    async fn granted(self: &Arc<Self>, (id, granted): (u64, bool)) -> BandTurn {
        let turn = BandTurn { row: self.clone(), id };
        if !granted {
            std::future::poll_fn(|context| match self.bands().lock().lines.poll(id, context.waker()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
        turn
    }
}

impl BandState {
    /// Keeps the place of a band from being used anew while it is read.
    pub fn use_place(&mut self, row: &Arc<Row>, place: u16) -> PlaceInUse {
        self.readers[usize::from(place)] += 1;
        PlaceInUse { row: row.clone(), place }
    }
}
