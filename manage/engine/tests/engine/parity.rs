//! Parity spaces through the engine: made, told of, and weighed against the other layouts before they are made.

use holdfast_api::{Code, CreateSpace, LayoutKind, SetDisk, SetSpace, SpaceOption};
use holdfast_engine::Engine;
use holdfast_model::{Health, Integrity, Media, Usage};

use crate::support::{MIB, Rig, mirror, parity, pool};

/// Makes the disks rotating ones, whatever the folder lies on.
async fn rotate(engine: &std::sync::Arc<Engine>, disks: &[String]) {
    for disk in disks {
        let set = SetDisk { media: Some(Media::Hdd), ..SetDisk::default() };
        engine.set_disk(disk.clone(), set).await.expect("a disk");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parity_space_is_made_once_and_tells_what_it_is() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(5).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let single = engine.create_space(parity("tank/single", 1, 16 * MIB)).await.unwrap();
    let space = single.space;
    assert_eq!((space.layout, space.parity, space.copies, space.columns), (LayoutKind::Parity, 1, 1, 3));
    assert!(single.changed && space.health == Health::Healthy, "{space:?}");
    assert!(space.journal.is_some_and(|journal| journal.size_bytes >= MIB), "{space:?}");
    let dual = engine.create_space(parity("tank/dual", 2, 16 * MIB)).await.unwrap().space;
    assert_eq!((dual.parity, dual.columns), (2, 4));
    assert!(!engine.create_space(parity("tank/dual", 2, 16 * MIB)).await.unwrap().changed);
    assert!(engine.create_space(mirror("tank/vm", 16 * MIB)).await.unwrap().space.journal.is_none());

    let large = CreateSpace { journal_bytes: Some(33 * MIB), thin: true, ..parity("tank/large", 1, 16 * MIB) };
    let made = engine.create_space(large.clone()).await.unwrap().space;
    assert!(made.journal.is_some_and(|journal| (33 * MIB..35 * MIB).contains(&journal.size_bytes)), "{made:?}");
    assert!(!engine.create_space(large.clone()).await.unwrap().changed);
    for (request, word) in [
        (parity("tank/single", 2, 16 * MIB), "layout"),
        (mirror("tank/single", 16 * MIB), "layout"),
        (CreateSpace { columns: Some(4), ..parity("tank/single", 1, 16 * MIB) }, "columns"),
        (CreateSpace { journal_bytes: Some(64 * MIB), ..large }, "journal size"),
    ] {
        let error = engine.create_space(request).await.unwrap_err();
        assert!(error.code == Code::Exists && error.message.contains(word), "{error}");
    }
    engine.shutdown().await;
    drop(engine);
    let engine = rig.start().await;
    let names: Vec<(String, Option<u64>)> = engine
        .spaces()
        .into_iter()
        .map(|space| (space.name, space.journal.map(|journal| journal.size_bytes)))
        .collect();
    assert_eq!(
        names.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["tank/dual", "tank/large", "tank/single", "tank/vm"]
    );
    assert_eq!(names[2].1, space.journal.map(|journal| journal.size_bytes));
    assert!(engine.destroy_space("tank/dual".into(), true).await.unwrap().changed);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_is_exchanged_in_use_and_only_once() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(4).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let thin = CreateSpace { thin: true, ..parity("tank/p", 1, 16 * MIB) };
    engine.create_space(thin).await.unwrap();
    engine.create_space(mirror("tank/vm", MIB)).await.unwrap();
    let set = |space: &str, bytes| {
        engine.set_space(space.into(), SetSpace { journal_bytes: Some(bytes), ..SetSpace::default() })
    };
    let free = engine.pool("tank").unwrap().free_bytes;
    for bytes in [40 * MIB, 32 * MIB] {
        let answer = set("tank/p", bytes).await.unwrap();
        let journal = answer.space.journal.expect("it has parity");
        assert!(answer.changed && journal.size_bytes == bytes && journal.dirty_bytes == 0, "{answer:?}");
        assert!(!set("tank/p", bytes).await.unwrap().changed);
        let map = engine.space_map("tank/p").await.unwrap();
        let shown: u64 = map.iter().filter(|row| row.journal).map(|row| row.length_bytes).sum();
        assert_eq!(shown, bytes);
    }
    assert!(!engine.set_space("tank/p".into(), SetSpace::default()).await.unwrap().changed, "nothing was asked for");
    let (kept, map) = (engine.pool("tank").unwrap(), engine.space_map("tank/p").await.unwrap());
    assert!(kept.free_bytes < free, "a journal of 32 MiB is larger than the first one");
    for (space, bytes, code) in [
        ("tank/p", MIB, Code::Invalid),
        ("tank/p", 101 << 30, Code::Invalid),
        ("tank/p", 1 << 30, Code::NoSpace),
        ("tank/vm", 32 * MIB, Code::Invalid),
        ("tank/none", 32 * MIB, Code::NotFound),
    ] {
        let error = set(space, bytes).await.unwrap_err();
        assert_eq!(error.code, code, "{error}");
    }
    assert_eq!(engine.pool("tank").unwrap().free_bytes, kept.free_bytes, "a refusal changes nothing");
    assert_eq!(engine.space_map("tank/p").await.unwrap(), map, "a refusal changes nothing");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_go_together_is_refused_with_the_way_out() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(3).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let base = || parity("tank/p", 1, 16 * MIB);
    for (request, message, next) in [
        (
            CreateSpace { layout: LayoutKind::Mirror, ..base() },
            "a mirror space has no parity columns",
            "--layout parity",
        ),
        (
            CreateSpace { layout: LayoutKind::Simple, ..base() },
            "a simple space has no parity columns",
            "--layout parity",
        ),
        (
            CreateSpace { journal_bytes: Some(64 * MIB), ..mirror("tank/p", MIB) },
            "has no journal",
            "leave --journal out",
        ),
        (CreateSpace { copies: Some(2), ..base() }, "not 2 copies", "leave --copies out"),
        (CreateSpace { parity: Some(0), ..base() }, "1 or 2 parity columns, not 0", ""),
        (CreateSpace { parity: Some(3), ..base() }, "1 or 2 parity columns, not 3", ""),
        (CreateSpace { columns: Some(2), ..base() }, "single parity has 3 to 32 columns", ""),
        (CreateSpace { columns: Some(4), ..base() }, "needs 4 disks for data, and the pool has 3", ""),
        (CreateSpace { parity: Some(2), ..base() }, "choose single parity or a mirror", ""),
        (CreateSpace { journal_bytes: Some(MIB), ..base() }, "choose a size from 32 MiB to 100 GiB", ""),
    ] {
        let planned = engine.plan_space(&request).unwrap_err();
        let error = engine.create_space(request).await.unwrap_err();
        assert!(planned.code == error.code && planned.message.contains(message), "{planned}");
        assert!(error.code == Code::Invalid && error.message.contains(message), "{error}");
        assert!(error.next_action.contains(next), "{error}");
    }
    assert!(engine.spaces().is_empty());
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_counts_what_the_pool_would_give() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(3).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    rotate(&engine, &disks).await;
    let before = engine.pool("tank").unwrap();
    let plain = |size_bytes| CreateSpace { integrity: Some(Integrity::None), ..parity("tank/p", 1, size_bytes) };
    let plan = engine.plan_space(&plain(64 * MIB)).unwrap();
    assert_eq!(engine.pool("tank").unwrap(), before);
    let shown: Vec<_> = plan
        .options
        .iter()
        .map(|option| (option.layout, option.copies, option.parity, option.columns, option.usable_bytes / MIB))
        .collect();
    // A disk of 128 MiB has 1,983 units of 64 KiB for slabs: 116 slabs of 1 MiB and a head. A slab of parity has four
    // bands of 256 KiB and two spare ones, 25 units with its head; the journal takes 121 units of two disks, a
    // sixteenth of them.
    let expected = [
        (LayoutKind::Parity, 1, 1, 3, 74 * 2),
        (LayoutKind::Simple, 1, 0, 3, 116 * 3),
        (LayoutKind::Mirror, 2, 0, 1, 174),
        (LayoutKind::Mirror, 3, 0, 1, 116),
    ];
    assert_eq!(shown, expected);
    let single = &plan.options[0];
    assert!(single.chosen && plan.options[1..].iter().all(|option| !option.chosen));
    assert_eq!((single.journal_bytes, single.raw_bytes), (30 * (256 << 10), (74 * 3 * 25 + 2 * 121) * (64 << 10)));
    assert_eq!(single.unused_bytes, (3 * 1983 - 74 * 3 * 25 - 2 * 121) * (64 << 10));
    assert_eq!((single.efficiency_percent, single.full_stripe_cost), (40.9, 1.5));
    let costs = |option: &SpaceOption| {
        (option.survives_disks, option.small_write_writes, option.small_write_reads, option.rebuild_reads)
    };
    assert_eq!(
        plan.options.iter().map(costs).collect::<Vec<_>>(),
        [(1, 4, 2, Some(2)), (0, 1, 0, None), (1, 2, 0, Some(1)), (2, 3, 0, Some(1))]
    );
    assert_eq!((plan.options[2].full_stripe_cost, plan.options[1].full_stripe_cost), (2.0, 1.0));
    assert!(
        plan.fits && plan.notes.iter().any(|note| note.contains("dual parity of 4 columns needs 4 disks")),
        "{plan:?}"
    );

    let usable = single.usable_bytes;
    let larger = engine.plan_space(&plain(usable + 4096)).unwrap();
    assert!(!larger.fits && larger.notes[0].contains("does not fit"), "{larger:?}");
    assert!(engine.create_space(plain(usable + 4096)).await.is_err());
    assert!(engine.create_space(plain(usable)).await.unwrap().changed);
    let again = engine.plan_space(&plain(usable));
    assert!(again.is_err(), "the pool is full, so there is nothing to tell");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_where_other_columns_give_more() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(9).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    rotate(&engine, &disks).await;
    let plan = engine.plan_space(&parity("tank/p", 1, 64 * MIB)).unwrap();
    let columns: Vec<_> = plan.options.iter().map(|option| (option.layout, option.parity, option.columns)).collect();
    let parities = [(LayoutKind::Parity, 1, 9), (LayoutKind::Parity, 2, 7), (LayoutKind::Parity, 2, 9)];
    assert_eq!((columns[0], &columns[4..]), ((LayoutKind::Parity, 1, 3), &parities[..]));
    let usable = |at: usize| plan.options[at].usable_bytes;
    assert!(usable(4) > usable(0) && usable(6) > usable(5), "{plan:?}");
    let more = (usable(4) - usable(0)) * 100 / usable(0);
    assert!(plan.notes[0].starts_with(&format!("9 columns would give {more} % more: ")), "{:?}", plan.notes);
    let widest = CreateSpace { columns: Some(9), ..parity("tank/p", 1, 64 * MIB) };
    let notes = engine.plan_space(&widest).unwrap().notes;
    assert!(notes.iter().all(|note| !note.contains("would give")), "{notes:?}");

    let journal = SetDisk { usage: Some(Usage::Journal), media: Some(Media::Ssd), ..SetDisk::default() };
    for disk in &disks[..2] {
        let set = engine.set_disk(disk.clone(), journal.clone()).await.unwrap().disk;
        assert!(set.usage == Some(Usage::Journal) && set.health == Health::Healthy, "{set:?}");
    }
    let made = engine.create_space(parity("tank/p", 1, 16 * MIB)).await.unwrap().space;
    let rows = engine.space_map("tank/p").await.unwrap();
    for row in rows {
        let on_journal_disks = row.slabs.iter().all(|slab| disks[..2].contains(&slab.path));
        let on_data_disks = row.slabs.iter().all(|slab| !disks[..2].contains(&slab.path));
        assert!(if row.journal { on_journal_disks } else { on_data_disks }, "{row:?}");
    }
    assert!(made.journal.is_some());
    engine.shutdown().await;
}
