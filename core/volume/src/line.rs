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
                    {
                        let (mut zones, mut rooms) = (held(&self.zones), held(&self.rooms));
                        if !rooms.are_kept_below(zone) {
                            return Ok(None);
                        }
                        zones.set_line(zone);
                        rooms.set_line(zone);
                    }
                    // Nodes that are promised from here on are looked for below it.
                    let needed = self.needed(0, Need::More);
                    let is_drawn = held(&self.zones).free_nodes() >= needed;
                    if !is_drawn {
                        self.lift_line();
                    }
                    Ok(Some(is_drawn))
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

    /// Has zones above the line be given out of again.
    fn lift_line(&self) {
        held(&self.zones).set_line(u32::MAX);
        held(&self.rooms).set_line(u32::MAX);
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.store.line.store(u32::MAX, Ordering::Release);
        self.store.lift_line();
    }
}
