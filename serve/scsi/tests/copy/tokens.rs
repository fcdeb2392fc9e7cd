//! Every state of a token, and what its user hears.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_device::reactor::clock;
use holdfast_scsi::LogicalBlocks::{B512, B512e, B4096};
use holdfast_scsi::{Outcome, Proof, Status};

use crate::client::*;
use crate::memory::{Domain, Memory};
use crate::world::*;

const UNKNOWN: (u8, u8, u8) = (5, 0x23, 0x04);
const REVOKED: (u8, u8, u8) = (5, 0x23, 0x06);
const EXPIRED: (u8, u8, u8) = (5, 0x23, 0x07);
const CANCELLED: (u8, u8, u8) = (5, 0x23, 0x08);
const DELETED: (u8, u8, u8) = (5, 0x23, 0x09);
const INVALID_FIELD: (u8, u8, u8) = (5, 0x26, 0x00);

#[test]
fn data_arrive_by_token_between_units_of_all_kinds() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e, B4096, B512]);
        let host = Host::new(&device, "iqn.host").await;
        let data = pattern(1 << 20, 3);
        for (from, from_block) in [(0, 512), (1, 4096)] {
            host.write(from, from_block, 8, &data).await;
            let half = (data.len() as u64 / from_block / 2) as u32;
            // Ranges are put together in their order.
            let token = host.populate(from, &[(8 + u64::from(half), half), (8, half)]).await;
            let swapped = [&data[1 << 19..], &data[..1 << 19]].concat();
            for (to, to_block) in [(0, 512), (1, 4096), (2, 512)] {
                let lba = (4 << 20) / to_block;
                let blocks = ((1 << 20) / to_block) as u32;
                host.use_token(to, &token, &[(lba + 100, blocks - 7), (lba, 7)]).await;
                let told = host.told(to, 78).await;
                assert_eq!((told.action, told.status, told.count), (0x11, 1, blocks.into()));
                let cut = 7 * to_block as usize;
                let first = host.read(to, to_block, lba + 100, (1 << 20) - cut).await;
                let second = host.read(to, to_block, lba, cut).await;
                assert!([first, second].concat() == swapped, "{from} to {to}");
            }
        }
    });
}

#[test]
fn a_token_is_used_again_and_from_within() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e, B4096]);
        let host = Host::new(&device, "iqn.host").await;
        let data = pattern(64 << 10, 5);
        host.write(0, 512, 0, &data).await;
        let token = host.populate(0, &[(0, 128)]).await;
        for lba in [100, 200] {
            host.use_token(1, &token, &[(lba, 16)]).await;
            assert!(host.read(1, 4096, lba, 64 << 10).await == data);
        }
        // The offset is in blocks of the unit that is written.
        let list = write_list(0, 3, &token, &[(300, 2)]);
        assert_eq!(host.write_using(1, 5, &list).await.status, Status::Good);
        assert!(host.read(1, 4096, 300, 8192).await == data[3 * 4096..5 * 4096]);
        // More than there is: what there is arrives, and the count tells how much.
        let list = write_list(0, 14, &token, &[(400, 9)]);
        let response = host.write_using(1, 6, &list).await;
        assert_eq!(told(&response), (0xa, 0x0d, 0x04));
        assert_eq!(response.sense.unwrap().information, Some(2));
        assert!(host.read(1, 4096, 400, 8192).await == data[14 * 4096..]);
        let status = host.told(1, 6).await;
        assert_eq!((status.status, status.completion, status.count), (3, 2, 2));
        assert_eq!(status.sense[..4], [0x72, 0xa, 0x0d, 0x04]);
        // Beyond its end there is nothing.
        for offset in [16, 17, u64::MAX] {
            assert_eq!(told(&host.write_using(1, 7, &write_list(0, offset, &token, &[(0, 1)])).await), INVALID_FIELD);
        }
        // A part of a block is filled up with zeros.
        let token = host.populate(0, &[(0, 9)]).await;
        host.write(1, 4096, 500, &[9; 8192]).await;
        host.use_token(1, &token, &[(500, 2)]).await;
        let arrived = host.read(1, 4096, 500, 8192).await;
        assert!(arrived[..4608] == data[..4608] && arrived[4608..].iter().all(|byte| *byte == 0));
    });
}

