//! Changes as bytes, and what a configuration refuses.

use crate::common::*;
use holdfast_model::wire::{Reader, Writer};
use holdfast_model::{
    ByteSize, DiskState, Integrity, Layout, Media, Place, Provisioning, RetirePolicy, Shape, Usage, Uuid,
};
use holdfast_pool::{
    Change, Config, DiskRecord, Features, JOURNAL_CHUNK, LossPolicy, Position, RowRecord, SlabPlace, SpaceRecord,
};
use proptest::prelude::*;

fn disk_record(index: u16) -> DiskRecord {
    DiskRecord {
        index,
        id: Uuid::from_u128(100 + u128::from(index)),
        serial: serial(index.into()),
        model: "Simulated".into(),
        path: path(index.into()),
        media: Media::Ssd,
        usage: Usage::Auto,
        place: None,
        disk_bytes: SMALL,
        state: DiskState::Online,
        voting: true,
        holds: Position::default(),
    }
}

fn shape(layout: Layout, columns: u16) -> Shape {
    Shape::plain(layout, columns, ByteSize::kib(64))
}

fn space_record() -> SpaceRecord {
    SpaceRecord {
        id: 1,
        uuid: Uuid::from_u128(7),
        name: named("vm"),
        shape: shape(mirror_of(2), 1),
        provisioning: Provisioning::Thin,
        size_bytes: 16 * MIB,
        chunk_bytes: MIB,
        enclosure_aware: false,
        read_only: false,
        complete: true,
    }
}

fn row_record(id: u64, slabs: &[(u16, u32)]) -> RowRecord {
    let slabs = slabs.iter().map(|(disk, unit)| SlabPlace::new(*disk, *unit)).collect();
    RowRecord { id, shape: shape(mirror_of(2), 1), slab_units: 17, begun: false, slabs }
}

fn row(chunk: u32, row: RowRecord) -> Change {
    Change::Row { space: 1, chunk, row }
}

/// Three disks, a mirror, one row on the first two disks.
fn config() -> Config {
    let mut config = Config::default();
    let mut changes = vec![Change::Pool(named("tank"))];
    changes.extend((0..3).map(disk_record).map(Change::Disk));
    changes.extend([Change::Space(space_record()), row(0, row_record(1, &[(0, 0), (1, 0)]))]);
    changes.iter().for_each(|change| config.apply(change).expect("a sound change"));
    config
}

fn replayed(config: &Config) -> Config {
    let mut copy = Config::default();
    for change in Change::read_all(&config.checkpoint()) {
        copy.apply(&change.expect("as written")).expect("a sound change");
    }
    copy
}

fn stale(chunk: u32, slab: u16, stale: bool) -> Change {
    Change::Stale { space: 1, chunk, slab, stale }
}

#[test]
fn a_checkpoint_keeps_which_copy_is_in_step() {
    let mut config = config();
    let steps = [
        Change::DiskOut { disk: 0, state: DiskState::Failed, holds: Position::default() },
        Change::DiskOut { disk: 1, state: DiskState::Failed, holds: Position::default() },
        Change::Disk(disk_record(0)),
    ];
    for step in steps {
        config.apply(&step).expect("a sound change");
        assert_eq!(replayed(&config), config, "after {step:?}");
    }
    let row = &config.spaces[&1].rows[&0];
    assert!(row.slabs[0].stale() && !row.slabs[1].stale(), "the copy on the disk that is out is the good one: {row:?}");
}

#[test]
fn the_flags_of_a_space_end_its_record() {
    let written = |record: SpaceRecord| {
        let mut writer = Writer::new();
        Change::Space(record).write(&mut writer);
        writer.into_bytes()
    };
    let complete = written(space_record());
    let mut aware = written(SpaceRecord { enclosure_aware: true, ..space_record() });
    assert_eq!((complete.last(), aware.last()), (Some(&1), Some(&3)));
    assert_eq!(
        complete[..complete.len() - 1],
        aware[..aware.len() - 1],
        "a record without the flag is what it was before there was one"
    );
    *aware.last_mut().expect("not empty") = 4;
    assert!(Change::read_all(&aware).next().expect("a change").is_err(), "a flag of a later version");
}

