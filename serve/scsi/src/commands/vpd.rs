//! Vital product data: the pages of INQUIRY (SPC-4 7.8, SBC-3 6.6).
//!
//! Invariant: the pages that page 00h lists are those that are served, in order, and limits are those that commands keep.

use holdfast_model::BLOCK_BYTES;

use crate::copy;
use crate::identity;
use crate::limits;
use crate::sense::Sense;
use crate::task::Task;

type Page = fn(&Task) -> Option<Vec<u8>>;

const PAGES: &[(u8, Page)] = &[
    (0x80, serial),
    (0x83, names),
    (0x86, extended),
    (0x8f, third_party_copy),
    (0xb0, block_limits),
    (0xb1, characteristics),
    (0xb2, provisioning),
];

/// A page with its header.
pub(super) fn page(task: &Task, code: u8) -> Result<Vec<u8>, Sense> {
    let body = match code {
        0x00 => {
            let offered = PAGES.iter().filter(|(_, body)| body(task).is_some());
            Some([0x00].into_iter().chain(offered.map(|(code, _)| *code)).collect())
        }
        code => PAGES.iter().find(|(other, _)| *other == code).and_then(|(_, body)| body(task)),
    };
    let body = body.ok_or(Sense::cdb(2))?;
    Ok(identity::page(code, &body))
}

fn serial(task: &Task) -> Option<Vec<u8>> {
    Some(identity::serial(task.unit().settings().id).into_bytes())
}

fn names(task: &Task) -> Option<Vec<u8>> {
    let device = &task.nexus.device;
    Some(identity::names(task.unit().settings().id, device.name(), &device.ports(), &task.nexus.id.target))
}

fn extended(_: &Task) -> Option<Vec<u8>> {
    let mut body = vec![0; 60];
    // Simple tasks: the other attributes order nothing here.
    body[1] = 0x01;
    // A volatile cache.
    body[2] = 0x01;
    // What was cleared in one unit is told there alone.
    body[3] = 0x01;
    Some(body)
}

fn third_party_copy(task: &Task) -> Option<Vec<u8>> {
    copy::vpd_page(task.unit())
}

fn block_limits(task: &Task) -> Option<Vec<u8>> {
    let unit = task.unit();
    let blocks = |bytes: u64| bytes / unit.block_bytes();
    let u32_of = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes();
    let mut body = vec![0; 60];
    body[1] = blocks(limits::COMPARE_AND_WRITE_BYTES).min(255) as u8;
    body[2..4].copy_from_slice(&(blocks(BLOCK_BYTES) as u16).to_be_bytes());
    body[4..8].copy_from_slice(&u32_of(blocks(limits::TRANSFER_BYTES)));
    let optimal = u64::from(unit.target().info().optimal_io_bytes).min(limits::TRANSFER_BYTES);
    body[8..12].copy_from_slice(&u32_of(blocks(optimal)));
    body[12..16].copy_from_slice(&u32_of(blocks(limits::TRANSFER_BYTES)));
    let provisioning = unit.provisioning();
    if provisioning.is_thin {
        body[16..20].copy_from_slice(&u32_of(limits::UNMAP_BLOCKS));
        body[20..24].copy_from_slice(&limits::UNMAP_DESCRIPTORS.to_be_bytes());
        body[24..28].copy_from_slice(&u32_of(blocks(provisioning.granularity_bytes)));
        body[28] = 0x80;
    }
    body[32..40].copy_from_slice(&limits::WRITE_SAME_BLOCKS.to_be_bytes());
    Some(body)
}

fn characteristics(task: &Task) -> Option<Vec<u8>> {
    let mut body = vec![0; 60];
    let rotational = task.unit().target().info().geometry.rotational;
    body[0..2].copy_from_slice(&u16::from(!rotational).to_be_bytes());
    Some(body)
}

fn provisioning(task: &Task) -> Option<Vec<u8>> {
    let unit = task.unit();
    let provisioning = unit.provisioning();
    if !provisioning.is_thin {
        return Some(vec![0; 4]);
    }
    let reads_zeros = if provisioning.reads_zeros { 0x04 } else { 0 };
    let percent = unit.room().map_or(0, |room| room.threshold_percent.min(100));
    // UNMAP, WRITE SAME with UNMAP in both lengths, anchored blocks; thin.
    Some(vec![unit.threshold_exponent(), 0xe2 | reads_zeros, 0x02, percent])
}
