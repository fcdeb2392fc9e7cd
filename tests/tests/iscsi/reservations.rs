//! Persistent reservations of two initiators at once, and over a crash of the daemon.

use holdfast_tests::iscsi::answer::{Answer, key, status};
use holdfast_tests::iscsi::cdb;
use holdfast_tests::iscsi::initiator::Session;
use holdfast_tests::load::{Load, Refusals};
use holdfast_tests::random::Random;

use crate::product::{Product, Unit};

const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const RELEASE: u8 = 2;
const PREEMPT: u8 = 4;
const REGISTER_ANYWAY: u8 = 6;

/// Types of reservations (SPC-4 6.15.3).
const WRITE_EXCLUSIVE: u8 = 1;
const EXCLUSIVE: u8 = 3;
const WRITE_REGISTRANTS: u8 = 5;
const EXCLUSIVE_REGISTRANTS: u8 = 6;
const WRITE_ALL_REGISTRANTS: u8 = 7;
const EXCLUSIVE_ALL_REGISTRANTS: u8 = 8;

fn out(session: &mut Session, action: u8, kind: u8, key: u64, new_key: u64, aptpl: bool) -> Answer {
    let parameters = cdb::reserve_parameters(key, new_key, aptpl);
    calm(|| session.write(0, &cdb::reserve_out(action, kind), &parameters).expect("the session lives"))
}

/// Runs a command until nothing that changed before has to be told.
fn calm(mut run: impl FnMut() -> Answer) -> Answer {
    loop {
        let answer = run();
        if answer.status != status::CHECK_CONDITION || answer.sense_code().0 != key::UNIT_ATTENTION {
            return answer;
        }
    }
}

fn write(session: &mut Session) -> u8 {
    session.write(0, &cdb::write(0, 8), &[7; 4096]).expect("the session lives").status
}

fn read(session: &mut Session) -> u8 {
    session.read(0, &cdb::read(0, 8), 4096).expect("the session lives").status
}

/// The generation, and the keys that are registered.
fn keys(session: &mut Session) -> (u32, Vec<u64>) {
    let data = session.read(0, &cdb::reserve_in(0, 1024), 1024).expect("the session lives").good();
    let generation = u32::from_be_bytes(data[..4].try_into().expect("four bytes"));
    let key = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("eight bytes"));
    (generation, data[8..].chunks_exact(8).map(key).collect())
}

/// The key that holds the reservation, and its type.
fn held(session: &mut Session) -> Option<(u64, u8)> {
    let data = session.read(0, &cdb::reserve_in(1, 1024), 1024).expect("the session lives").good();
    let key = data.get(8..16)?;
    Some((u64::from_be_bytes(key.try_into().expect("eight bytes")), data[21] & 0xf))
}

#[test]
fn every_type_lets_in_and_keeps_out_who_it_must() {
    let product = Product::open(2);
    product.unit(64);
    // A holder, one who is registered at the other portal, and one who is not.
    let mut holder = product.session(1);
    let other = holdfast_tests::iscsi::login::Login::new(product.addresses[1], crate::product::TARGET).port(2);
    let mut registered = Session::of(&other, &[0]);
    let mut stranger = Session::of(&product.login().by("iqn.2025-01.org.example:stranger").port(3), &[0]);
    let conflict = status::RESERVATION_CONFLICT;
    for (kind, registrants, reads) in [
        (WRITE_EXCLUSIVE, false, true),
        (EXCLUSIVE, false, false),
        (WRITE_REGISTRANTS, true, true),
        (EXCLUSIVE_REGISTRANTS, true, false),
        (WRITE_ALL_REGISTRANTS, true, true),
        (EXCLUSIVE_ALL_REGISTRANTS, true, false),
    ] {
        out(&mut holder, REGISTER, 0, 0, 11, false).good();
        out(&mut registered, REGISTER, 0, 0, 22, false).good();
        out(&mut stranger, RESERVE, kind, 0, 0, false).has_status(conflict);
        out(&mut holder, RESERVE, kind, 11, 0, false).good();
        out(&mut registered, RESERVE, EXCLUSIVE, 22, 0, false).has_status(conflict);
        assert_eq!(held(&mut stranger).map(|(_, held)| held), Some(kind));
        assert_eq!((write(&mut holder), read(&mut holder)), (0, 0), "type {kind}, holder");
        let expected = if registrants { (0, 0) } else { (conflict, if reads { 0 } else { conflict }) };
        assert_eq!((write(&mut registered), read(&mut registered)), expected, "type {kind}, registered");
        let expected = (conflict, if reads { 0 } else { conflict });
        assert_eq!((write(&mut stranger), read(&mut stranger)), expected, "type {kind}, stranger");
        out(&mut registered, PREEMPT, kind, 22, 11, false).good();
        holder.run(0, &cdb::TEST_UNIT_READY).expect("an answer").fails_with(key::UNIT_ATTENTION, 0x2a, 0x05);
        assert_eq!(write(&mut holder), conflict, "type {kind}, preempted");
        out(&mut registered, RELEASE, kind, 22, 0, false).good();
        assert_eq!(held(&mut registered), None);
        out(&mut registered, REGISTER, 0, 22, 0, false).good();
        [&mut holder, &mut registered, &mut stranger].into_iter().for_each(|session| session.settle(0));
        assert!(keys(&mut stranger).1.is_empty());
    }
}