#[test]
fn the_last_copy_is_never_stale() {
    let mut config = config();
    for change in [stale(0, 0, true), stale(0, 1, true)] {
        config.apply(&change).expect("a sound change");
    }
    let row = &config.spaces[&1].rows[&0];
    assert!(row.slabs[0].stale() && !row.slabs[1].stale());
}

#[test]
fn hostile_records_are_refused() {
    let disk = |change: fn(&mut DiskRecord)| {
        let mut record = disk_record(1);
        change(&mut record);
        Change::Disk(record)
    };
    let space = |change: fn(&mut SpaceRecord)| {
        let mut record = space_record();
        change(&mut record);
        Change::Space(record)
    };
    let reshaped = |shape: Shape, slabs: &[(u16, u32)]| row(1, RowRecord { shape, ..row_record(2, slabs) });
    let hostile = [
        disk(|record| record.disk_bytes = 0),
        disk(|record| record.disk_bytes = u64::MAX),
        disk(|record| record.disk_bytes *= 2),
        disk(|record| record.id = Uuid::from_u128(9)),
        disk(|record| record.index = u16::MAX),
        disk(|record| record.index = 1 << 14),
        Change::DiskOut { disk: 9, state: DiskState::Missing, holds: Position::default() },
        Change::DiskOut { disk: 1, state: DiskState::Online, holds: Position::default() },
        Change::DiskGone(0),
        Change::DiskGone(9),
        space(|record| record.size_bytes = 0),
        space(|record| record.size_bytes = 4095),
        space(|record| record.chunk_bytes = 0),
        space(|record| record.chunk_bytes = u64::MAX / 4096 * 4096),
        space(|record| record.uuid = Uuid::from_u128(8)),
        space(|record| record.id = u32::MAX),
        space(|record| record.shape.columns = 0),
        space(|record| record.shape.columns = 257),
        space(|record| record.shape.layout = Layout::Mirror { copies: 1 }),
        space(|record| record.shape.interleave = ByteSize(0)),
        space(|record| {
            record.size_bytes = u64::MAX / 4096 * 4096;
            record.chunk_bytes = 4096;
        }),
        space(|record| record.shape = shape(parity_of(1), 2)),
        space(|record| record.shape = shape(parity_of(3), 8)),
        space(|record| {
            record.shape = shape(parity_of(1), 3);
            record.chunk_bytes = 2 << 40;
        }),
        Change::SpaceGone(2),
        Change::RowGone { space: 1, chunk: 1 },
        Change::RowGone { space: 2, chunk: 0 },
        stale(0, 2, true),
        row(0, row_record(2, &[(0, 17), (1, 17)])),
        row(1, row_record(2, &[(0, 16), (1, 17)])),
        row(1, row_record(2, &[(0, 17), (0, 34)])),
        row(1, row_record(2, &[(0, 17), (5, 0)])),
        row(1, row_record(2, &[(0, 17), (1, u32::MAX)])),
        row(1, row_record(2, &[(0, 17), (1, 950)])),
        row(1, row_record(2, &[(0, 17)])),
        row(1, row_record(u64::MAX, &[(0, 17), (1, 17)])),
        row(1, RowRecord { slab_units: 0, ..row_record(2, &[(0, 17), (1, 17)]) }),
        row(1, RowRecord { slab_units: 1, ..row_record(2, &[(0, 17), (1, 17)]) }),
        row(1, RowRecord { slab_units: u32::MAX, ..row_record(2, &[(0, 17), (1, 17)]) }),
        Change::Row { space: 3, chunk: 0, row: row_record(2, &[(0, 17), (1, 17)]) },
        reshaped(shape(mirror_of(2), 2), &[(0, 17), (1, 17)]),
        reshaped(shape(mirror_of(9), 1), &[(0, 17), (1, 17)]),
        Change::Row {
            space: 1,
            chunk: JOURNAL_CHUNK,
            row: RowRecord { slab_units: 1, ..row_record(2, &[(0, 17), (1, 17)]) },
        },
        Change::Counters { row: u64::MAX, space: 0, disk: 0 },
        Change::Counters { row: 0, space: u32::MAX, disk: 0 },
        Change::Counters { row: 0, space: 0, disk: u16::MAX },
    ];
    for change in hostile {
        assert!(config().apply(&change).is_err(), "{change:?}");
    }
    assert!(config().apply(&row(1, row_record(2, &[(0, 17), (1, 17)]))).is_ok(), "the row is sound otherwise");
}

