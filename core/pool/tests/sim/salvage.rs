//! What stands in the way of a salvage or an import: headers that no pool would have written, such as are left over,
//! and labels that nobody wrote.

use crate::common::*;
use holdfast_device::{Device, Durability};
use holdfast_model::{ByteSize, Provisioning, Shape, Uuid};
use holdfast_pool::frame::{Frame, Kind};
use holdfast_pool::slab::{ARRIVING, SlabHeader, SpaceFacts, map_at};
use holdfast_pool::{Area, PoolErrorKind, Position, Salvage, UNIT_BYTES, row_raw_bytes};

const POOL: Uuid = Uuid::from_u128(7);
const DISK: Uuid = Uuid::from_u128(8);

/// A header of a simple row, sealed for a place on the disk.
fn put_header(lab: &Lab, unit: u64, chunk: u32, position: Position) {
    let shape = Shape::plain(holdfast_model::Layout::Simple, 1, ByteSize::kib(64));
    let header = SlabHeader {
        of: SpaceFacts {
            pool_name: named("tank"),
            space: 1,
            space_uuid: Uuid::from_u128(9),
            space_name: named("vol"),
            space_bytes: 64 * MIB,
            chunk_bytes: MIB,
            provisioning: Provisioning::Thin,
        },
        chunk,
        slab: 0,
        row: position.generation,
        shape,
        slab_units: (row_raw_bytes(&shape, MIB) / UNIT_BYTES) as u32,
        journal: None,
    };
    put(lab, Kind::SlabHeader, unit * UNIT_BYTES, position, &header.write());
}

/// A map of such a row, of a number, in the head of a slab.
fn put_map(lab: &Lab, unit: u64, chunk: u32, row: u64, sequence: u64) {
    let position = Position { generation: row, sequence };
    put(lab, Kind::BlockMap, unit * UNIT_BYTES + map_at(0, 0), position, &chunk.to_le_bytes());
}

fn put(lab: &Lab, kind: Kind, offset: u64, position: Position, payload: &[u8]) {
    let sealed = Frame { kind, pool: POOL, disk: DISK, offset, position, previous: 0 }.seal(payload).freeze();
    let disk = lab.disks[0].clone();
    lab.run(async move { disk.write(offset, sealed, Durability::Durable).await }).expect("a good disk");
}

/// A label at the front of a disk that names features which only a writer must know.
fn put_later_label(lab: &Lab, disk: usize) {
    let numbers = [SMALL, 1, 0, 1 << 63, 0];
    let payload: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
    let position = Position { generation: 1, sequence: 0 };
    let id = Uuid::from_u128(DISK.as_u128() + disk as u128);
    let sealed =
        Frame { kind: Kind::Label, pool: POOL, disk: id, offset: 0, position, previous: 0 }.seal(&payload).freeze();
    let disk = lab.disks[disk].clone();
    lab.run(async move { disk.write(0, sealed, Durability::Durable).await }).expect("a good disk");
}

fn row(id: u64) -> Position {
    Position { generation: id, sequence: 0 }
}

#[test]
fn headers_where_no_slab_can_lie_are_passed_over_and_reported() {
    let lab = Lab::small(1, 1);
    // In the reserved area, where slabs are, and reaching beyond the end.
    let last = SMALL / UNIT_BYTES - 1;
    for (unit, chunk) in [(36, 0), (100, 1), (last - 5, 2)] {
        put_header(&lab, unit, chunk, row(u64::from(chunk) + 1));
    }
    let (env, candidates) = (lab.env(), lab.candidates(&[0]));
    let reported = lab.run(async move {
        let salvage = Salvage::look(candidates, None).await.expect("slabs are there");
        salvage.write(&env, named("saved")).await.expect("nothing stands in the way");
        (salvage.doubts.clone(), salvage.spaces.clone())
    });
    assert!(
        reported.0.iter().any(|doubt| doubt.contains("1 headers are where no slab of the pool can be")),
        "{reported:?}"
    );
    assert_eq!((reported.1.len(), reported.1[0].chunks.complete), (1, 1), "{reported:?}");
    let pool = lab.imported(&[0]);
    assert!(pool.row(pool.spaces()[0].id, 1).is_some());
    check_allotment(&pool);
}

