//! What is planned about emptying a disk: the plan comes true, changes nothing, and says what would be left.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::*;
use holdfast_model::{Layout, Place, Provisioning, Usage, Uuid};
use holdfast_pool::{DiskChange, Evacuation, Pool, SpaceSpec};

fn set(lab: &Lab, pool: &Arc<Pool>, disk: usize, change: DiskChange) {
    let (id, pool) = (id_of(pool, disk), pool.clone());
    lab.run(async move { pool.set_disk(id, change).await }).expect("a quorum");
}

fn id_of(pool: &Pool, disk: usize) -> Uuid {
    pool.disks()[disk].record.id
}

fn used(pool: &Pool) -> BTreeMap<Uuid, u64> {
    pool.disks().iter().map(|disk| (disk.record.id, disk.data_bytes - disk.free_bytes)).collect()
}

/// Empties a disk in the configuration alone, journals too. Answers how many rows found no room.
fn empty(lab: &Lab, pool: &Arc<Pool>, disk: usize) -> usize {
    set(lab, pool, disk, DiskChange { usage: Some(Usage::Retired), ..DiskChange::default() });
    let (pool, disk) = (pool.clone(), disk as u16);
    lab.run(async move {
        let mut stuck = 0;
        for space in pool.spaces() {
            for chunk in pool.chunks_on(space.id, disk) {
                match pool.reserve_row(space.id, &[disk]).await {
                    Ok((row, units)) => {
                        let old = pool.move_row(space.id, chunk, &row, Vec::new()).await.expect("a quorum");
                        units.keep();
                        drop(old.expect("the chunk has a row"));
                    }
                    Err(_) => stuck += 1,
                }
            }
            if space.shape.layout.parity() > 0 {
                drop(pool.replace_journal(space.id, None).await);
            }
        }
        stuck
    })
}

fn plan(pool: &Pool, disk: usize) -> Evacuation {
    let known = snapshot(pool);
    let plan = pool.evacuation(id_of(pool, disk)).expect("a member");
    assert_eq!(snapshot(pool), known, "nothing is changed");
    check_allotment(pool);
    plan
}

#[test]
fn what_is_planned_comes_true() {
    for (seed, aware) in [(1, false), (2, true), (3, false), (4, true)] {
        let lab = Lab::new(seed, &[64 * MIB, 96 * MIB, 64 * MIB, 128 * MIB, 64 * MIB, 256 * MIB]);
        let pool = lab.created(&lab.all());
        for disk in lab.all() {
            let place = Place { enclosure: format!("E{}", disk % 3), slot: disk as u32 };
            set(&lab, &pool, disk, DiskChange { place: Some(place), ..DiskChange::default() });
        }
        for (name, layout, columns, size) in
            [("m", mirror_of(2), 1, 48 * MIB), ("s", Layout::Simple, 2, 16 * MIB), ("p", parity_of(1), 3, 24 * MIB)]
        {
            let enclosure_aware = aware && layout.tolerates() > 0;
            let spec = SpaceSpec { enclosure_aware, ..spec(name, layout, columns, Provisioning::Fixed, size) };
            lab.space(&pool, spec).expect("room");
        }
        let disk = seed as usize % 3 + 1;
        let reported = plan(&pool, disk);
        assert!(reported.spaces.iter().all(|space| space.stuck_slabs == 0 && space.slabs > 0), "{reported:?}");
        let before = used(&pool);
        let leaving = reported.disks.iter().find(|used| used.disk == id_of(&pool, disk)).expect("it is named");
        let slab_bytes: u64 = reported.spaces.iter().map(|space| space.slab_bytes).sum();
        assert_eq!((leaving.used_bytes, leaving.used_bytes_then), (slab_bytes, 0));
        assert_eq!(empty(&lab, &pool, disk), 0);
        for (id, now) in used(&pool) {
            let reported = reported.disks.iter().find(|used| used.disk == id);
            let then = reported.map_or(before[&id], |used| used.used_bytes_then);
            assert_eq!(then, now, "seed {seed}: disk {id}");
            assert!(reported.is_none_or(|used| used.used_bytes == before[&id]));
        }
        check_allotment(&pool);
        assert_eq!(plan(&pool, disk).spaces, [], "nothing is left");
    }
}

#[test]
fn what_finds_no_room_is_reported_and_spares_are_room() {
    let mut lab = Lab::new(5, &[64 * MIB; 4]);
    let pool = lab.created(&lab.all());
    lab.space(&pool, spec("m", mirror_of(2), 1, Provisioning::Fixed, 104 * MIB)).expect("room");
    let reported = plan(&pool, 0);
    let [space] = reported.spaces.as_slice() else { panic!("{reported:?}") };
    let rows = pool.chunks_on(pool.spaces()[0].id, 0).len() as u64;
    assert!(space.stuck_slabs > 0 && space.slabs + space.stuck_slabs == rows, "{reported:?}");
    let leaving = reported.disks.iter().find(|used| used.disk == id_of(&pool, 0)).expect("it is named");
    assert_eq!(leaving.used_bytes_then, space.stuck_bytes);

    let spare = lab.add_disk(128 * MIB);
    let (added, candidates) = (pool.clone(), lab.candidates(&[spare]));
    lab.run(async move { added.add_disks(candidates).await }).expect("a good disk");
    set(&lab, &pool, spare, DiskChange { usage: Some(Usage::HotSpare), ..DiskChange::default() });
    let reported = plan(&pool, 0);
    assert_eq!((reported.spaces[0].stuck_slabs, reported.spaces[0].slabs), (0, rows));
    assert!(
        reported.disks.iter().any(|used| used.disk == id_of(&pool, spare) && used.used_bytes_then > 0),
        "{reported:?}"
    );
    assert_eq!(empty(&lab, &pool, 0), 0);
    assert!(pool.evacuation(Uuid::from_u128(7)).is_err(), "there is no such disk");
}
