//! Persistent reservations, and the older kind.

use holdfast_scsi::{InitiatorPort, Manage, Nexus, Sense, SenseKey, code, lun_field};

use crate::rig::*;

const TYPES: [u8; 6] = [1, 3, 5, 6, 7, 8];
const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const RELEASE: u8 = 2;
const CLEAR: u8 = 3;
const PREEMPT: u8 = 4;
const ABORT: u8 = 5;
const IGNORE: u8 = 6;
const MOVE: u8 = 7;

#[track_caller]
fn done(nexus: &Nexus, action: u8, kind: u8, key: u64, new_key: u64) {
    let (cdb, list) = pr_out(action, kind, key, new_key, 0);
    ok(nexus, &cdb, &list);
}

#[track_caller]
fn refused(nexus: &Nexus, action: u8, kind: u8, key: u64, new_key: u64) {
    let (cdb, list) = pr_out(action, kind, key, new_key, 0);
    conflicts(nexus, &cdb, &list);
}

fn keys(nexus: &Nexus) -> Vec<u64> {
    pr_in(nexus, 0)[8..].chunks(8).map(|key| u64::from_be_bytes(key.try_into().unwrap())).collect()
}

fn generation(nexus: &Nexus) -> u32 {
    u32::from_be_bytes(pr_in(nexus, 0)[..4].try_into().unwrap())
}

/// Key and type of the reservation.
fn held(nexus: &Nexus) -> Option<(u64, u8)> {
    let data = pr_in(nexus, 1);
    (data.len() > 8).then(|| (u64::from_be_bytes(data[8..16].try_into().unwrap()), data[21]))
}

/// Whether a nexus may read, and whether it may write.
fn access(nexus: &Nexus) -> (bool, bool) {
    let good = |cdb: &[u8], data: &[u8]| run(nexus, cdb, data).status as u8 == 0;
    (good(&rw10(0x28, 0, 0, 1), &[]), good(&rw10(0x2a, 0, 0, 1), &[0; 512]))
}

#[test]
fn each_type_keeps_out_whom_it_should() {
    for kind in TYPES {
        let rig = Rig::new();
        let (holder, registrant, stranger) = (rig.nexus(1), rig.nexus(2), rig.nexus(3));
        done(&holder, REGISTER, 0, 0, 1);
        done(&registrant, REGISTER, 0, 0, 2);
        done(&holder, RESERVE, kind, 1, 0);
        let exclusive = [3, 6, 8].contains(&kind);
        let for_registrants = kind > 4;
        assert_eq!(access(&holder), (true, true), "{kind}");
        assert_eq!(access(&registrant), (for_registrants || !exclusive, for_registrants), "{kind}");
        assert_eq!(access(&stranger), (!exclusive, false), "{kind}");
        assert_eq!(held(&stranger), Some((if kind > 6 { 0 } else { 1 }, kind)));
        refused(&stranger, RESERVE, kind, 0, 0);
        if kind > 6 {
            done(&registrant, RESERVE, kind, 2, 0);
        } else {
            refused(&registrant, RESERVE, kind, 2, 0);
        }
        let other = TYPES[(TYPES.iter().position(|one| *one == kind).unwrap() + 1) % 6];
        refused(&holder, RESERVE, other, 1, 0);
        let (cdb, list) = pr_out(RELEASE, other, 1, 0, 0);
        assert_eq!(fails(&holder, &cdb, &list), (SenseKey::IllegalRequest, code::INVALID_RELEASE));
        done(&holder, RELEASE, kind, 1, 0);
        assert_eq!(told(&registrant), if for_registrants { vec![code::RESERVATIONS_RELEASED] } else { vec![] });
        assert_eq!((held(&stranger), access(&stranger)), (None, (true, true)));
    }
}

