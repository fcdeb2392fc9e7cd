//! Answered writes that are lost: who is told, and who follows whom.

use futures_util::FutureExt;
use holdfast_device::IoErrorKind;
use holdfast_scsi::{Code, InitiatorPort, Nexus, SenseKey, code};

use crate::rig::*;

const FLUSH: [u8; 10] = [0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const LOST: (SenseKey, Code) = (SenseKey::HardwareError, code::WRITE_ERROR);

/// A flush by another front end, which fails.
fn lose(rig: &Rig) {
    *rig.memory.broken.lock().unwrap() = Some(IoErrorKind::Media);
    rig.unit.target().flush().now_or_never().expect("memory answers at once").unwrap_err();
    *rig.memory.broken.lock().unwrap() = None;
}

fn login(rig: &Rig, name: &str, isid: u8, port: u16) -> Nexus {
    let port_of = InitiatorPort { name: format!("iqn.2026-01.test:{name}"), isid: [0x80, 0, 0, 0, 0, isid] };
    let nexus = rig.device.connect(port_of, port);
    told(&nexus);
    nexus
}

#[track_caller]
fn hears_once(nexus: &Nexus) {
    assert_eq!(fails(nexus, &FLUSH, &[]), LOST);
    ok(nexus, &FLUSH, &[]);
}

#[test]
fn a_loss_of_answered_writes_is_told_once_to_each_whoever_met_it() {
    let rig = Rig::new();
    let (one, other) = (rig.nexus(1), rig.nexus(2));
    *rig.memory.broken.lock().unwrap() = Some(IoErrorKind::Media);
    assert_eq!(fails(&one, &FLUSH, &[]), LOST, "what is tried again would be taken for done");
    *rig.memory.broken.lock().unwrap() = None;
    ok(&one, &FLUSH, &[]);
    assert_eq!(fails(&other, &FLUSH, &[]), LOST, "its writes may be among those");
    ok(&other, &FLUSH, &[]);
    // By a flush of anybody else, too: another front end, or a copy.
    lose(&rig);
    let late = rig.nexus(3);
    for nexus in [&one, &other] {
        assert_eq!(fails(nexus, &[0x1b, 0, 0, 0, 0, 0], &[]), LOST, "a stop makes durable, too");
        ok(nexus, &FLUSH, &[]);
    }
    ok(&late, &FLUSH, &[]);
    // What is only away for now is no loss.
    *rig.memory.broken.lock().unwrap() = Some(IoErrorKind::Gone);
    fails(&one, &FLUSH, &[]);
    *rig.memory.broken.lock().unwrap() = None;
    [&one, &other].iter().for_each(|nexus| drop(ok(nexus, &FLUSH, &[])));
}

#[test]
fn whoever_logs_in_again_is_told_what_was_lost_meanwhile() {
    let rig = Rig::new();
    let (one, other, gone) = (login(&rig, "a", 1, 1), login(&rig, "b", 1, 1), login(&rig, "c", 1, 1));
    ok(&one, &rw10(0x2a, 0, 0, 8), &[1; 4096]);
    ok(&gone, &FLUSH, &[]);
    drop((one, gone));
    lose(&rig);
    hears_once(&login(&rig, "a", 1, 1));
    ok(&login(&rig, "a", 1, 1), &FLUSH, &[]);
    hears_once(&other);
    ok(&login(&rig, "new", 1, 1), &FLUSH, &[]);
    // By another port of its own, or of ours.
    hears_once(&login(&rig, "c", 7, 1));
    drop(other);
    lose(&rig);
    hears_once(&login(&rig, "b", 1, 2));
    ok(&login(&rig, "b", 1, 1), &FLUSH, &[]);
}

#[test]
fn an_answer_that_may_not_have_arrived_is_given_again() {
    let rig = Rig::new();
    let one = login(&rig, "a", 1, 1);
    lose(&rig);
    assert_eq!(fails(&one, &FLUSH, &[]), LOST);
    drop(one);
    hears_once(&login(&rig, "a", 1, 1));
    ok(&login(&rig, "a", 1, 1), &FLUSH, &[]);
}

#[test]
fn losses_are_told_over_a_time_away() {
    let rig = Rig::new();
    let (one, other) = (login(&rig, "a", 1, 1), login(&rig, "b", 1, 1));
    lose(&rig);
    hears_once(&one);
    let away = login(&rig, "c", 1, 1);
    rig.comes_back(|| drop(away));
    let late = login(&rig, "c", 1, 1);
    for nexus in [&one, &other] {
        told(nexus);
    }
    ok(&one, &FLUSH, &[]);
    hears_once(&other);
    ok(&late, &FLUSH, &[]);
    // What could not be made durable when it was taken out of service.
    rig.comes_back(|| rig.unit.note_loss());
    for nexus in [&one, &other, &late] {
        told(nexus);
        hears_once(nexus);
    }
    rig.comes_back(|| {
        rig.device.forget_reservations(0);
        rig.unit.note_loss();
    });
    told(&one);
    hears_once(&one);
}