#[test]
fn a_change_of_the_data_ends_the_token_and_one_beside_it_does_not() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e, B512e]);
        let (host, other) = (Host::new(&device, "iqn.host").await, Host::new(&device, "iqn.other").await);
        host.write(0, 512, 0, &pattern(64 << 10, 5)).await;
        let token = host.populate(0, &[(8, 8), (64, 8)]).await;
        // Within the same blocks of 4 KiB, nothing tells a write beside it from one of it.
        other.write(0, 512, 16, &[1; 512]).await;
        other.write(0, 512, 72, &[1; 512]).await;
        other.write(0, 512, 0, &[1; 4096]).await;
        host.use_token(1, &token, &[(0, 16)]).await;
        other.write(0, 512, 71, &[1; 512]).await;
        assert_eq!(host.refused(1, &token, &[(0, 16)]).await, CANCELLED);
        // So does what was written by a token, or copied.
        let token = host.populate(0, &[(8, 8)]).await;
        host.use_token(0, &zeros(), &[(100, 8)]).await;
        host.use_token(1, &token, &[(0, 8)]).await;
        host.use_token(0, &zeros(), &[(15, 1)]).await;
        assert_eq!(host.refused(1, &token, &[(0, 8)]).await, CANCELLED);
    });
}

#[test]
fn tokens_expire_are_deleted_and_forged() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e, B512e]);
        let host = Host::new(&device, "iqn.host").await;
        let token = host.populate(0, &[(0, 8)]).await;
        world.hands.forward(59);
        host.use_token(1, &token, &[(0, 8)]).await;
        world.hands.forward(59);
        host.use_token(1, &token, &[(0, 8)]).await;
        world.hands.forward(61);
        assert_eq!(host.refused(1, &token, &[(0, 8)]).await, EXPIRED);

        let token = host.populate(0, &[(0, 8)]).await;
        assert_eq!(host.write_using(1, 5, &write_list(2, 0, &token, &[(0, 8)])).await.status, Status::Good);
        assert_eq!(host.refused(1, &token, &[(0, 8)]).await, DELETED);

        let token = host.populate(0, &[(0, 8)]).await;
        for at in [8, 40, 63, 130, 256, 511] {
            let mut forged = token.clone();
            forged[at] ^= 0x10;
            assert_eq!(host.refused(1, &forged, &[(0, 8)]).await, UNKNOWN, "byte {at}");
        }
        let with = |at: usize, bytes: &[u8]| {
            let mut token = token.clone();
            token[at..at + bytes.len()].copy_from_slice(bytes);
            token
        };
        assert_eq!(host.refused(1, &with(0, &[0, 1, 0, 0]), &[(0, 8)]).await, (5, 0x23, 0x01));
        assert_eq!(host.refused(1, &with(6, &[1, 0xf7]), &[(0, 8)]).await, (5, 0x23, 0x0a));
        host.use_token(1, &token, &[(0, 8)]).await;
        // Another daemon knows nothing of it.
        let later = World::new();
        let device = later.simple("iqn.a", &[B512e, B512e]);
        let host = Host::new(&device, "iqn.host").await;
        assert_eq!(host.refused(1, &token, &[(0, 8)]).await, UNKNOWN);
    });
}

