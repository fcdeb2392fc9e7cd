//! The security stage (RFC 7143 12.1): AuthMethod, and CHAP in one direction or both.
//!
//! ```text
//!   AuthMethod=CHAP,… ─▶ Chosen ─ CHAP_A ─▶ Challenged ─ CHAP_N, CHAP_R [, CHAP_I, CHAP_C] ─▶ Proven
//! ```
//!
//! Invariant: a challenge is answered for once, and the target proves its name only to who has proven its own.

use std::time::Duration;

use subtle::ConstantTimeEq;

use super::chap::{Algorithm, BINARY_BYTES, Challenge};
use super::{Gate, LoginStatus, Refusal, Way};
use crate::account::Account;
use crate::protocol::text::{self, as_hexadecimal, binary, number};

#[derive(Default)]
enum State {
    #[default]
    Open,
    Chosen,
    Challenged(Challenge),
    Proven,
}

/// The stage.
#[derive(Default)]
pub(super) struct Security {
    state: State,
    named: Option<String>,
    user: Option<String>,
    mutual: bool,
}

fn find<'a>(pairs: &[(&str, &'a str)], wanted: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value)
}

impl Security {
    /// Whether a key belongs here.
    pub(super) fn has(key: &str) -> bool {
        matches!(key, "AuthMethod" | "CHAP_A" | "CHAP_N" | "CHAP_R" | "CHAP_I" | "CHAP_C")
    }

    /// Whether a name was proven.
    pub(super) fn proven(&self) -> bool {
        matches!(self.state, State::Proven)
    }

    /// Whether a proof is under way.
    pub(super) fn under_way(&self) -> bool {
        matches!(self.state, State::Chosen | State::Challenged(_))
    }

    /// The name that was claimed.
    pub(super) fn named(&self) -> Option<&str> {
        self.named.as_deref()
    }

    /// The account that was proven.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Whether the target proved its name too.
    pub(super) fn mutual(&self) -> bool {
        self.mutual
    }

    /// Takes the keys of one text and answers them. Says how long the answer waits.
    pub(super) fn take(
        &mut self,
        pairs: &[(&str, &str)],
        way: &Way,
        out: &mut Vec<u8>,
        gate: &dyn Gate,
    ) -> Result<Duration, Refusal> {
        if let Some(methods) = find(pairs, "AuthMethod") {
            self.choose(methods, way, out)?;
        }
        if let Some(algorithms) = find(pairs, "CHAP_A") {
            self.challenge(algorithms, out)?;
        }
        match (find(pairs, "CHAP_N"), find(pairs, "CHAP_R")) {
            (Some(name), Some(response)) => self.prove(name, response, pairs, way, out, gate),
            (None, None) if find(pairs, "CHAP_I").or(find(pairs, "CHAP_C")).is_none() => Ok(Duration::ZERO),
            _ => Err(Refusal::new(LoginStatus::Missing, "a CHAP answer needs a name and a response")),
        }
    }

    fn choose(&mut self, methods: &str, way: &Way, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let offers = |method: &str| methods.split(',').any(|offered| offered == method);
        if !matches!(self.state, State::Open) {
            return Err(Refusal::initiator("the method of authentication was chosen before"));
        }
        if way.chap.is_some() {
            if !offers("CHAP") {
                return Err(Refusal::authentication("the initiator offers no CHAP, by which it must prove its name"));
            }
            self.state = State::Chosen;
            text::push(out, "AuthMethod", "CHAP");
        } else {
            if !offers("None") {
                return Err(Refusal::authentication("the initiator wants CHAP, but has no account here"));
            }
            text::push(out, "AuthMethod", "None");
        }
        Ok(())
    }

    fn challenge(&mut self, algorithms: &str, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if !matches!(self.state, State::Chosen) {
            return Err(Refusal::initiator("a CHAP algorithm came out of turn"));
        }
        let algorithm = Algorithm::choose(algorithms)
            .ok_or_else(|| Refusal::authentication("the initiator offers neither MD5 nor SHA-256 for CHAP"))?;
        let challenge = Challenge::new(algorithm)
            .ok_or_else(|| Refusal::new(LoginStatus::Target, "the system gives no random numbers"))?;
        text::push(out, "CHAP_A", &algorithm.number().to_string());
        text::push(out, "CHAP_I", &challenge.identifier.to_string());
        text::push(out, "CHAP_C", &as_hexadecimal(&challenge.bytes));
        self.state = State::Challenged(challenge);
        Ok(())
    }

    fn prove(
        &mut self,
        name: &str,
        response: &str,
        pairs: &[(&str, &str)],
        way: &Way,
        out: &mut Vec<u8>,
        gate: &dyn Gate,
    ) -> Result<Duration, Refusal> {
        self.named = Some(name[..name.floor_char_boundary(255)].to_owned());
        let State::Challenged(challenge) = std::mem::take(&mut self.state) else {
            return Err(Refusal::initiator("a CHAP answer came out of turn"));
        };
        let Some(account) = &way.chap else {
            return Err(Refusal::authentication("the initiator has no account here"));
        };
        // The account is the initiator's, whatever name it claims: so there are no more of them than were set up.
        let Some(delay) = gate.attempt(&account.user) else {
            return Err(Refusal::new(LoginStatus::Unavailable, "too many logins of this account failed; it must wait"));
        };
        let given = binary(response, BINARY_BYTES);
        let answered = given.is_some_and(|given| challenge.is_answered_by(&given, &account.secret));
        let right = answered && account.user == name;
        gate.attempted(&account.user, right);
        if !right {
            return Err(Refusal::authentication("the name or the secret is wrong").after(delay));
        }
        match (find(pairs, "CHAP_I"), find(pairs, "CHAP_C")) {
            (None, None) => {}
            (Some(identifier), Some(asked)) => {
                let (name, proof) = answer(&challenge, identifier, asked, account, way)?;
                text::push(out, "CHAP_N", &name);
                text::push(out, "CHAP_R", &proof);
                self.mutual = true;
            }
            _ => return Err(Refusal::new(LoginStatus::Missing, "a CHAP challenge needs a number and bytes")),
        }
        self.user = Some(account.user.clone());
        self.state = State::Proven;
        Ok(delay)
    }
}

/// By what the target proves its name.
fn answer(
    own: &Challenge,
    identifier: &str,
    asked: &str,
    account: &Account,
    way: &Way,
) -> Result<(String, String), Refusal> {
    let identifier = number(identifier).and_then(|identifier| u8::try_from(identifier).ok());
    let asked = binary(asked, BINARY_BYTES).filter(|asked| !asked.is_empty());
    let (Some(identifier), Some(asked)) = (identifier, asked) else {
        return Err(Refusal::initiator("the CHAP challenge is none"));
    };
    let Some(mutual) = &way.mutual else {
        return Err(Refusal::authentication("the initiator wants the target to prove its name, which has no account"));
    };
    if own.bytes.ct_eq(&asked).into() {
        return Err(Refusal::authentication("the initiator sent the target's own challenge back"));
    }
    if mutual.secret == account.secret {
        return Err(Refusal::authentication("the initiator's secret is the target's own"));
    }
    let proof = own.algorithm.response(identifier, &mutual.secret, &asked);
    Ok((mutual.user.clone(), as_hexadecimal(&proof)))
}