fn shapes() -> impl Strategy<Value = Shape> {
    let layouts = prop_oneof![Just(Layout::Simple), (2u8..=3).prop_map(mirror_of), (1u8..=2).prop_map(parity_of)];
    let sums = prop_oneof![Just(Integrity::None), Just(Integrity::Crc32c)];
    (layouts, 0u16..=12, 12u32..=24, sums).prop_map(|(layout, columns, interleave, sums)| {
        // A stripe of parity has a limit.
        let interleave = if layout.parity() > 0 { interleave.min(22) } else { interleave };
        Shape::plain(layout, layout.least_columns() + columns, ByteSize(1 << interleave)).with_integrity(sums)
    })
}

fn disks() -> impl Strategy<Value = DiskRecord> {
    let texts = (".{0,40}", ".{0,20}", ".{0,80}", proptest::option::of((".{0,20}", any::<u32>())));
    let choices = (0usize..3, 0usize..5, 0usize..3);
    (any::<u16>(), any::<u128>(), texts, choices, any::<u64>(), any::<bool>()).prop_map(
        |(index, id, (serial, model, path, place), (media, usage, state), disk_bytes, voting)| DiskRecord {
            index,
            id: Uuid::from_u128(id),
            serial,
            model,
            path,
            media: [Media::Unknown, Media::Hdd, Media::Ssd][media],
            usage: [Usage::Auto, Usage::Manual, Usage::HotSpare, Usage::Journal, Usage::Retired][usage],
            place: place.map(|(enclosure, slot)| Place { enclosure, slot }),
            disk_bytes,
            state: [DiskState::Online, DiskState::Missing, DiskState::Failed][state],
            voting,
            holds: Position { generation: 7, sequence: disk_bytes / 3 },
        },
    )
}

fn spaces() -> impl Strategy<Value = SpaceRecord> {
    let sizes = (any::<u64>(), any::<u64>());
    let flags = (any::<bool>(), any::<bool>());
    (any::<u32>(), any::<u128>(), "[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}", shapes(), any::<bool>(), sizes, flags).prop_map(
        |(id, uuid, name, shape, thin, (size_bytes, chunk_bytes), (enclosure_aware, complete))| SpaceRecord {
            id,
            uuid: Uuid::from_u128(uuid),
            name: named(&name),
            shape,
            provisioning: if thin { Provisioning::Thin } else { Provisioning::Fixed },
            size_bytes,
            chunk_bytes,
            enclosure_aware,
            read_only: complete && enclosure_aware,
            complete,
        },
    )
}

