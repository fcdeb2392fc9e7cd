//! Data and parity, or the copies of a mirror, compared while the space is in use.

use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::{IoBuf, IoError};
use holdfast_model::{BLOCK_BYTES, Uuid};
use holdfast_parity::Kernel;

use crate::block_map::REGION_BLOCKS;
use crate::column::Blocks;
use crate::row::Row;
use crate::space::{Inner, Space};

use super::band_map::NOWHERE;
use super::geometry::{bytes_of, clear};

/// Mismatches that are told one by one.
const MOST_TOLD: usize = 1000;

/// A block that does not agree with the others that it goes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Where the data that it protects begins in the space.
    pub offset_bytes: u64,
    /// What disagrees: `P`, `Q` or a copy.
    pub piece: String,
    /// The disk that holds it.
    pub disk: Uuid,
    /// Where on that disk.
    pub disk_offset_bytes: u64,
    /// How long.
    pub len_bytes: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Bytes read and compared.
    pub checked_bytes: u64,
    /// Bytes that could not be compared, since their slab or what it is compared with is not in step or cannot be read.
    pub unchecked_bytes: u64,
    /// Blocks that do not agree.
    pub mismatched_blocks: u64,
    /// The first thousand of them.
    pub mismatches: Vec<Mismatch>,
}

impl Verified {
    fn add(&mut self, mismatch: Mismatch) {
        self.mismatched_blocks += mismatch.len_bytes / BLOCK_BYTES;
        if self.mismatches.len() < MOST_TOLD {
            self.mismatches.push(mismatch);
        }
    }
}

impl Space {
    /// Compares data and parity, or copies, throughout. Writes go on meanwhile.
    ///
    /// # Errors
    /// A row that cannot be opened.
    pub async fn verify(&self) -> Result<Verified, IoError> {
        let inner = &self.inner;
        inner.ready().await?;
        let mut found = Verified::default();
        let mut next = inner.next_chunk(0);
        while let Some(chunk) = next {
            if let Some(row) = inner.row_if_any(chunk).await? {
                if row.parity.is_some() {
                    inner.verify_bands(&row, &mut found).await;
                } else {
                    inner.verify_copies(&row, &mut found).await?;
                }
            }
            next = inner.next_chunk(chunk + 1);
        }
        Ok(found)
    }
}

impl Inner {
    async fn verify_bands(&self, row: &Arc<Row>, found: &mut Verified) {
        let geometry = row.bands().geometry;
        for band in 0..geometry.bands {
            let _turn = row.shared_turn(band).await;
            let (place, torn) = {
                let state = row.bands().lock();
                (state.places[band as usize], state.torn.contains_key(&band))
            };
            if torn {
                found.unchecked_bytes += u64::from(geometry.depth) * BLOCK_BYTES * geometry.columns as u64;
            }
            if place == NOWHERE || torn {
                continue;
            }
            for stripe in band * geometry.stripes()..(band + 1) * geometry.stripes() {
                for (start, end) in row.held_blocks(stripe, geometry.data) {
                    self.verify_stripe(row, stripe, place, (start, end), found).await;
                }
            }
        }
    }

    async fn verify_stripe(&self, row: &Arc<Row>, stripe: u32, place: u16, (start, end): (u32, u32), found: &mut Verified) {
        let geometry = row.bands().geometry;
        let len = bytes_of(end - start);
        let bytes = (len * geometry.columns) as u64;
        if !row.whole() {
            found.unchecked_bytes += bytes;
            return;
        }
        let offset = geometry.offset(stripe, start, place);
        let reads = (0..geometry.columns).map(|piece| {
            let slab = row.slabs.get(geometry.column(stripe, piece));
            slab.disk.read(slab.at(offset), IoBuf::new(len))
        });
        let pieces: Result<Vec<IoBuf>, IoError> = join_all(reads).await.into_iter().collect();
        let Ok(mut pieces) = pieces else {
            found.unchecked_bytes += bytes;
            return;
        };
        {
            let state = row.bands().lock();
            for (piece, buf) in pieces.iter_mut().enumerate().take(geometry.data) {
                clear(buf, &state.holes(geometry.block(stripe, piece, start), end - start));
            }
        }
        found.checked_bytes += bytes;
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
                let slab = row.slabs.get(geometry.column(stripe, geometry.data + index));
                let first = geometry.block(stripe, 0, start + block);
                found.add(Mismatch {
                    offset_bytes: u64::from(row.chunk) * self.record.chunk_bytes + u64::from(first) * BLOCK_BYTES,
                    piece: ["P", "Q"][index].into(),
                    disk: slab.disk.id,
                    disk_offset_bytes: slab.at(offset) + u64::from(block) * BLOCK_BYTES,
                    len_bytes: BLOCK_BYTES,
                });
            }
        }
    }

    async fn verify_copies(&self, row: &Arc<Row>, found: &mut Verified) -> Result<(), IoError> {
        if !row.mirrored() {
            return Ok(());
        }
        for column in 0..row.columns.len() {
            let blocks = row.columns[column].lock().blocks();
            for region in 0..blocks.div_ceil(REGION_BLOCKS) {
                row.resync(column, Blocks { start: region, end: region + 1 }).await?;
                let range = Blocks::of_region(region, blocks);
                let turn = row.turn(column, range).await;
                let runs: Vec<(u32, u32)> = row.columns[column].lock().written.runs(range.start, range.end).collect();
                for (start, end) in runs {
                    self.verify_run(row, column, start, end, found).await;
                }
                drop(turn);
            }
        }
        Ok(())
    }

    async fn verify_run(&self, row: &Arc<Row>, column: usize, start: u32, end: u32, found: &mut Verified) {
        let (offset, len) = (u64::from(start) * BLOCK_BYTES, bytes_of(end - start));
        let usable: Vec<usize> = row.copies_of(column).filter(|(_, slab)| slab.usable()).map(|(index, _)| index).collect();
        let reads = usable.iter().map(|index| row.slabs.get(*index).disk.read(row.slabs.get(*index).at(offset), IoBuf::new(len)));
        let copies: Vec<(usize, IoBuf)> = usable
            .iter()
            .copied()
            .zip(join_all(reads).await)
            .filter_map(|(index, read)| read.ok().map(|buf| (index, buf)))
            .collect();
        found.unchecked_bytes += ((row.copies() - copies.len()) * len) as u64;
        let Some(((_, first), others)) = copies.split_first() else { return };
        found.checked_bytes += (copies.len() * len) as u64;
        for (index, other) in others {
            for block in 0..end - start {
                let range = bytes_of(block)..bytes_of(block + 1);
                if first[range.clone()] != other[range] {
                    let slab = row.slabs.get(*index);
                    let at = offset + u64::from(block) * BLOCK_BYTES;
                    found.add(Mismatch {
                        offset_bytes: u64::from(row.chunk) * self.record.chunk_bytes
                            + crate::stripe::offset_in_chunk(row.shape(), column, at),
                        piece: format!("copy {}", index % row.copies()),
                        disk: slab.disk.id,
                        disk_offset_bytes: slab.at(at),
                        len_bytes: BLOCK_BYTES,
                    });
                }
            }
        }
    }
}
