//! The login of one connection (RFC 7143 6.3), without any I/O.
//!
//! ```text
//!   login PDU ─▶ header: stage, tags ─▶ text, joined over the C bit ─▶ keys
//!                                                    ┌─ who: names, session type     login/leading
//!                                                    ├─ SecurityNegotiation          login/security, login/chap
//!                                                    └─ LoginOperationalNegotiation  parameters
//!             ◀─ Step: the answer, and what then ────┘
//! ```
//!
//! Invariant: a login that must prove a name is past the security stage only with the proof, whatever stages and keys it
//! sends in whatever order.

pub mod chap;
mod leading;
mod security;
mod status;
pub(crate) mod throttle;

use std::time::Duration;

use crate::account::Account;
use crate::parameters::Parameters;
use crate::protocol::Header;
use crate::protocol::constants::*;
use crate::protocol::text::{self, TextError};
use leading::Leading;
use security::Security;
pub use status::{LoginStatus, Refusal};

/// Exchanges of one login at most.
const EXCHANGES: u32 = 64;

/// What a login is told of the way to its target.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// What people call the target.
    pub alias: Option<String>,
    /// The portal group; 0 in discovery.
    pub group: u16,
    /// By what the initiator must prove its name, if it must.
    pub chap: Option<Account>,
    /// By what the target proves its own.
    pub mutual: Option<Account>,
}

/// Why there is no way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// There is no such target at this address.
    NoTarget,
    /// The initiator may not log in to it.
    NotAllowed,
}

/// What a login asks of the server.
pub trait Gate {
    /// The way of an initiator to a target, or to discovery.
    fn way(&self, initiator: &str, target: Option<&str>) -> Result<Way, Closed>;
    /// Whether there is a session of this number and this initiator.
    fn has_session(&self, tsih: u16, initiator: &str, isid: [u8; 6]) -> bool;
    /// An account is about to be proven: how long the answer waits, or none if it is refused.
    fn attempt(&self, user: &str) -> Option<Duration>;
    /// Whether it was proven.
    fn attempted(&self, user: &str, right: bool);
}

/// What a login came to.
#[derive(Clone, Debug)]
pub struct Agreed {
    /// The initiator's name.
    pub initiator: String,
    /// What people call it.
    pub initiator_alias: Option<String>,
    /// The number that it gave the session.
    pub isid: [u8; 6],
    /// The target; none in discovery.
    pub target: Option<String>,
    /// The portal group.
    pub group: u16,
    /// The account that was proven.
    pub user: Option<String>,
    /// Its fingerprint.
    pub proven: Option<[u8; 32]>,
    /// Whether the target proved its name too.
    pub mutual: bool,
    /// What was agreed on.
    pub parameters: Parameters,
    /// The number of the first command.
    pub cmd_sn: u32,
    /// The number of the connection.
    pub cid: u16,
}

/// What then.
#[derive(Debug)]
pub enum Then {
    /// The login goes on.
    Continue,
    /// It is over, and the answer lets the initiator in: it still lacks the number of the session.
    Enter(Box<Agreed>),
    /// It failed.
    Close(Refusal),
}

/// The answer to a login PDU.
#[derive(Debug)]
pub struct Step {
    /// Its header.
    pub header: Header,
    /// Its text.
    pub text: Vec<u8>,
    /// How long it waits.
    pub delay: Duration,
    /// What then.
    pub then: Then,
}

/// What the first PDU fixed for all.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fixed {
    isid: [u8; 6],
    tsih: u16,
    task_tag: u32,
    cid: u16,
}

impl Fixed {
    fn of(header: &Header) -> Self {
        let mut isid = [0; 6];
        isid.copy_from_slice(&header.0[8..14]);
        Self { isid, tsih: header.u16(14), task_tag: header.task_tag(), cid: header.u16(20) }
    }
}

/// A login under way.
pub struct Login {
    limit_bytes: usize,
    bytes: usize,
    exchanges: u32,
    stage: Option<u8>,
    fixed: Option<Fixed>,
    cmd_sn: u32,
    stat_sn: u32,
    text: Vec<u8>,
    seen: Vec<String>,
    leading: Option<Leading>,
    alias: Option<String>,
    security: Security,
    parameters: Parameters,
    declared: bool,
}

