//! A session with a target.
//!
//! Invariant: the number of a status, of data, and where data belong are what they have to be, or the session fails.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use super::answer::Answer;
use super::cdb;
use super::login::{Agreed, LONGEST_DATA, Login, pairs_of};
use super::pdu::{FINAL, NO_TAG, Pdu, lun_bytes, request, response};
use super::wire::{Head, InitiatorError, Wire, broken};

/// The attribute of commands that may be done in any order.
const SIMPLE: u8 = 1;

/// A command.
#[derive(Clone, Debug)]
pub struct Command {
    /// The logical unit.
    pub lun: u16,
    /// The command itself, of up to 260 bytes.
    pub cdb: Vec<u8>,
    /// What it writes.
    pub data_out: Arc<[u8]>,
    /// Bytes that it reads at the most.
    pub read_len: usize,
}

impl Command {
    /// One that writes `data_out`, or reads `read_len` bytes, or neither.
    pub fn new(lun: u16, cdb: &[u8], data_out: impl Into<Arc<[u8]>>, read_len: usize) -> Self {
        Self { lun, cdb: cdb.to_vec(), data_out: data_out.into(), read_len }
    }
}

/// A command that is not answered yet.
struct Pending {
    lun: u16,
    data_out: Arc<[u8]>,
    data: Vec<u8>,
    /// Bytes that came so far.
    came: usize,
    data_sn: u32,
    r2t_sn: u32,
}

/// Something that a target told without being asked (RFC 7143 11.9).
#[derive(Clone, Debug)]
pub struct Event {
    /// What kind of thing.
    pub code: u8,
    /// Its three parameters.
    pub parameters: [u16; 3],
    /// Sense data, of an event of SCSI.
    pub sense: Vec<u8>,
}

/// A session.
pub struct Session {
    wire: Wire,
    agreed: Agreed,
    /// Data that go within a command, and data that go with it, without being asked for.
    immediate: usize,
    unasked: usize,
    longest_out: usize,
    next_tag: u32,
    pending: HashMap<u32, Pending>,
    answered: VecDeque<(u32, Answer)>,
    others: VecDeque<Pdu>,
    spare: Vec<Vec<u8>>,
    /// What the target told so far.
    pub events: Vec<Event>,
}

impl Session {
    /// Logs in.
    ///
    /// # Errors
    /// If the target refuses, is not there, or does not keep to the protocol.
    pub fn login(login: &Login) -> Result<Self, InitiatorError> {
        let mut wire = Wire::connect(login.address)?;
        let agreed = login.run(&mut wire)?;
        Ok(Self::over(wire, agreed))
    }

    /// Logs in to `target`, and has the unit attentions of `luns` behind it.
    ///
    /// # Panics
    /// If it cannot.
    #[track_caller]
    pub fn to(address: SocketAddr, target: &str, luns: &[u16]) -> Self {
        Self::of(&Login::new(address, target), luns)
    }

    /// Logs in, and has the unit attentions of `luns` behind it.
    ///
    /// # Panics
    /// If it cannot.
    #[track_caller]
    pub fn of(login: &Login, luns: &[u16]) -> Self {
        let mut session = Self::login(login).unwrap_or_else(|error| panic!("{}: {error}", login.address));
        luns.iter().for_each(|&lun| session.settle(lun));
        session
    }

    /// A session over a connection on which a login was done.
    pub fn over(wire: Wire, agreed: Agreed) -> Self {
        let longest_out = agreed.number("MaxRecvDataSegmentLength", 8192);
        let first_burst = agreed.number("FirstBurstLength", 65536);
        let immediate = if agreed.holds("ImmediateData", true) { first_burst.min(longest_out) } else { 0 };
        let unasked = if agreed.holds("InitialR2T", true) { immediate } else { first_burst };
        Self {
            wire,
            agreed,
            immediate,
            unasked,
            longest_out,
            next_tag: 1,
            pending: HashMap::new(),
            answered: VecDeque::new(),
            others: VecDeque::new(),
            spare: Vec::new(),
            events: Vec::new(),
        }
    }

