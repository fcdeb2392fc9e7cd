//! Share modes, after the table of MS-FSA 2.1.5.1.2: what is accessed against what is shared, both ways.

use std::task::Poll;

use holdfast_opens::*;

use crate::support::*;

const R: Access = Access::READ;
const W: Access = Access::WRITE;
const D: Access = Access::DELETE;
const NONE: Access = Access::NONE;
const ALL: Access = Access::ALL;

/// First access and share, second access and share, and whether the second is let in.
const CASES: &[(Access, Access, Access, Access, bool)] = &[
    // One kind of access against its own share, either way.
    (R, R, R, R, true),
    (R, NONE, R, ALL, false),
    (R, ALL, R, NONE, false),
    (W, W, W, W, true),
    (W, R, W, ALL, false),
    (W, ALL, W, R, false),
    (D, D, D, D, true),
    (D, R, D, ALL, false),
    (D, ALL, D, R, false),
    // Readers and writers.
    (R, R, W, ALL, false),
    (R, W, W, ALL, true),
    (R, W, W, NONE, false),
    (R, W, W, R, true),
    (W, R, R, W, true),
    (W, R, R, R, false),
    (W, ALL, R, ALL, true),
    // Deletion beside the others.
    (R, R, D, ALL, false),
    (R, D, D, R, true),
    (R, ALL, D, NONE, false),
    (D, R, R, D, true),
    (D, W, R, ALL, false),
    // Attributes only: neither asked nor asking.
    (NONE, NONE, R, ALL, true),
    (NONE, NONE, ALL, NONE, true),
    (ALL, NONE, NONE, NONE, true),
    (ALL, NONE, NONE, ALL, true),
    // All at once.
    (ALL, ALL, ALL, ALL, true),
    (ALL, R, R, ALL, true),
    (ALL, R, W, ALL, false),
    (ALL, R, R, R, false),
];

#[test]
fn each_case_is_as_the_standard_has_it() {
    for case in CASES {
        let (access, share, other, other_share, is_let_in) = *case;
        let (table, told) = (Table::new(Settings::default()), Default::default());
        open(&table, &OpenRequest { share, ..request(1, access, &told) });
        let second = ask(&table, &OpenRequest { share: other_share, ..request(2, other, &told) }, seconds(0));
        match (is_let_in, second) {
            (true, Poll::Ready(Ok(Opening::Opened(_)))) | (false, Poll::Ready(Err(Error::Sharing { .. }))) => (),
            (_, other) => panic!("{case:?}: {other:?}"),
        }
        table.check();
    }
}

#[test]
fn all_pairs_are_symmetrical_and_as_a_comparison_bit_by_bit() {
    let each = [R, W, D];
    let modes: Vec<Access> =
        (0..8).map(|bits| (0..3).filter(|at| bits >> at & 1 == 1).fold(NONE, |all, at| all.and(each[at]))).collect();
    for access in &modes {
        for share in &modes {
            for other in &modes {
                for other_share in &modes {
                    let table = Table::new(Settings::default());
                    let told = Default::default();
                    open(&table, &OpenRequest { share: *share, ..request(1, *access, &told) });
                    let second = OpenRequest { share: *other_share, ..request(2, *other, &told) };
                    let is_let_in = matches!(ask(&table, &second, seconds(0)), Poll::Ready(Ok(_)));
                    let fits = each.iter().all(|one| {
                        (!access.has(*one) || other_share.has(*one)) && (!other.has(*one) || share.has(*one))
                    });
                    let expected = fits || *access == NONE || *other == NONE;
                    assert_eq!(is_let_in, expected, "{access:?} {share:?} {other:?} {other_share:?}");
                }
            }
        }
    }
}

#[test]
fn local_programs_may_ignore_denials_and_are_seen_all_the_same() {
    let (table, told) = (Table::new(Settings::default()), Default::default());
    let denying = open(&table, &OpenRequest { share: NONE, ..request(1, R, &told) });
    let local = request(2, W, &told);
    assert!(matches!(ask(&table, &local, seconds(0)), Poll::Ready(Err(Error::Sharing { .. }))));
    let local = open(&table, &OpenRequest { ignores_denials: true, ..local });
    table.close(&denying.seat, seconds(0)).expect("it is open");
    let denying = OpenRequest { share: R, ..request(1, R, &told) };
    assert!(matches!(ask(&table, &denying, seconds(0)), Poll::Ready(Err(Error::Sharing { .. }))));
    table.close(&local.seat, seconds(0)).expect("it is open");
    open(&table, &denying);
    table.check();
}

#[test]
fn a_disk_is_nobody_elses_to_change_and_is_read_past_caches() {
    let (table, told) = (Table::new(Settings::default()), Default::default());
    let local = |access| OpenRequest { ignores_denials: true, ..request(2, access, &told) };
    let disk = OpenRequest { share: R, excludes_all: true, ..request(1, R.and(W), &told) };
    let writer = open(&table, &local(W));
    assert!(matches!(ask(&table, &disk, seconds(0)), Poll::Ready(Err(Error::Sharing { .. }))));
    table.close(&writer.seat, seconds(0)).expect("it is open");
    let reader = open(&table, &local(R));
    assert!(!reader.seat.is_disk());
    let disk = open(&table, &disk);
    assert!(reader.seat.is_disk(), "also to those who had it open before");
    for access in [W, D, R.and(W)] {
        assert!(matches!(ask(&table, &local(access), seconds(0)), Poll::Ready(Err(Error::Sharing { .. }))));
    }
    let second = open(&table, &local(R));
    assert!(second.seat.is_disk());
    table.check();
    table.close(&disk.seat, seconds(0)).expect("it is open");
    assert!(!second.seat.is_disk());
    open(&table, &local(W));
    table.check();
}

