//! What is said of a space is what its rows bear, while jobs change them and when they are cut short.

use holdfast_api::{Export, RetireDisk};
use holdfast_model::{Health, Usage};

use super::*;

/// A conversion of `tank/a` to three copies, so slow that it does not end by itself.
fn three_copies() -> ConvertSpace {
    ConvertSpace { copies: Some(3), pace: capped(2 * MIB), ..as_it_is() }
}

async fn add_disks(engine: &Arc<Engine>, rig: &Rig, numbers: std::ops::RangeInclusive<u32>) -> Vec<String> {
    let disks: Vec<String> = numbers.map(|number| rig.path(&format!("d{number}")).display().to_string()).collect();
    for path in &disks {
        engine.create_file_disk(CreateFileDisk { path: path.clone(), size_bytes: 128 * MIB }).await.unwrap();
    }
    engine.add_disks("tank".into(), AddDisks { disks: disks.clone(), force: false }).await.unwrap();
    disks
}

fn states(engine: &Engine) -> Vec<DiskState> {
    engine.pool("tank").unwrap().disks.into_iter().map(|disk| disk.state).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_conversion_is_told_with_what_it_left_and_how_to_resume() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    add_disks(&engine, &rig, 4..=5).await;
    let before = engine.space("tank/a").unwrap();
    assert_eq!(
        (before.protection.held_losses, before.protection.wanted_losses, before.health),
        (1, 1, Health::Healthy)
    );
    assert_eq!((before.protection.summary.as_str(), before.protection.reasons.len()), ("survives 1 lost disk", 0));

    let job = engine.convert_space("tank/a".into(), three_copies()).await.unwrap().job.id;
    until(&engine, job, "nothing is converted", |job| job.done_bytes >= 3 * MIB).await;
    let during = engine.space("tank/a").unwrap();
    assert_eq!((during.protection.held_losses, during.health), (1, Health::Warning));
    assert!(
        during.protection.job_percent.is_some() && during.conditions[0].cause.contains(&format!("job {job}")),
        "{during:?}"
    );
    engine.cancel_job(job).await.unwrap();

    let cut = engine.space("tank/a").unwrap();
    let held = &cut.protection;
    assert_eq!((cut.copies, held.wanted_losses, held.held_losses, cut.health), (3, 2, 1, Health::Warning), "{held:?}");
    let percent = held.converted_percent.expect("rows of two layouts");
    assert!((1..100).contains(&percent) && held.weak_rows > 0 && held.weak_rows < held.rows, "{held:?}");
    let told = format!(
        "survives 1 lost disk: {percent} % converted to three-way mirror of 1 column; resume with 'holdfast space convert tank/a'"
    );
    assert_eq!((held.summary.as_str(), held.reasons.len()), (told.as_str(), 1), "{held:?}");
    let condition = &cut.conditions[0];
    assert!(
        condition.cause.contains("survives 1 lost disk") && condition.next_action.contains("space convert tank/a"),
        "{condition:?}"
    );
    let metrics = engine.metrics();
    for part in ["\"wanted\"} 2\n", "\"held\"} 1\n"] {
        assert!(
            metrics.contains(&format!("holdfast_space_survivable_losses{{space=\"tank/a\",part={part}")),
            "{metrics}"
        );
    }
    let object =
        engine.status().objects.into_iter().find(|object| object.object.to_string() == "space tank/a").unwrap();
    assert_eq!(object.health, Health::Warning);

    let job = engine.convert_space("tank/a".into(), as_it_is()).await.unwrap().job.id;
    until_in(&engine, job, JobState::Done).await;
    let whole = engine.space("tank/a").unwrap();
    assert_eq!(
        (whole.protection.held_losses, whole.protection.converted_percent, whole.health),
        (2, None, Health::Healthy)
    );
    assert!(whole.conditions.is_empty(), "{whole:?}");
    holds_what_was_written(&engine, "tank/a").await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stronger_layout_half_given_up_is_worth_a_note_only() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    add_disks(&engine, &rig, 4..=6).await;
    let job =
        engine.convert_space("tank/a".into(), ConvertSpace { copies: Some(3), ..as_it_is() }).await.unwrap().job.id;
    until_in(&engine, job, JobState::Done).await;
    let back = ConvertSpace { copies: Some(2), pace: capped(2 * MIB), ..as_it_is() };
    let job = engine.convert_space("tank/a".into(), back).await.unwrap().job.id;
    until(&engine, job, "nothing is converted", |job| job.done_bytes >= 3 * MIB).await;
    engine.cancel_job(job).await.unwrap();
    let cut = engine.space("tank/a").unwrap();
    assert_eq!((cut.protection.held_losses, cut.health, cut.conditions.len()), (1, Health::Healthy, 0), "{cut:?}");
    assert!(cut.notes.iter().any(|note| note.cause.contains("% converted")), "{cut:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn default_columns_leave_a_disk_to_rebuild_on_and_small_pools_are_told() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&[]).await;
    add_disks(&engine, &rig, 4..=6).await;
    make_full(&engine, "tank/a").await;
    let made = engine.space("tank/a").unwrap();
    assert_eq!((made.columns, made.protection.rebuildable_losses, made.notes.len()), (2, 1, 0), "{made:?}");
    let wide = ConvertSpace { columns: Some(3), ..as_it_is() };
    let plan = engine.plan_conversion("tank/a", &wide).await.unwrap();
    assert!(plan.notes.iter().any(|note| note.contains("takes 7 disks, the pool has 6")), "{plan:?}");
    let request = holdfast_api::SetPool { grace_seconds: Some(0), ..Default::default() };
    engine.set_pool("tank".into(), request).await.unwrap();
    let lost = engine.space_map("tank/a").await.unwrap()[0].slabs[0].path.clone();
    std::fs::rename(&lost, rig.path("lost")).unwrap();
    let is_out = || states(&engine).iter().any(|state| *state != DiskState::Online);
    eventually(&engine, "it is noticed", is_out).await;
    let is_rebuilt = || {
        let space = engine.space("tank/a").unwrap();
        space.stale_slabs == 0 && space.health == Health::Healthy
    };
    eventually(&engine, "it is rebuilt", is_rebuilt).await;
    let rebuilt = engine.space("tank/a").unwrap();
    assert_eq!((rebuilt.protection.held_losses, rebuilt.health), (1, Health::Healthy), "{rebuilt:?}");
    let gone = engine.disk(&DiskRef::new(&lost)).await.unwrap();
    let told = &gone.conditions[0];
    assert!(told.cause.contains("nothing of it is needed") && told.next_action.contains("disk remove"), "{told:?}");

    // A row takes four disks of the five that are left.
    assert_eq!((rebuilt.protection.rebuildable_losses, rebuilt.notes.len()), (1, 0), "{rebuilt:?}");
    engine.shutdown().await;
    drop(engine);

    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let small = engine.space("tank/a").unwrap();
    assert!(small.notes.is_empty() && small.protection.rebuildable_losses == 1, "{small:?}");
    let request = ConvertSpace { copies: Some(3), ..as_it_is() };
    let job = engine.convert_space("tank/a".into(), request).await.unwrap().job.id;
    until_in(&engine, job, JobState::Done).await;
    let small = engine.space("tank/a").unwrap();
    assert_eq!((small.health, small.protection.rebuildable_losses, small.conditions.len()), (Health::Healthy, 0, 0));
    assert!(
        small.notes[0].cause.contains("takes 5 disks, the pool has 3")
            && small.notes[0].next_action.contains("add 2 disks"),
        "{small:?}"
    );
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_takes_a_disk_that_new_rows_need_unless_it_is_forced() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let wide = ConvertSpace { copies: Some(3), ..as_it_is() };
    let job = engine.convert_space("tank/a".into(), wide).await.unwrap().job.id;
    until_in(&engine, job, JobState::Done).await;
    let disk = rig.path("d1").display().to_string();
    let check = |what: &str, error: holdfast_api::ApiError| {
        assert!(error.code == Code::Conflict && error.message.contains("tank/a"), "{what}: {error}");
        assert!(
            error.next_action.contains("--force") && error.message.contains("nothing is changed"),
            "{what}: {error}"
        );
    };
    check("retire", engine.retire_disk(disk.clone(), RetireDisk::default()).await.unwrap_err());
    let spare = holdfast_api::SetDisk { usage: Some(Usage::HotSpare), ..Default::default() };
    check("set", engine.set_disk(disk.clone(), spare).await.unwrap_err());
    assert_eq!(engine.disk(&DiskRef::new(&disk)).await.unwrap().usage, Some(Usage::Auto));
    assert_eq!(engine.plan_evacuation(&disk).await.unwrap().without_new_rows, ["tank/a"]);

    let new = add_disks(&engine, &rig, 4..=4).await.remove(0);
    assert!(engine.plan_evacuation(&disk).await.unwrap().without_new_rows.is_empty());
    let job = engine.evacuate_disk(disk.clone(), Default::default()).await.unwrap().job.id;
    until_in(&engine, job, JobState::Done).await;
    check("retire", engine.retire_disk(new.clone(), RetireDisk::default()).await.unwrap_err());
    let forced = RetireDisk { force: true, ..RetireDisk::default() };
    assert!(engine.retire_disk(new, forced).await.unwrap().changed);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_space_without_room_for_another_row_says_so_until_there_is() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let (_, _, space) = engine.space_at(&"tank/a".parse().unwrap()).unwrap();
    let thin = ConvertSpace { thin: Some(true), size_bytes: None, ..as_it_is() };
    let job = engine.convert_space("tank/a".into(), thin).await.unwrap().job.id;
    until_in(&engine, job, JobState::Done).await;
    engine.grow_space("tank/a".into(), holdfast_api::GrowSpace { size_bytes: 4096 * MIB }).await.unwrap();
    assert_eq!(engine.space("tank/a").unwrap().health, Health::Healthy);
    let full = engine.on_reactor(move || async move {
        for at in 16..4096 {
            let written = space.write(at * MIB, IoBuf::new(4096).freeze(), Durability::Cached).await;
            if let Err(error) = written {
                return error.kind;
            }
        }
        panic!("the pool never is full")
    });
    assert_eq!(full.await.unwrap(), holdfast_device::IoErrorKind::NoSpace);
    let space = engine.space("tank/a").unwrap();
    assert_eq!(space.health, Health::Warning);
    assert!(space.conditions.iter().any(|condition| condition.cause.contains("space tank/a is full")), "{space:?}");
    assert_eq!(engine.pool("tank").unwrap().health, Health::Warning);
    add_disks(&engine, &rig, 4..=5).await;
    let space = engine.space("tank/a").unwrap();
    assert_eq!((space.health, space.conditions.len()), (Health::Healthy, 0), "{space:?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_with_a_disk_is_told_before_and_given_up_by_name() {
    let rig = Rig::new();
    let mut settings = rig.settings();
    settings.nbd_addresses = vec![crate::Address::Unix(rig.path("nbd.sock"))];
    let engine = Engine::start(settings).await.unwrap();
    let disks: Vec<String> = (1..=4).map(|number| rig.path(&format!("d{number}")).display().to_string()).collect();
    for path in &disks {
        engine.create_file_disk(CreateFileDisk { path: path.clone(), size_bytes: 128 * MIB }).await.unwrap();
    }
    engine.create_pool(CreatePool { name: "tank".into(), disks: disks.clone(), force: false }).await.unwrap();
    make_full(&engine, "tank/vm").await;
    let scratch = ConvertSpace { layout: Some(LayoutKind::Simple), ..as_it_is() };
    make_full(&engine, "tank/scratch").await;
    let job = engine.convert_space("tank/scratch".into(), scratch).await.unwrap().job.id;
    until_in(&engine, job, JobState::Done).await;
    for space in ["tank/vm", "tank/scratch"] {
        let request = holdfast_api::CreateExport {
            space: space.into(),
            name: None,
            protocol: holdfast_api::Protocol::Nbd,
            read_only: false,
        };
        engine.create_export(request).await.unwrap();
    }
    let never =
        holdfast_api::SetPool { retire_policy: Some(holdfast_model::RetirePolicy::Never), ..Default::default() };
    engine.set_pool("tank".into(), never).await.unwrap();
    assert_eq!(
        engine.plan_replacement(&disks[0], &ReplaceDisk::default()).await.unwrap().lost_rows,
        0,
        "it is there yet"
    );
    std::fs::rename(&disks[0], rig.path("lost")).unwrap();
    eventually(&engine, "it is noticed", || states(&engine).contains(&DiskState::Missing)).await;

    let space = engine.space("tank/scratch").unwrap();
    assert_eq!(space.health, Health::Unhealthy);
    assert!(space.protection.unreadable_rows > 0 && space.conditions[0].cause.contains("cannot be read"), "{space:?}");
    let export: Export = engine.export("scratch").unwrap();
    assert!(
        export.served && export.health == Health::Unhealthy && export.conditions[0].cause.contains("cannot be read"),
        "{export:?}"
    );
    assert_eq!(engine.export("vm").unwrap().health, Health::Healthy);

    let plan = engine.plan_replacement(&disks[0], &ReplaceDisk::default()).await.unwrap();
    assert!(plan.lost_rows > 0 && plan.lost_bytes > 0 && plan.give_up == ["tank/scratch"] && plan.fits, "{plan:?}");
    let refused = engine.replace_disk(disks[0].clone(), ReplaceDisk::default()).await.unwrap_err();
    assert!(refused.code == Code::Conflict && refused.message.contains("tank/scratch"), "{refused}");
    assert!(refused.next_action.contains("--give-up tank/scratch"), "{refused}");
    let give_up = ReplaceDisk { give_up: vec!["tank/scratch".into()], ..ReplaceDisk::default() };
    let exported = engine.replace_disk(disks[0].clone(), give_up.clone()).await.unwrap_err();
    assert!(exported.next_action.contains("nbd unexport scratch"), "{exported}");
    let shown = engine.disk(&DiskRef::new(&disks[0])).await.unwrap();
    assert_eq!(shown.usage, Some(Usage::Auto), "nothing is changed");

    let harmless = ReplaceDisk { give_up: vec!["tank/scratch".into(), "tank/vm".into()], ..ReplaceDisk::default() };
    engine.remove_export("scratch".into(), None).await.unwrap();
    engine.remove_export("vm".into(), None).await.unwrap();
    let refused = engine.replace_disk(disks[0].clone(), harmless).await.unwrap_err();
    assert!(refused.code == Code::Invalid && refused.message.contains("tank/vm"), "{refused}");
    let job = engine.replace_disk(disks[0].clone(), give_up).await.unwrap().job.id;
    until_in(&engine, job, JobState::Done).await;
    assert!(engine.space("tank/scratch").is_err());
    assert_eq!(engine.status().health, Health::Healthy, "{:?}", engine.status());
    holds_what_was_written(&engine, "tank/vm").await;
    engine.shutdown().await;
}