/// Every command that a reservation of either exclusiveness may keep out, by what the standards say of strangers.
#[test]
fn every_command_is_kept_out_as_the_standards_say() {
    let read: &[&[u8]] = &[
        &[0x08, 0, 0, 0, 1, 0],
        &rw10(0x28, 0, 0, 1),
        &rw16(0x88, 0, 0, 1),
        &rw10(0x2f, 0, 0, 1),
        &rw10(0x34, 0, 0, 1),
        &[0x1a, 0, 0x3f, 0, 255, 0],
        &[0x5a, 0, 0x3f, 0, 0, 0, 0, 0, 255, 0],
        &rw16(0x9e, 0x12, 0, 24),
        &[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0],
        &[0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0],
    ];
    let write: &[&[u8]] = &[
        &rw10(0x2a, 0, 0, 0),
        &rw16(0x8a, 0, 0, 0),
        &rw10(0x2e, 0, 0, 0),
        &rw10(0x35, 0, 0, 0),
        &rw16(0x93, 1, 0, 1),
        &[0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &rw16(0x89, 0, 0, 0),
        &[0x15, 0x10, 0, 0, 0, 0],
        &[0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x1b, 0, 0, 0, 0, 0],
    ];
    let never: &[&[u8]] = &[
        &[0x00; 6],
        &[0x12, 0, 0, 0, 36, 0],
        &[0x03, 0, 0, 0, 18, 0],
        &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0],
        &[0x25; 1],
        &rw16(0x9e, 0x10, 0, 32),
        &[0x4d, 0, 0x40, 0, 0, 0, 0, 0, 255, 0],
        &[0x1b, 0, 0, 0, 1, 0],
        &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0],
        &[0x5e, 1, 0, 0, 0, 0, 0, 0, 24, 0],
    ];
    for kind in [1, 3] {
        let rig = Rig::new();
        let (holder, stranger) = (rig.nexus(1), rig.nexus(2));
        done(&holder, REGISTER, 0, 0, 1);
        done(&holder, RESERVE, kind, 1, 0);
        for cdb in read {
            if kind == 1 { drop(ok(&stranger, cdb, &[])) } else { conflicts(&stranger, cdb, &[]) }
        }
        write.iter().for_each(|cdb| conflicts(&stranger, cdb, &[]));
        never.iter().for_each(|cdb| drop(ok(&stranger, cdb, &[])));
        [read, write, never].concat().iter().for_each(|cdb| drop(ok(&holder, cdb, &[])));
        for cdb in [[0x16, 0, 0, 0, 0, 0], [0x17, 0, 0, 0, 0, 0]] {
            conflicts(&holder, &cdb, &[]);
        }
    }
}

#[test]
fn keys_are_changed_by_those_who_know_them() {
    let rig = Rig::new();
    let (one, other) = (rig.nexus(1), rig.nexus(2));
    refused(&one, REGISTER, 0, 5, 1);
    done(&one, REGISTER, 0, 0, 0);
    assert_eq!((keys(&one), generation(&one)), (vec![], 0));
    done(&one, REGISTER, 0, 0, 1);
    refused(&one, REGISTER, 0, 0, 2);
    done(&one, REGISTER, 0, 1, 2);
    done(&other, IGNORE, 0, 99, 3);
    assert_eq!((keys(&one), generation(&one)), (vec![2, 3], 3));
    done(&one, RESERVE, 1, 2, 0);
    refused(&other, RELEASE, 1, 2, 0);
    done(&other, RELEASE, 1, 3, 0);
    assert_eq!((held(&one), generation(&one)), (Some((2, 1)), 3), "a reservation of another is not released");
    done(&one, REGISTER, 0, 2, 0);
    assert_eq!((held(&other), keys(&other), told(&other)), (None, vec![3], vec![]));
}

#[test]
fn a_reservation_of_all_registrants_ends_with_the_last() {
    let rig = Rig::new();
    let (one, other) = (rig.nexus(1), rig.nexus(2));
    done(&one, REGISTER, 0, 0, 1);
    done(&other, REGISTER, 0, 0, 2);
    done(&one, RESERVE, 7, 1, 0);
    done(&one, REGISTER, 0, 1, 0);
    assert_eq!((held(&one), access(&one), access(&other)), (Some((0, 7)), (true, false), (true, true)));
    done(&other, REGISTER, 0, 2, 0);
    assert_eq!((held(&one), access(&one)), (None, (true, true)));
}

