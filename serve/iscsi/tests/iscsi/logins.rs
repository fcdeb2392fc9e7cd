//! Logins: who gets in, how others are told, and what failed ones cost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::client::Client;
use crate::support::memory::Memory;
use crate::support::{Fixture, INITIATOR, TARGET, open};
use holdfast_harness::wait_until;
use holdfast_iscsi::login::chap::Algorithm;
use holdfast_iscsi::protocol::Header;
use holdfast_iscsi::protocol::constants::*;
use holdfast_iscsi::protocol::text;
use holdfast_iscsi::{Access, Account, Allowed, IscsiSettings, Secret, TargetLimits};

const SECRET: &str = "a secret of anna";
const OTHER: &str = "iqn.2001-04.com.example:other";

fn guarded() -> Access {
    let allowed =
        |iqn: &str, user: &str, secret: &str| Allowed { iqn: iqn.into(), chap: Some(Account::new(user, secret)) };
    Access {
        open: false,
        initiators: vec![allowed(INITIATOR, "anna", SECRET), allowed(OTHER, "bert", "a secret of bert")],
        mutual: Some(Account::new("disk", "a secret of disk")),
    }
}

fn with(access: Access) -> Fixture {
    Fixture::with(Memory::new(1 << 20), access, IscsiSettings::default(), TargetLimits::default())
}

/// A login by CHAP; the last answer's status.
fn chap(client: &mut Client, initiator: &str, user: &str, secret: &str) -> u16 {
    let names = [("InitiatorName", initiator), ("TargetName", TARGET), ("AuthMethod", "CHAP,None")];
    let status = client.exchange(0, &names).header.u16(36);
    if status != 0 {
        return status;
    }
    client.exchange(0, &[("CHAP_A", "7,5")]);
    let identifier: u8 = client.keys["CHAP_I"].parse().unwrap();
    let challenge = text::binary(&client.keys["CHAP_C"], 1024).unwrap();
    let proof = Algorithm::Sha256.response(identifier, &Secret::new(secret), &challenge);
    let proof = text::as_hexadecimal(&proof);
    let flags = FLAG_TRANSIT | STAGE_OPERATIONAL;
    let asked = [("CHAP_N", user), ("CHAP_R", &*proof), ("CHAP_I", "7"), ("CHAP_C", "0x00112233445566778899")];
    let status = client.exchange(flags, &asked).header.u16(36);
    if status != 0 {
        return status;
    }
    let own = Algorithm::Sha256.response(
        7,
        &Secret::new("a secret of disk"),
        &text::binary("0x00112233445566778899", 64).unwrap(),
    );
    assert_eq!((&*client.keys["CHAP_N"], &*client.keys["CHAP_R"]), ("disk", &*text::as_hexadecimal(&own)));
    client.login_as(&[], &[])
}

#[test]
fn chap_lets_in_who_has_the_secret() {
    let fixture = with(guarded());
    let mut client = Client::connect(fixture.address);
    assert_eq!(chap(&mut client, INITIATOR, "anna", SECRET), 0);
    client.settle();
    let sessions = fixture.targets.sessions(Some(TARGET));
    assert_eq!((sessions[0].user.as_deref(), sessions[0].mutual), (Some("anna"), true));
    assert_eq!(chap(&mut Client::connect(fixture.address), INITIATOR, "anna", "a wrong secret"), 0x0201);
    assert_eq!(chap(&mut Client::connect(fixture.address), OTHER, "anna", SECRET), 0x0201);
    assert_eq!(Client::connect(fixture.address).login(&[]), 0x0201);
    let unknown = [("InitiatorName", "iqn.2001-04.com.example:nobody"), ("TargetName", TARGET)];
    assert_eq!(Client::connect(fixture.address).login_as(&unknown, &[]), 0x0202);
    wait_until("the failures", || fixture.heard.failed.lock().unwrap().len() == 4);
    let failed = fixture.heard.failed.lock().unwrap();
    assert_eq!((failed[0].user.as_deref(), failed[0].status), (Some("anna"), 0x0201));
    let shown = format!("{failed:?}{:?}{:?}", fixture.targets.sessions(None), guarded());
    assert!(!shown.contains("secret of"), "secrets are not shown");
}

