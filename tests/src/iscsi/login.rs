//! The beginning of a session (RFC 7143 6.3): who asks, for what, and what both agree on.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::chap::{Account, from_text, response, to_hex};
use super::pdu::{Pdu, request, response as answers};
use super::wire::{InitiatorError, Wire, broken};

/// The name by which tests log in.
pub const INITIATOR: &str = "iqn.2025-01.org.example:tests";
/// Bytes of data that we take in one PDU.
pub const LONGEST_DATA: u32 = 256 << 10;
/// What we challenge targets with.
const CHALLENGE: [u8; 16] = [0x5a; 16];

/// A login that is not done yet.
#[derive(Clone, Debug)]
pub struct Login {
    /// Where the target is.
    pub address: SocketAddr,
    /// Its name; none to ask which there are.
    pub target: Option<String>,
    /// Our name.
    pub initiator: String,
    /// Which of our ports this is.
    pub isid: [u8; 6],
    /// Who we are.
    pub chap: Option<Account>,
    /// Who the target has to be.
    pub mutual: Option<Account>,
    /// Offers that replace those made otherwise; one without a value is not made.
    pub keys: BTreeMap<String, String>,
}

/// What both agreed on.
#[derive(Debug)]
pub struct Agreed {
    /// All that the target answered or declared.
    pub keys: BTreeMap<String, String>,
    /// The handle of the session.
    pub tsih: u16,
    /// The next number of a command.
    pub cmd_sn: u32,
    /// The last number of a command that the target takes.
    pub max_cmd_sn: u32,
    /// The next number of a status.
    pub exp_stat_sn: u32,
}

impl Agreed {
    /// The number that was agreed on for `key`.
    pub fn number(&self, key: &str, default: usize) -> usize {
        self.keys.get(key).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    /// Whether both agreed on `key`.
    pub fn holds(&self, key: &str, default: bool) -> bool {
        self.keys.get(key).map_or(default, |text| text == "Yes")
    }
}

impl Login {
    /// To `target` at `address`, as one that need not say who it is.
    pub fn new(address: SocketAddr, target: &str) -> Self {
        Self { target: Some(target.to_owned()), ..Self::discovery(address) }
    }

    /// To ask which targets there are at `address`.
    pub fn discovery(address: SocketAddr) -> Self {
        let isid = [0x80, 0, 0, 0, 0, 1];
        let initiator = INITIATOR.to_owned();
        Self { address, target: None, initiator, isid, chap: None, mutual: None, keys: BTreeMap::new() }
    }

    /// The same by the initiator `name`.
    #[must_use]
    pub fn by(mut self, name: &str) -> Self {
        name.clone_into(&mut self.initiator);
        self
    }

    /// The same through another port of the initiator.
    #[must_use]
    pub fn port(mut self, number: u16) -> Self {
        self.isid[4..].copy_from_slice(&number.to_be_bytes());
        self
    }

    /// The same with CHAP.
    #[must_use]
    pub fn chap(mut self, user: &str, secret: &str) -> Self {
        self.chap = Some(Account::new(user, secret));
        self
    }

    /// The same, and the target has to prove that it is `user`.
    #[must_use]
    pub fn mutual(mut self, user: &str, secret: &str) -> Self {
        self.mutual = Some(Account::new(user, secret));
        self
    }

