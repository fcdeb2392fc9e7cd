//! Rules of the handshake that no well-behaved client ever meets.

use super::*;

struct Two;

impl Catalogue for Two {
    type Export = &'static str;

    fn list(&self) -> Vec<(String, String)> {
        vec![("a".into(), "first".into()), ("b".into(), String::new())]
    }

    fn find(&self, name: &str) -> Option<(Described, &'static str)> {
        let found = ["a", "b"].into_iter().find(|one| *one == name)?;
        let described = Described {
            name: found.into(),
            description: "first".into(),
            size_bytes: 1 << 20,
            preferred_bytes: 4096,
            read_only: found == "b",
            rotational: false,
        };
        Some((described, found))
    }
}

fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u64_be(OPTION_MAGIC).u32_be(option).u32_be(data.len() as u32).raw(data);
    writer.into_bytes()
}

fn go(name: &str) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32_be(name.len() as u32).raw(name.as_bytes()).u16_be(0);
    writer.into_bytes()
}

fn context(name: &str, query: &str) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32_be(name.len() as u32).raw(name.as_bytes());
    writer.u32_be(1).u32_be(query.len() as u32).raw(query.as_bytes());
    writer.into_bytes()
}

fn started(tls: TlsPolicy, flags: u32) -> Negotiation {
    let mut negotiation = Negotiation::new(tls);
    let step = negotiation.advance(&flags.to_be_bytes(), &mut Vec::new(), &Two).unwrap();
    assert!(matches!(step, (4, Step::More)));
    negotiation
}

/// The type of the last reply.
fn ask(negotiation: &mut Negotiation, option: u32, data: &[u8]) -> (u32, Step<&'static str>) {
    let mut out = Vec::new();
    let bytes = option_bytes(option, data);
    let (used, step) = negotiation.advance(&bytes, &mut out, &Two).unwrap();
    assert_eq!(used, bytes.len());
    let mut reader = Reader::new(&out);
    let mut last = 0;
    while reader.remaining() > 0 {
        assert_eq!((reader.u64_be().unwrap(), reader.u32_be().unwrap()), (OPTION_REPLY_MAGIC, option));
        last = reader.u32_be().unwrap();
        let len = reader.u32_be().unwrap();
        reader.take(len as usize).unwrap();
    }
    (last, step)
}

const FIXED: u32 = FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES;

#[test]
fn required_tls_hides_everything() {
    let mut negotiation = started(TlsPolicy::Required, FIXED);
    for option in [OPT_LIST, OPT_INFO, OPT_GO, OPT_STRUCTURED_REPLY, OPT_SET_META_CONTEXT, 77] {
        assert_eq!(ask(&mut negotiation, option, &go("a")).0, REP_ERR_TLS_REQD);
    }
    let refused = negotiation.advance(&option_bytes(OPT_EXPORT_NAME, b"a"), &mut Vec::new(), &Two);
    assert!(matches!(refused, Err(NegotiationError::Refused(_))));
    assert!(matches!(ask(&mut negotiation, OPT_STARTTLS, &[]), (REP_ACK, Step::StartTls)));
}

#[test]
fn tls_forgets_what_was_agreed_in_the_clear() {
    let mut negotiation = started(TlsPolicy::Optional, FIXED);
    assert_eq!(ask(&mut negotiation, OPT_STRUCTURED_REPLY, &[]).0, REP_ACK);
    assert_eq!(ask(&mut negotiation, OPT_SET_META_CONTEXT, &context("a", BASE_ALLOCATION)).0, REP_ACK);
    ask(&mut negotiation, OPT_STARTTLS, &[]);
    negotiation.tls_started();
    assert_eq!(ask(&mut negotiation, OPT_STARTTLS, &[]).0, REP_ERR_INVALID);
    let (REP_ACK, Step::Enter(agreed)) = ask(&mut negotiation, OPT_GO, &go("a")) else { panic!("not entered") };
    assert_eq!((agreed.style, agreed.allocation_context, agreed.export), (ReplyStyle::Simple, false, "a"));
}

#[test]
fn clear_bytes_behind_starttls_end_the_session() {
    let mut negotiation = started(TlsPolicy::Optional, FIXED);
    let injected = [option_bytes(OPT_STARTTLS, &[]), option_bytes(OPT_LIST, &[])].concat();
    let refused = negotiation.advance(&injected, &mut Vec::new(), &Two);
    assert!(matches!(refused, Err(NegotiationError::ClearAfterTls)));
}

#[test]
fn a_context_belongs_to_its_export() {
    let mut negotiation = started(TlsPolicy::Absent, FIXED);
    assert_eq!(ask(&mut negotiation, OPT_SET_META_CONTEXT, &context("a", BASE_ALLOCATION)).0, REP_ERR_INVALID);
    assert_eq!(ask(&mut negotiation, OPT_EXTENDED_HEADERS, &[]).0, REP_ACK);
    assert_eq!(ask(&mut negotiation, OPT_STRUCTURED_REPLY, &[]).0, REP_ERR_EXT_HEADER_REQD);
    assert_eq!(ask(&mut negotiation, OPT_SET_META_CONTEXT, &context("a", BASE_ALLOCATION)).0, REP_ACK);
    let (_, Step::Enter(agreed)) = ask(&mut negotiation, OPT_GO, &go("b")) else { panic!("not entered") };
    assert!(agreed.style.extended() && !agreed.allocation_context);
}

#[test]
fn long_options_are_skipped_or_end_the_session() {
    let mut negotiation = started(TlsPolicy::Absent, FIXED);
    let long = option_bytes(OPT_GO, &vec![0; MAX_OPTION_BYTES as usize + 1]);
    let (mut at, mut out) = (0, Vec::new());
    while at < long.len() {
        let end = (at + 1000).min(long.len());
        at += negotiation.advance(&long[at..end], &mut out, &Two).unwrap().0;
    }
    assert_eq!(out[12..16], REP_ERR_TOO_BIG.to_be_bytes());
    assert_eq!(ask(&mut negotiation, OPT_LIST, &[]).0, REP_ACK);

    let mut endless = option_bytes(OPT_GO, &[]);
    endless[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    let refused = negotiation.advance(&endless, &mut Vec::new(), &Two);
    assert!(matches!(refused, Err(NegotiationError::TooLong { .. })));
}

#[test]
fn clients_of_the_oldest_kind_get_an_export_or_nothing() {
    let mut negotiation = started(TlsPolicy::Absent, 0);
    let mut out = Vec::new();
    let (_, step) = negotiation.advance(&option_bytes(OPT_EXPORT_NAME, b"a"), &mut out, &Two).unwrap();
    assert!(matches!(step, Step::Enter(_)));
    assert_eq!(out.len(), 10 + EXPORT_NAME_PADDING_BYTES);
    let refused = started(TlsPolicy::Absent, 0).advance(&option_bytes(OPT_LIST, &[]), &mut Vec::new(), &Two);
    assert!(matches!(refused, Err(NegotiationError::Unanswerable(OPT_LIST))));
    let unknown = Negotiation::new(TlsPolicy::Absent).advance(&[0xff; 4], &mut Vec::new(), &Two);
    assert!(matches!(unknown, Err(NegotiationError::ClientFlags(_))));
}
