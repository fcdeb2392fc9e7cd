//! The handshake as a state machine without I/O: bytes in, bytes out, and a step when something is decided.
//!
//! ```text
//!  greeting ─▶ client flags ─▶ option ─▶ reply ─▶ option … ─▶ GO or EXPORT_NAME ─▶ transmission
//!                                │                    ▲
//!                                └─ STARTTLS ─▶ TLS ──┘   (all that was agreed before is forgotten)
//! ```
//!
//! Invariant: where TLS is required, nothing about any export leaves in the clear.

pub use holdfast_listener::TlsPolicy;
use holdfast_model::wire::{Reader, WireError, Writer};

use crate::protocol::ReplyStyle;
use crate::protocol::constants::*;
use crate::protocol::option::{self, ContextQuery, HEADER_BYTES, InfoQuery, OptionHeader};

#[cfg(test)]
mod tests;

/// The longest option that is read; a longer one is skipped and refused.
pub const MAX_OPTION_BYTES: u32 = 64 << 10;
/// The longest option that is skipped; a longer one ends the session.
pub const MAX_SKIPPED_BYTES: u32 = 16 << 20;

/// What a client is told about an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its own name.
    pub name: String,
    /// A line for people.
    pub description: String,
    /// Bytes.
    pub size_bytes: u64,
    /// The request size that is served best: a power of two.
    pub preferred_bytes: u32,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether far reads cost a seek.
    pub rotational: bool,
}

/// The exports that a handshake can name.
pub trait Catalogue {
    /// What a client gets hold of when it chose an export.
    type Export;

    /// Name and description of each export.
    fn list(&self) -> Vec<(String, String)>;

    /// The export of that name; the empty name stands for the only one.
    fn find(&self, name: &str) -> Option<(Described, Self::Export)>;
}

/// What a finished handshake agreed on.
#[derive(Debug)]
pub struct Agreed<E> {
    /// The export.
    pub export: E,
    /// How requests are answered.
    pub style: ReplyStyle,
    /// Whether `base:allocation` may be asked for.
    pub allocation_context: bool,
}

/// What to do next.
#[derive(Debug)]
pub enum Step<E> {
    /// Send the output, and read on.
    More,
    /// Send the output, then go on under TLS.
    StartTls,
    /// Send the output, then serve requests. Bytes that were not consumed are the first of them.
    Enter(Agreed<E>),
    /// Send the output, then close.
    Close,
}

/// Why a handshake cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NegotiationError {
    /// The stream is not NBD, or is out of step.
    #[error("the client does not speak NBD: {0}")]
    Wire(#[from] WireError),
    /// Client flags that the server does not know.
    #[error("the client set unknown flags {0:#x} in its greeting")]
    ClientFlags(u32),
    /// A client of the oldest kind sent something that cannot be answered.
    #[error("option {0} cannot be answered to this client, which does not know option replies")]
    Unanswerable(u32),
    /// Too long to be skipped.
    #[error("option {option} announced {length} bytes")]
    TooLong {
        /// The option.
        option: u32,
        /// The length that it announced.
        length: u32,
    },
    /// EXPORT_NAME has no error reply.
    #[error("export '{0}' was asked for in a way that cannot be refused politely")]
    Refused(String),
    /// Bytes in the clear behind STARTTLS could be injected commands.
    #[error("bytes in the clear followed the request for TLS")]
    ClearAfterTls,
}

enum State {
    ClientFlags,
    Option,
    Skip { option: u32, left: u32 },
}

/// One handshake.
pub struct Negotiation {
    state: State,
    tls: TlsPolicy,
    encrypted: bool,
    fixed: bool,
    no_zeroes: bool,
    style: ReplyStyle,
    /// The export for which `base:allocation` was chosen.
    context_of: Option<String>,
}

impl Negotiation {
    /// A handshake of a new connection.
    pub fn new(tls: TlsPolicy) -> Self {
        Self {
            state: State::ClientFlags,
            tls,
            encrypted: false,
            fixed: false,
            no_zeroes: false,
            style: ReplyStyle::Simple,
            context_of: None,
        }
    }