impl Login {
    /// One that may send so many bytes of text.
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            bytes: 0,
            exchanges: 0,
            stage: None,
            fixed: None,
            cmd_sn: 0,
            stat_sn: 1,
            text: Vec::new(),
            seen: Vec::new(),
            leading: None,
            alias: None,
            security: Security::default(),
            parameters: Parameters::default(),
            declared: false,
        }
    }

    /// The number of the next status.
    pub fn stat_sn(&self) -> u32 {
        self.stat_sn
    }

    /// The initiator, as far as it is known.
    pub fn initiator(&self) -> &str {
        self.leading.as_ref().map_or("", |leading| &leading.initiator)
    }

    /// The target that was asked for.
    pub fn target(&self) -> Option<&str> {
        self.leading.as_ref()?.target.as_deref()
    }

    /// The user that was named.
    pub fn user(&self) -> Option<&str> {
        self.security.named()
    }

    /// Takes a PDU and answers it.
    pub fn take(&mut self, header: &Header, data: &[u8], gate: &dyn Gate) -> Step {
        match self.advance(header, data, gate) {
            Ok(step) => step,
            Err(refusal) => self.refuse(header, refusal),
        }
    }

    /// The answer that ends a login.
    pub fn refuse(&mut self, header: &Header, refusal: Refusal) -> Step {
        let status = refusal.status as u16;
        let flags = header.flags() & 0x0c;
        let answer = self.answer(header, flags).with_u16(36, status);
        Step { header: answer, text: Vec::new(), delay: refusal.delay, then: Then::Close(refusal) }
    }

    fn answer(&mut self, header: &Header, flags: u8) -> Header {
        let stat_sn = self.stat_sn;
        self.stat_sn = stat_sn.wrapping_add(1);
        Header::new(LOGIN_RESPONSE, flags)
            .with(8, &header.0[8..16])
            .with_task_tag(header.task_tag())
            .with_u32(24, stat_sn)
            .with_u32(28, header.cmd_sn())
            .with_u32(32, header.cmd_sn())
    }

    fn advance(&mut self, header: &Header, data: &[u8], gate: &dyn Gate) -> Result<Step, Refusal> {
        let (stage, next) = self.check(header)?;
        self.bytes += data.len();
        self.exchanges += 1;
        if self.bytes > self.limit_bytes || self.exchanges > EXCHANGES {
            return Err(Refusal::new(LoginStatus::OutOfResources, "the login is too long"));
        }
        self.text.extend_from_slice(data);
        if header.has(FLAG_CONTINUE) {
            let answer = self.answer(header, stage << 2);
            return Ok(Step { header: answer, text: Vec::new(), delay: Duration::ZERO, then: Then::Continue });
        }
        let joined = std::mem::take(&mut self.text);
        let pairs = text::parse(&joined).map_err(Refusal::from)?;
        let mut out = Vec::new();
        let first = self.leading.is_none();
        if first {
            self.lead(&pairs, gate)?;
        }
        let delay = self.keys(stage, &pairs, first, &mut out, gate)?;
        let answer = match next {
            Some(next) if self.may_leave(stage)? => {
                self.stage = Some(next);
                self.answer(header, FLAG_TRANSIT | stage << 2 | next)
            }
            _ => self.answer(header, stage << 2),
        };
        let then = match self.stage {
            Some(STAGE_FULL_FEATURE) => Then::Enter(Box::new(self.agree())),
            _ => Then::Continue,
        };
        Ok(Step { header: answer, text: out, delay, then })
    }

    /// The stage that a PDU belongs to, and the one that it wants next.
    fn check(&mut self, header: &Header) -> Result<(u8, Option<u8>), Refusal> {
        if header.opcode() != LOGIN {
            return Err(Refusal::new(LoginStatus::InvalidRequest, "something else came before the login was over"));
        }
        let fixed = Fixed::of(header);
        if *self.fixed.get_or_insert(fixed) != fixed {
            return Err(Refusal::initiator("the login changed its session or task in between"));
        }
        if header.0[3] > 0 {
            return Err(Refusal::new(LoginStatus::Version, "only version 0 of the protocol is spoken here"));
        }
        let flags = header.flags();
        let (stage, next) = (flags >> 2 & 3, flags & 3);
        if !matches!(stage, STAGE_SECURITY | STAGE_OPERATIONAL) {
            return Err(Refusal::initiator("the stage of the login is none"));
        }
        if self.stage.is_none() {
            self.cmd_sn = header.cmd_sn();
        }
        if *self.stage.get_or_insert(stage) != stage {
            return Err(Refusal::initiator("the login is not at the stage that it claims"));
        }
        if flags & FLAG_TRANSIT == 0 {
            return Ok((stage, None));
        }
        if flags & FLAG_CONTINUE != 0 {
            return Err(Refusal::initiator("a text that goes on cannot end its stage"));
        }
        if next <= stage || !matches!(next, STAGE_OPERATIONAL | STAGE_FULL_FEATURE) {
            return Err(Refusal::initiator("the login wants to a stage that does not come next"));
        }
        Ok((stage, Some(next)))
    }

    /// Takes the names, with which every login begins.
    fn lead(&mut self, pairs: &[(&str, &str)], gate: &dyn Gate) -> Result<(), Refusal> {
        let fixed = self.fixed.expect("fixed by the check of the header");
        // Kept as far as it goes, so that a refusal can say who was refused.
        let leading = self.leading.insert(Leading::read(pairs)?);
        if fixed.tsih != 0 {
            let known = gate.has_session(fixed.tsih, &leading.initiator, fixed.isid);
            return Err(match known {
                true => Refusal::new(LoginStatus::TooManyConnections, "a session has one connection here"),
                false => Refusal::new(LoginStatus::NoSession, "there is no session of this number"),
            });
        }
        leading.find_way(gate)
    }

    fn keys(
        &mut self,
        stage: u8,
        pairs: &[(&str, &str)],
        first: bool,
        out: &mut Vec<u8>,
        gate: &dyn Gate,
    ) -> Result<Duration, Refusal> {
        let leading = self.leading.as_ref().expect("set before the keys are looked at");
        let (discovery, way) = (leading.target.is_none(), &leading.way);
        if first && !discovery {
            text::push(out, "TargetPortalGroupTag", &way.group.to_string());
        }
        for (key, value) in pairs {
            // libiscsi says again who it is, when it goes on without CHAP.
            if !first && leading.says(key, value) {
                continue;
            }
            if self.seen.iter().any(|seen| seen == key) {
                return Err(Refusal::initiator("a key was negotiated twice"));
            }
            self.seen.push((*key).to_owned());
        }
        let mut delay = Duration::ZERO;
        if stage == STAGE_SECURITY {
            delay = self.security.take(pairs, way, out, gate)?;
        } else if way.chap.is_some() && !self.security.proven() {
            return Err(Refusal::new(LoginStatus::Authentication, "the initiator must prove its name by CHAP"));
        }
        // The first burst is settled after the burst that bounds it, in whatever order they were offered.
        let (last, others): (Vec<_>, Vec<_>) = pairs.iter().partition(|(key, _)| *key == "FirstBurstLength");
        for (key, value) in others.into_iter().chain(last) {
            let answer = match key {
                _ if Leading::has(key) && (first || leading.says(key, value)) => continue,
                _ if Leading::has(key) => return Err(Refusal::initiator("a name came after the first text")),
                "InitiatorAlias" => {
                    self.alias = Some(value[..value.floor_char_boundary(255)].to_owned());
                    continue;
                }
                key if Security::has(key) && stage == STAGE_SECURITY => continue,
                key if Security::has(key) => Some("Reject".to_owned()),
                key if stage == STAGE_SECURITY => {
                    let known = Parameters::default().negotiate(key, value, discovery).value() != Some("NotUnderstood");
                    Some(if known { "Reject" } else { "NotUnderstood" }.to_owned())
                }
                key => self.parameters.negotiate(key, value, discovery).value().map(str::to_owned),
            };
            // What only the target says is said already, or will be.
            if let Some(answer) = answer {
                text::push_once(out, key, &answer);
            }
        }
        if stage == STAGE_OPERATIONAL && !std::mem::replace(&mut self.declared, true) {
            self.declare(out);
        }
        Ok(delay)
    }

    /// What the target says on its own.
    fn declare(&mut self, out: &mut Vec<u8>) {
        self.parameters.declare();
        for (key, value) in Parameters::declared() {
            // One that was refused to the initiator is named already.
            text::push_once(out, key, &value.to_string());
        }
        let alias = self.leading.as_ref().and_then(|leading| leading.way.alias.as_deref());
        if let Some(alias) = alias {
            text::push_once(out, "TargetAlias", alias);
        }
    }

    /// Whether the stage may be left.
    fn may_leave(&self, stage: u8) -> Result<bool, Refusal> {
        let leading = self.leading.as_ref().expect("set before a stage is left");
        if stage != STAGE_SECURITY || leading.way.chap.is_none() || self.security.proven() {
            return Ok(true);
        }
        if self.security.under_way() {
            return Ok(false);
        }
        Err(Refusal::new(LoginStatus::Authentication, "the initiator must prove its name by CHAP"))
    }

    fn agree(&mut self) -> Agreed {
        self.parameters.settle();
        let leading = self.leading.as_ref().expect("set before a login is over");
        let fixed = self.fixed.expect("fixed by the first PDU");
        Agreed {
            initiator: leading.initiator.clone(),
            initiator_alias: self.alias.take(),
            isid: fixed.isid,
            target: leading.target.clone(),
            group: leading.way.group,
            user: self.security.user().map(str::to_owned),
            proven: leading.way.chap.as_ref().filter(|_| self.security.user().is_some()).and_then(Account::fingerprint),
            mutual: self.security.mutual(),
            parameters: self.parameters.clone(),
            cmd_sn: self.cmd_sn,
            cid: fixed.cid,
        }
    }
}

impl From<TextError> for Refusal {
    fn from(error: TextError) -> Self {
        Self::new(LoginStatus::Initiator, error.to_string())
    }
}

#[cfg(test)]
mod tests;
