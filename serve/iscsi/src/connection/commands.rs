//! SCSI commands: their memory, their data, their service.
//!
//! ```text
//!   command ─▶ memory ─▶ Nexus::prepare ─▶ data there? ─ no: requests for it, the table of tasks
//!                 └ none: TASK SET FULL        └ yes ─▶ Nexus::start ─┬ answered at once ─▶ respond
//!                                                                     └ later: a task     ─▶ respond
//! ```
//!
//! Invariants: a command is started once, when its turn has come and all its data is there. What it takes of the memory
//! is held until its answer has left, or until it is gone where it is aborted: nobody gets more by aborting.

use std::rc::Rc;

use holdfast_device::reactor::{current, spawn_local};
use holdfast_scsi::{Outcome, Over, Prepared, Response, task_set_full};

use super::requests::{Arrival, Early};
use super::tasks::{Command, Gathering, Task};
use super::{Connection, End};
use crate::inbound::Inbound;
use crate::memory::Share;
use crate::protocol::Header;
use crate::protocol::constants::*;
use crate::transfer::{Rules, Transfer};
use crate::window::Turn;

/// The longest CDB.
const CDB_BYTES: usize = 260;

impl Connection {
    /// Takes up a command of which the header is there.
    pub(super) fn command(
        self: &Rc<Self>,
        header: Header,
        additional: &[u8],
        inbound: &mut Inbound<Arrival>,
    ) -> Result<(), End> {
        let cmd_sn = header.cmd_sn();
        let mut early = false;
        if !header.immediate() {
            let mut window = self.window.get();
            match window.look(cmd_sn) {
                Turn::Ignored => return Ok(()),
                Turn::Early if self.early.borrow().contains_key(&cmd_sn) => return Ok(()),
                Turn::Early => early = true,
                Turn::Now => {
                    window.take();
                    self.window.set(window);
                }
            }
        }
        let flags = header.flags();
        let expected = header.u32(20);
        let (reads, writes) = (flags & COMMAND_READ != 0, flags & COMMAND_WRITE != 0);
        let additional = Additional::read(additional);
        let command = Command {
            tag: header.task_tag(),
            lun: header.lun(),
            cmd_sn,
            immediate: header.immediate(),
            read_len: match (reads, writes) {
                (true, false) => expected,
                (true, true) => additional.read_len,
                _ => 0,
            },
            write_len: if writes { expected } else { 0 },
            wants: 0,
        };
        let crowd = command.immediate && self.tasks.len() >= 2 * self.settings.tasks.max(1) as usize;
        let problem = if self.nexus.is_none() {
            Some(REJECT_PROTOCOL)
        } else if self.tasks.has(command.tag) {
            Some(REJECT_TASK_IN_PROGRESS)
        } else if additional.wrong || command.tag == NO_TAG || (header.data_bytes() > 0 && !writes) {
            Some(REJECT_INVALID_FIELD)
        } else if crowd {
            Some(REJECT_OUT_OF_RESOURCES)
        } else {
            None
        };
        if let Some(reason) = problem {
            if early {
                return Err(End::Protocol("a command came before its turn that cannot be kept"));
            }
            if !command.immediate {
                self.end_command();
            }
            self.reject(&header, reason);
            return self.call_early();
        }
        self.prepare(command, &header, &additional.cdb(&header), early, inbound)?;
        if early { Ok(()) } else { self.call_early() }
    }

    fn prepare(
        self: &Rc<Self>,
        mut command: Command,
        header: &Header,
        cdb: &[u8],
        early: bool,
        inbound: &mut Inbound<Arrival>,
    ) -> Result<(), End> {
        let Some(nexus) = &self.nexus else { return Ok(()) };
        let mut prepared = nexus.prepare(command.lun, cdb, command.read_len, command.write_len);
        command.wants = prepared.data_out().len() as u64;
        // What it takes, whatever its initiator expects. Those that were aborted count until they are gone.
        let free = self.carried.get() < self.settings.tasks.max(1);
        let share = free.then(|| self.memory.take(prepared.most_bytes(command.read_len))).flatten();
        let Some(share) = share else {
            if early {
                return Err(End::Protocol("a command came before its turn that there is no memory for"));
            }
            self.respond(&command, task_set_full(), None, 0);
            return Ok(());
        };
        let wanted = command.wants.min(command.write_len.into()) as u32;
        let data = header.data_bytes() as u32;
        let rules = Rules {
            burst: self.parameters.max_burst_bytes,
            first_burst: self.parameters.first_burst_bytes,
            unsolicited: !self.parameters.initial_r2t,
            outstanding: self.parameters.max_outstanding_r2t,
        };
        let allowed = data == 0 || self.parameters.immediate_data;
        let more = command.write_len > 0 && !header.has(FLAG_FINAL);
        let transfer = Transfer::new(rules, wanted, command.write_len, data, more).ok().filter(|_| allowed);
        let Some(transfer) = transfer else {
            if early {
                return Err(End::Protocol("a command came before its turn with data that nobody asked for"));
            }
            self.respond(&command, super::data::UNSOLICITED.response(), Some(share), 0);
            return Ok(());
        };
        if early {
            self.early.borrow_mut().insert(command.cmd_sn, Early::Task(command.tag));
        }
        if data == 0 && !early && transfer.is_whole() {
            self.start(command, prepared, share, 0);
            return Ok(());
        }
        let gathering = Box::new(Gathering { command, prepared, share, transfer, early, since: self.now.get() });
        if data == 0 {
            self.advance(gathering);
        } else {
            self.arriving.set(Some((gathering.since, wanted.into())));
            inbound.begin(Arrival::Command(gathering, *header), 0, wanted as usize);
        }
        Ok(())
    }

