//! Checksums that a disk lost are taken anew while the other pieces of their stripes still tell what the blocks hold: a
//! page that cannot be read leaves 2 MiB of its slab unproven, and a lost disk later would make them unreadable.

use std::sync::Arc;

use holdfast_device::IoError;

use crate::checksums::PAGE_BLOCKS;
use crate::column::Blocks;
use crate::row::Row;

use super::band_map::NOWHERE;
use super::geometry::Rows;

impl Row {
    /// Bands whose place has blocks on a page of checksums.
    pub fn bands_on_page(&self, page: u32) -> Vec<u32> {
        let depth = self.bands().geometry.depth;
        let on_page = |place: u16| {
            let first = u32::from(place) * depth;
            place != NOWHERE && first < (page + 1) * PAGE_BLOCKS && page * PAGE_BLOCKS < first + depth
        };
        let state = self.bands().lock();
        (0u32..).zip(&state.places).filter(|(_, place)| on_page(**place)).map(|(band, _)| band).collect()
    }

    /// Takes anew what lacks of the checksums of a band. Answers false where that must wait for the end of
    /// a change that was cut short.
    pub async fn prove_band(self: &Arc<Self>, band: u32, slab: usize, page: u32) -> Result<bool, IoError> {
        let geometry = self.bands().geometry;
        let _turn = self.shared_turn(band).await;
        let (place, torn) = {
            let state = self.bands().lock();
            (state.places[band as usize], state.torn.contains_key(&band))
        };
        if place == NOWHERE || !self.slabs.get(slab).usable() {
            return Ok(true);
        }
        if torn {
            return Ok(false);
        }
        for stripe in band * geometry.stripes()..(band + 1) * geometry.stripes() {
            let piece = (0..geometry.columns).find(|piece| geometry.column(stripe, *piece) == slab);
            let piece = piece.expect("every slab has a piece of every stripe");
            for (from, to) in self.held_blocks(stripe, piece) {
                let first = geometry.first_block(&Rows { stripe, place, within: 0, len: 0 });
                let start = (first + from).max(page * PAGE_BLOCKS);
                let end = (first + to).min((page + 1) * PAGE_BLOCKS);
                if start < end && self.known_sums(slab, Blocks { start, end }).await?.iter().any(Option::is_none) {
                    // Reads report what cannot be proven.
                    let rows = Rows { stripe, place, within: start - first, len: end - start };
                    let _ = self.load_pieces(rows, 1 << piece).await;
                }
            }
        }
        Ok(true)
    }
}