#[test]
fn a_unit_that_is_gone_takes_its_tokens_along() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e, B512e]);
        let elsewhere = world.simple("iqn.b", &[B512e]);
        let (host, foreign) = (Host::new(&device, "iqn.host").await, Host::new(&elsewhere, "iqn.foreign").await);
        let token = host.populate(0, &[(0, 8)]).await;
        assert_eq!(foreign.refused(0, &token, &[(0, 8)]).await, UNKNOWN);
        // Its unit is still there, but not for its holder.
        let unit = device.units()[0].1.clone();
        device.remove_unit(0).await;
        host.settle().await;
        assert_eq!(host.refused(1, &token, &[(0, 8)]).await, REVOKED);
        drop(unit);
        assert_eq!(host.refused(1, &token, &[(0, 8)]).await, REVOKED);

        // A unit that shrinks ends those of what it lost.
        let memory = Arc::new(Memory::new(SIZE));
        let unit = world.unit(memory.clone(), B512e);
        device.add_unit(2, unit.clone()).unwrap();
        host.settle().await;
        let (low, high) = (host.populate(2, &[(0, 8)]).await, host.populate(2, &[(SIZE / 512 - 8, 8)]).await);
        memory.grow(SIZE / 2);
        unit.size_changed();
        host.settle().await;
        assert_eq!(host.refused(1, &high, &[(0, 8)]).await, CANCELLED);
        host.use_token(1, &low, &[(0, 8)]).await;
    });
}

#[test]
fn tokens_go_as_far_as_what_was_proved() {
    on_reactor(|| async {
        let world = World::new();
        let (one, two) = (world.simple("iqn.a", &[B512e]), world.simple("iqn.b", &[B512e]));
        let (secret, another) = (Proof::Secret([1; 32]), Proof::Secret([2; 32]));
        let table = [
            (secret, secret, true),
            (Proof::Named, Proof::Named, true),
            (Proof::Named, secret, true),
            (secret, Proof::Named, false),
            (secret, another, false),
            (Proof::Nothing, Proof::Named, false),
            (Proof::Named, Proof::Nothing, false),
        ];
        for (there, here, goes) in table {
            let source = Host::proved(&one, "iqn.host", there).await;
            let target = Host::proved(&two, "iqn.host", here).await;
            let data = pattern(4096, 9);
            source.write(0, 512, 0, &data).await;
            let token = source.populate(0, &[(0, 8)]).await;
            if goes {
                target.use_token(0, &token, &[(0, 8)]).await;
                assert!(target.read(0, 512, 0, 4096).await == data);
            } else {
                assert_eq!(target.refused(0, &token, &[(0, 8)]).await, REVOKED, "{there:?} and {here:?}");
            }
            // Another's name does not help, and neither does one that has logged out.
            let thief = Host::proved(&two, "iqn.thief", here).await;
            assert_eq!(thief.refused(0, &token, &[(0, 8)]).await, UNKNOWN);
            drop(source);
            assert_eq!(target.refused(0, &token, &[(0, 8)]).await, REVOKED);
        }
    });
}

#[test]
fn zeros_need_no_token_of_the_server() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e]);
        let host = Host::new(&device, "iqn.host").await;
        host.write(0, 512, 0, &pattern(64 << 10, 5)).await;
        host.use_token(0, &zeros(), &[(1, 9), (64, 16)]).await;
        let left = host.read(0, 512, 0, 64 << 10).await;
        let is_zero = |lba: usize| left[lba * 512..][..512].iter().all(|byte| *byte == 0);
        let zeroed: Vec<_> = (0..128).filter(|lba| is_zero(*lba)).collect();
        assert_eq!(zeroed, (1..10).chain(64..80).collect::<Vec<_>>());
    });
}