#[test]
fn two_initiators_at_once_never_both_hold_it() {
    let product = Product::open(1);
    product.unit(64);
    let rounds = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for number in 1..=2u16 {
            let (product, rounds) = (&product, &rounds);
            scope.spawn(move || {
                let mut session = product.session(number);
                let own = u64::from(number);
                for turn in 0..100 {
                    out(&mut session, REGISTER_ANYWAY, 0, 0, own, turn % 2 == 0).good();
                    // The other one may have preempted meanwhile, or begun before.
                    let answer = out(&mut session, PREEMPT, EXCLUSIVE, own, 3 - own, false);
                    if answer.status == 0 || out(&mut session, RESERVE, EXCLUSIVE, own, 0, false).status == 0 {
                        rounds.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                    let held = calm(|| session.read(0, &cdb::reserve_in(1, 64), 64).expect("the session lives"));
                    let holder = held.good();
                    assert!(holder[4..8] == [0; 4] || holder[4..8] == [0, 0, 0, 16], "one holder or none: {holder:?}");
                }
            });
        }
    });
    assert!(rounds.into_inner() > 20, "they took turns");
}

/// Rounds of killing: 4, or a tenth of `HOLDFAST_KILLS`.
fn rounds() -> u64 {
    std::env::var("HOLDFAST_KILLS").ok().and_then(|text| text.parse::<u64>().ok()).map_or(4, |kills| kills.div_ceil(10))
}

#[test]
fn kill_under_load_keeps_reservations_and_data() {
    const BYTES: u64 = 64 << 20;
    let mut random = Random::announced();
    let mut product = Product::open(1);
    product.unit(BYTES >> 20);
    let load = Load::new(4, BYTES);
    let login = product.login();
    let mut expected = {
        let mut first = product.session(1);
        out(&mut first, REGISTER, 0, 0, 0xabc, true).good();
        out(&mut first, RESERVE, WRITE_REGISTRANTS, 0xabc, 0, false).good();
        keys(&mut first)
    };
    for round in 0..rounds() {
        // Those of the load are ports of their own, and register before they write.
        let number = std::sync::atomic::AtomicU16::new(10);
        let connect = || {
            let port = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let login = login.clone().port(port);
            if let Ok(mut session) = Session::login(&login) {
                let _ = session.run(0, &cdb::TEST_UNIT_READY);
                out(&mut session, REGISTER_ANYWAY, 0, 0, u64::from(port), true).good();
            }
            Unit::connect(&login)
        };
        let after = 300 + random.below(700);
        let mut seeds = Random::new(random.next_u64());
        let done = std::thread::scope(|scope| {
            let running = scope.spawn(|| load.run_on(&connect, &mut seeds, Refusals::Fault));
            load.wait(after);
            product.daemon.strike();
            running.join().expect("the load finds no fault")
        });
        product.daemon.start_again();
        assert!(done.answered > 0, "round {round} did nothing");
        let mut first = product.session(1);
        assert_eq!(held(&mut first), Some((0xabc, WRITE_REGISTRANTS)), "round {round}");
        let registered = keys(&mut first).1;
        assert!(registered.contains(&0xabc) && registered.len() >= expected.1.len(), "round {round}: {registered:?}");
        expected.1 = registered;
        let mut stranger = Session::of(&product.login().by("iqn.2025-01.org.example:stranger"), &[0]);
        assert_eq!((write(&mut stranger), read(&mut stranger)), (status::RESERVATION_CONFLICT, 0), "round {round}");
        let faults = load.check_on(&|| Unit::connect(&login.clone().port(1)), 2);
        assert!(faults.is_empty(), "after kill {round}, {done:?}:\n{}", faults[..faults.len().min(20)].join("\n"));
    }
    let shown = product.daemon.please(&["reservation", "list", "vm", "0"]);
    assert!(shown.to_lowercase().contains("abc"), "{shown}");
    product.daemon.please(&["reservation", "clear", "vm", "0", "--yes"]);
    product.daemon.start_again();
    let mut first = product.session(1);
    assert_eq!((held(&mut first), keys(&mut first).1), (None, vec![]));
}
