//! The life of disks: replaced, lost and made up for, about to fail, back under another path, gone for good.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{MIB, Rig, eventually, mirror, pool};
use holdfast_api::{
    AddDisks, Code, CreateFileDisk, CreateSpace, Disk, DiskRef, Job, JobKind, JobState, RemoveDisk, ReplaceDisk,
    RetireDisk, SetDisk, SetPool,
};
use holdfast_engine::{Engine, Settings};
use holdfast_model::{DiskDetail, DiskState, Health, RetirePolicy, Usage};

/// A mirror of one column, so that disks are left over.
fn narrow(name: &str, size_bytes: u64) -> CreateSpace {
    CreateSpace { columns: Some(1), ..mirror(name, size_bytes) }
}

async fn shown(engine: &Engine, disk: &str) -> Disk {
    engine.disk(&DiskRef::new(disk)).await.unwrap()
}

fn members(engine: &Engine) -> Vec<String> {
    engine.pool("tank").unwrap().disks.into_iter().map(|disk| disk.path).collect()
}

async fn until_done(engine: &Engine, id: u64) -> Job {
    eventually(engine, "the job", || engine.job(id).unwrap().state.has_ended()).await;
    let job = engine.job(id).unwrap();
    assert_eq!(job.state, JobState::Done, "{job:?}");
    job
}

/// Nothing of `space` is on the disk at `path` or stale.
async fn check_moved(engine: &Arc<Engine>, space: &str, path: &str) {
    let rows = engine.space_map(space).await.unwrap();
    assert!(rows.iter().all(|row| row.slabs.iter().all(|slab| slab.path != path && !slab.stale)), "{rows:?}");
    assert_eq!(engine.verify_space(space).await.unwrap().mismatched_blocks, 0);
}

async fn set(engine: &Arc<Engine>, retire_policy: RetirePolicy, grace_seconds: u32) {
    let request =
        SetPool { retire_policy: Some(retire_policy), grace_seconds: Some(grace_seconds), ..SetPool::default() };
    engine.set_pool("tank".into(), request).await.unwrap();
}

