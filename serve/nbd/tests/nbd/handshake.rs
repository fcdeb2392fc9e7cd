//! The handshake over real sockets: every option, and what each refuses.

use std::sync::Arc;

use crate::support::Fixture;
use crate::support::client::{Client, contexts, info, open, told};
use crate::support::memory::Memory;
use holdfast_harness::wait_until;
use holdfast_listener::ExportStatus;
use holdfast_model::wire::Reader;
use holdfast_nbd::NbdError;
use holdfast_nbd::protocol::ReplyStyle;
use holdfast_nbd::protocol::constants::*;

fn two() -> Fixture {
    let first = Arc::new(Memory::new(8 << 20));
    let second = Arc::new(Memory::new(1 << 20).read_only().rotational());
    Fixture::new(&[("first", first), ("second", second)])
}

#[test]
fn exports_are_listed_over_unix_and_tcp() {
    let fixture = two();
    for address in [&fixture.unix, &fixture.tcp] {
        let mut client = Client::connect(address);
        let replies = client.option(OPT_LIST, &[]);
        assert_eq!(replies.len(), 3);
        let mut reader = Reader::new(&replies[0].1);
        let len = reader.u32_be().unwrap() as usize;
        assert_eq!(reader.take(len).unwrap(), b"first");
        assert_eq!(reader.take(reader.remaining()).unwrap(), b"memory of a test");
        assert_eq!(client.option(OPT_LIST, &[1])[0].0, REP_ERR_INVALID);
        assert_eq!(client.option(OPT_ABORT, &[]), [(REP_ACK, vec![])]);
        assert!(client.closed());
    }
}

#[test]
fn info_tells_and_go_enters() {
    let fixture = two();
    let mut client = Client::connect(&fixture.unix);
    let all = [INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE, 4242];
    let first = told(&client.option(OPT_INFO, &info("first", &all)));
    assert_eq!((first.size, first.name.as_deref()), (8 << 20, Some("first")));
    assert_eq!(first.description.as_deref(), Some("memory of a test"));
    assert_eq!(first.block_sizes, Some([1, 64 << 10, 32 << 20]));
    let always = FLAG_HAS_FLAGS | FLAG_SEND_FLUSH | FLAG_SEND_FUA | FLAG_CAN_MULTI_CONN | FLAG_SEND_CACHE;
    assert_eq!(first.flags, always | FLAG_SEND_TRIM | FLAG_SEND_WRITE_ZEROES | FLAG_SEND_FAST_ZERO);

    let second = told(&client.option(OPT_INFO, &info("second", &[])));
    assert_eq!(second.flags, always | FLAG_READ_ONLY | FLAG_ROTATIONAL);
    assert_eq!((second.name, second.description), (None, None));

    assert_eq!(client.option(OPT_INFO, &info("third", &[]))[0].0, REP_ERR_UNKNOWN);
    assert_eq!(client.option(OPT_GO, &info("", &[]))[0].0, REP_ERR_UNKNOWN, "two exports, so no default");
    assert_eq!(client.option(OPT_INFO, b"\0\0\0\xff")[0].0, REP_ERR_INVALID);
    assert_eq!(client.option(OPT_STARTTLS, &[])[0].0, REP_ERR_POLICY);
    assert_eq!(client.option(4, &[])[0].0, REP_ERR_UNSUP);
    assert_eq!(client.option(0xdead_beef, &[7; 5000])[0].0, REP_ERR_UNSUP);
    assert_eq!(client.option(OPT_GO, &vec![0; 100_000])[0].0, REP_ERR_TOO_BIG);
    told(&client.option(OPT_GO, &info("first", &[])));
    assert_eq!(client.read(0, 4096), vec![0; 4096]);
}

#[test]
fn the_only_export_is_the_default() {
    let fixture = Fixture::new(&[("only", Arc::new(Memory::new(1 << 20)))]);
    let (mut client, told) = Client::enter(&fixture.unix, "", ReplyStyle::Extended);
    assert_eq!(told.name.as_deref(), Some("only"));
    assert_ne!(told.flags & FLAG_BLOCK_STATUS_PAYLOAD, 0, "the context was chosen by the empty name too");
    assert_eq!(client.ask(0, CMD_BLOCK_STATUS, 0, 1 << 20, &[]).extents, [(1 << 20, 3)]);
}

#[test]
fn the_oldest_option_enters_or_closes() {
    let fixture = two();
    for (flags, padding) in [(0, 124), (FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES, 0)] {
        let mut client = Client::greet(open(&fixture.unix), flags);
        client.send_option(OPT_EXPORT_NAME, b"first");
        let answer = client.exactly(10 + padding);
        assert_eq!(answer[..8], (8_u64 << 20).to_be_bytes());
        assert_eq!(client.write(0, 0, &[9; 4096]), 0);
        assert_eq!(client.read(0, 4096), vec![9; 4096]);
    }
    let mut client = Client::connect(&fixture.unix);
    client.send_option(OPT_EXPORT_NAME, b"nowhere");
    assert!(client.closed());
}

