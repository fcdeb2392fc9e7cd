//! LUNs without units, the well known one, and what management does to devices.

use std::sync::Arc;

use futures_util::FutureExt;
use holdfast_scsi::{LogicalBlocks, Manage, ManageAnswer, ScsiError, Sense, SenseKey, code, lun_field};

use crate::memory::Memory;
use crate::rig::*;

const WELL_KNOWN: u64 = 0xc101 << 48;

#[test]
fn a_lun_without_a_unit_says_so() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    for lun in [lun_field(7), lun_field(300), 1, u64::MAX] {
        assert_eq!(on_lun(&nexus, lun, &[0x12, 0, 0, 0, 36, 0], &[]).data.bytes()[0], 0x7f);
        assert_eq!(on_lun(&nexus, lun, &[0; 6], &[]).sense, Some(Sense::illegal(code::LUN_NOT_SUPPORTED)));
        let sense = on_lun(&nexus, lun, &[3, 0, 0, 0, 18, 0], &[]);
        assert_eq!(sense.data.bytes()[12], 0x25);
    }
    rig.device.remove_unit(0).now_or_never().unwrap();
    assert_eq!(ok(&nexus, &[0x12, 0, 0, 0, 36, 0], &[])[0], 0x3f);
    assert_eq!(ok(&nexus, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0], &[]), [0; 8]);
    assert_eq!(fails(&nexus, &rw10(0x28, 0, 0, 1), &[]).1, code::LUN_NOT_SUPPORTED);
    assert_eq!(on_lun(&nexus, WELL_KNOWN, &[0x12, 0, 0, 0, 36, 0], &[]).data.bytes()[0], 0x1e);
    assert_eq!(
        on_lun(&nexus, WELL_KNOWN, &[0xa0, 0, 2, 0, 0, 0, 0, 0, 0, 16, 0, 0], &[]).data.bytes()[8..10],
        [0xc1, 1]
    );
    assert_eq!(on_lun(&nexus, WELL_KNOWN, &rw10(0x28, 0, 0, 1), &[]).sense.unwrap().code, code::INVALID_OPCODE);
}

#[test]
fn a_lun_that_is_away_is_not_ready_and_still_itself() {
    let rig = Rig::new();
    let (nexus, id) = (rig.nexus(1), rig.unit.settings().id);
    let list = [0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0];
    let page = |code: u8| [0x12, 1, code, 0, 255, 0];
    let before = (ok(&nexus, &list, &[]), ok(&nexus, &page(0x80), &[]), ok(&nexus, &page(0x83), &[]));
    rig.device.suspend_unit(0).now_or_never().expect("nothing is under way");
    let now = (ok(&nexus, &list, &[]), ok(&nexus, &page(0x80), &[]), ok(&nexus, &page(0x83), &[]));
    assert_eq!(now, before);
    assert_eq!(ok(&nexus, &page(0), &[]), [0, 0, 0, 3, 0, 0x80, 0x83]);
    assert_eq!(fails(&nexus, &page(0xb0), &[]).1, code::INVALID_FIELD_IN_CDB);
    assert_eq!(ok(&nexus, &[0x12, 0, 0, 0, 36, 0], &[])[0], 0);
    let sense = ok(&nexus, &[3, 0, 0, 0, 18, 0], &[]);
    assert_eq!((sense[2], sense[12], sense[13]), (2, 4, 1));
    let cdbs: [&[u8]; 4] = [&[0; 6], &rw10(0x28, 0, 0, 1), &rw10(0x35, 0, 0, 0), &[0x5e, 0, 0, 0, 0, 0, 0, 0, 16, 0]];
    for cdb in cdbs {
        assert_eq!(fails(&nexus, cdb, &[]), (SenseKey::NotReady, code::BECOMING_READY), "{cdb:02x?}");
    }
    assert_eq!(nexus.manage(Manage::LogicalUnitReset, 0).now_or_never(), Some(ManageAnswer::Complete));
    let late = rig.nexus_away(2);
    assert_eq!(fails(&late, &[0; 6], &[]), (SenseKey::NotReady, code::BECOMING_READY));

    rig.device.set_left(0, true);
    for cdb in cdbs {
        assert_eq!(fails(&nexus, cdb, &[]), (SenseKey::NotReady, code::MANUAL_INTERVENTION), "{cdb:02x?}");
    }
    let sense = ok(&nexus, &[3, 0, 0, 0, 18, 0], &[]);
    assert_eq!((sense[2], sense[12], sense[13]), (2, 4, 3));
    rig.device.set_luns(&[(0, id)].into());
    assert_eq!(fails(&nexus, &[0; 6], &[]).1, code::MANUAL_INTERVENTION, "nothing has changed");
    rig.device.set_left(0, false);
    assert_eq!(fails(&nexus, &[0; 6], &[]).1, code::BECOMING_READY);

    rig.device.set_left(0, true);
    rig.device.add_unit(0, unit(&rig.memory, &rig.shared, LogicalBlocks::B512, true)).unwrap();
    for nexus in [&nexus, &late] {
        assert_eq!(told(nexus), [code::POWER_ON]);
        ok(nexus, &[0; 6], &[]);
    }
    rig.device.suspend_unit(0).now_or_never().unwrap();
    rig.device.remove_unit(0).now_or_never().unwrap();
    assert_eq!(fails(&nexus, &[0; 6], &[]).1, code::LUN_NOT_SUPPORTED);
    rig.device.set_luns(&[(0, id), (3, id)].into());
    assert_eq!(ok(&nexus, &list, &[])[..4], [0, 0, 0, 16]);
    assert_eq!(fails(&nexus, &[0; 6], &[]).0, SenseKey::NotReady);
    rig.device.set_luns(&[(3, id)].into());
    assert_eq!(fails(&nexus, &[0; 6], &[]).1, code::LUN_NOT_SUPPORTED);
}

