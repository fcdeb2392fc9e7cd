use holdfast_model::BLOCK_BYTES;

use super::*;
use crate::quota::{Limits, QuotaState};

const SHARED: u8 = crate::SHARED_TREES;

fn share(uid: u32, tree: u32, blocks: u64) -> Share {
    Share { uid, gid: 100, security: 0, tree, blocks }
}

fn made(after: Share) -> [Shift; 1] {
    [Shift { file: 1, before: None, after: Some(after) }]
}

fn used(ledger: &Ledger, subject: Subject) -> (u64, u64) {
    let quota = ledger.quotas().into_iter().find(|quota| quota.subject == subject);
    quota.map_or((0, 0), |quota| (quota.used_bytes / BLOCK_BYTES, quota.used_files))
}

fn limited(ledger: &Ledger, subject: Subject, limits: Limits, parent: u32) {
    let directory = FileId { number: 70 + u64::from(subject.fields().1), generation: 1 };
    let definition = Definition { limits, state: QuotaState::Settled, directory, parent };
    ledger.define(&limits_key(subject), Some(&definition.encode()));
}

fn blocks(hard: u64) -> Limits {
    Limits { hard_bytes: Some(hard * BLOCK_BYTES), ..Limits::default() }
}

fn ledger() -> Ledger {
    let ledger = Ledger::default();
    ledger.load(KEY_COUNTED, &[1]);
    ledger.loaded(&[]);
    ledger
}

#[test]
fn what_is_refused_changes_nothing() {
    let ledger = ledger();
    limited(&ledger, Subject::User(5), blocks(10), 0);
    ledger.book(&made(share(5, 0, 8)), Enforce::All, 0).expect("it fits");
    let error = ledger.book(&made(share(5, 0, 3)), Enforce::All, 0).expect_err("11 blocks of 10");
    assert_eq!(error.kind, ErrorKind::Quota);
    assert!(error.to_string().contains("user 5") && error.to_string().contains("40 KiB"), "{error}");
    assert_eq!(used(&ledger, Subject::User(5)), (8, 1));
    assert_eq!(used(&ledger, Subject::Group(100)), (8, 1));
    ledger.book(&made(share(5, 0, 3)), Enforce::Trees, 0).expect("an administrator may");
    let refused = ledger.quotas().iter().map(|quota| quota.refused).collect::<Vec<_>>();
    assert_eq!(refused, [1, 0]);
    let less = [Shift { file: 1, before: Some(share(5, 0, 8)), after: Some(share(5, 0, 7)) }];
    ledger.book(&less, Enforce::All, 0).expect("what takes less is never refused");
    assert_eq!(ledger.fit(share(5, 0, 0), 4).0, 0);
    assert_eq!(ledger.fit(share(6, 0, 0), 4), (4, None));
}

#[test]
fn a_tree_counts_for_those_that_it_is_within() {
    let ledger = ledger();
    limited(&ledger, Subject::Tree(1), blocks(10), 0);
    limited(&ledger, Subject::Tree(2), blocks(100), 1);
    ledger.book(&made(share(0, 2, 6)), Enforce::All, 0).expect("it fits");
    ledger.book(&made(share(0, 1, 2)), Enforce::All, 0).expect("it fits");
    assert_eq!((used(&ledger, Subject::Tree(1)), used(&ledger, Subject::Tree(2))), ((8, 2), (6, 1)));
    assert!(ledger.book(&made(share(0, 2, 3)), Enforce::Trees, 0).is_err(), "the tree above is full");
    assert_eq!(ledger.fit(share(0, 2, 0), 50).0, 2);
    let whole = Usage { total_bytes: 1 << 30, free_bytes: 1 << 29, files: 9, free_files: None };
    let seen = ledger.usage_in(2, whole);
    assert_eq!((seen.total_bytes, seen.free_bytes), (10 * BLOCK_BYTES, 2 * BLOCK_BYTES), "as full as the fuller");
    // Within another tree, it counts for that one.
    limited(&ledger, Subject::Tree(3), blocks(100), 0);
    limited(&ledger, Subject::Tree(2), blocks(100), 3);
    assert_eq!((used(&ledger, Subject::Tree(1)), used(&ledger, Subject::Tree(3))), ((2, 1), (6, 1)));
    // Trees that lie in each other are a fault of the disk, and no end of a search.
    limited(&ledger, Subject::Tree(3), blocks(100), 2);
    assert!(ledger.depth(3) <= MOST_DEPTH + 1);
}