#[test]
fn of_headers_that_say_to_be_the_same_slab_the_one_with_the_newest_maps_counts() {
    let arriving = Position { generation: 5, sequence: ARRIVING };
    // Where each of two lies, what it says of its row, and the number of its map; the better one first.
    for [(unit, position, map), (other, left_over, older)] in [
        [(100, row(5), 9), (200, row(5), 8)],
        [(200, row(5), 9), (100, row(5), 8)],
        [(100, row(5), 8), (200, arriving, 9)],
        [(200, row(5), 8), (100, arriving, 9)],
    ] {
        let lab = Lab::small(2, 1);
        for (unit, position, map) in [(unit, position, map), (other, left_over, older)] {
            put_header(&lab, unit, 3, position);
            put_map(&lab, unit, 3, 5, map);
        }
        let (env, candidates) = (lab.env(), lab.candidates(&[0]));
        let reported = lab.run(async move {
            let salvage = Salvage::look(candidates, None).await.expect("slabs are there");
            salvage.write(&env, named("saved")).await.expect("nothing stands in the way");
            salvage.spaces.clone()
        });
        assert_eq!(reported[0].chunks.complete, 1, "{reported:?}");
        assert!(
            reported[0].doubts.iter().any(|doubt| doubt.contains("1 of 2 headers contradict others")),
            "{reported:?}"
        );
        let pool = lab.imported(&[0]);
        let kept = pool.row(pool.spaces()[0].id, 3).expect("the chunk has a row").slabs[0];
        assert_eq!(
            pool.disk(kept.disk()).expect("a member").area.unit_at(kept.unit()),
            unit * UNIT_BYTES,
            "left over: {other}"
        );
    }
}

#[test]
fn a_pool_of_a_later_version_is_not_salvaged() {
    let lab = Lab::small(4, 1);
    put_header(&lab, 100, 0, row(1));
    put_later_label(&lab, 0);
    let before = lab.disks[0].peek(0, 1 << 20);
    let (env, candidates) = (lab.env(), lab.candidates(&[0]));
    let refused = lab.run(async move {
        let salvage = Salvage::look(candidates, None).await.expect("slabs are there");
        salvage.write(&env, named("saved")).await.expect_err("its labels would be written over")
    });
    assert!(refused.context.contains("features of a later version, flags 0x8000000000000000"), "{refused}");
    assert_eq!(lab.disks[0].peek(0, 1 << 20), before, "nothing is written");
}

#[test]
fn the_label_of_a_disk_that_is_not_in_the_pool_does_not_make_it_read_only() {
    let lab = Lab::small(5, 2);
    put_header(&lab, 100, 0, row(1));
    put_later_label(&lab, 1);
    let (env, candidates) = (lab.env(), lab.candidates(&[0, 1]));
    lab.run(async move {
        let salvage = Salvage::look(candidates, None).await.expect("slabs are there");
        salvage.write(&env, named("saved")).await.expect("a disk without slabs has no say");
    });
    let pool = lab.imported(&[0, 1]);
    let space = pool.spaces()[0].id;
    lab.run({
        let pool = pool.clone();
        async move { pool.accept_space(space).await }
    })
    .expect("it takes changes");
}

#[test]
fn a_label_of_the_last_generation_is_refused_and_breaks_nothing() {
    let lab = Lab::small(3, 2);
    drop(lab.created(&lab.all()));
    let area = Area::of_disk("", SMALL).expect("in range");
    let last = Position { generation: u64::MAX, sequence: 0 };
    for offset in area.labels() {
        let block = lab.disks[0].peek(offset, 4096);
        let (header, payload) = Frame::open_inline(&block).expect("its label");
        let mut payload = payload.to_vec();
        payload[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        let forged = Frame { position: last, ..header.frame }.seal(&payload);
        lab.disks[0].poke(offset, &forged);
    }
    let before: Vec<_> = lab.disks.iter().map(|disk| disk.peek(0, 1 << 20)).collect();
    for imported in [lab.import(&lab.all()), lab.force(&lab.all())] {
        let refused = imported.err().expect("there is no generation after that");
        assert!(
            refused.kind == PoolErrorKind::Damaged && refused.context.contains("impossible generation"),
            "{refused}"
        );
    }
    assert!(lab.disks.iter().map(|disk| disk.peek(0, 1 << 20)).eq(before), "nothing is written");
}