#[test]
fn a_file_that_is_to_go_refuses_and_goes_with_its_last_close() {
    let (table, told) = (Table::new(Settings::default()), Default::default());
    let first = open(&table, &request(1, D, &told));
    let second =
        open(&table, &OpenRequest { delete_on_close: Some(b"its name".as_slice().into()), ..request(2, D, &told) });
    let third = open(&table, &request(3, R, &told));
    assert_eq!(
        table.set_delete(&third.seat, Some(b"x".as_slice().into()), seconds(0)),
        Err(Error::Rights { file: FILE, open: third.seat.open() })
    );
    let asks = || ask(&table, &request(4, R, &told), seconds(0));
    table.set_delete(&first.seat, Some(b"a name".as_slice().into()), seconds(0)).expect("it may");
    assert!(matches!(asks(), Poll::Ready(Err(Error::DeletePending { .. }))));
    table.set_delete(&first.seat, None, seconds(0)).expect("it may");
    let fourth = open(&table, &request(4, R, &told));
    assert!(table.close(&second.seat, seconds(0)).expect("it is open").is_none());
    assert!(matches!(asks(), Poll::Ready(Err(Error::DeletePending { .. }))));
    assert!(table.close(&first.seat, seconds(0)).expect("it is open").is_none());
    assert!(table.close(&third.seat, seconds(0)).expect("it is open").is_none());
    let deletion = table.close(&fourth.seat, seconds(0)).expect("it is open").expect("it goes");
    assert_eq!((deletion.file(), &deletion.link()[..]), (FILE, &b"its name"[..]));
    // Between the last close and the end of the deletion nobody comes in.
    assert!(matches!(asks(), Poll::Ready(Err(Error::DeletePending { .. }))));
    table.deleted(deletion, seconds(0));
    assert_eq!(table.counts(), Counts::default());
    open(&table, &request(4, R, &told));
    assert_eq!(table.close(&fourth.seat, seconds(0)).err(), Some(Error::NoOpen { open: fourth.seat.open() }));
}

#[test]
fn an_administrator_closes_an_open_whose_seat_is_good_for_nothing_then() {
    let (table, told) = (Table::new(Settings::default()), Default::default());
    let seat = open(&table, &request(1, R, &told)).seat;
    let other = open(&table, &request(2, R, &told)).seat;
    lock(&table, &seat, LockBy::Nt, range(0, 10), true).expect("free");
    let listed = table.opens_of_client(ClientId(1), 10);
    assert_eq!((listed.len(), listed[0].open, listed[0].protocol), (1, seat.open(), "test"));
    assert!(table.force_close(FILE, listed[0].open, seconds(0)).expect("it is open").is_none());
    assert_eq!(*told.closed.lock().unwrap(), [seat.open()]);
    let act = |seat: &Seat| {
        table.poll_begin(seat, Act::Read(None), &mut Waiting::new(), seconds(0), std::task::Waker::noop())
    };
    assert_eq!(act(&seat), Poll::Ready(Err(Error::NoOpen { open: seat.open() })));
    assert_eq!(act(&other), Poll::Ready(Ok(())));
    assert!(table.locks_of(FILE, 10).is_empty());
    assert!(table.force_close(FILE, seat.open(), seconds(0)).is_err());
    assert_eq!(table.files(10), [FILE]);
    table.check();
}

#[test]
fn a_file_that_was_renamed_goes_by_its_new_name() {
    let (table, told) = (Table::new(Settings::default()), Default::default());
    let link = |name: &str| LinkName { directory: 3, generation: 1, name: name.into() }.to_link();
    let gone = OpenRequest { delete_on_close: Some(link("old")), ..request(1, Access::DELETE, &told) };
    let first = open(&table, &gone).seat;
    let second = open(&table, &OpenRequest { delete_on_close: Some(link("other")), ..gone.clone() }).seat;
    table.relink(FILE, &link("none"), &link("wrong"), seconds(0));
    table.relink(FILE, &link("old"), &link("new"), seconds(0));
    table.relink(FileKey { number: 99, ..FILE }, &link("old"), &link("new"), seconds(0));
    assert!(table.close(&first, seconds(0)).expect("open").is_none(), "another one is left");
    table.relink(FILE, &link("new"), &link("newer"), seconds(0));
    let deletion = table.close(&second, seconds(0)).expect("open").expect("the last one");
    let name = LinkName::of(deletion.link()).expect("words");
    assert_eq!(name, LinkName { directory: 3, generation: 1, name: b"newer".to_vec() });
    table.deleted(deletion, seconds(0));
    table.check();
}