#[test]
fn failed_logins_wait_and_others_do_not() {
    let fixture = with(guarded());
    let (tried, refused) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (fixture, tried, refused) = (&fixture, &tried, &refused);
            scope.spawn(move || {
                while tried.fetch_add(1, Ordering::Relaxed) < 4000 {
                    let mut client = Client::connect(fixture.address);
                    client.isid[4] = thread;
                    let status = chap(&mut client, INITIATOR, "anna", "a wrong secret");
                    assert!(matches!(status, 0x0201 | 0x0301), "{status:#x}");
                    refused.fetch_add(u32::from(status == 0x0301), Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        let quickest = (0..5).map(|_| {
            let began = Instant::now();
            assert_eq!(chap(&mut Client::connect(fixture.address), OTHER, "bert", "a secret of bert"), 0);
            began.elapsed()
        });
        assert!(quickest.min() < Some(Duration::from_secs(2)), "another account does not wait");
    });
    assert!(refused.into_inner() > 3900, "most are not even looked at");
}

#[test]
fn a_login_of_the_same_session_ends_the_one_before() {
    let fixture = Fixture::new();
    let mut first = Client::enter(fixture.address, &[]);
    let mut second = Client::connect(fixture.address);
    assert_eq!(second.login(&[]), 0);
    assert!(first.closed());
    fixture.sessions(1);
    assert_ne!(first.tsih, second.tsih);
    assert!(fixture.heard.ended.lock().unwrap()[0].contains("logged in anew"));
    // Another number of the initiator is another session; a number of the target is a second connection, or none.
    let mut third = Client::connect(fixture.address);
    third.isid[5] = 9;
    assert_eq!(third.login(&[]), 0);
    fixture.sessions(2);
    let mut more = Client::connect(fixture.address);
    more.tsih = second.tsih;
    assert_eq!(more.login(&[]), 0x0206);
    let mut lost = Client::connect(fixture.address);
    lost.tsih = 4711;
    assert_eq!(lost.login(&[]), 0x020a);
    let mut crossed = Client::connect(fixture.address);
    (crossed.tsih, crossed.isid[5]) = (second.tsih, 9);
    assert_eq!(crossed.login(&[]), 0x020a);
    second.settle();
    third.settle();
}

#[test]
fn sessions_are_limited_and_discovery_has_a_limit_of_its_own() {
    let limits = TargetLimits { sessions: 2, discovery_sessions: 1 };
    let fixture = Fixture::with(Memory::new(1 << 20), open(), IscsiSettings::default(), limits);
    let enter = |number: u8, discovery: bool| {
        let mut client = Client::connect(fixture.address);
        client.isid[5] = number;
        let names: &[(&str, &str)] = if discovery {
            &[("InitiatorName", INITIATOR), ("SessionType", "Discovery")]
        } else {
            &[("InitiatorName", INITIATOR), ("TargetName", TARGET)]
        };
        let status = client.login_as(names, &[]);
        (client, status)
    };
    let kept: Vec<_> = (0..2).map(|number| enter(number, false)).collect();
    assert!(kept.iter().all(|(_, status)| *status == 0));
    assert_eq!(enter(2, false).1, 0x0302);
    let (_discovery, status) = enter(0, true);
    assert_eq!((status, enter(1, true).1), (0, 0x0302));
}

#[test]
fn discovery_tells_what_may_be_logged_in_to() {
    let fixture = Fixture::new();
    let closed = Access { initiators: vec![Allowed { iqn: OTHER.into(), chap: None }], ..Access::default() };
    fixture.add("iqn.2001-04.com.example:hidden", Memory::new(1 << 20), closed);
    for number in 0..200 {
        fixture.add(&format!("iqn.2001-04.com.example:many-{number:03}"), Memory::new(4096), open());
    }
    let ask = |client: &mut Client, value: &str| {
        let (mut found, mut transfer) = (Vec::new(), NO_TAG);
        let mut data = crate::support::client::text_of(&[("SendTargets", value)]);
        let header = client.numbered(TEXT | 0x40, FLAG_FINAL);
        loop {
            client.send(header.with_transfer_tag(transfer), &data);
            let answer = client.receive();
            assert!(answer.data.len() <= 8192);
            found.extend(answer.data);
            if answer.header.has(FLAG_FINAL) {
                return String::from_utf8(found).unwrap();
            }
            assert!(answer.header.has(FLAG_CONTINUE));
            (transfer, data) = (answer.header.transfer_tag(), Vec::new());
        }
    };
    let mut client = Client::connect(fixture.address);
    assert_eq!(client.login_as(&[("InitiatorName", INITIATOR), ("SessionType", "Discovery")], &[]), 0);
    let all = ask(&mut client, "All");
    assert!(all.len() > 8192 && all.matches("TargetName=").count() == 201 && !all.contains("hidden"));
    let one = format!("TargetName={TARGET}\0TargetAddress={},1\0", fixture.address);
    assert!(all.contains(&one));
    assert_eq!(ask(&mut client, TARGET), one);
    assert_eq!(ask(&mut client, "iqn.2001-04.com.example:hidden"), "");
    assert_eq!(
        (ask(&mut client, ""), ask(&mut client, "Alle")),
        ("SendTargets=Reject\0".into(), "SendTargets=Reject\0".into())
    );
    // Commands belong to sessions with targets.
    let header = client.command_header(&[0; 6], FLAG_FINAL, 0);
    client.send(header, &[]);
    assert_eq!(client.receive().header.opcode(), REJECT);
    let mut client = Client::enter(fixture.address, &[]);
    assert_eq!((ask(&mut client, ""), ask(&mut client, "All")), (one.clone(), one.clone()));
    assert_eq!(ask(&mut client, "iqn.2001-04.com.example:many-001"), "SendTargets=Reject\0");
}

#[test]
fn a_login_has_its_time_and_its_bytes() {
    let settings =
        IscsiSettings { login_timeout: Duration::from_secs(3), login_bytes: 20_000, ..IscsiSettings::default() };
    let fixture = Fixture::settings(settings);
    assert!(Client::connect(fixture.address).closed(), "a peer that says nothing");
    let mut client = Client::connect(fixture.address);
    let header = Header::new(LOGIN | 0x40, FLAG_CONTINUE | STAGE_OPERATIONAL << 2).with(8, &client.isid);
    let status = (0..10).find_map(|_| {
        client.send(header, &[b'x'; 8000]);
        Some(client.receive().header.u16(36)).filter(|status| *status != 0)
    });
    assert_eq!(status, Some(0x0302));
    let mut client = Client::connect(fixture.address);
    client.send(Header::new(NOP_OUT | 0x40, FLAG_FINAL), &[]);
    assert_eq!(client.receive().header.u16(36), 0x020b);
    assert!(client.closed());
    let mut client = Client::connect(fixture.address);
    std::io::Write::write_all(&mut client.wire, &[0xff; 48]).unwrap();
    assert!(client.closed(), "more data than a login has");
}
