//! Unit attentions: who is told of what, and how often.

use holdfast_scsi::{AccessState, SenseKey, code, lun_field};

use crate::rig::*;

const READY: [u8; 6] = [0; 6];

#[test]
fn an_attention_fails_one_command_and_passes_those_that_may_not_fail() {
    let rig = Rig::new();
    let nexus = rig.device.connect(
        holdfast_scsi::InitiatorPort { name: "iqn.2026-01.test:host9".into(), isid: [0x80, 0, 0, 0, 0, 9] },
        1,
    );
    ok(&nexus, &[0x12, 0, 0, 0, 36, 0], &[]);
    ok(&nexus, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0], &[]);
    assert_eq!(fails(&nexus, &READY, &[]), (SenseKey::UnitAttention, code::POWER_ON));
    ok(&nexus, &READY, &[]);
}

#[test]
fn a_new_size_is_told_to_all_and_seen_after() {
    let rig = Rig::new();
    let (one, other) = (rig.nexus(1), rig.nexus(2));
    rig.memory.grow(2 * SIZE);
    assert_eq!(fails(&one, &rw10(0x28, 0, (SIZE / 512) as u32, 1), &[]).1, code::LBA_OUT_OF_RANGE);
    rig.unit.size_changed();
    rig.unit.size_changed();
    let event = one.take_event().unwrap();
    assert_eq!((event.lun, event.sense.code), (lun_field(0), code::CAPACITY_CHANGED));
    assert_eq!((told(&one), told(&other)), (vec![code::CAPACITY_CHANGED], vec![code::CAPACITY_CHANGED]));
    assert_eq!(one.take_event(), None);
    ok(&one, &rw10(0x28, 0, (SIZE / 512) as u32, 1), &[]);
}

#[test]
fn units_that_come_and_go_are_told_and_the_list_clears_it() {
    let rig = Rig::new();
    let (one, other) = (rig.nexus(1), rig.nexus(2));
    let memory = std::sync::Arc::new(crate::memory::Memory::new(SIZE));
    let second = unit(&memory, &rig.shared, Default::default(), true);
    rig.device.add_unit(5, second).unwrap();
    assert_eq!(fails(&one, &READY, &[]), (SenseKey::UnitAttention, code::LUNS_CHANGED));
    ok(&other, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0], &[]);
    ok(&other, &READY, &[]);
    let luns = ok(&one, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0], &[]);
    assert_eq!(luns[..4], 16_u32.to_be_bytes());
    assert_eq!(luns[16..24], [0, 5, 0, 0, 0, 0, 0, 0]);
    assert!(futures_util::FutureExt::now_or_never(rig.device.remove_unit(5)).is_some(), "nothing is under way");
    assert_eq!(told(&one), [code::LUNS_CHANGED]);
    assert_eq!(on_lun(&one, lun_field(5), &READY, &[]).sense.unwrap().code, code::LUN_NOT_SUPPORTED);
}

#[test]
fn access_states_are_told_and_kept() {
    let rig = Rig::new();
    let (near, far) = (rig.nexus(1), rig.nexus_at(2, 2));
    let report = ok(&near, &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0], &[]);
    assert_eq!(report[..4], 24_u32.to_be_bytes());
    assert_eq!(report[4..16], [0, 0x0f, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1]);
    let long = ok(&near, &[0xa3, 0x2a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0], &[]);
    assert_eq!((long[..8].to_vec(), long[8..].to_vec()), (vec![0, 0, 0, 28, 0x10, 0, 0, 0], report[4..].to_vec()));

    let set = [0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0];
    for (state, refusal) in [(1, None), (2, Some(code::STANDBY)), (3, Some(code::UNAVAILABLE)), (0, None)] {
        ok(&near, &set, &[0, 0, 0, 0, state, 0, 0, 2]);
        assert_eq!((told(&near), told(&far)), (vec![], vec![code::ACCESS_STATE_CHANGED]));
        let read = run(&far, &rw10(0x28, 0, 0, 1), &[]);
        assert_eq!(read.sense.map(|sense| (sense.key, sense.code)), refusal.map(|code| (SenseKey::NotReady, code)));
        ok(&near, &rw10(0x28, 0, 0, 1), &[]);
        ok(&far, &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0], &[]);
        assert_eq!(run(&far, &[0x4d, 0, 0x40, 0, 0, 0, 0, 0, 255, 0], &[]).sense.is_some(), state == 3);
    }
    assert_eq!(run(&near, &set, &[0, 0, 0, 0, 0, 0, 0, 9]).sense.unwrap().code, code::INVALID_FIELD_IN_LIST);
    assert_eq!(run(&near, &set, &[0, 0, 0, 0, 0x0e, 0, 0, 2]).sense.unwrap().code, code::INVALID_FIELD_IN_LIST);

    let mut ports = ports();
    ports[0].state = AccessState::Standby;
    rig.device.set_ports(ports.clone());
    rig.device.set_ports(ports);
    assert_eq!(told(&near), [code::ACCESS_STATE_CHANGED]);
    assert_eq!(fails(&near, &READY, &[]).1, code::STANDBY);
}