#[test]
fn whoever_is_preempted_is_told_and_kept_out() {
    for action in [PREEMPT, ABORT] {
        let rig = Rig::new();
        let (one, other, third) = (rig.nexus(1), rig.nexus(2), rig.nexus(3));
        done(&one, REGISTER, 0, 0, 1);
        done(&other, REGISTER, 0, 0, 2);
        done(&third, REGISTER, 0, 0, 2);
        done(&one, RESERVE, 5, 1, 0);
        refused(&other, action, 5, 2, 77);
        let (cdb, list) = pr_out(action, 5, 2, 0, 0);
        assert_eq!(run(&other, &cdb, &list).sense, Some(Sense::list(8)));
        done(&other, action, 3, 2, 1);
        assert_eq!((held(&other), keys(&other), generation(&other)), (Some((2, 3)), vec![2, 2], 4));
        assert_eq!(told(&one), [code::REGISTRATIONS_PREEMPTED]);
        assert_eq!(told(&third), [code::RESERVATIONS_RELEASED], "of another type now");
        assert_eq!((access(&one), access(&third), access(&other)), ((false, false), (false, false), (true, true)));
        // A key that several have: all go, but who asks.
        done(&other, action, 1, 2, 2);
        assert_eq!((held(&other), keys(&other)), (Some((2, 1)), vec![2]));
    }
}

#[test]
fn a_reservation_of_all_is_taken_over_by_the_key_zero() {
    let rig = Rig::new();
    let (one, other, third) = (rig.nexus(1), rig.nexus(2), rig.nexus(3));
    done(&one, REGISTER, 0, 0, 1);
    done(&other, REGISTER, 0, 0, 2);
    done(&third, REGISTER, 0, 0, 3);
    done(&one, RESERVE, 8, 1, 0);
    done(&other, PREEMPT, 1, 2, 3);
    assert_eq!((held(&one), keys(&one), told(&third)), (Some((0, 8)), vec![1, 2], vec![code::REGISTRATIONS_PREEMPTED]));
    done(&other, PREEMPT, 1, 2, 0);
    assert_eq!((held(&other), keys(&other), told(&one)), (Some((2, 1)), vec![2], vec![code::REGISTRATIONS_PREEMPTED]));
    done(&other, CLEAR, 0, 2, 0);
    assert_eq!((held(&other), keys(&other)), (None, vec![]));
}

#[test]
fn clearing_tells_all_others() {
    let rig = Rig::new();
    let (one, other) = (rig.nexus(1), rig.nexus(2));
    done(&one, REGISTER, 0, 0, 1);
    done(&other, REGISTER, 0, 0, 2);
    refused(&one, CLEAR, 0, 9, 0);
    done(&one, CLEAR, 0, 1, 0);
    assert_eq!((told(&one), told(&other), keys(&one)), (vec![], vec![code::RESERVATIONS_PREEMPTED], vec![]));
}

fn with_ids(flags: u8, key: u64, new_key: u64, ids: &[Vec<u8>]) -> ([u8; 10], Vec<u8>) {
    let (mut cdb, mut list) = pr_out(REGISTER, 0, key, new_key, flags);
    let ids = ids.concat();
    list.extend((ids.len() as u32).to_be_bytes());
    list.extend(ids);
    cdb[7..9].copy_from_slice(&(list.len() as u16).to_be_bytes());
    (cdb, list)
}

#[test]
fn ports_and_initiators_are_registered_together() {
    let rig = Rig::new();
    let (one, other_port) = (rig.nexus(1), rig.nexus_at(1, 2));
    let (cdb, list) = pr_out(REGISTER, 0, 0, 1, 4);
    ok(&one, &cdb, &list);
    assert_eq!(keys(&one), [1, 1]);
    done(&one, RESERVE, 5, 1, 0);
    assert_eq!(access(&other_port), (true, true));
    let status = pr_in(&one, 3);
    assert_eq!((status[20], status[27]), (1, 1), "the holder, and its port");
    let (cdb, list) = pr_out(IGNORE, 0, 0, 0, 4);
    ok(&other_port, &cdb, &list);
    assert_eq!(keys(&one), []);

    let id =
        |number| InitiatorPort { name: format!("iqn.2026-01.test:host{number}"), isid: [0x80, 0, 0, 0, 0, number] };
    let (cdb, list) = with_ids(8, 0, 7, &[id(2).transport_id(), id(3).transport_id()]);
    ok(&one, &cdb, &list);
    assert_eq!(keys(&one), [7, 7, 7]);
    done(&rig.nexus(2), RESERVE, 1, 7, 0);
    assert_eq!(run(&rig.nexus(4), &cdb, &list).sense, Some(Sense::list_bit(20, 3)), "they are registered already");
    for cut in 25..list.len() {
        let mut cdb = cdb;
        cdb[7..9].copy_from_slice(&(cut as u16).to_be_bytes());
        assert_eq!(fails(&rig.nexus(5), &cdb, &list[..cut]).1, code::PARAMETER_LIST_LENGTH);
    }
    let (cdb, list) = with_ids(8, 0, 7, &[vec![6; 24]]);
    assert_eq!(run(&rig.nexus(5), &cdb, &list).sense, Some(Sense::list(28)));
}

