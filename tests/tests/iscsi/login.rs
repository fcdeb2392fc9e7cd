//! Who gets in, and over what: CHAP both ways, IPv6, digests, and many who do not know the secret.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use holdfast_harness::wait_until;
use holdfast_tests::iscsi::cdb;
use holdfast_tests::iscsi::chap::Account;
use holdfast_tests::iscsi::initiator::Session;
use holdfast_tests::iscsi::login::{INITIATOR, Login};
use holdfast_tests::iscsi::tools::{Place, libiscsi, list};
use holdfast_tests::iscsi::wire::InitiatorError;
use holdfast_tests::ports::free_address;
use holdfast_tests::random::bytes;

use crate::product::{Product, TARGET};

const SECRET: &str = "a secret of ours";
const TARGETS_SECRET: &str = "the one of theirs";

#[track_caller]
fn refused<T>(result: Result<T, InitiatorError>) -> (u8, u8) {
    match result.err() {
        Some(InitiatorError::Refused(class, detail)) => (class, detail),
        other => panic!("not refused, but {other:?}"),
    }
}

/// A target that lets in our initiator and libiscsi's, who prove who they are.
fn guarded() -> Product {
    let product = Product::with(&[free_address()], &[], &[]);
    product.unit(64);
    let file = product.secret(SECRET);
    for initiator in [
        INITIATOR,
        "iqn.2008-11.org.linux-kvm",
        "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-inq",
        "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-ls",
    ] {
        product.daemon.please(&["initiator", "allow", "vm", initiator, "--chap", "ann", "--secret-file", &file]);
    }
    let file = product.secret(TARGETS_SECRET);
    product.daemon.please(&["target", "set", "vm", "--mutual", "server", "--secret-file", &file]);
    product
}

#[test]
fn both_sides_prove_who_they_are() {
    let product = guarded();
    let login = product.login().chap("ann", SECRET);
    Session::of(&login, &[0]);
    let mut session = Session::of(&login.clone().mutual("server", TARGETS_SECRET).digests(), &[0]);
    session.read(0, &cdb::read(0, 8), 4096).expect("an answer").good();
    assert_eq!(refused(Session::login(&product.login())), (2, 1), "without CHAP");
    assert_eq!(refused(Session::login(&product.login().chap("ann", "another"))), (2, 1));
    assert_eq!(refused(Session::login(&product.login().chap("bob", SECRET))), (2, 1));
    assert_ne!(refused(Session::login(&login.clone().by("iqn.2025-01.org.example:other"))).0, 0);
    let unsure = Session::login(&login.mutual("server", "not its secret"));
    assert!(matches!(unsure.err(), Some(InitiatorError::Broken(_))), "a target that does not know its secret");
    let place = product.place().chap("ann", SECRET);
    libiscsi("iscsi-inq", &[], &place).succeeded();
    libiscsi("iscsi-inq", &[], &place.clone().mutual("server", TARGETS_SECRET)).succeeded();
    libiscsi("iscsi-inq", &[], &product.place()).refused();
    libiscsi("iscsi-inq", &[], &product.place().chap("ann", "another secret")).refused();
    libiscsi("iscsi-inq", &[], &place.clone().mutual("server", "another secret of it")).refused();
    let listed = list(product.addresses[0], Some(&Account::new("ann", SECRET)));
    assert!(listed.printed().contains(TARGET), "{listed}");
}

#[test]
fn data_arrive_over_ipv6_with_digests() {
    let Ok(socket) = TcpListener::bind("[::1]:0") else {
        holdfast_harness::note_left_out("iSCSI over IPv6", "an address ::1");
        return;
    };
    let address: SocketAddr = socket.local_addr().expect("it is bound");
    drop(socket);
    let product = Product::with(&[address], &[], &["--open"]);
    product.unit(64);
    let mut session = Session::of(&product.login().digests(), &[0]);
    assert!(session.agreed().keys.get("DataDigest").is_some_and(|chosen| chosen == "CRC32C"));
    let data = bytes(5, 3 << 20);
    session.write(0, &cdb::write(0, 6144), &data).expect("an answer").good();
    assert!(session.read(0, &cdb::read(0, 6144), data.len()).expect("an answer").good() == data);
    let targets = Session::login(&Login::discovery(address)).expect("a session").targets().expect("targets");
    assert_eq!(targets, [(TARGET.to_owned(), vec![format!("{address},1")])]);
    let (image, back) = (product.scene.path("image"), product.scene.path("back"));
    std::fs::write(&image, bytes(6, 64 << 20)).expect("an image can be written");
    let place = Place { options: vec!["header_digest=crc32c".into()], ..product.place() };
    place.fill_from(&image).succeeded();
    place.copy_to(&back).succeeded();
    assert!(std::fs::read(&image).expect("an image") == std::fs::read(&back).expect("a copy"));
}

/// Writes and reads of every way that data can go are as they were written.
#[test]
fn data_go_every_way_that_a_login_can_choose() {
    let product = Product::open(1);
    product.unit(64);
    let login = product.login();
    let logins = [
        login.clone().offer("ImmediateData", "No"),
        login.clone().offer("InitialR2T", "Yes"),
        login.clone().offer("InitialR2T", "Yes").offer("ImmediateData", "No").offer("MaxBurstLength", "4096"),
        login.clone().offer("FirstBurstLength", "512").digests(),
        login.clone().offer("MaxRecvDataSegmentLength", "512").offer("HeaderDigest", "CRC32C"),
    ];
    for login in logins {
        let mut session = Session::of(&login, &[0]);
        for (seed, blocks) in [8u32, 100, 600, 4096].into_iter().enumerate() {
            let data = bytes(seed as u64, blocks as usize * 512);
            session.write(0, &cdb::write(64, blocks), &data).expect("an answer").good();
            let read = session.read(0, &cdb::read(64, blocks), data.len()).expect("an answer").good();
            assert!(read == data, "{blocks} blocks, {login:?}");
        }
        session.ping(b"still there?").expect("a pong");
        assert_eq!(session.logout().expect("an answer"), 0);
    }
}

#[test]
fn ten_thousand_who_do_not_know_the_secret_neither_get_in_nor_cost_memory() {
    const ATTEMPTS: usize = 10_000;
    const CLIENTS: usize = 32;
    const ACCOUNTS: usize = 2_000;
    let product = guarded();
    let mut inside = Session::of(&product.login().chap("ann", SECRET), &[0]);
    let before = product.memory();
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= ATTEMPTS {
                        return;
                    }
                    // Most of them try the account of others, some the one that there is.
                    let user = if number.is_multiple_of(100) {
                        "ann".to_owned()
                    } else {
                        format!("user{}", number % ACCOUNTS)
                    };
                    let login = product.login().port(number as u16).chap(&user, "not the secret of it");
                    match Session::login(&login).err() {
                        Some(InitiatorError::Refused(..) | InitiatorError::Lost(_)) => (),
                        other => panic!("attempt {number}: {other:?}"),
                    }
                }
            });
        }
    });
    println!("{ATTEMPTS} wrong logins in {:?}", started.elapsed());
    inside.read(0, &cdb::read(0, 8), 4096).expect("who is inside is not disturbed").good();
    let grown = product.memory().saturating_sub(before);
    assert!(grown < 64, "{grown} MiB more than before");
    wait_until("who knows the secret gets in again", || {
        std::thread::sleep(Duration::from_secs(1));
        Session::login(&product.login().port(9).chap("ann", SECRET)).is_ok()
    });
}
