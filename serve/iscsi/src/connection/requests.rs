//! PDUs by what they ask for, and their turn.
//!
//! ```text
//!   header ─▶ turn? ─ ignored: outside of the window
//!                   ├ early: kept until those before it came
//!                   └ now ─▶ SCSI command, data | task management | text, NOP, logout | reject
//! ```
//!
//! Invariant: what is not immediate is served in the order of its numbers, each number once.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use holdfast_device::reactor::clock;

use super::tasks::Gathering;
use super::{Connection, End};
use crate::inbound::{Inbound, Place};
use crate::protocol::Header;
use crate::protocol::constants::*;
use crate::window::Turn;

/// Data of a PDU that is no payload.
const SMALL_BYTES: usize = 64 << 10;
/// The same where it waits for its turn.
const EARLY_BYTES: usize = 8 << 10;

/// A PDU whose data is being received.
pub(super) enum Arrival {
    /// A write command with its first data.
    Command(Box<Gathering>, Header),
    /// Data of a write.
    Data(Box<Gathering>, Header),
    /// Anything else.
    Small(Header, Vec<u8>),
}

impl Place for Arrival {
    fn space(&mut self) -> &mut [u8] {
        match self {
            Self::Command(gathering, _) | Self::Data(gathering, _) => gathering.prepared.data_out(),
            Self::Small(_, data) => data,
        }
    }
}

/// What waits for its turn.
pub(super) enum Early {
    /// A command in the table of tasks.
    Task(u32),
    /// Another PDU, and since when.
    Pdu(Header, Vec<u8>, Duration),
    /// A number that was given up before it came.
    Nothing,
}

impl Connection {
    /// Takes up a PDU of which the header is there.
    pub(super) fn header(
        self: &Rc<Self>,
        header: Header,
        additional: &[u8],
        inbound: &mut Inbound<Arrival>,
    ) -> Result<(), End> {
        match header.opcode() {
            SCSI_COMMAND => self.command(header, additional, inbound),
            DATA_OUT => {
                self.data_out(header, inbound);
                Ok(())
            }
            _ if header.data_bytes() > SMALL_BYTES => Err(End::Protocol("a PDU without payload carries too much data")),
            _ if header.data_bytes() > 0 => {
                let data = vec![0; header.data_bytes()];
                inbound.begin(Arrival::Small(header, data), 0, usize::MAX);
                Ok(())
            }
            _ => self.small(header, Vec::new()),
        }
    }

    /// The data of a PDU is there.
    pub(super) fn arrived(self: &Rc<Self>, arrival: Arrival) -> Result<(), End> {
        self.arriving.set(None);
        match arrival {
            Arrival::Command(gathering, _) => self.advance(gathering),
            Arrival::Data(gathering, header) => {
                self.data_came.set(true);
                self.accepted(gathering, &header);
            }
            Arrival::Small(header, data) => return self.small(header, data),
        }
        Ok(())
    }

    /// The data of a PDU is there, and its digest is wrong (RFC 7143 7.8).
    pub(super) fn damaged(self: &Rc<Self>, arrival: Arrival) -> Result<(), End> {
        self.arriving.set(None);
        match arrival {
            Arrival::Data(gathering, header) => {
                self.reject(&header, REJECT_DATA_DIGEST);
                self.terminate(gathering, super::data::CRC_ERROR);
                Ok(())
            }
            Arrival::Command(_, header) | Arrival::Small(header, _) => {
                // What it asked for is unknown, so that its number would stay open for ever.
                self.reject(&header, REJECT_DATA_DIGEST);
                Err(End::Protocol("the digest of data is wrong"))
            }
        }
    }

    /// A PDU without payload is whole.
    fn small(self: &Rc<Self>, header: Header, data: Vec<u8>) -> Result<(), End> {
        let numbered = matches!(header.opcode(), NOP_OUT | TASK_MANAGEMENT | TEXT | LOGOUT);
        if !numbered || header.immediate() {
            self.perform(&header, &data)?;
            // It may have given a number up that was still to come.
            return self.call_early();
        }
        let mut window = self.window.get();
        match window.look(header.cmd_sn()) {
            Turn::Ignored => Ok(()),
            Turn::Early if data.len() > EARLY_BYTES => Err(End::Protocol("too much data came before its turn")),
            Turn::Early => {
                let early = Early::Pdu(header, data, self.now.get());
                self.early.borrow_mut().entry(header.cmd_sn()).or_insert(early);
                Ok(())
            }
            Turn::Now => {
                window.pass();
                self.window.set(window);
                self.perform(&header, &data)?;
                self.call_early()
            }
        }
    }