fn rows() -> impl Strategy<Value = RowRecord> {
    shapes().prop_flat_map(|shape| {
        let slabs = proptest::collection::vec((0u16..1 << 14, any::<u32>()), shape.width());
        (any::<u64>(), any::<u32>(), slabs).prop_map(move |(id, slab_units, slabs)| RowRecord {
            id,
            shape,
            slab_units,
            begun: id % 2 == 0,
            slabs: slabs.into_iter().map(|(disk, unit)| SlabPlace::new(disk, unit)).collect(),
        })
    })
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        "[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}".prop_map(|name| Change::Pool(named(&name))),
        (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(compatible, read_only_compatible, incompatible)| {
            Change::Features(Features { compatible, read_only_compatible, incompatible })
        }),
        Just(Change::Opened),
        Just(Change::Closed),
        (any::<u64>(), any::<u32>(), any::<u16>()).prop_map(|(row, space, disk)| Change::Counters { row, space, disk }),
        disks().prop_map(Change::Disk),
        (any::<u16>(), 0usize..3).prop_map(|(disk, state)| Change::DiskOut {
            disk,
            state: [DiskState::Online, DiskState::Missing, DiskState::Failed][state],
            holds: Position { generation: u64::from(disk), sequence: u64::from(disk) << 20 },
        }),
        any::<u16>().prop_map(Change::DiskOutdated),
        (any::<u32>(), any::<u32>()).prop_map(|(space, chunk)| Change::RowBegun { space, chunk }),
        (any::<u32>(), any::<u32>(), any::<u16>(), any::<bool>())
            .prop_map(|(space, chunk, slab, outdated)| { Change::Outdated { space, chunk, slab, outdated } }),
        any::<u16>().prop_map(Change::DiskGone),
        (0usize..3, any::<Option<u32>>()).prop_map(|(retire, grace_seconds)| {
            let retire = [RetirePolicy::Auto, RetirePolicy::Always, RetirePolicy::Never][retire];
            Change::LossPolicy(LossPolicy { retire, grace_seconds })
        }),
        spaces().prop_map(Change::Space),
        any::<u32>().prop_map(Change::SpaceGone),
        (any::<u32>(), any::<u32>(), rows()).prop_map(|(space, chunk, row)| Change::Row { space, chunk, row }),
        (any::<u32>(), any::<u32>()).prop_map(|(space, chunk)| Change::RowGone { space, chunk }),
        (any::<u32>(), any::<u32>(), any::<u16>(), any::<bool>())
            .prop_map(|(space, chunk, slab, stale)| Change::Stale { space, chunk, slab, stale }),
        ("[a-z/]{0,40}", proptest::option::of(proptest::collection::vec(any::<u8>(), 0..100)))
            .prop_map(|(key, content)| Change::Document { key: key.into(), content: content.map(Into::into) }),
        (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(from, sequence, generation)| Change::Forced {
            from: Position { generation: from, sequence },
            generation
        }),
    ]
}

proptest! {
    #[test]
    fn a_change_is_read_as_written(changes in proptest::collection::vec(changes(), 1..8)) {
        let mut writer = Writer::new();
        changes.iter().for_each(|change| change.write(&mut writer));
        let bytes = writer.into_bytes();
        let read: Result<Vec<Change>, _> = Change::read_all(&bytes).collect();
        prop_assert_eq!(read.as_ref(), Ok(&changes));
        let mut reader = Reader::new(&bytes[..bytes.len() - 1]);
        let cut = (0..changes.len()).map(|_| Change::read(&mut reader)).collect::<Result<Vec<_>, _>>();
        prop_assert!(cut.is_err(), "the last byte is needed");
    }

    #[test]
    fn garbage_is_refused_or_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..600), tag in 0u8..21) {
        let mut tagged = vec![tag];
        tagged.extend(&bytes);
        for payload in [&bytes, &tagged] {
            let mut config = config();
            let read = Change::read_all(payload).take(2000).map_while(Result::ok);
            let taken = read.map_while(|change| config.apply(&change).ok()).count();
            prop_assert!(taken <= payload.len());
        }
    }

    #[test]
    fn any_readable_change_is_taken_or_refused_without_a_panic(changes in proptest::collection::vec(changes(), 1..20)) {
        let mut config = config();
        for change in &changes {
            if config.clone().apply(change).is_ok() {
                config.apply(change).expect("it was taken a moment ago");
            }
        }
        prop_assert_eq!(config.check(), Ok(()));
        prop_assert_eq!(replayed(&config), config);
    }
}