#[test]
fn a_soft_limit_that_is_crossed_is_counted_once_each_time() {
    let ledger = ledger();
    let limits = Limits { soft_bytes: Some(5 * BLOCK_BYTES), soft_files: Some(1), ..Limits::default() };
    limited(&ledger, Subject::User(5), limits, 0);
    let crossed = || ledger.quotas()[0].crossed;
    ledger.book(&made(share(5, 0, 5)), Enforce::All, 0).expect("no hard limit");
    assert_eq!(crossed(), 0);
    ledger.book(&made(share(5, 0, 5)), Enforce::All, 0).expect("no hard limit");
    assert_eq!(crossed(), 2, "bytes and files");
    ledger.book(&made(share(5, 0, 5)), Enforce::All, 0).expect("no hard limit");
    assert_eq!(crossed(), 2);
    let gone = |blocks| [Shift { file: 1, before: Some(share(5, 0, blocks)), after: None }];
    (0..2).for_each(|_| ledger.book(&gone(5), Enforce::All, 0).expect("less"));
    ledger.book(&made(share(5, 0, 1)), Enforce::All, 0).expect("no hard limit");
    assert_eq!(crossed(), 4);
}

#[test]
fn checkpoints_write_what_changed_and_a_load_finds_it() {
    let ledger = ledger();
    ledger.book(&made(share(5, 7, 8)), Enforce::All, 0).expect("booked");
    ledger.book(&made(share(6, 0, 1)), Enforce::All, 0).expect("booked");
    let entries = ledger.entries(true);
    assert_eq!((entries.len(), ledger.changed()), (5, 4), "with the mark of how it was counted");
    ledger.settle();
    ledger.book(&[Shift { file: 1, before: Some(share(6, 0, 1)), after: None }], Enforce::All, 0).expect("booked");
    let last = ledger.entries(true);
    assert!(last.contains(&(Party::User(6).taken_key(), None)), "nothing is left of user 6: {last:?}");
    let again = self::ledger();
    for (key, value) in &entries {
        again.load(key, value.as_deref().expect("they take something"));
    }
    again.loaded(&[]);
    assert_eq!((used(&again, Subject::User(5)), used(&again, Subject::Tree(7))), ((8, 1), (8, 1)));
    assert_eq!((again.next_tree(), again.own_files(7), again.files()), (8, 1, 2));
}

#[test]
fn a_count_takes_in_what_changes_behind_it() {
    let ledger = Ledger::default();
    ledger.loaded(&[]);
    ledger.book(&made(share(5, 0, 8)), Enforce::All, 0).expect("nothing is counted yet");
    assert_eq!(ledger.quotas(), []);
    ledger.begin_recount();
    // Files 1 and 2 are in the first shard; the first was read, the second was not.
    ledger.count(&[share(5, 0, 8)], 0, crate::keys::record(2));
    let grown = [Shift { file: 1, before: Some(share(5, 0, 8)), after: Some(share(6, 0, 9)) }];
    ledger.book(&grown, Enforce::All, 0).expect("booked");
    ledger.book(&[Shift { file: 2, ..made(share(5, 0, 3))[0] }], Enforce::All, 0).expect("booked");
    ledger.count(&[share(5, 0, 3)], 1, Vec::new());
    assert!(ledger.end_recount(Some(BTreeMap::new())), "it is the first");
    assert_eq!((used(&ledger, Subject::User(5)), used(&ledger, Subject::User(6))), ((3, 1), (9, 1)));
    ledger.begin_recount();
    assert!(!ledger.end_recount(None), "given up");
    assert_eq!(used(&ledger, Subject::User(6)), (9, 1));
}