fn moving(key: u64, new_key: u64, flags: u8, port: u16, to: u8) -> ([u8; 10], Vec<u8>) {
    let id = InitiatorPort { name: format!("iqn.2026-01.test:host{to}"), isid: [0x80, 0, 0, 0, 0, to] }.transport_id();
    let mut list = [key.to_be_bytes(), new_key.to_be_bytes()].concat();
    list.extend([0, flags]);
    list.extend(port.to_be_bytes());
    list.extend((id.len() as u32).to_be_bytes());
    list.extend(id);
    ([0x5f, MOVE, 0, 0, 0, 0, 0, 0, list.len() as u8, 0], list)
}

#[test]
fn a_reservation_moves_to_another_nexus() {
    let rig = Rig::new();
    let (one, other) = (rig.nexus(1), rig.nexus_at(2, 2));
    done(&one, REGISTER, 0, 0, 1);
    let (cdb, list) = moving(1, 9, 0, 2, 2);
    conflicts(&one, &cdb, &list);
    done(&one, RESERVE, 3, 1, 0);
    for (key, new_key, port, to, sense) in
        [(1, 0, 2, 2, Sense::list(8)), (1, 9, 1, 1, Sense::list(24)), (1, 9, 77, 2, Sense::list(18))]
    {
        let (cdb, list) = moving(key, new_key, 0, port, to);
        assert_eq!(run(&one, &cdb, &list).sense, Some(sense));
    }
    let (cdb, list) = moving(1, 9, 2, 2, 2);
    ok(&one, &cdb, &list);
    assert_eq!((held(&other), keys(&other)), (Some((9, 3)), vec![9]));
    assert_eq!((access(&one), access(&other)), ((false, false), (true, true)));
}

#[test]
fn what_is_to_outlive_power_is_kept_before_the_answer() {
    let rig = Rig::new();
    let one = rig.nexus(1);
    let id = rig.unit.settings().id;
    let kept = || rig.keeper.kept.lock().unwrap().get(&id).cloned();
    done(&one, REGISTER, 0, 0, 1);
    assert_eq!(kept(), None);
    let (cdb, list) = pr_out(REGISTER, 0, 1, 2, 1);
    ok(&one, &cdb, &list);
    assert_eq!(pr_in(&one, 2), [0, 8, 0x0d, 0x81, 0xea, 1, 0, 0]);
    let before = kept().unwrap();
    done(&one, RESERVE, 3, 2, 0);
    assert_ne!(kept().unwrap(), before);

    *rig.keeper.broken.lock().unwrap() = true;
    let (cdb, list) = pr_out(RELEASE, 3, 2, 0, 0);
    assert_eq!(fails(&one, &cdb, &list).0, SenseKey::HardwareError);
    assert_eq!(held(&one), Some((2, 3)), "what was not kept is not in force");
    *rig.keeper.broken.lock().unwrap() = false;

    let after = Rig::new();
    after.unit.restore_reservations(&kept().unwrap()).unwrap();
    let (one, stranger) = (after.nexus(1), after.nexus(2));
    assert_eq!(
        (held(&one), keys(&one), access(&one), access(&stranger)),
        (Some((2, 3)), vec![2], (true, true), (false, false))
    );
    let view = after.unit.reservations();
    assert_eq!((view.kind, view.aptpl, view.registrants[0].holder), (Some("exclusive-access"), true, true));
    let (cdb, list) = pr_out(REGISTER, 0, 2, 2, 0);
    after.keeper.kept.lock().unwrap().insert(id, vec![1]);
    ok(&one, &cdb, &list);
    assert!(after.keeper.kept.lock().unwrap().is_empty(), "it is not to outlive power any more");
}

