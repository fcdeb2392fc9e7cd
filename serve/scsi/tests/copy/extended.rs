//! EXTENDED COPY: lists of all kinds, between units of all kinds, and hostile ones.

use std::sync::Arc;

use holdfast_scsi::LogicalBlocks::{B512e, B4096};
use holdfast_scsi::{Device, Proof, Response, Status};
use proptest::prelude::*;

use crate::client::*;
use crate::world::*;

/// The CSCD descriptor of a unit, as the first name of VPD page 83h has it.
fn cscd(device: &Arc<Device>, lun: usize, flags: u8) -> [u8; 32] {
    let unit = &device.units()[lun].1;
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&[0xe4, 0, 0, 0, 1, 0x0a, 0, 18]);
    bytes[8] = 0x10;
    bytes[10..26].copy_from_slice(unit.settings().id.as_bytes());
    bytes[28] = flags;
    bytes[29..32].copy_from_slice(&(unit.settings().blocks.bytes() as u32).to_be_bytes()[1..]);
    bytes
}

/// Blocks to blocks; flags: bit 0 CAT, bit 1 DC.
fn blocks(flags: u8, from: (u16, u64), to: (u16, u64), count: u16) -> Vec<u8> {
    let mut bytes = vec![2, flags, 0, 0x18];
    bytes.extend(from.0.to_be_bytes());
    bytes.extend(to.0.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(count.to_be_bytes());
    bytes.extend(from.1.to_be_bytes());
    bytes.extend(to.1.to_be_bytes());
    bytes
}

/// Bytes to bytes.
fn bytes(from: (u16, u64, u16), to: (u16, u64, u16), count: u32) -> Vec<u8> {
    let mut bytes = vec![0x0a, 0, 0, 0x1c];
    bytes.extend(from.0.to_be_bytes());
    bytes.extend(to.0.to_be_bytes());
    bytes.extend(count.to_be_bytes());
    bytes.extend(from.1.to_be_bytes());
    bytes.extend(to.1.to_be_bytes());
    bytes.extend(from.2.to_be_bytes());
    bytes.extend(to.2.to_be_bytes());
    bytes
}

fn lid1(id: u8, usage: u8, cscds: &[[u8; 32]], segments: &[Vec<u8>]) -> Vec<u8> {
    let (cscds, segments) = (cscds.concat(), segments.concat());
    let mut list = vec![id, usage << 3];
    list.extend((cscds.len() as u16).to_be_bytes());
    list.extend([0; 4]);
    list.extend((segments.len() as u32).to_be_bytes());
    list.extend([0; 4]);
    [list, cscds, segments].concat()
}

fn lid4(id: u32, flags: u8, cscds: &[[u8; 32]], segments: &[Vec<u8>]) -> Vec<u8> {
    let (cscds, segments) = (cscds.concat(), segments.concat());
    let mut list = vec![0; 48];
    list[..4].copy_from_slice(&[1, 0, 0, 0x20]);
    (list[15], list[16]) = (flags, 0xff);
    list[20..24].copy_from_slice(&id.to_be_bytes());
    list[42..44].copy_from_slice(&(cscds.len() as u16).to_be_bytes());
    list[44..46].copy_from_slice(&(segments.len() as u16).to_be_bytes());
    [list, cscds, segments].concat()
}

async fn copy(host: &Host, lun: u16, list: &[u8]) -> Response {
    let action = u8::from(list.len() >= 20 && list[..4] == [1, 0, 0, 0x20] && list[16] == 0xff);
    host.send(lun, &extended_cdb(action, list.len()), list).await
}

#[test]
fn segments_are_copied_in_order_within_and_between_units() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e, B4096]);
        let host = Host::new(&device, "iqn.host").await;
        let data = pattern(1 << 20, 3);
        host.write(0, 512, 0, &data).await;
        let both = [cscd(&device, 0, 0), cscd(&device, 1, 0)];
        // The second segment reads what the first wrote, the last is sent by the unit's own number.
        let segments = [
            blocks(0, (0, 0), (1, 100), 2048),
            blocks(2, (1, 100), (1, 600), 256),
            blocks(0, (0, 0), (0xffff, 1000), 8),
        ];
        for list in [lid1(1, 0, &both, &segments), lid4(70_000, 0, &both, &segments)] {
            assert_eq!(copy(&host, 1, &list).await.status, Status::Good);
            assert!(host.read(1, 4096, 600, 1 << 20).await == data);
            assert!(host.read(1, 4096, 1000, 4096).await == data[..4096]);
            host.good(1, &extended_cdb(0, 0), &[]).await;
        }
        // Bytes from within a block to within a block, and over themselves.
        let list = lid1(2, 0, &both, &[bytes((0, 3, 100), (1, 7, 4000), 10_000)]);
        host.write(1, 4096, 0, &[0; 65536]).await;
        assert_eq!(copy(&host, 0, &list).await.status, Status::Good);
        let arrived = host.read(1, 4096, 0, 65536).await;
        let at = 7 * 4096 + 4000;
        assert!(arrived[at..at + 10_000] == data[1636..11_636]);
        assert!(arrived[..at].iter().chain(&arrived[at + 10_000..]).all(|byte| *byte == 0));
        let list = lid1(2, 0, &both, &[blocks(0, (0, 0), (0, 100), 1000)]);
        assert_eq!(copy(&host, 0, &list).await.status, Status::Good);
        assert!(host.read(0, 512, 100, 512_000).await == data[..512_000]);
    });
}