    /// Goes on with a command: starts it if all is there, asks for more data, or lets it wait.
    pub(super) fn advance(self: &Rc<Self>, mut gathering: Box<Gathering>) {
        if !gathering.early {
            if gathering.transfer.is_whole() {
                let Gathering { command, prepared, share, transfer, .. } = *gathering;
                return self.start(command, prepared, share, transfer.requests());
            }
            self.solicit(&mut gathering);
        }
        self.tasks.insert(Task::Gathering(gathering));
    }

    fn start(self: &Rc<Self>, command: Command, prepared: Prepared, share: Share, requests: u32) {
        let Some(nexus) = &self.nexus else { return };
        if command.write_len > 0 {
            self.tracked.count_write(command.write_len.into());
            self.tracked.add_bytes(command.write_len.into());
        } else if command.read_len > 0 {
            self.tracked.count_read(command.read_len.into());
        }
        match nexus.start(prepared) {
            Outcome::Answered(response) => self.respond(&command, response, Some(share), requests),
            Outcome::Later(running) => {
                let (connection, over) = (self.clone(), running.over());
                let mut holding = Holding { connection: self.clone(), held: Some((share, running.gone())) };
                let handle = spawn_local(async move {
                    let response = running.await;
                    let share = holding.answered();
                    connection.tasks.remove(command.tag);
                    connection.note_in_flight();
                    connection.respond(&command, response, share, requests);
                });
                if !handle.is_finished() {
                    self.tasks.insert(Task::Running(command, handle, over));
                    self.note_in_flight();
                }
            }
        }
    }

    pub(super) fn note_in_flight(&self) {
        self.tracked.set_in_flight(self.tasks.len() as u32);
    }

    /// Ends a task by sense data of the transport.
    pub(super) fn terminate(&self, gathering: Box<Gathering>, fault: super::data::Fault) {
        let Gathering { command, share, transfer, early, .. } = *gathering;
        if early {
            // It is answered for before its turn; the number is free when that comes.
            self.early.borrow_mut().insert(command.cmd_sn, Early::Nothing);
            return self.respond_uncounted(&command, fault.response(), Some(share), transfer.requests());
        }
        self.respond(&command, fault.response(), Some(share), transfer.requests());
    }

    /// Ends tasks without an answer: those of a unit, or all.
    pub(super) fn abort(&self, lun: Option<u64>) {
        for task in self.tasks.take(lun) {
            drop(self.forget(task));
        }
        self.note_in_flight();
    }

    /// Ends all tasks without an answer.
    pub(super) fn abort_all(&self) {
        self.abort(None);
    }

    /// A task that was taken out of the table is never answered. Answers when it is over, where it had begun.
    pub(super) fn forget(&self, task: Task) -> Option<Over> {
        let command = *task.command();
        let over = match task {
            Task::Running(_, handle, over) => {
                handle.abort();
                Some(over)
            }
            // Its number stays among the early ones, and passes when its turn comes.
            Task::Gathering(gathering) if gathering.early => return None,
            Task::Gathering(_) => None,
        };
        if !command.immediate {
            self.end_command();
        }
        over
    }

    /// Answers a command.
    pub(super) fn respond(&self, command: &Command, response: Response, share: Option<Share>, requests: u32) {
        if !command.immediate {
            self.end_command();
        }
        self.respond_uncounted(command, response, share, requests);
    }
}

/// The memory of a command under way. Where that is aborted, it is held until the command is gone.
struct Holding {
    connection: Rc<Connection>,
    held: Option<(Share, Over)>,
}

impl Holding {
    /// The command is answered: its memory is that of the answer.
    fn answered(&mut self) -> Option<Share> {
        self.held.take().map(|(share, _)| share)
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let Some((share, gone)) = self.held.take() else { return };
        if current().is_none() {
            return;
        }
        let connection = self.connection.clone();
        connection.carried.set(connection.carried.get() + 1);
        spawn_local(async move {
            gone.await;
            drop(share);
            connection.carried.set(connection.carried.get() - 1);
        });
    }
}

/// What additional headers say (RFC 7143 11.2.2).
#[derive(Default)]
struct Additional<'a> {
    rest_of_cdb: &'a [u8],
    read_len: u32,
    wrong: bool,
}

impl<'a> Additional<'a> {
    fn read(mut bytes: &'a [u8]) -> Self {
        let mut found = Self::default();
        while let Some((head, rest)) = bytes.split_first_chunk::<4>() {
            // The length counts the byte behind the type.
            let len = usize::from(u16::from_be_bytes([head[0], head[1]]));
            let whole = len.saturating_sub(1).next_multiple_of(4);
            let Some(body) = rest.get(..whole).filter(|_| len > 0) else {
                found.wrong = true;
                return found;
            };
            match head[2] {
                AHS_EXTENDED_CDB if len - 1 <= CDB_BYTES - 16 => found.rest_of_cdb = &body[..len - 1],
                AHS_READ_LENGTH if len == 5 => {
                    found.read_len = u32::from_be_bytes([body[0], body[1], body[2], body[3]]);
                }
                _ => found.wrong = true,
            }
            bytes = &rest[whole..];
        }
        found
    }

    fn cdb(&self, header: &Header) -> Cdb {
        let mut bytes = [0; CDB_BYTES];
        bytes[..16].copy_from_slice(&header.0[32..]);
        bytes[16..16 + self.rest_of_cdb.len()].copy_from_slice(self.rest_of_cdb);
        Cdb { bytes, len: 16 + self.rest_of_cdb.len() }
    }
}

struct Cdb {
    bytes: [u8; CDB_BYTES],
    len: usize,
}

impl std::ops::Deref for Cdb {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