    /// What was agreed on at login.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// The connection, for what a session does not send.
    pub fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Runs a command that moves no data.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn run(&mut self, lun: u16, cdb: &[u8]) -> Result<Answer, InitiatorError> {
        self.execute(Command::new(lun, cdb, [], 0))
    }

    /// Runs a command that reads at most `len` bytes.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn read(&mut self, lun: u16, cdb: &[u8], len: usize) -> Result<Answer, InitiatorError> {
        self.execute(Command::new(lun, cdb, [], len))
    }

    /// Runs a command that writes `data`.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn write(&mut self, lun: u16, cdb: &[u8], data: &[u8]) -> Result<Answer, InitiatorError> {
        self.execute(Command::new(lun, cdb, data, 0))
    }

    /// Runs a command.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn execute(&mut self, command: Command) -> Result<Answer, InitiatorError> {
        let tag = self.submit(command)?;
        self.answer_to(tag)
    }

    /// Sends a command, and gives its tag. Waits while the target takes no further ones.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn submit(&mut self, command: Command) -> Result<u32, InitiatorError> {
        while (self.agreed.max_cmd_sn.wrapping_sub(self.agreed.cmd_sn) as i32) < 0 {
            self.take()?;
        }
        let tag = self.new_tag();
        let Command { lun, cdb, data_out, read_len } = command;
        let first = data_out.len().min(self.immediate);
        let unasked = data_out.len().min(self.unasked);
        let direction = if read_len > 0 { 0x40 } else { 0 } | if data_out.is_empty() { 0 } else { 0x20 };
        let expected = if data_out.is_empty() { read_len } else { data_out.len() };
        let last = if unasked > first { 0 } else { FINAL };
        let mut pdu = Pdu::new(request::COMMAND, last | direction | SIMPLE)
            .for_lun(lun)
            .with(16, tag)
            .with(20, expected as u32)
            .with(24, self.agreed.cmd_sn)
            .with(28, self.agreed.exp_stat_sn);
        let short = cdb.len().min(16);
        pdu.header[32..32 + short].copy_from_slice(&cdb[..short]);
        if cdb.len() > 16 {
            let rest = &cdb[16..];
            pdu.more_header = [&(rest.len() as u16 + 1).to_be_bytes()[..], &[1, 0], rest].concat();
            pdu.more_header.resize(pdu.more_header.len().next_multiple_of(4), 0);
        }
        self.agreed.cmd_sn = self.agreed.cmd_sn.wrapping_add(1);
        let mut data = self.spare.pop().unwrap_or_default();
        data.resize(read_len, 0);
        self.wire.send_parts(pdu.header, &pdu.more_header, &data_out[..first])?;
        let sent = Arc::clone(&data_out);
        self.pending.insert(tag, Pending { lun, data_out, data, came: 0, data_sn: 0, r2t_sn: 0 });
        if unasked > first {
            self.send_data(lun, tag, NO_TAG, &sent[..unasked], first)?;
        }
        Ok(tag)
    }

    /// The next command that is answered.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn next_answer(&mut self) -> Result<(u32, Answer), InitiatorError> {
        loop {
            if let Some(answered) = self.answered.pop_front() {
                return Ok(answered);
            }
            self.take()?;
        }
    }

    /// Waits for the answer to the command `tag`.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn answer_to(&mut self, tag: u32) -> Result<Answer, InitiatorError> {
        loop {
            if let Some(at) = self.answered.iter().position(|(answered, _)| *answered == tag) {
                return Ok(self.answered.remove(at).expect("it was just found").1);
            }
            self.take()?;
        }
    }

    /// Gives back what an answer carried, to be used again.
    pub fn give_back(&mut self, data: Vec<u8>) {
        self.spare.push(data);
    }

    /// Runs TEST UNIT READY until nothing changed since.
    ///
    /// # Panics
    /// If the unit never comes to rest.
    #[track_caller]
    pub fn settle(&mut self, lun: u16) {
        let mut answers = (0..16).map(|_| self.run(lun, &cdb::TEST_UNIT_READY).expect("the session lives"));
        assert!(answers.any(|answer| answer.status == 0), "logical unit {lun} is not ready");
    }

    /// Asks for task management, and waits for the response (RFC 7143 11.6.1).
    ///
    /// # Errors
    /// If the session is lost.
    pub fn manage(&mut self, function: u8, lun: u16, referenced: u32) -> Result<u8, InitiatorError> {
        let tag = self.new_tag();
        let pdu = Pdu::new(request::MANAGE | request::IMMEDIATE, FINAL | function).for_lun(lun).with(20, referenced);
        let pdu = pdu.with(32, self.agreed.cmd_sn);
        self.send_immediate(pdu, tag)?;
        Ok(self.other(response::MANAGE, tag)?.header[2])
    }

    /// Forgets a command, which was aborted.
    pub fn forget(&mut self, tag: u32) {
        self.pending.remove(&tag);
    }

    /// Has the target answer with `data`.
    ///
    /// # Errors
    /// If it does not, or the session is lost.
    pub fn ping(&mut self, data: &[u8]) -> Result<(), InitiatorError> {
        let tag = self.new_tag();
        let pdu = Pdu::new(request::NOP | request::IMMEDIATE, FINAL).with(20, NO_TAG).carrying(data.to_vec());
        self.send_immediate(pdu, tag)?;
        let answer = self.other(response::NOP, tag)?;
        if answer.data == data { Ok(()) } else { Err(broken("it sends back other data than it was sent")) }
    }

    /// Asks which targets there are: the name of each, and its addresses.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn targets(&mut self) -> Result<Vec<(String, Vec<String>)>, InitiatorError> {
        let mut targets: Vec<(String, Vec<String>)> = Vec::new();
        for (key, value) in pairs_of(&self.text("SendTargets=All\0")?)? {
            match (key.as_str(), targets.last_mut()) {
                ("TargetName", _) => targets.push((value, Vec::new())),
                ("TargetAddress", Some((_, addresses))) => addresses.push(value),
                _ => return Err(broken(format!("{key}={value} among targets"))),
            }
        }
        Ok(targets)
    }

    /// Sends `text`, and gathers what it is answered.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn text(&mut self, text: &str) -> Result<Vec<u8>, InitiatorError> {
        let (mut all, mut more, mut handle) = (Vec::new(), text.as_bytes().to_vec(), NO_TAG);
        let mut lun = [0; 8];
        let tag = self.new_tag();
        loop {
            let mut pdu = Pdu::new(request::TEXT | request::IMMEDIATE, FINAL).with(20, handle).carrying(more);
            pdu.header[8..16].copy_from_slice(&lun);
            self.send_immediate(pdu, tag)?;
            let answer = self.other(response::TEXT, tag)?;
            all.extend(&answer.data);
            if answer.header[1] & FINAL != 0 {
                return Ok(all);
            }
            if all.len() > 4 << 20 || answer.word(20) == NO_TAG {
                return Err(broken("a text that does not end"));
            }
            (more, handle) = (Vec::new(), answer.word(20));
            lun.copy_from_slice(&answer.header[8..16]);
        }
    }

    /// Ends the session in order; the response (RFC 7143 11.15.1).
    ///
    /// # Errors
    /// If it is lost before.
    pub fn logout(&mut self) -> Result<u8, InitiatorError> {
        let tag = self.new_tag();
        self.send_immediate(Pdu::new(request::LOGOUT | request::IMMEDIATE, FINAL), tag)?;
        Ok(self.other(response::LOGOUT, tag)?.header[2])
    }

    /// Sends `pdu`, which is not numbered, by the tag `tag`.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn send_immediate(&mut self, pdu: Pdu, tag: u32) -> Result<(), InitiatorError> {
        let pdu = pdu.with(16, tag).with(24, self.agreed.cmd_sn).with(28, self.agreed.exp_stat_sn);
        self.wire.send(&pdu)
    }

    /// A tag that nothing has.
    pub fn new_tag(&mut self) -> u32 {
        self.next_tag = self.next_tag % (NO_TAG - 1) + 1;
        self.next_tag
    }

    fn other(&mut self, opcode: u8, tag: u32) -> Result<Pdu, InitiatorError> {
        loop {
            if let Some(at) = self.others.iter().position(|pdu| pdu.opcode() == opcode && pdu.tag() == tag) {
                return Ok(self.others.remove(at).expect("it was just found"));
            }
            self.take()?;
        }
    }

    /// Takes what came without having been asked for, for as long as `time`.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn listen(&mut self, time: std::time::Duration) -> Result<(), InitiatorError> {
        let end = std::time::Instant::now() + time;
        while self.wire.has_more(end.saturating_duration_since(std::time::Instant::now())) {
            self.take()?;
        }
        Ok(())
    }

    /// Takes the next PDU.
    fn take(&mut self) -> Result<(), InitiatorError> {
        let head = self.wire.receive_head()?;
        if head.header[0] & 0x3f == response::DATA {
            return self.take_data(&head);
        }
        let mut data = vec![0; head.data_len];
        self.wire.receive_data(&mut data)?;
        let pdu = Pdu { header: head.header, more_header: head.more_header, data };
        self.count_commands(&pdu);
        let unasked = pdu.opcode() == response::NOP && pdu.tag() == NO_TAG;
        if pdu.opcode() != response::R2T && !unasked {
            self.count_status(&pdu)?;
        }
        match pdu.opcode() {
            response::COMMAND => self.end(&pdu),
            response::R2T => self.transfer(&pdu),
            response::NOP if unasked => self.echo(&pdu),
            response::ASYNC => {
                let number = |at: usize| u16::from_be_bytes([pdu.header[at], pdu.header[at + 1]]);
                let sense = sense_of(&pdu.data);
                let parameters = [38, 40, 42].map(number);
                self.events.push(Event { code: pdu.header[36], parameters, sense });
                Ok(())
            }
            response::REJECT => Err(InitiatorError::Rejected(pdu.header[2])),
            response::NOP | response::MANAGE | response::TEXT | response::LOGOUT => {
                self.others.push_back(pdu);
                Ok(())
            }
            other => Err(broken(format!("a PDU of the kind {other:02x}h"))),
        }
    }

    fn count_commands(&mut self, pdu: &Pdu) {
        let max = pdu.word(32);
        if (max.wrapping_sub(self.agreed.max_cmd_sn) as i32) > 0 {
            self.agreed.max_cmd_sn = max;
        }
    }

    fn count_status(&mut self, pdu: &Pdu) -> Result<(), InitiatorError> {
        let (number, expected) = (pdu.word(24), self.agreed.exp_stat_sn);
        if number != expected {
            return Err(broken(format!("StatSN {number} instead of {expected} on {:02x}h", pdu.opcode())));
        }
        self.agreed.exp_stat_sn = number.wrapping_add(1);
        Ok(())
    }

    /// Answers a NOP-In that wants an answer.
    fn echo(&mut self, pdu: &Pdu) -> Result<(), InitiatorError> {
        if pdu.word(20) == NO_TAG {
            return Ok(());
        }
        let mut answer = Pdu::new(request::NOP | request::IMMEDIATE, FINAL).with(20, pdu.word(20));
        answer.header[8..16].copy_from_slice(&pdu.header[8..16]);
        self.send_immediate(answer.carrying(pdu.data.clone()), NO_TAG)
    }

    fn take_data(&mut self, head: &Head) -> Result<(), InitiatorError> {
        let pdu = Pdu { header: head.header, more_header: Vec::new(), data: Vec::new() };
        let pending = self.pending.get_mut(&pdu.tag()).ok_or_else(|| broken("data of no command"))?;
        let (at, end) = (pdu.word(40) as usize, pdu.word(40) as usize + head.data_len);
        if pdu.word(36) != pending.data_sn || at != pending.came || end > pending.data.len() {
            return Err(broken(format!(
                "data {} at {at}..{end}, expected was {} at {}..{}",
                pdu.word(36),
                pending.data_sn,
                pending.came,
                pending.data.len()
            )));
        }
        if head.data_len > LONGEST_DATA as usize {
            return Err(broken("more data in a PDU than we take"));
        }
        self.wire.receive_data(&mut pending.data[at..end])?;
        (pending.came, pending.data_sn) = (end, pending.data_sn + 1);
        self.count_commands(&pdu);
        if pdu.header[1] & 1 != 0 {
            self.count_status(&pdu)?;
            return self.finish(&pdu, Vec::new());
        }
        Ok(())
    }

    fn end(&mut self, pdu: &Pdu) -> Result<(), InitiatorError> {
        if pdu.header[2] != 0 {
            return Err(broken(format!("it could not complete a command: {:02x}h", pdu.header[2])));
        }
        self.finish(pdu, sense_of(&pdu.data))
    }

    fn finish(&mut self, pdu: &Pdu, sense: Vec<u8>) -> Result<(), InitiatorError> {
        let tag = pdu.tag();
        let mut pending = self.pending.remove(&tag).ok_or_else(|| broken("an answer to no command"))?;
        let count = i64::from(pdu.word(44));
        let residual = match pdu.header[1] & 6 {
            0 => 0,
            2 => count,
            4 => -count,
            _ => return Err(broken("more and less data than expected at once")),
        };
        let status = pdu.header[3];
        let missing = (pending.data.len() - pending.came) as i64;
        if missing != residual.max(0) && status == 0 && pending.data_out.is_empty() {
            return Err(broken(format!("{missing} bytes did not come, the residual is {residual}")));
        }
        pending.data.truncate(pending.came);
        self.answered.push_back((tag, Answer { status, sense, data: pending.data, residual }));
        Ok(())
    }

    /// Sends what an R2T asks for.
    fn transfer(&mut self, pdu: &Pdu) -> Result<(), InitiatorError> {
        let (at, len) = (pdu.word(40) as usize, pdu.word(44) as usize);
        let pending = self.pending.get_mut(&pdu.tag()).ok_or_else(|| broken("an R2T of no command"))?;
        if pdu.word(36) != pending.r2t_sn || len == 0 || at + len > pending.data_out.len() {
            return Err(broken(format!("R2T {} for {len} bytes at {at}", pdu.word(36))));
        }
        pending.r2t_sn += 1;
        let (lun, data) = (pending.lun, Arc::clone(&pending.data_out));
        self.send_data(lun, pdu.tag(), pdu.word(20), &data[..at + len], at)
    }

    /// Sends `data` from `from` on, by the tag of the command and that of the target.
    fn send_data(&mut self, lun: u16, tag: u32, target: u32, data: &[u8], from: usize) -> Result<(), InitiatorError> {
        let (mut at, mut number) = (from, 0);
        while at < data.len() {
            let end = data.len().min(at + self.longest_out);
            let last = if end == data.len() { FINAL } else { 0 };
            let out = Pdu::new(request::DATA, last).with(16, tag).with(20, target).with(28, self.agreed.exp_stat_sn);
            let mut out = out.with(36, number).with(40, at as u32);
            out.header[8..16].copy_from_slice(&lun_bytes(lun));
            self.wire.send_parts(out.header, &[], &data[at..end])?;
            (at, number) = (end, number + 1);
        }
        Ok(())
    }
}

/// Sense data, which stand behind their length.
fn sense_of(data: &[u8]) -> Vec<u8> {
    let len = data.get(..2).map_or(0, |len| usize::from(u16::from_be_bytes([len[0], len[1]])));
    data.get(2..2 + len).map(<[u8]>::to_vec).unwrap_or_default()
}
