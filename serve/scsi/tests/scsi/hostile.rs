//! Whatever an initiator sends, a unit answers, and touches nothing that it should not.

use holdfast_scsi::{LogicalBlocks, Nexus, Outcome, lun_field};
use proptest::prelude::*;

use crate::memory::Memory;
use crate::rig::*;

/// Runs any command with any data.
fn send(nexus: &Nexus, lun: u64, cdb: &[u8], data: &[u8]) {
    if let Outcome::Later(running) = start(nexus, lun, cdb, data) {
        futures_util::FutureExt::now_or_never(running).expect("memory answers at once");
    }
}

const OPCODES: &[u8] = &[
    0x00, 0x03, 0x08, 0x0a, 0x12, 0x15, 0x16, 0x17, 0x1a, 0x1b, 0x25, 0x28, 0x2a, 0x2e, 0x2f, 0x34, 0x35, 0x41, 0x42,
    0x4d, 0x55, 0x56, 0x57, 0x5a, 0x5e, 0x5f, 0x83, 0x84, 0x88, 0x89, 0x8a, 0x8b, 0x8e, 0x8f, 0x90, 0x91, 0x93, 0x9e,
    0xa0, 0xa3, 0xa4, 0xa8, 0xaa, 0xae, 0xaf,
];

fn cdb() -> impl Strategy<Value = Vec<u8>> {
    let small = prop_oneof![4 => Just(0_u8), 2 => 0..16_u8, 1 => any::<u8>()];
    let opcode = prop_oneof![8 => prop::sample::select(OPCODES), 1 => any::<u8>()];
    (opcode, prop::collection::vec(small, 0..20)).prop_map(|(opcode, rest)| [vec![opcode], rest].concat())
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => Just(0_u8), 2 => 0..32_u8, 1 => any::<u8>()];
    prop_oneof![4 => prop::collection::vec(byte, 0..96), 1 => Just(vec![1; 512]), 1 => Just(vec![2; 8192])]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_command_or_list_makes_a_unit_panic(
        commands in prop::collection::vec((cdb(), data(), 0..3_u64, 0..2_u8), 1..40),
    ) {
        let rig = Rig::with(Memory::new(SIZE), LogicalBlocks::B512e, true);
        let nexuses = [rig.nexus(1), rig.nexus_at(2, 2)];
        for (cdb, data, lun, who) in commands {
            send(&nexuses[usize::from(who)], if lun == 2 { u64::MAX } else { lun_field(0) }, &cdb, &data);
        }
    }

    #[test]
    fn answers_are_never_longer_than_the_command_allows(opcode in prop::sample::select(OPCODES), action in 0..32_u8, allowed in 0..64_u8, page in any::<u8>()) {
        let rig = Rig::new();
        let nexus = rig.nexus(1);
        let (cdb, len) = match opcode {
            0x12 => (vec![opcode, action & 1, page, 0, allowed, 0], allowed),
            0x1a => (vec![opcode, 0, page, 0, allowed, 0], allowed),
            0x03 => (vec![opcode, action & 1, 0, 0, allowed, 0], allowed),
            0x5a | 0x4d | 0x5e => (vec![opcode, if opcode == 0x5e { action } else { 0 }, if opcode == 0x5e { 0 } else { page }, 0, 0, 0, 0, 0, allowed, 0], allowed),
            0xa3 | 0xa0 => (vec![opcode, if opcode == 0xa3 { action } else { 0 }, 0, 0, 0, 0, 0, 0, 0, allowed, 0, 0], allowed),
            0x9e => (rw16(opcode, action, 0, allowed.into()).to_vec(), allowed),
            _ => return Ok(()),
        };
        prop_assert!(run(&nexus, &cdb, &[]).data.bytes().len() <= usize::from(len), "{:02x?}", cdb);
    }
}