#[test]
fn wrong_lists_are_refused_and_change_nothing() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.simple("iqn.a", &[B512e, B512e]);
        let host = Host::new(&device, "iqn.host").await;
        let last = SIZE / 512;
        let token = host.populate(0, &[(0, 8)]).await;
        assert_eq!(host.refused(1, &token, &[(last - 7, 8)]).await, (5, 0x21, 0));
        assert_eq!(host.refused(1, &token, &[(0, 4), (3, 4)]).await, INVALID_FIELD);
        assert_eq!(host.refused(1, &token, &vec![(0, 0); 513]).await, (5, 0x26, 0x08));
        // Over what the token stands for, its first write would end it.
        assert_eq!(host.refused(0, &token, &[(100, 4), (7, 4)]).await, INVALID_FIELD);
        let list = write_list(0, 0, &token, &[(0, 8)]);
        for cut in [16, 535, 551] {
            assert_eq!(told(&host.write_using(1, 5, &list[..cut]).await), (5, 0x1a, 0));
        }
        let long = populate_list(3601, &[(0, 8)]);
        assert_eq!(host.populate_refused(0, &long).await, INVALID_FIELD);
        assert_eq!(host.populate_refused(0, &long[..15]).await, (5, 0x1a, 0));
        assert_eq!(host.populate_refused(0, &populate_list(0, &[(last, 1)])).await, (5, 0x21, 0));
        assert_eq!(host.populate_refused(0, &populate_list(0, &[(0, 9), (8, 1)])).await, INVALID_FIELD);
        // Nothing at all is no error.
        assert_eq!(host.write_using(1, 5, &[]).await.status, Status::Good);
        assert!(host.read(1, 512, 0, 65536).await.iter().all(|byte| *byte == 0));
        host.use_token(1, &token, &[(0, 8)]).await;
    });
}

#[test]
fn a_copy_in_the_background_is_asked_for_and_aborted() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.device("iqn.a");
        let slow = |delay| world.unit(Arc::new(Memory::new(SIZE).slow(Duration::from_micros(delay))), B512e);
        device.add_unit(0, slow(0)).unwrap();
        device.add_unit(1, slow(2000)).unwrap();
        let host = Host::new(&device, "iqn.host").await;
        let data = pattern(4 << 20, 7);
        host.write(0, 512, 0, &data).await;
        let blocks = (4 << 20) / 512;
        let token = host.populate(0, &[(0, blocks)]).await;
        let list = write_list(1, 0, &token, &[(0, blocks)]);
        assert_eq!(host.write_using(1, 9, &list).await.status, Status::Good);
        let early = host.told(1, 9).await;
        assert_eq!((early.action, early.status), (0x11, 0x12));
        // The same identifier is in use.
        assert_eq!(told(&host.write_using(1, 9, &list).await), (5, 0, 0x16));
        while host.told(1, 9).await.status == 0x12 {
            clock().sleep(Duration::from_millis(1)).await;
        }
        let late = host.told(1, 9).await;
        assert_eq!((late.status, late.count), (1, blocks.into()));
        assert!(host.read(1, 512, 0, 4 << 20).await == data);

        assert_eq!(host.write_using(1, 10, &list).await.status, Status::Good);
        host.good(1, &abort_cdb(10), &[]).await;
        let aborted = host.told(1, 10).await;
        assert_eq!((aborted.status, aborted.completion), (0x60, 0x40));
        assert_eq!(host.sense(1, &abort_cdb(10), &[]).await, (5, 0x24, 0));
        // Nobody else hears of it.
        let other = Host::new(&device, "iqn.other").await;
        assert_eq!(other.sense(1, &results_cdb(7, 10, 4096), &[]).await, (5, 0x24, 0));
    });
}