    /// The first bytes of the server.
    pub fn greeting(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u64_be(INIT_MAGIC).u64_be(OPTION_MAGIC).u16_be(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
        writer.into_bytes()
    }

    /// Takes the next piece off `input`: says how many bytes were used up and what to do. With no byte used up and
    /// [`Step::More`], more input is needed first.
    pub fn advance<C: Catalogue>(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        catalogue: &C,
    ) -> Result<(usize, Step<C::Export>), NegotiationError> {
        match self.state {
            State::ClientFlags => {
                let Ok(flags) = Reader::new(input).u32_be() else { return Ok((0, Step::More)) };
                if flags & !(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES) != 0 {
                    return Err(NegotiationError::ClientFlags(flags));
                }
                self.fixed = flags & FLAG_C_FIXED_NEWSTYLE != 0;
                self.no_zeroes = flags & FLAG_C_NO_ZEROES != 0;
                self.state = State::Option;
                Ok((4, Step::More))
            }
            State::Option => self.option(input, out, catalogue),
            State::Skip { option, left } => {
                let skipped = left.min(input.len() as u32);
                self.state = State::Skip { option, left: left - skipped };
                if skipped == left {
                    self.state = State::Option;
                    refuse(out, option, REP_ERR_TOO_BIG, "the option is longer than this server takes");
                }
                Ok((skipped as usize, Step::More))
            }
        }
    }

    fn option<C: Catalogue>(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        catalogue: &C,
    ) -> Result<(usize, Step<C::Export>), NegotiationError> {
        let header = match OptionHeader::parse(input) {
            Err(WireError::Short) => return Ok((0, Step::More)),
            other => other?,
        };
        let OptionHeader { option, length } = header;
        if !self.fixed && option != OPT_EXPORT_NAME {
            return Err(NegotiationError::Unanswerable(option));
        }
        if length > MAX_OPTION_BYTES {
            if length > MAX_SKIPPED_BYTES || option == OPT_EXPORT_NAME {
                return Err(NegotiationError::TooLong { option, length });
            }
            self.state = State::Skip { option, left: length };
            return Ok((HEADER_BYTES, Step::More));
        }
        let used = HEADER_BYTES + length as usize;
        let Some(data) = input.get(HEADER_BYTES..used) else { return Ok((0, Step::More)) };
        if option == OPT_STARTTLS && self.may_start_tls(data, out) {
            if input.len() > used {
                return Err(NegotiationError::ClearAfterTls);
            }
            return Ok((used, Step::StartTls));
        }
        Ok((used, self.answer(option, data, out, catalogue)?))
    }

    fn may_start_tls(&self, data: &[u8], out: &mut Vec<u8>) -> bool {
        if self.tls == TlsPolicy::Absent || self.encrypted || !data.is_empty() {
            return false;
        }
        option::reply(out, OPT_STARTTLS, REP_ACK, &[]);
        true
    }

    /// Says that the connection is encrypted now. Whatever was agreed before could have been forged, and is forgotten.
    pub fn tls_started(&mut self) {
        self.encrypted = true;
        self.style = ReplyStyle::Simple;
        self.context_of = None;
    }

    fn answer<C: Catalogue>(
        &mut self,
        option: u32,
        data: &[u8],
        out: &mut Vec<u8>,
        catalogue: &C,
    ) -> Result<Step<C::Export>, NegotiationError> {
        if option == OPT_ABORT {
            option::reply(out, option, REP_ACK, &[]);
            return Ok(Step::Close);
        }
        if self.tls == TlsPolicy::Required && !self.encrypted && option != OPT_STARTTLS {
            if option == OPT_EXPORT_NAME {
                return Err(NegotiationError::Refused(String::from_utf8_lossy(data).into_owned()));
            }
            refuse(out, option, REP_ERR_TLS_REQD, "this server asks for TLS before anything else");
            return Ok(Step::More);
        }
        match option {
            OPT_EXPORT_NAME => return self.export_name(data, out, catalogue).map(Step::Enter),
            OPT_INFO | OPT_GO => return Ok(self.info(option, data, out, catalogue)),
            OPT_LIST_META_CONTEXT | OPT_SET_META_CONTEXT => self.contexts(option, data, out, catalogue),
            OPT_LIST | OPT_STRUCTURED_REPLY | OPT_EXTENDED_HEADERS | OPT_STARTTLS if !data.is_empty() => {
                refuse(out, option, REP_ERR_INVALID, "this option carries no data");
            }
            OPT_LIST => {
                for (name, description) in catalogue.list() {
                    option::reply_server(out, option, &name, &description);
                }
                option::reply(out, option, REP_ACK, &[]);
            }
            OPT_STARTTLS if self.encrypted => refuse(out, option, REP_ERR_INVALID, "TLS runs already"),
            OPT_STARTTLS => refuse(out, option, REP_ERR_POLICY, "this server has no certificate"),
            OPT_STRUCTURED_REPLY if self.style.extended() => {
                refuse(out, option, REP_ERR_EXT_HEADER_REQD, "extended headers were agreed on already");
            }
            OPT_STRUCTURED_REPLY => {
                self.style = ReplyStyle::Structured;
                option::reply(out, option, REP_ACK, &[]);
            }
            OPT_EXTENDED_HEADERS => {
                self.style = ReplyStyle::Extended;
                option::reply(out, option, REP_ACK, &[]);
            }
            _ => refuse(out, option, REP_ERR_UNSUP, "this server does not know the option"),
        }
        Ok(Step::More)
    }

    fn export_name<C: Catalogue>(
        &mut self,
        data: &[u8],
        out: &mut Vec<u8>,
        catalogue: &C,
    ) -> Result<Agreed<C::Export>, NegotiationError> {
        let name = String::from_utf8_lossy(data).into_owned();
        if self.style.extended() || data.len() > MAX_TEXT_BYTES {
            return Err(NegotiationError::Refused(name));
        }
        let Some((described, export)) = catalogue.find(&name) else { return Err(NegotiationError::Refused(name)) };
        let agreed = self.agree(&described, export);
        let mut writer = Writer::new();
        writer.u64_be(described.size_bytes).u16_be(self.transmission_flags(&described, agreed.allocation_context));
        if !self.no_zeroes {
            writer.raw(&[0; EXPORT_NAME_PADDING_BYTES]);
        }
        out.extend_from_slice(&writer.into_bytes());
        Ok(agreed)
    }

    fn info<C: Catalogue>(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>, catalogue: &C) -> Step<C::Export> {
        let Ok(query) = InfoQuery::parse(data) else {
            refuse(out, option, REP_ERR_INVALID, "the option is malformed");
            return Step::More;
        };
        let Some((described, export)) = catalogue.find(query.name) else {
            refuse_export(out, option, query.name);
            return Step::More;
        };
        let agreed = self.agree(&described, export);
        let flags = self.transmission_flags(&described, agreed.allocation_context || option == OPT_INFO);
        let mut fact = |kind: u16, body: &[u8]| {
            let mut writer = Writer::new();
            writer.u16_be(kind).raw(body);
            option::reply(out, option, REP_INFO, &writer.into_bytes());
        };
        let mut export_fact = Writer::new();
        export_fact.u64_be(described.size_bytes).u16_be(flags);
        fact(INFO_EXPORT, &export_fact.into_bytes());
        if query.wanted.contains(&INFO_NAME) {
            fact(INFO_NAME, described.name.as_bytes());
        }
        if query.wanted.contains(&INFO_DESCRIPTION) {
            fact(INFO_DESCRIPTION, described.description.as_bytes());
        }
        let mut sizes = Writer::new();
        sizes.u32_be(1).u32_be(described.preferred_bytes).u32_be(MAX_PAYLOAD_BYTES);
        fact(INFO_BLOCK_SIZE, &sizes.into_bytes());
        option::reply(out, option, REP_ACK, &[]);
        if option == OPT_GO { Step::Enter(agreed) } else { Step::More }
    }

    fn agree<E>(&self, described: &Described, export: E) -> Agreed<E> {
        let allocation_context = self.context_of.as_ref() == Some(&described.name);
        Agreed { export, style: self.style, allocation_context }
    }

    fn contexts<C: Catalogue>(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>, catalogue: &C) {
        let set = option == OPT_SET_META_CONTEXT;
        if set {
            self.context_of = None;
        }
        let Ok(query) = ContextQuery::parse(data) else {
            return refuse(out, option, REP_ERR_INVALID, "the option is malformed");
        };
        if !self.style.chunked() {
            return refuse(out, option, REP_ERR_INVALID, "contexts need structured replies: ask for those first");
        }
        let Some((described, _)) = catalogue.find(query.name) else {
            return refuse_export(out, option, query.name);
        };
        let exact = query.queries.contains(&BASE_ALLOCATION);
        let listed = !set && (query.queries.is_empty() || query.queries.contains(&"base:"));
        if exact || listed {
            let id = if set { BASE_ALLOCATION_ID } else { 0 };
            option::reply_context(out, option, id, BASE_ALLOCATION);
        }
        if set && exact {
            self.context_of = Some(described.name);
        }
        option::reply(out, option, REP_ACK, &[]);
    }

    fn transmission_flags(&self, described: &Described, contexts: bool) -> u16 {
        let mut flags = FLAG_HAS_FLAGS | FLAG_SEND_FLUSH | FLAG_SEND_FUA | FLAG_CAN_MULTI_CONN | FLAG_SEND_CACHE;
        let when = |condition: bool, bits: u16| if condition { bits } else { 0 };
        flags |= when(described.read_only, FLAG_READ_ONLY);
        flags |= when(!described.read_only, FLAG_SEND_TRIM | FLAG_SEND_WRITE_ZEROES | FLAG_SEND_FAST_ZERO);
        flags |= when(described.rotational, FLAG_ROTATIONAL);
        flags |= when(self.style.chunked(), FLAG_SEND_DF);
        flags | when(self.style.extended() && contexts, FLAG_BLOCK_STATUS_PAYLOAD)
    }
}

fn refuse(out: &mut Vec<u8>, option: u32, kind: u32, text: &str) {
    option::reply(out, option, kind, text.as_bytes());
}

fn refuse_export(out: &mut Vec<u8>, option: u32, name: &str) {
    let text = if name.is_empty() {
        "there is no default export here: name one of those that the list shows".to_owned()
    } else {
        format!("there is no export '{}' here: the list shows those there are", name.escape_debug())
    };
    refuse(out, option, REP_ERR_UNKNOWN, &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]);
}
