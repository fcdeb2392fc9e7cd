//! What administrators change while initiators are at work: a LUN that grows, is removed, is read-only, and of other blocks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_harness::wait_until;
use holdfast_tests::iscsi::answer::{key, status};
use holdfast_tests::iscsi::cdb;
use holdfast_tests::iscsi::initiator::Session;
use holdfast_tests::iscsi::tools::libiscsi;
use holdfast_tests::random::bytes;

use crate::product::Product;

fn blocks(session: &mut Session, lun: u16) -> (u64, u32) {
    let data = session.read(lun, &cdb::read_capacity(), 32).expect("the session lives").good();
    let last = u64::from_be_bytes(data[..8].try_into().expect("eight bytes"));
    (last + 1, u32::from_be_bytes(data[8..12].try_into().expect("four bytes")))
}

#[test]
fn growth_is_told_and_seen() {
    let product = Product::open(1);
    product.unit(64);
    let mut session = product.session(1);
    assert_eq!(blocks(&mut session, 0), (64 << 11, 512));
    let beyond = session.write(0, &cdb::write(64 << 11, 8), &[1; 4096]).expect("an answer");
    beyond.fails_with(key::ILLEGAL_REQUEST, 0x21, 0);
    product.daemon.please(&["lun", "grow", "vm", "0", "--size", "96MiB"]);
    session.run(0, &cdb::TEST_UNIT_READY).expect("an answer").fails_with(key::UNIT_ATTENTION, 0x2a, 0x09);
    assert_eq!(blocks(&mut session, 0), (96 << 11, 512));
    session.write(0, &cdb::write((96 << 11) - 8, 8), &[1; 4096]).expect("an answer").good();
    product.place().qemu_io(&["read -P 1 100659200 4096"]).succeeded();
}

#[test]
fn a_lun_that_is_removed_under_load_is_gone_and_the_others_go_on() {
    let product = Product::open(1);
    product.unit(64);
    product.lun("other", 3, &["--layout", "simple", "--size", "64MiB"]);
    let removed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (1..=3u16)
            .map(|number| {
                let (product, removed) = (&product, &removed);
                scope.spawn(move || {
                    let mut session = product.session(number);
                    session.settle(3);
                    let mut done = 0;
                    loop {
                        let over = removed.load(Ordering::SeqCst);
                        let answer = session.write(0, &cdb::write(done % 1000 * 8, 8), &[2; 4096]).expect("it lives");
                        if answer.status == status::GOOD {
                            assert!(!over, "it is gone and takes writes");
                            done += 1;
                            continue;
                        }
                        // What was on its way when the LUN went.
                        if answer.status == status::TASK_ABORTED {
                            continue;
                        }
                        match answer.sense_code() {
                            (key::ILLEGAL_REQUEST, 0x25, 0) => break,
                            (key::UNIT_ATTENTION, ..) => (),
                            other => panic!("{other:x?}"),
                        }
                    }
                    assert!(done > 0);
                    // The other one tells that there are fewer, and goes on.
                    let told = session.run(3, &cdb::TEST_UNIT_READY).expect("it lives");
                    told.fails_with(key::UNIT_ATTENTION, 0x3f, 0x0e);
                    session.write(3, &cdb::write(0, 8), &[3; 4096]).expect("it lives").good();
                    let luns = session.read(3, &cdb::report_luns(64), 64).expect("it lives").good();
                    assert_eq!((luns[3], luns[9]), (8, 3), "{luns:?}");
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(500));
        let refused = product.daemon.cli(&["lun", "remove", "vm", "0"]).refused();
        assert!(refused.contains("would be cut off") && refused.contains("--yes"), "{refused}");
        product.daemon.please(&["lun", "remove", "vm", "0", "--yes"]);
        removed.store(true, Ordering::SeqCst);
        clients.into_iter().for_each(|client| client.join().expect("a client finds no fault"));
    });
    product.daemon.please(&["space", "destroy", "tank/unit", "--yes"]);
}

#[test]
fn a_lun_is_read_only_or_of_blocks_of_4096() {
    let product = Product::open(1);
    product.unit(64);
    product.place().qemu_io(&["write -P 5 0 64M", "flush"]).succeeded();
    product.daemon.please(&["lun", "remove", "vm", "0", "--yes"]);
    product.daemon.please(&["lun", "add", "vm", "tank/unit", "--lun", "0", "--block", "4096", "--read-only"]);
    let mut session = product.session(1);
    assert_eq!(blocks(&mut session, 0), (64 << 8, 4096));
    assert_eq!(session.read(0, &cdb::read(0, 4), 16384).expect("an answer").good(), [5; 16384]);
    let kept = session.write(0, &cdb::write(0, 1), &[1; 4096]).expect("an answer");
    assert_eq!(kept.sense_code().0, key::DATA_PROTECT);
    product.daemon.please(&["lun", "remove", "vm", "0", "--yes"]);
    product.daemon.please(&["lun", "add", "vm", "tank/unit", "--lun", "0", "--block", "4096"]);
    let mut session = product.session(1);
    let data = bytes(3, 1 << 20);
    session.write(0, &cdb::write(100, 256), &data).expect("an answer").good();
    assert!(session.read(0, &cdb::read(100, 256), data.len()).expect("an answer").good() == data);
    assert_eq!(session.read(0, &cdb::read(356, 1), 4096).expect("an answer").good(), [5; 4096]);
    let capacity = libiscsi("iscsi-readcapacity16", &[], &product.place()).succeeded();
    assert!(capacity.contains("67108864"), "{capacity}");
}

#[test]
fn sessions_are_shown_and_dropped() {
    let product = Product::open(1);
    product.unit(64);
    let mut session = product.session(1);
    session.write(0, &cdb::write(0, 8), &[1; 4096]).expect("an answer").good();
    let listed = product.daemon.json(&["iscsi", "session", "list"]);
    let shown = &listed.as_array().expect("a list")[0];
    assert_eq!(shown["initiator"], holdfast_tests::iscsi::login::INITIATOR, "{shown}");
    assert!(shown["written_bytes"].as_u64().is_some_and(|bytes| bytes >= 4096), "{shown}");
    let id = shown["id"].as_u64().map_or_else(|| shown["id"].as_str().expect("an id").to_owned(), |id| id.to_string());
    product.daemon.please(&["iscsi", "session", "drop", &id]);
    wait_until("it ends", || session.run(0, &cdb::TEST_UNIT_READY).is_err());
    product.session(1);
}