#[test]
fn what_is_no_whole_block_is_padded_dropped_or_refused() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e, B4096]);
        let host = Host::new(&device, "iqn.host").await;
        let data = pattern(64 << 10, 3);
        host.write(0, 512, 0, &data).await;
        let run = async |pads: (u8, u8), flags: u8| {
            host.write(1, 4096, 0, &[7; 8192]).await;
            let both = [cscd(&device, 0, pads.0), cscd(&device, 1, pads.1)];
            copy(&host, 0, &lid1(1, 0, &both, &[blocks(flags, (0, 0), (1, 0), 9)])).await
        };
        assert_eq!(told(&run((0, 0), 0).await), (0xa, 0x26, 0x0a));
        assert_eq!(run((0, 4), 0).await.status, Status::Good);
        let padded = host.read(1, 4096, 0, 8192).await;
        assert!(padded[..4608] == data[..4608] && padded[4608..].iter().all(|byte| *byte == 0));
        for (pads, flags) in [((4, 0), 0), ((0, 0), 1), ((0, 4), 1)] {
            assert_eq!(run(pads, flags).await.status, Status::Good);
            let dropped = host.read(1, 4096, 0, 8192).await;
            assert!(dropped[..4096] == data[..4096] && dropped[4096..].iter().all(|byte| *byte == 7));
        }
    });
}

#[test]
fn failed_segments_are_named_and_their_details_kept() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e, B512e]);
        let host = Host::new(&device, "iqn.host").await;
        let both = [cscd(&device, 0, 0), cscd(&device, 1, 0)];
        let end = SIZE / 512;
        let good = blocks(0, (0, 0), (1, 0), 8);
        let mut stranger = both;
        stranger[1][12] ^= 1;
        let mut tape = both;
        tape[1][1] = 1;
        let mut wrong_block = both;
        wrong_block[1][30] = 0x10;
        let table = [
            (both, blocks(0, (0, 0), (2, 0), 8), (8, 4)),
            (both, blocks(0, (0xc000, 0), (1, 0), 8), (8, 4)),
            (stranger, good.clone(), (0x0d, 2)),
            (tape, good.clone(), (0x0d, 3)),
            (wrong_block, good.clone(), (0x26, 0)),
            (both, blocks(0, (0, end - 7), (1, 0), 8), (0x21, 0)),
            (both, blocks(0, (0, 0), (1, u64::MAX), 8), (0x21, 0)),
            (both, bytes((0, 0, 512), (1, 0, 0), 1), (0x26, 0)),
            (both, bytes((0, 0, 0), (1, 0, 0), u32::MAX), (0x26, 0)),
        ];
        for (cscds, segment, (code, qualifier)) in table {
            let segments = if cscds == both { vec![good.clone(), segment] } else { vec![segment] };
            let number = segments.len() as u64 - 1;
            let response = copy(&host, 0, &lid1(5, 0, &cscds, &segments)).await;
            assert_eq!(told(&response), (0xa, code, qualifier));
            assert_eq!(response.sense.unwrap().specific, Some(number));
            let status = host.good(0, &results1_cdb(0, 5, 100), &[]).await;
            assert_eq!(status[..7], [0, 0, 0, 8, 2, 0, number as u8 + 1]);
            let details = host.good(0, &results1_cdb(4, 5, 1000), &[]).await;
            assert_eq!((details[56], details[60], details[62]), (2, 0x70, 0xa));
            assert_eq!((details[72], details[73]), (code, qualifier));
            assert_eq!(host.good(0, &results1_cdb(4, 5, 1000), &[]).await, [0; 4], "they are told once");
        }
        assert_eq!(host.sense(0, &results1_cdb(0, 6, 100), &[]).await, (5, 0x24, 0));
    });
}

#[test]
fn units_of_other_targets_are_out_of_reach_without_proof() {
    on_reactor(|| async {
        let world = World::new();
        let (one, two) = (world.simple("iqn.a", &[B512e]), world.simple("iqn.b", &[B512e]));
        let owner = Host::proved(&two, "iqn.host", Proof::Secret([1; 32])).await;
        let secret = pattern(4096, 3);
        owner.write(0, 512, 0, &secret).await;
        let list = lid1(1, 0, &[cscd(&two, 0, 0)], &[blocks(0, (0, 0), (0xffff, 0), 8)]);
        for proof in [Proof::Nothing, Proof::Named, Proof::Secret([2; 32])] {
            let thief = Host::proved(&one, "iqn.host", proof).await;
            assert_eq!(told(&copy(&thief, 0, &list).await), (0xa, 0x0d, 0x02), "{proof:?}");
            assert_eq!(thief.read(0, 512, 0, 4096).await, [0; 4096]);
        }
        let same = Host::proved(&one, "iqn.host", Proof::Secret([1; 32])).await;
        assert_eq!(copy(&same, 0, &list).await.status, Status::Good);
        assert!(same.read(0, 512, 0, 4096).await == secret);
    });
}

