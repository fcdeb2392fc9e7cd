//! Data and parity, compared.

use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::{IoBuf, IoError};
use holdfast_model::BLOCK_BYTES;
use holdfast_parity::Kernel;

use crate::pace::Ended;
use crate::parity::{NOWHERE, bytes_of, clear};
use crate::row::Row;

use super::found::Mismatch;
use super::{STEP_BYTES, Scrub};

impl Scrub<'_> {
    /// Compares data and parity of a row.
    pub(super) async fn bands(&mut self, row: &Arc<Row>) -> Result<(), Ended> {
        let geometry = row.bands().geometry;
        let most = (STEP_BYTES / (BLOCK_BYTES * geometry.columns as u64)).max(1) as u32;
        for stripe in 0..geometry.bands * geometry.stripes() {
            let mut start = 0;
            while start < geometry.unit {
                let end = (start + most).min(geometry.unit);
                let bytes = (bytes_of(end - start) * geometry.columns) as u64;
                let held = row.held_blocks(stripe, geometry.data).iter().any(|held| held.0 < end && start < held.1);
                if held {
                    self.pace.step(bytes).await?;
                    self.rows(row, stripe, (start, end)).await;
                }
                self.pace.done(bytes);
                start = end;
            }
        }
        Ok(())
    }

    async fn rows(&mut self, row: &Arc<Row>, stripe: u32, (start, end): (u32, u32)) {
        let geometry = row.bands().geometry;
        let band = stripe / geometry.stripes();
        let _turn = row.shared_turn(band).await;
        let (place, torn) = {
            let state = row.bands().lock();
            (state.places[band as usize], state.torn.contains_key(&band))
        };
        for (from, to) in row.held_blocks(stripe, geometry.data) {
            let (from, to) = (from.max(start), to.min(end));
            if from >= to || place == NOWHERE {
                continue;
            }
            if torn {
                self.found.unchecked_bytes += (bytes_of(to - from) * geometry.columns) as u64;
                continue;
            }
            self.stripe(row, stripe, place, (from, to)).await;
        }
    }

    async fn stripe(&mut self, row: &Arc<Row>, stripe: u32, place: u16, (start, end): (u32, u32)) {
        let geometry = row.bands().geometry;
        let len = bytes_of(end - start);
        let bytes = (len * geometry.columns) as u64;
        if !row.whole() {
            self.found.unchecked_bytes += bytes;
            return;
        }
        let offset = geometry.offset(stripe, start, place);
        let reads = (0..geometry.columns).map(|piece| {
            let slab = &row.slabs[geometry.column(stripe, piece)];
            slab.disk.read(slab.at(offset), IoBuf::new(len))
        });
        let pieces: Result<Vec<IoBuf>, IoError> = join_all(reads).await.into_iter().collect();
        let Ok(mut pieces) = pieces else {
            self.found.unchecked_bytes += bytes;
            return;
        };
        {
            let state = row.bands().lock();
            for (piece, buf) in pieces.iter_mut().enumerate().take(geometry.data) {
                clear(buf, &state.holes(geometry.block(stripe, piece, start), end - start));
            }
        }
        self.found.checked_bytes += bytes;
        for block in 0..end - start {
            let range = bytes_of(block)..bytes_of(block + 1);
            let data: Vec<Option<&[u8]>> = pieces[..geometry.data].iter().map(|buf| Some(&buf[range.clone()])).collect();
            let p = &pieces[geometry.data][range.clone()];
            let agrees = match pieces.get(geometry.data + 1) {
                Some(q) => {
                    let agreement = Kernel::best().check_pq(&data, p, &q[range.clone()]);
                    vec![agreement.p, agreement.q]
                }
                None => vec![Kernel::best().check_p(&data, p)],
            };
            for (index, _) in agrees.iter().enumerate().filter(|(_, agrees)| !**agrees) {
                let slab = &row.slabs[geometry.column(stripe, geometry.data + index)];
                let first = geometry.block(stripe, 0, start + block);
                self.found.add(Mismatch {
                    offset_bytes: u64::from(row.chunk) * self.inner.record.chunk_bytes + u64::from(first) * BLOCK_BYTES,
                    piece: ["P", "Q"][index].into(),
                    disk: slab.disk.id,
                    disk_offset_bytes: slab.at(offset) + u64::from(block) * BLOCK_BYTES,
                    len_bytes: BLOCK_BYTES,
                });
            }
        }
    }
}