#[test]
fn numbers_are_given_once() {
    let rig = Rig::new();
    assert_eq!(rig.device.add_unit(0, rig.unit.clone()), Err(ScsiError::Taken(0)));
    assert_eq!(rig.device.add_unit(0x4000, rig.unit.clone()), Err(ScsiError::Number(0x4000)));
    rig.device.add_unit(0x3fff, rig.unit.clone()).unwrap();
    let nexus = rig.nexus(1);
    assert_eq!(on_lun(&nexus, lun_field(0x3fff), &[3, 0, 0, 0, 18, 0], &[]).data.bytes()[12], 0x29);
    assert_eq!(on_lun(&nexus, lun_field(0x3fff), &[0; 6], &[]).sense, None);
}

#[test]
fn what_a_unit_stands_on_is_let_go_of_with_it() {
    let rig = Rig::new();
    let nexus = rig.nexus(1);
    ok(&nexus, &[0x16, 0, 0, 0, 0, 0], &[]);
    ok(&nexus, &rw10(0x2a, 0, 0, 8), &[1; 4096]);
    rig.device.remove_unit(0).now_or_never().expect("nothing is under way");
    let Rig { unit, device, .. } = rig;
    let weak = Arc::downgrade(&unit);
    drop(unit);
    assert!(weak.upgrade().is_none(), "an idle session keeps it");
    drop(device);
    drop(nexus);
}

#[test]
fn resets_are_told_to_all_and_end_at_once_where_nothing_is_under_way() {
    for (function, told_to) in [
        (Manage::LogicalUnitReset, code::DEVICE_RESET),
        (Manage::TargetWarmReset, code::BUS_RESET),
        (Manage::TargetColdReset, code::POWER_ON),
    ] {
        let rig = Rig::new();
        let (one, other) = (rig.nexus(1), rig.nexus(2));
        assert_eq!(one.manage(function, lun_field(0)).now_or_never(), Some(ManageAnswer::Complete));
        assert_eq!((told(&one), told(&other)), (vec![told_to], vec![told_to]));
    }
    let rig = Rig::new();
    let (one, other) = (rig.nexus(1), rig.nexus(2));
    assert_eq!(one.manage(Manage::ClearTaskSet, lun_field(0)).now_or_never(), Some(ManageAnswer::Complete));
    assert_eq!((told(&one), told(&other)), (vec![], vec![code::COMMANDS_CLEARED]));
    assert_eq!(one.manage(Manage::AbortTaskSet, lun_field(9)).now_or_never(), Some(ManageAnswer::NoUnit));
}

#[test]
fn descriptor_sense_is_what_the_control_page_says() {
    let rig = Rig::with(Memory::new(SIZE), LogicalBlocks::B512, true);
    let nexus = rig.nexus(1);
    let sense = |nexus| run(nexus, &rw16(0x88, 0, 1 << 40, 1), &[]).sense.unwrap();
    assert_eq!(sense(&nexus).bytes()[0], 0x70);
    let mut page = ok(&nexus, &[0x1a, 8, 0x0a, 0, 255, 0], &[]);
    (page[0], page[2], page[6]) = (0, 0, page[6] | 4);
    ok(&nexus, &[0x15, 0x10, 0, 0, 16, 0], &page);
    let bytes = sense(&nexus).bytes();
    assert_eq!(
        (bytes[0], bytes[1], bytes[12..20].to_vec()),
        (0x72, SenseKey::IllegalRequest as u8, (1_u64 << 40).to_be_bytes().to_vec())
    );
}