#[test]
fn contexts_are_listed_and_set() {
    let fixture = two();
    let mut client = Client::connect(&fixture.unix);
    assert_eq!(client.option(OPT_LIST_META_CONTEXT, &contexts("first", &[]))[0].0, REP_ERR_INVALID);
    client.option(OPT_STRUCTURED_REPLY, &[]);
    let named = |id: u32| (REP_META_CONTEXT, [&id.to_be_bytes()[..], BASE_ALLOCATION.as_bytes()].concat());
    let ack = (REP_ACK, vec![]);
    for queries in [&[][..], &["base:"], &["x:y", BASE_ALLOCATION]] {
        assert_eq!(client.option(OPT_LIST_META_CONTEXT, &contexts("first", queries)), [named(0), ack.clone()]);
    }
    assert_eq!(client.option(OPT_LIST_META_CONTEXT, &contexts("first", &["x:"])), std::slice::from_ref(&ack));
    assert_eq!(client.option(OPT_SET_META_CONTEXT, &contexts("first", &["base:"])), std::slice::from_ref(&ack));
    assert_eq!(client.option(OPT_SET_META_CONTEXT, &contexts("third", &["base:"]))[0].0, REP_ERR_UNKNOWN);
    assert_eq!(client.option(OPT_SET_META_CONTEXT, &contexts("first", &[BASE_ALLOCATION])), [named(1), ack.clone()]);
    assert_eq!(client.option(OPT_SET_META_CONTEXT, &contexts("first", &[])), [ack], "the last one counts");
    client.style = ReplyStyle::Structured;
    told(&client.option(OPT_GO, &info("first", &[])));
    assert_eq!(client.ask(0, CMD_BLOCK_STATUS, 0, 4096, &[]).error, 22, "no context was agreed on");
}

#[test]
fn names_of_exports_are_checked_and_counted() {
    let fixture = two();
    let exports = &fixture.exports;
    let target = Arc::new(Memory::new(1 << 20));
    assert!(matches!(fixture.offer("first", target.clone()), Err(NbdError::Exists(_))));
    for name in ["", "a\0b", &"x".repeat(4097)] {
        assert!(matches!(fixture.offer(name, target.clone()), Err(NbdError::Name(_))));
    }
    fixture.offer("pool/space äöü 'quoted'", target).unwrap();
    let (_client, told) = Client::enter(&fixture.tcp, "pool/space äöü 'quoted'", ReplyStyle::Simple);
    assert_eq!(told.size, 1 << 20);
    let used = ExportStatus { name: "pool/space äöü 'quoted'".into(), connections: 1, attached: 1 };
    assert!(exports.list().contains(&used));
    for seen in [fixture.server().connections(), exports.connections("pool/space äöü 'quoted'")] {
        assert_eq!(seen[0].export.as_deref(), Some("pool/space äöü 'quoted'"));
    }
    drop(_client);
    wait_until("the client is gone", || fixture.server().connections().is_empty());
    assert!(exports.list().contains(&ExportStatus { connections: 0, ..used.clone() }), "that it came is still counted");
    assert!(exports.connections("pool/space äöü 'quoted'").is_empty());
    drop(exports.remove("pool/space äöü 'quoted'").unwrap());
    fixture.offer("pool/space äöü 'quoted'", Arc::new(Memory::new(1 << 20))).unwrap();
    drop(Client::enter(&fixture.tcp, "pool/space äöü 'quoted'", ReplyStyle::Simple));
    wait_until("the second client is gone", || fixture.server().connections().is_empty());
    let again = ExportStatus { connections: 0, attached: 2, ..used };
    assert!(exports.list().contains(&again), "one of an export that was offered anew is none of the export before");
    assert!(matches!(exports.remove("third"), Err(NbdError::Unknown(_))));
}

#[test]
fn a_new_size_shows_to_new_connections() {
    let target = Arc::new(Memory::new(1 << 20));
    let fixture = Fixture::new(&[("disk", target.clone())]);
    let (mut old, told) = Client::enter(&fixture.unix, "disk", ReplyStyle::Simple);
    assert_eq!(told.size, 1 << 20);
    target.grow(2 << 20);
    let (mut new, told) = Client::enter(&fixture.unix, "disk", ReplyStyle::Simple);
    assert_eq!(told.size, 2 << 20);
    assert_eq!(new.write(0, 1 << 20, &[1; 4096]), 0);
    assert_eq!(old.write(0, 1 << 20, &[1; 4096]), 28);
}