    /// The same with `value` offered for `key`. An empty value has `key` left out.
    #[must_use]
    pub fn offer(mut self, key: &str, value: &str) -> Self {
        self.keys.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The same with digests of headers and data.
    #[must_use]
    pub fn digests(self) -> Self {
        self.offer("HeaderDigest", "CRC32C").offer("DataDigest", "CRC32C")
    }

    /// Logs in over `wire`.
    ///
    /// # Errors
    /// If the target refuses, or does not keep to the protocol.
    pub fn run(&self, wire: &mut Wire) -> Result<Agreed, InitiatorError> {
        let mut talk = Talk { login: self, wire, exp_stat_sn: 0, started: false };
        let methods = if self.chap.is_some() { "CHAP" } else { "None" };
        let session = if self.target.is_some() { "Normal" } else { "Discovery" };
        let mut keys = vec![("InitiatorName", self.initiator.as_str()), ("SessionType", session)];
        keys.extend(self.target.as_deref().map(|target| ("TargetName", target)));
        let methods = self.keys.get("AuthMethod").map_or(methods, String::as_str);
        keys.push(("AuthMethod", methods));
        keys.retain(|(key, _)| self.keys.get(*key).is_none_or(|value| !value.is_empty()));
        let mut all = BTreeMap::new();
        let first = talk.ask(0, (self.chap.is_none()).then_some(1), &keys)?;
        let method = first.keys.get("AuthMethod").cloned();
        all.extend(first.keys);
        if let Some(account) = &self.chap {
            if method.as_deref() != Some("CHAP") {
                return Err(broken(format!("asked for CHAP, it chose {method:?}")));
            }
            all.extend(talk.prove(account)?);
        }
        let offers = self.offers();
        let offers: Vec<(&str, &str)> = offers.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let mut last = talk.ask(1, Some(3), &offers)?;
        all.append(&mut last.keys);
        let mut rounds = 0;
        while !last.moved {
            rounds += 1;
            if rounds > 8 {
                return Err(broken("it never ends login"));
            }
            last = talk.ask(1, Some(3), &[])?;
            all.append(&mut last.keys);
        }
        if last.tsih == 0 {
            return Err(broken("a session without a handle"));
        }
        let exp_stat_sn = talk.exp_stat_sn;
        wire.header_digest = all.get("HeaderDigest").is_some_and(|chosen| chosen == "CRC32C");
        wire.data_digest = all.get("DataDigest").is_some_and(|chosen| chosen == "CRC32C");
        Ok(Agreed { keys: all, tsih: last.tsih, cmd_sn: 1, max_cmd_sn: last.max_cmd_sn, exp_stat_sn })
    }

    fn offers(&self) -> Vec<(String, String)> {
        let mut offers = BTreeMap::from([
            ("HeaderDigest", "None".to_owned()),
            ("DataDigest", "None".to_owned()),
            ("MaxRecvDataSegmentLength", LONGEST_DATA.to_string()),
            ("DefaultTime2Wait", "0".to_owned()),
            ("DefaultTime2Retain", "0".to_owned()),
            ("ErrorRecoveryLevel", "0".to_owned()),
        ]);
        if self.target.is_some() {
            offers.extend([
                ("InitialR2T", "No".to_owned()),
                ("ImmediateData", "Yes".to_owned()),
                ("MaxBurstLength", (1 << 20).to_string()),
                ("FirstBurstLength", (256 << 10).to_string()),
                ("MaxOutstandingR2T", "1".to_owned()),
                ("MaxConnections", "1".to_owned()),
                ("DataPDUInOrder", "Yes".to_owned()),
                ("DataSequenceInOrder", "Yes".to_owned()),
            ]);
        }
        let mut offers: BTreeMap<String, String> =
            offers.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        offers.extend(self.keys.iter().filter(|(key, _)| *key != "AuthMethod").map(|(k, v)| (k.clone(), v.clone())));
        offers.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// Requests of a login and their answers.
struct Talk<'a> {
    login: &'a Login,
    wire: &'a mut Wire,
    exp_stat_sn: u32,
    started: bool,
}

struct Reply {
    keys: BTreeMap<String, String>,
    moved: bool,
    tsih: u16,
    max_cmd_sn: u32,
}

impl Talk<'_> {
    fn prove(&mut self, account: &Account) -> Result<BTreeMap<String, String>, InitiatorError> {
        let challenge = self.ask(0, None, &[("CHAP_A", "5")])?.keys;
        let key = |name: &str| challenge.get(name).ok_or_else(|| broken(format!("no {name} in its challenge")));
        if key("CHAP_A")? != "5" {
            return Err(broken("it wants another algorithm than was offered"));
        }
        let identifier = key("CHAP_I")?.parse().map_err(|_| broken("CHAP_I is no number"))?;
        let proof = to_hex(&response(identifier, &account.secret, &from_text(key("CHAP_C")?)?));
        let mut keys = vec![("CHAP_N", account.user.as_str()), ("CHAP_R", proof.as_str())];
        let own_challenge = to_hex(&CHALLENGE);
        if self.login.mutual.is_some() {
            keys.extend([("CHAP_I", "77"), ("CHAP_C", own_challenge.as_str())]);
        }
        let answer = self.ask(0, Some(1), &keys)?;
        if let Some(expected) = &self.login.mutual {
            let name = answer.keys.get("CHAP_N").ok_or_else(|| broken("it does not say who it is"))?;
            let proof = answer.keys.get("CHAP_R").ok_or_else(|| broken("it does not prove who it is"))?;
            if *name != expected.user || from_text(proof)? != response(77, &expected.secret, &CHALLENGE) {
                return Err(broken("it is not who it says it is"));
            }
        }
        Ok(answer.keys)
    }

    /// Sends `keys` in `stage`, to go on to the stage `next`.
    fn ask(&mut self, stage: u8, next: Option<u8>, keys: &[(&str, &str)]) -> Result<Reply, InitiatorError> {
        let text: String = keys.iter().map(|(key, value)| format!("{key}={value}\0")).collect();
        let flags = stage << 2 | next.map_or(0, |next| 0x80 | next);
        let mut pdu = Pdu::new(request::LOGIN | request::IMMEDIATE, flags).carrying(text.into_bytes());
        pdu.header[8..14].copy_from_slice(&self.login.isid);
        self.wire.send(&pdu.with(24, 1).with(28, self.exp_stat_sn))?;
        let answer = self.wire.receive()?;
        if answer.opcode() != answers::LOGIN {
            return Err(broken(format!("{:02x}h instead of an answer to login", answer.opcode())));
        }
        let [class, detail] = [answer.header[36], answer.header[37]];
        if class != 0 {
            return Err(InitiatorError::Refused(class, detail));
        }
        if answer.header[8..14] != self.login.isid || answer.tag() != 0 {
            return Err(broken("an answer to another login"));
        }
        if self.started && answer.word(24) != self.exp_stat_sn {
            return Err(broken(format!("StatSN {} instead of {}", answer.word(24), self.exp_stat_sn)));
        }
        self.started = true;
        self.exp_stat_sn = answer.word(24).wrapping_add(1);
        let moved = answer.header[1] & 0x80 != 0;
        if moved && Some(answer.header[1] & 3) != next {
            return Err(broken("it goes on to a stage that nobody asked for"));
        }
        let tsih = u16::from_be_bytes([answer.header[14], answer.header[15]]);
        Ok(Reply { keys: keys_of(&answer.data)?, moved, tsih, max_cmd_sn: answer.word(32) })
    }
}

/// The keys of a text.
///
/// # Errors
/// If it is no text of keys.
pub fn keys_of(text: &[u8]) -> Result<BTreeMap<String, String>, InitiatorError> {
    Ok(pairs_of(text)?.into_iter().collect())
}

/// The keys of a text, in their order.
///
/// # Errors
/// If it is no text of keys.
pub fn pairs_of(text: &[u8]) -> Result<Vec<(String, String)>, InitiatorError> {
    let text = std::str::from_utf8(text).map_err(|_| broken("a text that is none"))?;
    if !text.is_empty() && !text.ends_with('\0') {
        return Err(broken("a text without an end"));
    }
    let pair = |entry: &str| {
        let (key, value) = entry.split_once('=').ok_or_else(|| broken(format!("'{entry}' is no key")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    text.split('\0').filter(|entry| !entry.is_empty()).map(pair).collect()
}