#[test]
fn who_is_not_registered_ends_nothing_by_leaving() {
    let rig = Rig::new();
    let (one, stranger) = (rig.nexus(1), rig.nexus(2));
    let id = rig.unit.settings().id;
    let kept = || rig.keeper.kept.lock().unwrap().get(&id).cloned();
    let (cdb, list) = pr_out(REGISTER, 0, 0, 1, 1);
    ok(&one, &cdb, &list);
    done(&one, RESERVE, 5, 1, 0);
    let before = (kept().expect("it is to outlive power"), generation(&one));
    for (action, flags) in [(REGISTER, 0), (IGNORE, 0), (IGNORE, 1), (IGNORE, 4)] {
        let (cdb, list) = pr_out(action, 0, 0, 0, flags);
        ok(&stranger, &cdb, &list);
        assert_eq!((kept(), generation(&one)), (Some(before.0.clone()), before.1), "{action} {flags}");
        assert_eq!(pr_in(&one, 2)[3], 0x81, "{action} {flags}");
    }
    assert_eq!((keys(&one), held(&one)), (vec![1], Some((1, 5))));
    refused(&stranger, REGISTER, 0, 7, 0);
}

#[test]
fn what_cannot_be_read_back_keeps_the_unit_from_being_ready() {
    let rig = Rig::new();
    let one = rig.nexus(1);
    let (cdb, list) = pr_out(REGISTER, 0, 0, 1, 1);
    ok(&one, &cdb, &list);
    done(&one, RESERVE, 7, 1, 0);
    let kept = rig.keeper.kept.lock().unwrap().values().next().unwrap().clone();
    for at in 0..kept.len() {
        let mut damaged = kept.clone();
        damaged[at] ^= 0x10;
        let rig = Rig::new();
        rig.unit.restore_reservations(&damaged).unwrap_err();
        rig.unit.restore_reservations(&kept[..at]).unwrap_err();
        let one = rig.nexus(1);
        assert_eq!(fails(&one, &rw10(0x28, 0, 0, 1), &[]), (SenseKey::NotReady, code::MANUAL_INTERVENTION));
        ok(&one, &[0x12, 0, 0, 0, 36, 0], &[]);
        assert!(rig.unit.reservations().unreadable.is_some());
        futures_util::FutureExt::now_or_never(rig.unit.clear_reservations()).unwrap().unwrap();
        assert_eq!(access(&one), (true, true));
    }
}

#[test]
fn the_older_kind_is_of_one_nexus_until_it_leaves_or_the_unit_is_reset() {
    let (reserve, release, ready) = ([0x16, 0, 0, 0, 0, 0], [0x17, 0, 0, 0, 0, 0], [0; 6]);
    let rig = Rig::new();
    let (one, other) = (rig.nexus(1), rig.nexus(2));
    ok(&one, &reserve, &[]);
    ok(&one, &reserve, &[]);
    conflicts(&other, &reserve, &[]);
    conflicts(&other, &ready, &[]);
    conflicts(&other, &[0x1a, 0, 0x3f, 0, 255, 0], &[]);
    ok(&other, &release, &[]);
    conflicts(&other, &ready, &[]);
    ok(&other, &[0x12, 0, 0, 0, 36, 0], &[]);
    for nexus in [&one, &other] {
        let (cdb, list) = pr_out(REGISTER, 0, 0, 1, 0);
        conflicts(nexus, &cdb, &list);
    }
    ok(&one, &release, &[]);
    ok(&other, &ready, &[]);
    ok(&other, &reserve, &[]);
    drop(other);
    ok(&one, &reserve, &[]);
    let other = rig.nexus(2);
    for function in [Manage::LogicalUnitReset, Manage::TargetWarmReset, Manage::TargetColdReset] {
        conflicts(&other, &ready, &[]);
        futures_util::FutureExt::now_or_never(other.manage(function, lun_field(0))).unwrap();
        told(&one);
        told(&other);
        ok(&other, &ready, &[]);
        ok(&one, &reserve, &[]);
    }
}

