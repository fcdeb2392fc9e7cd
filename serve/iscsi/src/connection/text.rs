//! Texts of the full feature phase (RFC 7143 11.10, 11.11): which targets there are, and what may still change.
//!
//! ```text
//!   request [C: goes on] ─▶ whole text ─▶ keys ─▶ answer, in as many PDUs as the initiator's limit wants
//! ```
//!
//! Invariant: one exchange is under way at a time, and both its sides are bounded.

use std::rc::Rc;

use super::Connection;
use crate::name::{is_name, normal, same_name};
use crate::parameters::Parameters;
use crate::protocol::Header;
use crate::protocol::constants::*;
use crate::protocol::text;
use crate::targets::portal_address;

/// The longest text that is joined.
const TEXT_BYTES: usize = 64 << 10;

/// An exchange.
#[derive(Default)]
pub(super) struct Exchange {
    /// The tag by which it goes on.
    tag: Option<u32>,
    asked: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    /// Serves a text.
    pub(super) fn text(self: &Rc<Self>, header: &Header, data: &[u8]) {
        let mut exchange = self.exchange.take();
        if header.transfer_tag() == NO_TAG {
            exchange = Exchange::default();
        } else if exchange.tag != Some(header.transfer_tag()) {
            return self.reject(header, REJECT_PROTOCOL);
        }
        let goes_on = header.has(FLAG_CONTINUE);
        if exchange.asked.len() + data.len() > TEXT_BYTES || (goes_on && header.has(FLAG_FINAL)) {
            return self.reject(header, REJECT_PROTOCOL);
        }
        exchange.asked.extend_from_slice(data);
        if goes_on {
            return self.put_text(header, exchange, &[], 0);
        }
        let asked = std::mem::take(&mut exchange.asked);
        if !asked.is_empty() {
            if !exchange.answer.is_empty() {
                return self.reject(header, REJECT_PROTOCOL);
            }
            match text::parse(&asked) {
                Ok(pairs) => pairs.iter().for_each(|(key, value)| self.answer_key(key, value, &mut exchange.answer)),
                Err(_) => return self.reject(header, REJECT_PROTOCOL),
            }
        }
        let segment = self.initiator_segment_bytes.get() as usize;
        let rest = exchange.answer.split_off(exchange.answer.len().min(segment));
        let now = std::mem::replace(&mut exchange.answer, rest);
        match (exchange.answer.is_empty(), header.has(FLAG_FINAL)) {
            (false, _) => self.put_text(header, exchange, &now, FLAG_CONTINUE),
            (true, false) => self.put_text(header, exchange, &now, 0),
            (true, true) => {
                let answer = Header::new(TEXT_RESPONSE, FLAG_FINAL)
                    .with_lun(header.lun())
                    .with_task_tag(header.task_tag())
                    .with_transfer_tag(NO_TAG);
                self.put_answer(answer, &now);
            }
        }
    }

    /// Answers with a part of the exchange, which goes on.
    fn put_text(&self, header: &Header, mut exchange: Exchange, data: &[u8], flags: u8) {
        let tag = self.new_transfer_tag();
        exchange.tag = Some(tag);
        self.exchange.replace(exchange);
        let answer = Header::new(TEXT_RESPONSE, flags)
            .with_lun(header.lun())
            .with_task_tag(header.task_tag())
            .with_transfer_tag(tag);
        self.put_answer(answer, data);
    }

    fn answer_key(&self, key: &str, value: &str, out: &mut Vec<u8>) {
        match key {
            "SendTargets" => match self.send_targets(value) {
                Some(targets) => out.extend(targets),
                None => text::push(out, key, "Reject"),
            },
            "MaxRecvDataSegmentLength" => {
                let mut answer = None;
                self.note_parameters(|parameters| {
                    answer = parameters.set_initiator_segment(value).value().map(str::to_owned);
                });
                if let Some(answer) = answer {
                    text::push(out, key, &answer);
                }
            }
            "InitiatorAlias" | "X#NodeArchitecture" => {}
            // What is settled at login stays so.
            "AuthMethod" | "InitiatorName" | "TargetName" | "SessionType" => text::push(out, key, "Reject"),
            key => {
                let known = Parameters::default().negotiate(key, value, false).value() != Some("NotUnderstood");
                text::push(out, key, if known { "Reject" } else { "NotUnderstood" });
            }
        }
    }

    /// Targets and their portals (RFC 7143 appendix C). A session with a target is told of that one only, also where it
    /// asks for all: the RFC would have that refused, but initiators ask and others answer.
    fn send_targets(&self, wanted: &str) -> Option<Vec<u8>> {
        let identity = &self.entry.identity;
        let only = match (&identity.target, wanted) {
            (None, "All") => None,
            (None, name) => Some(Some(name).filter(|name| is_name(&normal(name)))?),
            (Some(own), "" | "All") => Some(own.as_str()),
            (Some(own), name) => Some(Some(own.as_str()).filter(|own| same_name(own, name))?),
        };
        let mut out = Vec::new();
        for (name, addresses) in self.targets.visible(&identity.initiator, only, self.entry.local) {
            text::push(&mut out, "TargetName", &name);
            for (address, group) in addresses {
                text::push(&mut out, "TargetAddress", &portal_address(address, group));
            }
        }
        Some(out)
    }
}