#[test]
fn what_waits_counts_for_whom_its_file_counts() {
    let ledger = ledger();
    for uid in [5, 6] {
        limited(&ledger, Subject::User(uid), blocks(10), 0);
    }
    limited(&ledger, Subject::Tree(1), blocks(9), 0);
    ledger.book(&made(share(5, 0, 2)), Enforce::All, 0).expect("it fits");
    assert!(ledger.hold(1, share(5, 0, 2), 6));
    assert!(!ledger.hold(1, share(5, 0, 2), 3), "11 of 10");
    assert_eq!(used(&ledger, Subject::User(5)), (8, 1));
    assert_eq!(ledger.fit(share(5, 0, 0), 4).0, 2);
    // Given to another, into a tree, and back.
    let given = |before, after| [Shift { file: 1, before: Some(before), after: Some(after) }];
    ledger.book(&given(share(5, 0, 2), share(6, 1, 2)), Enforce::All, 0).expect("it fits");
    let all =
        |ledger: &Ledger| [Subject::User(5), Subject::User(6), Subject::Tree(1)].map(|whose| used(ledger, whose).0);
    assert_eq!(all(&ledger), [0, 8, 8]);
    limited(&ledger, Subject::Tree(2), blocks(9), 1);
    assert_eq!(all(&ledger), [0, 8, 8], "also when trees are added up anew");
    assert!(ledger.hold(2, share(5, 0, 0), 3));
    assert!(ledger.book(&given(share(6, 1, 2), share(5, 0, 2)), Enforce::All, 0).is_err(), "11 of 10");
    assert_eq!(all(&ledger), [3, 8, 8]);
    ledger.let_go(2);
    // Some of it finds its place, the rest is let go.
    ledger.book(&given(share(6, 1, 2), share(6, 1, 6)), Enforce::All, 4).expect("it was held");
    assert_eq!(all(&ledger), [0, 8, 8]);
    ledger.let_go(1);
    assert_eq!(all(&ledger), [0, 6, 6]);
    ledger.book(&[Shift { file: 1, before: Some(share(6, 1, 6)), after: None }], Enforce::All, 0).expect("less");
    assert_eq!(all(&ledger), [0, 0, 0]);
}

#[test]
fn what_waits_moves_also_where_files_take_each_others_place() {
    let ledger = ledger();
    for tree in [1, 2] {
        limited(&ledger, Subject::Tree(tree), blocks(10), 0);
    }
    ledger.book(&made(share(5, 1, 2)), Enforce::All, 0).expect("it fits");
    ledger.book(&made(share(5, 2, 2)), Enforce::All, 0).expect("it fits");
    assert!(ledger.hold(1, share(5, 1, 2), 3));
    let moved = |file, from, to| Shift { file, before: Some(share(5, from, 2)), after: Some(share(5, to, 2)) };
    ledger.book(&[moved(1, 1, 2), moved(2, 2, 1)], Enforce::All, 0).expect("it fits");
    assert_eq!([1, 2].map(|tree| used(&ledger, Subject::Tree(tree)).0), [2, 5]);
}

/// A file of somebody without a number, by its descriptor.
fn stranger(security: u32, blocks: u64) -> Share {
    Share { uid: NOBODY, gid: 100, security, tree: 0, blocks }
}

fn sid(rid: u32) -> Sid {
    format!("S-1-5-21-1-2-3-{rid}").parse().expect("a SID")
}