#[test]
fn a_change_meanwhile_ends_the_copy_with_what_is_right() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.device("iqn.a");
        let slow = || world.unit(Arc::new(Memory::new(SIZE).slow(Duration::from_micros(500))), B512e);
        device.add_unit(0, slow()).unwrap();
        device.add_unit(1, slow()).unwrap();
        let (host, other) = (Host::new(&device, "iqn.host").await, Host::new(&device, "iqn.other").await);
        let data = pattern(8 << 20, 7);
        host.write(0, 512, 0, &data).await;
        let blocks = (8 << 20) / 512;
        let token = host.populate(0, &[(0, blocks)]).await;
        assert_eq!(host.write_using(1, 9, &write_list(1, 0, &token, &[(0, blocks)])).await.status, Status::Good);
        other.write(0, 512, u64::from(blocks) - 1, &[0; 512]).await;
        while host.told(1, 9).await.status == 0x12 {
            clock().sleep(Duration::from_millis(1)).await;
        }
        let told = host.told(1, 9).await;
        assert!([2, 3].contains(&told.status), "{told:?}");
        assert_eq!((told.completion, told.sense[0]), (2, 0x72));
        assert!(told.count < blocks.into());
        let arrived = host.read(1, 512, 0, told.count as usize * 512).await;
        assert!(arrived == data[..arrived.len()]);
        assert_eq!(host.refused(1, &token, &[(0, 8)]).await, CANCELLED);
    });
}

#[test]
fn units_of_one_domain_are_cloned() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.device("iqn.a");
        let domain = Arc::new(Domain::default());
        for lun in 0..2 {
            device.add_unit(lun, world.unit(Arc::new(Memory::new(SIZE).of_domain(&domain)), B512e)).unwrap();
        }
        let host = Host::new(&device, "iqn.host").await;
        let data = pattern(4 << 20, 7);
        host.write(0, 512, 0, &data).await;
        let before = device.units()[0].1.target().counters().totals.read_bytes;
        let token = host.populate(0, &[(0, 8192)]).await;
        host.use_token(1, &token, &[(8192, 8192)]).await;
        assert_eq!(domain.clones.load(Ordering::SeqCst), 1);
        assert_eq!(device.units()[0].1.target().counters().totals.read_bytes, before);
        assert!(host.read(1, 512, 8192, 4 << 20).await == data);
    });
}

#[test]
fn whoever_gives_up_a_command_has_no_operation_in_progress() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.device("iqn.a");
        let slow = || world.unit(Arc::new(Memory::new(SIZE).slow(Duration::from_millis(1))), B512e);
        device.add_unit(0, slow()).unwrap();
        device.add_unit(1, slow()).unwrap();
        let host = Host::new(&device, "iqn.host").await;
        host.write(0, 512, 0, &pattern(8 << 20, 7)).await;
        let token = host.populate(0, &[(0, 16384)]).await;
        let list = write_list(0, 0, &token, &[(0, 16384)]);
        let mut cdb = vec![0x83, 0x11, 0, 0, 0, 0, 0, 0, 0, 9];
        cdb.extend((list.len() as u32).to_be_bytes());
        cdb.extend([0, 0]);
        let Outcome::Later(running) = host.begin(1, &cdb, &list) else { panic!("answered at once") };
        drop(running);
        while host.told(1, 9).await.status == 0x11 {
            clock().sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(host.told(1, 9).await.status, 0x60);
        // The device goes on without it.
        device.remove_unit(0).await;
    });
}

#[test]
fn a_copy_in_the_background_ends_with_its_nexus() {
    on_reactor(|| async {
        let world = World::new();
        let device = world.device("iqn.a");
        let slow = || world.unit(Arc::new(Memory::new(SIZE).slow(Duration::from_millis(2))), B512e);
        device.add_unit(0, slow()).unwrap();
        device.add_unit(1, slow()).unwrap();
        let host = Host::new(&device, "iqn.host").await;
        host.write(0, 512, 0, &pattern(8 << 20, 7)).await;
        let token = host.populate(0, &[(0, 16384)]).await;
        let list = write_list(1, 0, &token, &[(0, 16384)]);
        assert_eq!(host.write_using(1, 9, &list).await.status, Status::Good);
        drop(host);
        // Whoever takes the unit away waits for its end, which is near.
        device.remove_unit(1).await;
        let written = device.units()[0].1.target().counters().totals.read_bytes;
        assert!(written < 8 << 20, "{written} bytes were read");
    });
}