    /// Takes up what waited for its turn, as far as it has come.
    pub(super) fn call_early(self: &Rc<Self>) -> Result<(), End> {
        loop {
            let mut window = self.window.get();
            let early = self.early.borrow_mut().remove(&window.expected());
            match early {
                None => return Ok(()),
                Some(Early::Task(tag)) => {
                    window.take();
                    self.window.set(window);
                    match self.tasks.take_gathering(tag) {
                        Some(mut gathering) => {
                            gathering.early = false;
                            self.advance(gathering);
                        }
                        // Aborted meanwhile.
                        None => self.end_command(),
                    }
                }
                Some(Early::Pdu(header, data, _)) => {
                    window.pass();
                    self.window.set(window);
                    self.perform(&header, &data)?;
                }
                Some(Early::Nothing) => {
                    window.pass();
                    self.window.set(window);
                }
            }
        }
    }

    /// A command that was in flight is over.
    pub(super) fn end_command(&self) {
        let mut window = self.window.get();
        window.ended();
        self.window.set(window);
    }

    /// Serves a PDU without payload whose turn it is.
    fn perform(self: &Rc<Self>, header: &Header, data: &[u8]) -> Result<(), End> {
        match header.opcode() {
            NOP_OUT => self.nop_out(header, data),
            TASK_MANAGEMENT => self.manage(header),
            TEXT => self.text(header, data),
            LOGOUT => self.logout(header),
            // Without error recovery nothing is sent again.
            SNACK => self.reject(header, REJECT_SNACK),
            LOGIN => return Err(End::Protocol("a login came in the middle of a session")),
            _ => self.reject(header, REJECT_NOT_SUPPORTED),
        }
        Ok(())
    }

    /// A question or an answer whether the other side is there (RFC 7143 11.18).
    fn nop_out(&self, header: &Header, data: &[u8]) {
        if header.task_tag() == NO_TAG {
            if self.ping.get() == Some(header.transfer_tag()) {
                self.ping.set(None);
            }
            return;
        }
        let data = &data[..data.len().min(self.initiator_segment_bytes.get() as usize)];
        let answer = Header::new(NOP_IN, FLAG_FINAL)
            .with_lun(header.lun())
            .with_task_tag(header.task_tag())
            .with_transfer_tag(NO_TAG);
        self.put_answer(answer, data);
    }

    /// The initiator wants to leave (RFC 7143 11.14).
    fn logout(self: &Rc<Self>, header: &Header) {
        let response = match header.flags() & 0x7f {
            LOGOUT_SESSION => LOGOUT_DONE,
            LOGOUT_CONNECTION if header.u16(20) == self.cid => LOGOUT_DONE,
            LOGOUT_CONNECTION => LOGOUT_NO_CONNECTION,
            LOGOUT_RECOVERY => LOGOUT_NO_RECOVERY,
            _ => return self.reject(header, REJECT_INVALID_FIELD),
        };
        if response == LOGOUT_DONE {
            self.abort_all();
        }
        let answer = Header::new(LOGOUT_RESPONSE, FLAG_FINAL).with_u8(2, response).with_task_tag(header.task_tag());
        let answer = answer.with_u16(40, self.parameters.time_to_wait);
        match response {
            LOGOUT_DONE => self.logout.set(Some(answer)),
            _ => self.put_answer(answer, &[]),
        }
    }

    /// Answers a logout when nothing that was begun has an effect any more: whoever hears of it may count on that.
    pub(super) async fn finish_logout(&self, answer: Header) {
        if let Some(nexus) = &self.nexus {
            select(pin!(nexus.quiesce()), clock().sleep(self.settings.drain_timeout)).await;
        }
        self.put_answer(answer, &[]);
        self.flush();
    }
}
