//! Answers to commands: data, status, sense, and what was left over.
//!
//! ```text
//!   read that was served    Data-In, Data-In, … the last with the status        (RFC 7143 11.7)
//!   anything else           [Data-In, …] SCSI Response with the sense           (RFC 7143 11.4)
//! ```
//!
//! Invariant: no more data is sent than the initiator expects, in PDUs and sequences no longer than agreed on.

use std::ops::Range;

use holdfast_device::IoSlice;
use holdfast_scsi::{DataIn, Response, Status};

use super::Connection;
use super::tasks::Command;
use crate::memory::Share;
use crate::outbound::Pdus;
use crate::protocol::Header;
use crate::protocol::constants::*;

/// How much of what the initiator expected was not moved, as flags and a count.
fn residual(command: &Command, data_len: u64) -> (u8, u32) {
    let (moved, expected) = if command.write_len > 0 || command.wants > 0 {
        (command.wants, command.write_len)
    } else {
        (data_len, command.read_len)
    };
    let expected = u64::from(expected);
    let clamp = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    match moved {
        moved if moved > expected => (RESIDUAL_OVERFLOW, clamp(moved - expected)),
        moved if moved < expected => (RESIDUAL_UNDERFLOW, clamp(expected - moved)),
        _ => (0, 0),
    }
}

/// Data for the initiator, of which parts are sent without a copy.
enum Payload {
    Bytes(Vec<u8>),
    Block(IoSlice),
}

impl Connection {
    /// Answers a command that is not counted among those in flight any more.
    pub(super) fn respond_uncounted(&self, command: &Command, response: Response, share: Option<Share>, requests: u32) {
        let Response { status, sense, data } = response;
        let (payload, data_len) = match data {
            DataIn::None => (Payload::Bytes(Vec::new()), 0),
            DataIn::Bytes(bytes) => {
                let len = bytes.len();
                (Payload::Bytes(bytes), len)
            }
            DataIn::Block { buf, start, len } => (Payload::Block(buf.freeze().slice(start, len)), len),
        };
        let residual = residual(command, data_len as u64);
        let sent = data_len.min(command.read_len as usize);
        let sense = sense.map(|sense| sense.bytes());
        let collapsed = sent > 0 && status == Status::Good && sense.is_none();
        // What was read is held until it has left; what was written is with the disk.
        if let Some(share) = share.filter(|_| sent > 0) {
            self.writer.queue(|out| out.note.held.push(share));
        }
        let parts = self.put_data(command, &payload, sent, collapsed.then_some(residual));
        if collapsed {
            return self.leave_soon();
        }
        let header = Header::new(SCSI_RESPONSE, FLAG_FINAL | residual.0)
            .with_u8(2, RESPONSE_COMPLETED)
            .with_u8(3, status as u8)
            .with_task_tag(command.tag)
            .with_u32(36, parts.wrapping_add(requests))
            .with_u32(44, residual.1);
        let data = sense.map_or_else(Vec::new, |sense| [&(sense.len() as u16).to_be_bytes()[..], &sense].concat());
        self.put_answer(header, &data);
    }

    /// Puts data into the queue, and the status with its last part if it has one; says in how many parts.
    fn put_data(&self, command: &Command, payload: &Payload, sent: usize, status: Option<(u8, u32)>) -> u32 {
        let (mut at, mut number) = (0, 0);
        let segment = self.initiator_segment_bytes.get() as usize;
        let burst = self.parameters.max_burst_bytes as usize;
        while at < sent {
            let len = (sent - at).min(segment).min(burst - at % burst);
            let range = at..at + len;
            let last = range.end == sent;
            let ends_burst = last || range.end.is_multiple_of(burst);
            let mut header = Header::new(DATA_IN, if ends_burst { FLAG_FINAL } else { 0 })
                .with_data_bytes(len)
                .with_lun(0)
                .with_task_tag(command.tag)
                .with_transfer_tag(NO_TAG)
                .with_u32(36, number)
                .with_u32(40, at as u32);
            let status = status.filter(|_| last);
            if let Some((flags, residual)) = status {
                header = header.with_u8(1, FLAG_FINAL | DATA_IN_STATUS | flags).with_u32(44, residual);
            }
            self.put_part(header, payload, range, status.is_some());
            at += len;
            number += 1;
        }
        self.tracked.add_bytes(sent as u64);
        number
    }

    fn put_part(&self, header: Header, payload: &Payload, range: Range<usize>, status: bool) {
        let mut header = self.numbered(header, status);
        if !status {
            header = header.with_u32(24, 0);
        }
        match payload {
            Payload::Bytes(bytes) => self.queue(|out| out.pdu(&header, &bytes[range], self.digests)),
            Payload::Block(block) => {
                let part = block.slice(range.start, range.len());
                self.queue(|out| out.payload(&header, part, self.digests));
            }
        }
    }
}