#[test]
fn files_of_all_descriptors_of_an_owner_count_for_it() {
    let ledger = ledger();
    let (one, other) = (Subject::Sid(sid(1)), Subject::Sid(sid(2)));
    [(1, 1), (2, 1), (3, 2)].into_iter().for_each(|(descriptor, rid)| ledger.know(descriptor, &sid(rid)));
    limited(&ledger, one, blocks(10), 0);
    ledger.book(&made(stranger(1, 4)), Enforce::All, 0).expect("it fits");
    ledger.book(&made(stranger(2, 4)), Enforce::All, 0).expect("it fits");
    ledger.book(&made(stranger(3, 40)), Enforce::All, 0).expect("it has no limit");
    let error = ledger.book(&made(stranger(2, 3)), Enforce::All, 0).expect_err("11 blocks of 10");
    assert!(error.to_string().contains("S-1-5-21-1-2-3-1"), "{error}");
    assert_eq!((used(&ledger, one), used(&ledger, other), ledger.files()), ((8, 2), (40, 1), 3));
    assert!(ledger.hold(1, stranger(2, 4), 2) && !ledger.hold(1, stranger(2, 4), 1));
    assert_eq!((used(&ledger, one), ledger.fit(stranger(1, 0), 5).0), ((10, 2), 0));
    // Another list of the same owner, with what waits.
    let moved = [Shift { file: 1, before: Some(stranger(2, 4)), after: Some(stranger(3, 4)) }];
    ledger.book(&moved, Enforce::All, 0).expect("it has no limit");
    assert_eq!((used(&ledger, one), used(&ledger, other)), ((4, 1), (46, 2)));
    ledger.let_go(1);
    // What is written is read back, with the limit; only the mark says that it was counted so.
    let entries = ledger.entries(true);
    assert!(entries.contains(&(KEY_COUNTED.to_vec(), Some(vec![BY_OWNER]))));
    assert!(ledger.entries(false).iter().all(|(key, _)| key != KEY_COUNTED), "it may not say so");
    let again = Ledger::default();
    for (key, value) in
        entries.iter().chain(&ledger.restore().into_iter().map(|(k, v)| (k, Some(v))).collect::<Vec<_>>())
    {
        value.iter().for_each(|value| again.load(key, value));
    }
    again.load(KEY_COUNTED, &[BY_OWNER]);
    again.loaded(&[]);
    assert_eq!((used(&again, one), used(&again, Subject::User(NOBODY))), ((0, 0), (48, 3)), "nobody knows whose");
    again.followed([(1, sid(1)), (3, sid(2))]);
    assert_eq!((used(&again, one), used(&again, other)), ((4, 1), (44, 2)));
    assert_eq!((again.limited_quotas().len(), again.quotas().len()), (1, 3));
    assert_eq!(again.fit(stranger(1, 0), 50).0, 6);
    again.define(&limits_key(one), None);
    assert_eq!(again.fit(stranger(1, 0), 50).0, 50);
    // Nothing is left of whom nothing is left.
    again.book(&[Shift { file: 1, before: Some(stranger(1, 4)), after: None }], Enforce::All, 0).expect("less");
    again.forget(1);
    assert_eq!(again.quotas().iter().map(|quota| quota.subject).collect::<Vec<_>>(), [Subject::Group(100), other]);
}

#[test]
fn owners_are_one_user_until_they_are_counted_anew() {
    let ledger = Ledger::default();
    ledger.load(KEY_COUNTED, &[BY_USER]);
    ledger.load(&Party::User(NOBODY).taken_key(), &Amount { blocks: 7, files: 2 }.encode());
    ledger.load(&Party::Group(100).taken_key(), &Amount { blocks: 7, files: 2 }.encode());
    ledger.loaded(&[(1, sid(1))]);
    assert!(ledger.is_counted() && !ledger.are_owners_counted() && ledger.needs_owners());
    let grown = [Shift { file: 1, before: Some(stranger(1, 3)), after: Some(stranger(1, 4)) }];
    ledger.book(&grown, Enforce::All, 0).expect("booked");
    assert!(ledger.hold(1, stranger(1, 4), 2));
    assert_eq!(used(&ledger, Subject::User(NOBODY)), (10, 2));
    ledger.begin_recount();
    ledger.count(&[stranger(1, 4), share(NOBODY, 0, 4)], SHARED, Vec::new());
    let kept = BTreeMap::from([(Party::User(NOBODY), Amount { blocks: 7, files: 2 })]);
    assert!(ledger.end_recount(Some(kept)) && ledger.are_owners_counted());
    assert_eq!((used(&ledger, Subject::User(NOBODY)), used(&ledger, Subject::Sid(sid(1)))), ((4, 1), (6, 1)));
    ledger.let_go(1);
    assert_eq!(used(&ledger, Subject::Sid(sid(1))), (4, 1), "what waited did so for the owner");
    assert!(ledger.entries(true).contains(&(KEY_COUNTED.to_vec(), Some(vec![BY_OWNER]))));
    ledger.settle();
    assert_eq!(ledger.entries(true), []);
}