#[test]
fn good_is_told_with_what_was_done_where_that_is_wanted() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e]);
        let host = Host::new(&device, "iqn.host").await;
        let list = lid4(3, 2, &[], &vec![blocks(0, (0xffff, 0), (0xffff, 100), 8); 3]);
        let response = copy(&host, 0, &list).await;
        let sense = response.sense.unwrap();
        assert_eq!((response.status, sense.key as u8, sense.specific), (Status::Good, 0xf, Some(3)));
        // In the background, with its status.
        let list = lid4(4, 1, &[], &vec![blocks(0, (0xffff, 0), (0xffff, 100), 8); 3]);
        assert_eq!(copy(&host, 0, &list).await.status, Status::Good);
        let data = host.good(0, &results_cdb(5, 4, 4096), &[]).await;
        let told = Told::parse(&data, false);
        assert_eq!((told.action, told.status, told.unit, told.count), (1, 1, 0, 3 * 4096));
        // Identifiers of the two forms are one set.
        assert_eq!(host.good(0, &results1_cdb(0, 4, 100), &[]).await[4], 1);
    });
}

#[test]
fn hostile_lists_harm_nobody() {
    let bytes = prop::sample::select(vec![0_u8, 1, 2, 3, 7, 8, 0x0a, 0x10, 0x18, 0x1c, 0x20, 0x80, 0xe4, 0xfe, 0xff]);
    let lists = prop::collection::vec((0..2_u8, prop::collection::vec(bytes, 0..400)), 1..20);
    proptest!(ProptestConfig::with_cases(64), |(lists in lists)| {
        on_reactor(move || async move {
            let world = World::new();
            let device = world.simple("iqn.a", &[B512e, B4096]);
            let host = Host::new(&device, "iqn.host").await;
            for (number, (action, mut list)) in lists.into_iter().enumerate() {
                // Half of them get as far as their segments.
                if number % 2 == 0 && list.len() > 80 {
                    let len = list.len();
                    list[1..16].copy_from_slice(&[0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                    list[10..12].copy_from_slice(&((len - 48) as u16).to_be_bytes());
                    list[16..48].copy_from_slice(&cscd(&device, 0, 0));
                    list[48..52].copy_from_slice(&[2, 0, 0, 0x18]);
                }
                let _ = host.send(0, &extended_cdb(action, list.len()), &list).await;
                let _ = host.send(1, &extended_cdb(0x10 | action, list.len()), &list).await;
            }
            host.good(0, &[0; 6], &[]).await;
        });
    });
}

#[test]
fn reservations_of_others_keep_copies_out() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e, B512e]);
        let (host, other) = (Host::new(&device, "iqn.host").await, Host::new(&device, "iqn.other").await);
        let token = host.populate(1, &[(0, 8)]).await;
        // Registered with a key, the other reserves unit 1: exclusive access.
        let mut keys = vec![0; 24];
        keys[8..16].copy_from_slice(&7_u64.to_be_bytes());
        other.good(1, &[0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0], &keys).await;
        keys.copy_within(8..16, 0);
        keys[8..16].fill(0);
        other.good(1, &[0x5f, 1, 3, 0, 0, 0, 0, 0, 24, 0], &keys).await;
        let both = [cscd(&device, 0, 0), cscd(&device, 1, 0)];
        for segment in [blocks(0, (0, 0), (1, 0), 8), blocks(0, (1, 0), (0, 0), 8)] {
            let list = lid1(1, 0, &both, &[segment]);
            assert_eq!(told(&copy(&host, 0, &list).await), (0xa, 0x0d, 0x01));
            assert_eq!(copy(&other, 0, &list).await.status, Status::Good);
        }
        let list = write_list(0, 0, &token, &[(0, 8)]);
        // The writes of the holder ended the token; a new one is not to be had.
        assert_eq!(told(&host.write_using(0, 1, &list).await), (5, 0x23, 0x08));
        let populate = populate_list(0, &[(0, 8)]);
        let mut cdb = vec![0x83, 0x10, 0, 0, 0, 0, 0, 0, 0, 1];
        cdb.extend((populate.len() as u32).to_be_bytes());
        cdb.extend([0, 0]);
        assert_eq!(host.send(1, &cdb, &populate).await.status, Status::ReservationConflict);
        let token = other.populate(1, &[(0, 8)]).await;
        let list = write_list(0, 0, &token, &[(0, 8)]);
        assert_eq!(host.write_using(0, 1, &list).await.status, Status::ReservationConflict);
        assert_eq!(other.write_using(0, 1, &list).await.status, Status::Good);
    });
}