#[test]
fn registrations_outlive_the_session_and_show_through_every_target() {
    let rig = Rig::new();
    let one = rig.nexus(1);
    done(&one, REGISTER, 0, 0, 1);
    done(&one, RESERVE, 1, 1, 0);
    drop(one);
    let elsewhere = holdfast_scsi::Device::new("iqn.2026-01.test:b", rig.shared.clone());
    elsewhere.add_unit(4, rig.unit.clone()).unwrap();
    let port = InitiatorPort { name: "iqn.2026-01.test:host1".into(), isid: [0x80, 0, 0, 0, 0, 1] };
    let stranger = elsewhere.connect(port, 1);
    let on = |cdb: &[u8], data: &[u8]| on_lun(&stranger, lun_field(4), cdb, data).status as u8;
    on(&[0x03, 0, 0, 0, 18, 0], &[]);
    assert_eq!(on(&rw10(0x2a, 0, 0, 1), &[0; 512]), 0x18, "the same initiator through another target is another nexus");
    assert_eq!(on(&rw10(0x28, 0, 0, 1), &[]), 0);
    assert_eq!(access(&rig.nexus(1)), (true, true));
}

#[test]
fn a_unit_that_comes_back_has_the_reservations_that_it_had() {
    let rig = Rig::new();
    let (one, fenced) = (rig.nexus(1), rig.nexus(2));
    done(&one, REGISTER, 0, 0, 1);
    done(&fenced, REGISTER, 0, 0, 2);
    done(&one, RESERVE, 5, 1, 0);
    done(&one, ABORT, 5, 1, 2);
    told(&fenced);
    rig.comes_back(|| ());
    [&one, &fenced].iter().for_each(|nexus| assert_eq!(told(nexus), [holdfast_scsi::code::POWER_ON]));
    assert_eq!((access(&one), access(&fenced)), ((true, true), (true, false)));
    assert_eq!((keys(&one), held(&one), generation(&one)), (vec![1], Some((1, 5)), 3));
    rig.device.forget_reservations(0);
    assert_eq!(keys(&one), [1], "of one that is here nothing is forgotten");
}

#[test]
fn the_older_kind_outlives_a_time_away_unless_its_nexus_ends_or_resets_the_unit() {
    let rig = Rig::new();
    let (one, other) = (rig.nexus(1), rig.nexus(2));
    let (reserve, ready) = ([0x16, 0, 0, 0, 0, 0], [0; 6]);
    ok(&one, &reserve, &[]);
    rig.comes_back(|| ());
    conflicts(&other, &ready, &[]);
    [&one, &other].iter().for_each(|nexus| drop(told(nexus)));
    ok(&one, &ready, &[]);
    conflicts(&other, &ready, &[]);

    rig.comes_back(|| {
        _ = futures_util::FutureExt::now_or_never(other.manage(Manage::LogicalUnitReset, lun_field(0)));
    });
    [&one, &other].iter().for_each(|nexus| drop(told(nexus)));
    ok(&other, &reserve, &[]);
    conflicts(&one, &ready, &[]);
    rig.comes_back(|| drop(other));
    told(&one);
    ok(&one, &ready, &[]);
}

#[test]
fn registrations_that_cannot_be_kept_are_refused_before_anything_changes() {
    let rig = Rig::new();
    let (cdb, list) = pr_out(REGISTER, 0, 0, 1, 1);
    // The longest names.
    let connect = |number: usize| {
        let name = format!("iqn.2026-01.test:{number:0206}");
        let nexus = rig.device.connect(InitiatorPort { name, isid: [0x80, 0, 0, 0, 0, 1] }, 1);
        told(&nexus);
        nexus
    };
    let mut registered = 0;
    let last = loop {
        let nexus = connect(registered);
        if run(&nexus, &cdb, &list).sense.is_some() {
            break nexus;
        }
        registered += 1;
        assert!(registered < 1024, "a document has an end before");
    };
    let kept = rig.keeper.kept.lock().unwrap().values().next().unwrap().clone();
    assert!(registered > 100 && kept.len() <= holdfast_scsi::KEPT_BYTES, "{registered} {}", kept.len());
    let refused = (SenseKey::IllegalRequest, code::INSUFFICIENT_REGISTRATION_RESOURCES);
    assert_eq!(fails(&last, &cdb, &list), refused);
    assert_eq!((keys(&last).len(), rig.keeper.kept.lock().unwrap().values().next()), (registered, Some(&kept)));
    let first = connect(0);
    let (cdb, list) = pr_out(REGISTER, 0, 1, 0, 1);
    ok(&first, &cdb, &list);
    let (cdb, list) = pr_out(REGISTER, 0, 0, 1, 1);
    ok(&last, &cdb, &list);
}
