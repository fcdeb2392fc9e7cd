//! A line through the volume: nothing is given out above it while it stands.
//!
//! Invariant: the line is drawn only where all nodes that changed so far find room below it, and all data that was
//! promised some, so that no checkpoint and no data fails for it.

use std::sync::atomic::Ordering;

use crate::TREES;
use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::store::{Store, held};

/// A line that stands until this is dropped.
pub(crate) struct Line<'a> {
    store: &'a Store,
    /// The first zone above it.
    pub zone: u32,
}

impl Store {
    /// Has nothing be given out of `zone` and those above it.
    pub(crate) async fn draw_line(&self, zone: u32) -> Result<Line<'_>, VolumeError> {
        // From here on it is taken away again whatever comes.
        let line = Line { store: self, zone };
        self.line.store(zone, Ordering::Release);
        let all: Vec<u8> = (0..TREES).collect();
        loop {
            self.checkpoint().await?;
            let is_drawn = {
                let _no_cut = self.checkpoint.lock().await;
                // With all trees held nothing changes that was promised room above.
                let drawn = self.attempt(&all, Need::Less, |_view, _| {
                    let needed = self.needed(0, Need::More);
                    let mut zones = held(&self.zones);
                    if zones.free_below(zone) < needed {
                        return Ok(Some(false));
                    }
                    let mut rooms = held(&self.rooms);
                    if !rooms.are_kept_below(zone) {
                        return Ok(None);
                    }
                    zones.set_line(zone);
                    rooms.set_line(zone);
                    Ok(Some(true))
                });
                drawn.await?
            };
            let (is_found, what) = match is_drawn {
                Some(true) => return Ok(line),
                Some(false) => (self.add_node_zone(Need::Less).await?, "metadata"),
                None => (self.add_data_zone().await?, "data that waits to be written"),
            };
            if !is_found {
                let text = format!("there is no room for {what} below the new end");
                return Err(VolumeError::new(ErrorKind::NoSpace, text));
            }
        }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.store.line.store(u32::MAX, Ordering::Release);
        held(&self.store.zones).set_line(u32::MAX);
        held(&self.store.rooms).set_line(u32::MAX);
    }
}
