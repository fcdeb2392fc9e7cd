//! Data of writes: what comes, and what is asked for.
//!
//! Invariant: data of a task that is there no longer passes without a word, for its initiator may still have been sending
//! when the task ended.

use std::rc::Rc;

use holdfast_scsi::{Code, Response, Sense, SenseKey};

use super::Connection;
use super::requests::Arrival;
use super::tasks::Gathering;
use crate::inbound::Inbound;
use crate::outbound::Pdus;
use crate::protocol::Header;
use crate::protocol::constants::*;
use crate::transfer::{Part, TransferFault};

/// What the transport ends a task by (RFC 7143 11.4.7.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault(Code);

/// Data came that nobody asked for.
pub(super) const UNSOLICITED: Fault = Fault(Code(0x0c, 0x0c));
/// More or less data came than was asked for.
const AMOUNT: Fault = Fault(Code(0x0c, 0x0d));
/// Data was damaged or lost on the way.
pub(super) const CRC_ERROR: Fault = Fault(Code(0x47, 0x05));

impl Fault {
    pub(super) fn response(self) -> Response {
        Response::check(Sense::new(SenseKey::AbortedCommand, self.0))
    }
}

impl From<TransferFault> for Fault {
    fn from(fault: TransferFault) -> Self {
        match fault {
            TransferFault::Unsolicited => UNSOLICITED,
            TransferFault::Amount => AMOUNT,
            TransferFault::Sequence => CRC_ERROR,
        }
    }
}

impl Connection {
    /// Takes up data of which the header is there.
    pub(super) fn data_out(self: &Rc<Self>, header: Header, inbound: &mut Inbound<Arrival>) {
        let Some(mut gathering) = self.tasks.take_gathering(header.task_tag()) else { return };
        let part = Part {
            tag: header.transfer_tag(),
            number: header.u32(36),
            offset: header.u32(40),
            len: header.data_bytes() as u32,
            last: header.has(FLAG_FINAL),
        };
        if let Err(fault) = gathering.transfer.accept(part) {
            return self.terminate(gathering, fault.into());
        }
        if part.len == 0 {
            return self.accepted(gathering, &header);
        }
        // What the initiator sends on its own may be more than the command wants.
        let wanted = gathering.prepared.data_out().len().saturating_sub(part.offset as usize);
        let at = (part.offset as usize).min(gathering.prepared.data_out().len());
        self.arriving.set(Some((gathering.since, u64::from(gathering.transfer.missing()) + u64::from(part.len))));
        inbound.begin(Arrival::Data(gathering, header), at, wanted);
    }

    /// Data is there, where it belongs.
    pub(super) fn accepted(self: &Rc<Self>, gathering: Box<Gathering>, _header: &Header) {
        self.advance(gathering);
    }

    /// Asks for data, as much as may be asked for at once.
    pub(super) fn solicit(&self, gathering: &mut Gathering) {
        let command = gathering.command;
        while let Some(request) = gathering.transfer.solicit(|| self.new_transfer_tag()) {
            let header = Header::new(READY_TO_TRANSFER, FLAG_FINAL)
                .with_lun(command.lun)
                .with_task_tag(command.tag)
                .with_transfer_tag(request.tag)
                .with_u32(36, request.number)
                .with_u32(40, request.offset)
                .with_u32(44, request.len);
            let header = self.numbered(header, false);
            self.put(|out| out.pdu(&header, &[], self.digests));
        }
    }
}