/// A program of the system that does as `script` says.
fn tool(rig: &Rig, name: &str, script: &str) -> PathBuf {
    let path = rig.path(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// An engine as set up, with disks `d1` to `dN`, the first `members` of them in pool `tank` with a mirror `tank/vm`.
async fn start(rig: &Rig, settings: Settings, disks: usize, members: usize) -> (Arc<Engine>, Vec<String>) {
    let engine = Engine::start(settings).await.unwrap();
    let paths: Vec<String> = (1..=disks).map(|number| rig.disk(&format!("d{number}"))).collect();
    for path in &paths {
        engine.create_file_disk(CreateFileDisk { path: path.clone(), size_bytes: 128 * MIB }).await.unwrap();
    }
    engine.create_pool(pool("tank", &paths[..members])).await.unwrap();
    engine.create_space(narrow("tank/vm", 16 * MIB)).await.unwrap();
    (engine, paths)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_disk_leaves_for_good_and_can_come_anew() {
    let rig = Rig::new();
    let (engine, disks) = start(&rig, rig.settings(), 4, 4).await;
    let error = engine.remove_disk(disks[0].clone(), RemoveDisk::default()).await.unwrap_err();
    assert!(error.code == Code::Conflict && error.message.contains("disk evacuate"), "{error}");
    let retired = engine.retire_disk(disks[0].clone(), RetireDisk::default()).await.unwrap();
    assert!(retired.changed && retired.job.is_none() && retired.disk.details == [DiskDetail::Retired]);
    assert!(!engine.retire_disk(disks[0].clone(), RetireDisk::default()).await.unwrap().changed);
    let request = RetireDisk { evacuate: true, ..RetireDisk::default() };
    let retired = engine.retire_disk(disks[0].clone(), request).await.unwrap();
    until_done(&engine, retired.job.expect("it moves data").id).await;
    check_moved(&engine, "tank/vm", &disks[0]).await;

    assert!(engine.remove_disk(disks[0].clone(), RemoveDisk::default()).await.unwrap().changed);
    assert!(!engine.remove_disk(disks[0].clone(), RemoveDisk::default()).await.unwrap().changed);
    assert!(!engine.remove_disk("no-such-serial".into(), RemoveDisk::default()).await.unwrap().changed);
    assert_eq!(members(&engine), disks[1..]);
    let free = shown(&engine, &disks[0]).await;
    assert!(free.can_pool && free.details == [DiskDetail::Ok], "{free:?}");
    engine.shutdown().await;
    drop(engine);
    let engine = rig.start().await;
    assert_eq!(members(&engine), disks[1..]);
    let add = AddDisks { disks: vec![disks[0].clone()], force: false };
    assert!(engine.add_disks("tank".into(), add).await.unwrap().changed);
    assert_eq!(engine.status().health, Health::Healthy);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_left_while_it_was_away_is_not_believed() {
    let rig = Rig::new();
    let (engine, disks) = start(&rig, rig.settings(), 4, 3).await;
    engine.add_disks("tank".into(), AddDisks { disks: disks[3..].to_vec(), force: false }).await.unwrap();
    fs::rename(&disks[3], rig.path("away")).unwrap();
    eventually(&engine, "noticing", || engine.pool("tank").unwrap().disks[3].state == DiskState::Missing).await;
    let away = shown(&engine, &disks[3]).await;
    assert_eq!((away.health, away.details), (Health::Unhealthy, vec![DiskDetail::LostCommunication]));
    let gone = engine.remove_disk(disks[3].clone(), RemoveDisk::default()).await.unwrap();
    assert!(gone.changed && gone.message.contains("wipe it"), "{gone:?}");
    fs::rename(rig.path("away"), &disks[3]).unwrap();
    let found = engine.import_pools(Default::default()).await.unwrap();
    assert!(!found.changed && members(&engine) == disks[..3], "{found:?}");
    let former = shown(&engine, &disks[3]).await;
    assert!(!former.can_pool && former.conditions[0].cause.contains("was removed from pool tank"), "{former:?}");
    let add = AddDisks { disks: disks[3..].to_vec(), force: false };
    assert_eq!(engine.add_disks("tank".into(), add.clone()).await.unwrap_err().code, Code::NotConfirmed);
    assert!(engine.remove_disk(disks[3].clone(), RemoveDisk::default()).await.unwrap().changed, "its labels are wiped");
    assert!(shown(&engine, &disks[3]).await.can_pool);
    assert!(engine.add_disks("tank".into(), add).await.unwrap().changed);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_replaced_by_a_new_one() {
    let rig = Rig::new();
    let (engine, disks) = start(&rig, rig.settings(), 4, 3).await;
    let request = ReplaceDisk { new: Some(disks[3].clone()), ..ReplaceDisk::default() };
    let asked = engine.replace_disk(disks[0].clone(), request.clone()).await.unwrap();
    assert_eq!((asked.job.kind, asked.job.object.name), (JobKind::Replace, disks[0].clone()));
    until_done(&engine, asked.job.id).await;
    assert_eq!(members(&engine), disks[1..]);
    check_moved(&engine, "tank/vm", &disks[0]).await;
    let again = engine.replace_disk(disks[0].clone(), request).await.unwrap();
    assert!(!again.changed && again.job.id == asked.job.id);
    let remembered = || engine.store().document("configuration").unwrap().unwrap();
    eventually(&engine, "forgetting", || remembered().matches("/d1\"").count() == 1).await;
    assert!(shown(&engine, &disks[0]).await.can_pool);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_disk_is_replaced_by_one_at_its_path_or_by_the_others() {
    let rig = Rig::new();
    let (engine, disks) = start(&rig, rig.settings(), 4, 4).await;
    set(&engine, RetirePolicy::Never, 0).await;
    let id = shown(&engine, &disks[0]).await.id.unwrap().to_string();
    fs::remove_file(&disks[0]).unwrap();
    eventually(&engine, "noticing", || engine.pool("tank").unwrap().disks[0].state == DiskState::Missing).await;
    engine.create_file_disk(CreateFileDisk { path: disks[0].clone(), size_bytes: 128 * MIB }).await.unwrap();
    let request = ReplaceDisk { new: Some(disks[0].clone()), ..ReplaceDisk::default() };
    let job = engine.replace_disk(id.clone(), request).await.unwrap().job;
    until_done(&engine, job.id).await;
    let now = shown(&engine, &disks[0]).await;
    assert!(now.id.unwrap().to_string() != id && now.state == DiskState::Online && members(&engine).len() == 4);

    fs::remove_file(&disks[1]).unwrap();
    eventually(&engine, "noticing", || {
        engine.pool("tank").unwrap().disks.iter().any(|disk| disk.state == DiskState::Missing)
    })
    .await;
    let job = engine.replace_disk(disks[1].clone(), ReplaceDisk::default()).await.unwrap().job;
    until_done(&engine, job.id).await;
    check_moved(&engine, "tank/vm", &disks[1]).await;
    assert_eq!((members(&engine).len(), engine.status().health), (3, Health::Healthy));

    engine.create_space(CreateSpace { copies: Some(3), ..narrow("tank/three", 8 * MIB) }).await.unwrap();
    let error = engine.replace_disk(disks[2].clone(), ReplaceDisk::default()).await.unwrap_err();
    assert!(error.code == Code::NoSpace && error.next_action.contains("name a replacement"), "{error}");
    let same = ReplaceDisk { new: Some(disks[2].clone()), ..ReplaceDisk::default() };
    assert_eq!(engine.replace_disk(disks[2].clone(), same).await.unwrap_err().code, Code::Invalid);
    assert_eq!(shown(&engine, &disks[2]).await.usage, Some(Usage::Auto), "a refusal changes nothing");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spare_makes_up_for_a_lost_disk_where_the_policy_lets_it() {
    let rig = Rig::new();
    let mut settings = rig.settings();
    settings.repair_after = None;
    let (engine, disks) = start(&rig, settings, 3, 3).await;
    let spare = SetDisk { usage: Some(Usage::HotSpare), ..SetDisk::default() };
    engine.destroy_space("tank/vm".into(), true).await.unwrap();
    engine.set_disk(disks[2].clone(), spare).await.unwrap();
    engine.create_space(narrow("tank/vm", 16 * MIB)).await.unwrap();
    check_moved(&engine, "tank/vm", &disks[2]).await;
    set(&engine, RetirePolicy::Never, 0).await;
    let kept = engine.pool("tank").unwrap();
    assert_eq!((kept.retire_policy, kept.grace_seconds), (RetirePolicy::Never, Some(0)));
    fs::rename(&disks[0], rig.path("away")).unwrap();
    eventually(&engine, "noticing", || engine.space("tank/vm").unwrap().stale_slabs > 0).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(engine.jobs(None, None).is_empty(), "never is never");

    set(&engine, RetirePolicy::Auto, 0).await;
    eventually(&engine, "the repair", || engine.space("tank/vm").unwrap().stale_slabs == 0).await;
    check_moved(&engine, "tank/vm", &disks[0]).await;
    let rows = engine.space_map("tank/vm").await.unwrap();
    assert!(rows.iter().all(|row| row.slabs.iter().any(|slab| slab.path == disks[2])), "on the spare: {rows:?}");
    let lost = shown(&engine, &disks[0]).await;
    assert_eq!(
        (lost.usage, lost.details),
        (Some(Usage::Retired), vec![DiskDetail::LostCommunication, DiskDetail::Retired])
    );

    fs::rename(&disks[1], rig.path("second")).unwrap();
    let told = || engine.events().list(0, 1000).iter().any(|event| event.cause.contains("not all of it fits"));
    eventually(&engine, "telling that there is no room", told).await;
    assert_eq!(shown(&engine, &disks[1]).await.usage, Some(Usage::Auto), "it is left alone");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_tells_of_its_end_is_emptied_where_the_policy_says_so() {
    let rig = Rig::new();
    let healthy = r#"{"smart_status":{"passed":true},"temperature":{"current":30}}"#;
    let failing = r#"{"smart_status":{"passed":false},"power_on_time":{"hours":50000}}"#;
    let script = format!("case \"$4\" in *d1) echo '{failing}';; *) echo '{healthy}';; esac");
    let mut settings = rig.settings();
    settings.smartctl = tool(&rig, "smartctl", &script);
    settings.health_interval = Duration::from_millis(20);
    settings.smart_interval = Duration::from_millis(20);
    let engine = Engine::start(settings).await.unwrap();
    let disks: Vec<String> = (1..=4).map(|number| rig.disk(&format!("d{number}"))).collect();
    for path in &disks {
        engine.create_file_disk(CreateFileDisk { path: path.clone(), size_bytes: 128 * MIB }).await.unwrap();
    }
    engine.create_pool(pool("tank", &disks[1..])).await.unwrap();
    set(&engine, RetirePolicy::Never, 0).await;
    engine.add_disks("tank".into(), AddDisks { disks: disks[..1].to_vec(), force: false }).await.unwrap();
    engine.create_space(narrow("tank/vm", 16 * MIB)).await.unwrap();
    let warned = || {
        engine
            .status()
            .objects
            .iter()
            .any(|object| object.object.name.contains("d1") && object.health == Health::Warning)
    };
    eventually(&engine, "the warning", warned).await;
    let bad = shown(&engine, &disks[0]).await;
    assert_eq!((bad.details.as_slice(), bad.usage), (&[DiskDetail::PredictiveFailure][..], Some(Usage::Auto)));
    assert_eq!(bad.smart.as_ref().map(|smart| (smart.passed, smart.power_on_hours)), Some((Some(false), Some(50000))));
    assert!(bad.conditions[0].next_action.contains("disk replace") && bad.reliability.is_some());
    assert!(engine.jobs(None, None).is_empty(), "never is never");

    set(&engine, RetirePolicy::Auto, 0).await;
    eventually(&engine, "the evacuation", || {
        engine.jobs(None, None).iter().any(|job| job.kind == JobKind::Evacuate && job.state == JobState::Done)
    })
    .await;
    check_moved(&engine, "tank/vm", &disks[0]).await;
    let bad = shown(&engine, &disks[0]).await;
    assert_eq!(bad.details, [DiskDetail::PredictiveFailure, DiskDetail::Retired]);
    let well = shown(&engine, &disks[1]).await;
    assert_eq!((well.health, well.smart.and_then(|smart| smart.temperature_celsius)), (Health::Healthy, Some(30)));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_disk_that_cannot_be_emptied_says_so_once_and_in_its_health() {
    for policy in [RetirePolicy::Always, RetirePolicy::Auto] {
        let rig = Rig::new();
        let mut settings = rig.settings();
        let script = r#"case "$4" in *d1) echo '{"smart_status":{"passed":false}}';; *) echo '{"smart_status":{"passed":true}}';; esac"#;
        settings.smartctl = tool(&rig, "smartctl", script);
        settings.health_interval = Duration::from_millis(20);
        settings.smart_interval = Duration::from_millis(20);
        let engine = Engine::start(settings).await.unwrap();
        let disks: Vec<String> = (1..=3).map(|number| rig.disk(&format!("d{number}"))).collect();
        for path in &disks {
            engine.create_file_disk(CreateFileDisk { path: path.clone(), size_bytes: 128 * MIB }).await.unwrap();
        }
        engine.create_pool(pool("tank", &disks[..2])).await.unwrap();
        set(&engine, policy, 0).await;
        engine.create_space(mirror("tank/vm", 16 * MIB)).await.unwrap();
        let events = |engine: &Engine| {
            engine
                .events()
                .list(0, 1000)
                .iter()
                .filter(|event| event.cause.contains("was not emptied"))
                .cloned()
                .collect::<Vec<_>>()
        };
        eventually(&engine, "the event", || !events(&engine).is_empty()).await;
        let said = |object: &holdfast_api::ObjectHealth| {
            object.conditions.iter().any(|one| one.cause.contains("was not emptied"))
        };
        eventually(&engine, "the condition", || engine.status().objects.iter().any(said)).await;
        // A disk that can take the data puts an end to it.
        let found = events(&engine);
        assert!(found.iter().all(|event| !event.next_action.is_empty()), "{found:?}");
        engine.add_disks("tank".into(), AddDisks { disks: disks[2..].to_vec(), force: false }).await.unwrap();
        eventually(&engine, "the evacuation", || {
            engine.jobs(None, None).iter().any(|job| job.kind == JobKind::Evacuate && job.state == JobState::Done)
        })
        .await;
        assert_eq!(events(&engine).len(), 1, "it is said once: {:?}", events(&engine));
        eventually(&engine, "the end of the condition", || !engine.status().objects.iter().any(said)).await;
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_comes_back_under_another_path_is_taken_back() {
    let rig = Rig::new();
    let (engine, disks) = start(&rig, rig.settings(), 4, 3).await;
    let id = shown(&engine, &disks[1]).await.id;
    fs::rename(&disks[1], rig.path("away")).unwrap();
    eventually(&engine, "noticing", || engine.pool("tank").unwrap().disks[1].state == DiskState::Missing).await;
    fs::rename(rig.path("away"), &disks[3]).unwrap();
    eventually(&engine, "its return", || engine.pool("tank").unwrap().disks[1].state == DiskState::Online).await;
    let back = shown(&engine, &disks[3]).await;
    assert_eq!((back.id, back.usage), (id, Some(Usage::Auto)));
    eventually(&engine, "resyncing", || engine.space("tank/vm").unwrap().stale_slabs == 0).await;
    assert!(engine.jobs(None, None).is_empty(), "nothing was rebuilt");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_light_of_a_slot_is_switched_or_it_is_said_why_not() {
    let rig = Rig::new();
    let mut settings = rig.settings();
    settings.ledctl =
        tool(&rig, "ledctl", "echo \"$1\" >> \"$0.log\"; case \"$1\" in *d2) echo no slot >&2; exit 1;; esac");
    let (engine, disks) = start(&rig, settings, 2, 2).await;
    assert!(engine.locate_disk(&disks[0], true).await.unwrap().changed);
    engine.locate_disk(&disks[0], false).await.unwrap();
    let log = fs::read_to_string(rig.path("ledctl.log")).unwrap();
    assert_eq!(log, format!("locate={0}\nlocate_off={0}\n", disks[0]));
    let error = engine.locate_disk(&disks[1], true).await.unwrap_err();
    assert!(error.message.contains("no slot") && !error.next_action.is_empty(), "{error}");
    assert_eq!(engine.locate_disk(&rig.disk("none"), true).await.unwrap_err().code, Code::NotFound);

    // Another disk is where one was that is missing now: its light is not the missing one's.
    let id = shown(&engine, &disks[0]).await.id.unwrap().to_string();
    fs::rename(&disks[0], rig.path("away")).unwrap();
    eventually(&engine, "noticing", || engine.pool("tank").unwrap().disks[0].state == DiskState::Missing).await;
    engine.create_file_disk(CreateFileDisk { path: disks[0].clone(), size_bytes: 128 * MIB }).await.unwrap();
    let error = engine.locate_disk(&id, true).await.unwrap_err();
    assert!(error.code == Code::Conflict && error.next_action.contains("slot"), "{error}");
    assert_eq!(fs::read_to_string(rig.path("ledctl.log")).unwrap().matches("locate=").count(), 2);
    fs::rename(rig.path("away"), &disks[0]).unwrap();
    eventually(&engine, "taking back", || engine.pool("tank").unwrap().disks[0].state == DiskState::Online).await;
    engine.locate_disk(&id, true).await.unwrap();
    engine.shutdown().await;
    drop(engine);
    let mut settings = rig.settings();
    settings.ledctl = rig.path("nothing");
    let engine = Engine::start(settings).await.unwrap();
    let error = engine.locate_disk(&disks[0], true).await.unwrap_err();
    assert!(error.next_action.contains("ledmon"), "{error}");
    engine.shutdown().await;
}
