//! Jobs of a real engine on file disks in memory.

mod inheriting;
mod moving;
mod protection;
mod rescued;
mod restoring;
mod salvaged;
mod scheduled;
mod waiting;

use std::path::PathBuf;

use holdfast_api::{
    AddDisks, ConvertSpace, CreateFileDisk, CreatePool, CreateSpace, CreateVolume, DiskRef, EvacuateDisk, ImportPools,
    JobKind, JobPace, JobPriority, LayoutKind, ReplaceDisk, SetPace, Severity,
};
use holdfast_device::{Durability, IoBuf};
use holdfast_harness::{LIMIT, Wait, folder_for_tests};
use holdfast_model::{ByteSize, DiskDetail, DiskState, ObjectKind};
use holdfast_volume::Volume;

use super::*;
use crate::{Engine, Settings, StartError};

const MIB: u64 = 1 << 20;
pub(crate) const VOLUME: &str = "tank/files";
/// So slow that a scrub of the rig's spaces does not end by itself.
const SLOW: SetPace = SetPace { priority: None, cap_bytes_per_second: Some(MIB) };

fn capped(bytes_per_second: u64) -> SetPace {
    SetPace { cap_bytes_per_second: Some(bytes_per_second), ..SetPace::default() }
}

/// An evacuation that is as slow.
fn slow_evacuation() -> EvacuateDisk {
    EvacuateDisk { pace: SLOW, ..EvacuateDisk::default() }
}

pub(crate) struct Rig {
    folder: tempfile::TempDir,
    serves_iscsi: bool,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir_in(folder_for_tests()).unwrap(), serves_iscsi: false }
    }

    /// One whose engines listen for initiators.
    pub(crate) fn with_iscsi() -> Self {
        Self { serves_iscsi: true, ..Self::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.path("state"));
        settings.block_devices = false;
        settings.reactors = 2;
        settings.iscsi_addresses = self.serves_iscsi.then(|| ([127, 0, 0, 1], 0).into()).into_iter().collect();
        settings.watch_interval = Duration::from_millis(20);
        // An engine that has just ended may hold its folder a little longer.
        settings.patience = Duration::from_secs(30);
        settings
    }

    pub(crate) async fn start(&self) -> Arc<Engine> {
        Engine::start(self.settings()).await.unwrap()
    }

    /// An engine with a pool `tank` of three disks, and full mirrors of 16 MiB of these names on it.
    pub(crate) async fn with_spaces(&self, names: &[&str]) -> Arc<Engine> {
        let engine = self.start().await;
        let disks: Vec<String> = (1..=3).map(|number| self.path(&format!("d{number}")).display().to_string()).collect();
        for path in &disks {
            engine.create_file_disk(CreateFileDisk { path: path.clone(), size_bytes: 128 * MIB }).await.unwrap();
        }
        engine.create_pool(CreatePool { name: "tank".into(), disks, force: false }).await.unwrap();
        for name in names {
            make_full(&engine, name).await;
        }
        engine
    }

    /// An engine with such a pool, and the volume [`VOLUME`] of 64 MiB on it.
    pub(crate) async fn with_volume(&self) -> Arc<Engine> {
        let engine = self.with_spaces(&[]).await;
        let (name, space) = (VOLUME.into(), Some(mirror(VOLUME, 64 * MIB)));
        engine.create_volume(CreateVolume { name, space, on: None, case_sensitive: false }).await.unwrap();
        engine
    }
}

/// The volume of [`Rig::with_volume`].
pub(crate) fn volume(engine: &Engine) -> Arc<Volume> {
    let (open, known) = engine.open_volume_at(VOLUME).unwrap();
    open.volume_of(known.id).unwrap()
}

/// Two copies of everything.
pub(crate) fn mirror(name: &str, size_bytes: u64) -> CreateSpace {
    CreateSpace {
        name: name.into(),
        layout: LayoutKind::Mirror,
        copies: None,
        parity: None,
        columns: None,
        interleave_bytes: None,
        size_bytes,
        thin: false,
        journal_bytes: None,
        integrity: None,
        enclosure_aware: false,
    }
}

async fn make_full(engine: &Arc<Engine>, name: &str) {
    engine.create_space(mirror(name, 16 * MIB)).await.unwrap();
    fill(engine, name).await;
}

/// Writes all of a space of 16 MiB, each MiB with its number.
async fn fill(engine: &Arc<Engine>, name: &str) {
    let (_, _, space) = engine.space_at(&name.parse().unwrap()).unwrap();
    let written = engine.on_reactor(move || async move {
        for at in 0..16 {
            let mut data = IoBuf::new(MIB as usize);
            data.fill(at as u8 + 1);
            space.write(at * MIB, data.freeze(), Durability::Durable).await?;
        }
        Ok::<_, holdfast_device::IoError>(())
    });
    written.await.unwrap().unwrap();
}

async fn scrub(engine: &Arc<Engine>, space: &str, request: SetPace) -> Job {
    let answer = engine.scrub_space(space.into(), request).await.unwrap();
    assert!(answer.changed, "{answer:?}");
    answer.job
}

async fn until(engine: &Engine, id: u64, what: &str, done: impl Fn(&Job) -> bool) -> Job {
    let mut wait = Wait::new();
    loop {
        let job = engine.job(id).unwrap();
        if done(&job) {
            return job;
        }
        let pause = wait.pause(|| format!("{what}: {job:?}\n{:#?}", engine.events().list(0, 100)));
        tokio::time::sleep(pause).await;
    }
}

/// Waits until `done` holds.
pub(crate) async fn eventually(engine: &Engine, what: &str, mut done: impl FnMut() -> bool) {
    let mut wait = Wait::new();
    while !done() {
        let told = || format!("{what}: {:#?}\n{:#?}", engine.jobs(None, None), engine.events().list(0, 100));
        tokio::time::sleep(wait.pause(told)).await;
    }
}

async fn until_in(engine: &Engine, id: u64, state: JobState) -> Job {
    until(engine, id, "it never came to that state", |job| job.state == state).await
}

fn told(engine: &Engine, object: &str, part: &str) -> usize {
    engine
        .events()
        .list(0, usize::MAX)
        .iter()
        .filter(|event| event.object.to_string() == object && event.cause.contains(part))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrub_comes_to_its_end_and_tells_what_it_found() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let job = scrub(&engine, "tank/a", SetPace::default()).await;
    assert_eq!(
        (job.kind, job.object.name.as_str(), job.pace.priority),
        (JobKind::Scrub, "tank/a", JobPriority::Normal)
    );
    let done = until_in(&engine, job.id, JobState::Done).await;
    assert!(done.done_bytes == done.total_bytes && done.total_bytes >= 32 * MIB && done.error.is_none(), "{done:?}");
    assert!(done.result.as_deref().is_some_and(|result| result == "32 MiB compared, all agree"), "{done:?}");
    assert!(done.created <= done.started.clone().unwrap() && done.started < done.ended, "{done:?}");
    assert_eq!((done.rate_bytes_per_second, done.seconds_left), (0, None));
    let name = format!("job {}", job.id);
    assert_eq!((told(&engine, &name, "started"), told(&engine, &name, "done")), (1, 1));

    // A copy that is wrong is made good; both of them cannot be.
    let map = engine.space_map("tank/a").await.unwrap();
    for (copies, found) in [(1, "2 repaired, 0 not repaired"), (2, "0 repaired, 4 not repaired")] {
        for (copy, slab) in (0u8..).zip(&map[0].slabs[..copies]) {
            let disk = std::fs::File::options().write(true).open(&slab.path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&disk, &[0xa5 + copy; 8192], slab.offset_bytes + (1 << 20))
                .unwrap();
        }
        let job = scrub(&engine, "tank/a", SetPace::default()).await;
        let done = until_in(&engine, job.id, JobState::Done).await;
        assert!(done.result.as_deref().is_some_and(|result| result.contains(found)), "{done:?}");
    }
    let events = engine.events().list(0, usize::MAX);
    let findings: Vec<_> = events
        .iter()
        .filter(|event| event.object.to_string() == "space tank/a" && event.cause.starts_with("scrub: "))
        .collect();
    let errors = findings.iter().filter(|event| event.severity == Severity::Error).count();
    assert_eq!((findings.len(), errors), (6, 4), "{findings:#?}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_again_answers_with_the_job_that_is_there() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let job = scrub(&engine, "tank/a", SLOW).await;
    let again = engine.scrub_space("tank/a".into(), SetPace::default()).await.unwrap();
    assert!(!again.changed && again.job.id == job.id && again.job.pace.cap_bytes_per_second == Some(MIB), "{again:?}");
    assert_eq!(engine.scrub_space("tank/none".into(), SetPace::default()).await.unwrap_err().code, Code::NotFound);
    assert_eq!(engine.job(job.id + 1).unwrap_err().code, Code::NotFound);
    assert_eq!(engine.jobs(Some(JobState::Running), Some("tank")).len(), 1);
    assert_eq!(engine.jobs(Some(JobState::Done), None).len() + engine.jobs(None, Some("tan")).len(), 0);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_job_stands_still_until_it_is_resumed() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let id = scrub(&engine, "tank/a", SetPace { cap_bytes_per_second: Some(8 * MIB), ..SetPace::default() }).await.id;
    until(&engine, id, "it does not begin", |job| job.done_bytes > 2 * MIB && job.rate_bytes_per_second > 0).await;
    let paused = engine.pause_job(id).unwrap();
    assert!(paused.changed && paused.job.state == JobState::Paused && !engine.pause_job(id).unwrap().changed);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = engine.job(id).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(engine.job(id).unwrap(), before, "it stands still");
    assert_eq!(before.rate_bytes_per_second, 0);
    let set = engine.set_job(id, SetPace { cap_bytes_per_second: Some(0), ..SetPace::default() }).unwrap();
    assert!(set.changed && set.job.pace.cap_bytes_per_second.is_none() && set.job.state == JobState::Paused, "{set:?}");
    let resumed = engine.resume_job(id).unwrap();
    assert!(resumed.changed && resumed.job.done_bytes >= before.done_bytes && !engine.resume_job(id).unwrap().changed);
    until_in(&engine, id, JobState::Done).await;
    assert_eq!(engine.pause_job(id).unwrap_err().code, Code::Conflict);
    assert_eq!(engine.cancel_job(id).await.unwrap_err().code, Code::Conflict);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_is_kept_and_changes_at_once() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let begun = Instant::now();
    let id = scrub(&engine, "tank/a", SetPace { cap_bytes_per_second: Some(MIB), ..SetPace::default() }).await.id;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let done = until(&engine, id, "it does not begin", |job| job.done_bytes > 0).await.done_bytes;
    let elapsed = begun.elapsed().as_secs_f64();
    let most = MIB as f64 * elapsed + 2.0 * MIB as f64;
    assert!(done as f64 <= most, "{} in {elapsed} s", ByteSize(done));
    let set = SetPace { priority: Some(JobPriority::High), cap_bytes_per_second: Some(1 << 30) };
    assert!(engine.set_job(id, set).unwrap().changed && !engine.set_job(id, set).unwrap().changed);
    // At the old cap the rest of 32 MiB would take longer than anybody waits here.
    until_in(&engine, id, JobState::Done).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_ends_at_once_and_can_be_asked_for_anew() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let id = scrub(&engine, "tank/a", SLOW).await.id;
    until(&engine, id, "it does not begin", |job| job.done_bytes > 0).await;
    let cancelled = engine.cancel_job(id).await.unwrap();
    assert!(
        cancelled.changed && cancelled.job.state == JobState::Cancelled && cancelled.job.ended.is_some(),
        "{cancelled:?}"
    );
    assert!((1..32 * MIB).contains(&cancelled.job.done_bytes), "{cancelled:?}");
    assert!(!engine.cancel_job(id).await.unwrap().changed);
    assert_eq!(engine.resume_job(id).unwrap_err().code, Code::Conflict);
    assert!(engine.jobs.inner().tasks.is_empty());
    let next = scrub(&engine, "tank/a", SetPace::default()).await;
    assert!(next.id > id);
    let done = until_in(&engine, next.id, JobState::Done).await;
    // It ended before it was asked to, or while it was being cancelled.
    let too_late = [engine.cancel_job(next.id).await, super::requests::answer_to_cancel(done)];
    for refused in too_late.map(Result::unwrap_err) {
        assert!(refused.code == Code::Conflict && refused.message.contains("it has ended: done"), "{refused}");
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_run_in_a_pool_and_the_next_is_the_one_of_higher_priority() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a", "tank/b", "tank/c", "tank/d"]).await;
    let mut ids = Vec::new();
    for (space, priority) in
        [("a", JobPriority::Normal), ("b", JobPriority::Normal), ("c", JobPriority::Low), ("d", JobPriority::High)]
    {
        ids.push(scrub(&engine, &format!("tank/{space}"), SetPace { priority: Some(priority), ..SLOW }).await.id);
    }
    let states = || ids.iter().map(|id| engine.job(*id).unwrap().state).collect::<Vec<_>>();
    use JobState::{Cancelled, Paused, Queued, Running};
    assert_eq!(states(), [Running, Running, Queued, Queued]);
    engine.pause_job(ids[0]).unwrap();
    until_in(&engine, ids[3], Running).await;
    assert_eq!(states(), [Paused, Running, Queued, Running]);
    assert_eq!(engine.resume_job(ids[0]).unwrap().job.state, Queued, "others have its turn now");
    engine.cancel_job(ids[1]).await.unwrap();
    until_in(&engine, ids[0], Running).await;
    assert_eq!(states(), [Running, Cancelled, Queued, Running]);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_on_after_a_restart_and_paused_ones_stay_paused() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a", "tank/b", "tank/c", "tank/d"]).await;
    let mut ids = Vec::new();
    for space in ["tank/a", "tank/b", "tank/c", "tank/d"] {
        ids.push(scrub(&engine, space, SLOW).await.id);
    }
    until(&engine, ids[0], "it does not begin", |job| job.done_bytes > 0).await;
    engine.pause_job(ids[1]).unwrap();
    let paused = engine.job(ids[1]).unwrap();
    engine.cancel_job(ids[3]).await.unwrap();
    engine.shutdown().await;
    drop(engine);

    let engine = rig.start().await;
    for id in [ids[0], ids[2]] {
        until_in(&engine, id, JobState::Running).await;
        engine.set_job(id, SetPace { cap_bytes_per_second: Some(0), ..SetPace::default() }).unwrap();
        until_in(&engine, id, JobState::Done).await;
    }
    let still = engine.job(ids[1]).unwrap();
    assert_eq!((still.state, still.total_bytes), (JobState::Paused, paused.total_bytes));
    assert_eq!(engine.job(ids[3]).unwrap().state, JobState::Cancelled);
    engine.set_job(ids[1], SetPace { cap_bytes_per_second: Some(0), ..SetPace::default() }).unwrap();
    engine.resume_job(ids[1]).unwrap();
    until_in(&engine, ids[1], JobState::Done).await;
    assert!(scrub(&engine, "tank/a", SetPace::default()).await.id > ids[3], "numbers are not given twice");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrub_goes_on_where_it_was_when_the_daemon_is_killed() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let start = SetPace { priority: None, cap_bytes_per_second: Some(8 * MIB) };
    let id = scrub(&engine, "tank/a", start).await.id;
    until(&engine, id, "it does not begin", |job| job.done_bytes >= 12 * MIB).await;
    let noted = engine.set_job(id, SetPace { cap_bytes_per_second: Some(1), ..SetPace::default() }).unwrap().job;
    // What is written down at this moment is what a kill leaves.
    std::fs::copy(rig.path("state/jobs.json"), rig.path("killed")).unwrap();
    engine.shutdown().await;
    drop(engine);
    std::fs::rename(rig.path("killed"), rig.path("state/jobs.json")).unwrap();

    let engine = rig.start().await;
    let begun = until_in(&engine, id, JobState::Running).await;
    let begun =
        if begun.done_bytes > 0 { begun } else { until(&engine, id, "it stands", |job| job.done_bytes > 0).await };
    // A step may be under way when progress is noted, and is done again.
    assert!(
        begun.done_bytes + 4 * MIB >= noted.done_bytes && begun.total_bytes == noted.total_bytes,
        "{begun:?} after {noted:?}"
    );
    engine.set_job(id, SetPace { cap_bytes_per_second: Some(0), ..SetPace::default() }).unwrap();
    let done = until_in(&engine, id, JobState::Done).await;
    assert_eq!(done.result.as_deref(), Some("32 MiB compared, all agree"), "each part once");
    let read: u64 = engine.pool_named("tank").unwrap().pool.disks().iter().map(|disk| disk.counts.read_bytes).sum();
    assert!(read < 32 * MIB - 4 * MIB, "{} MiB were read anew", read / MIB);
    let again = scrub(&engine, "tank/a", SetPace::default()).await.id;
    let done = until_in(&engine, again, JobState::Done).await;
    assert_eq!(done.result.as_deref(), Some("32 MiB compared, all agree"), "another one begins at the beginning");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_pool_is_away_waits_for_it() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let id = scrub(&engine, "tank/a", SLOW).await.id;
    engine.shutdown().await;
    drop(engine);
    std::fs::rename(rig.path("d1"), rig.path("away1")).unwrap();
    std::fs::rename(rig.path("d2"), rig.path("away2")).unwrap();
    let engine = rig.start().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(engine.job(id).unwrap().state, JobState::Queued);
    std::fs::rename(rig.path("away1"), rig.path("d1")).unwrap();
    std::fs::rename(rig.path("away2"), rig.path("d2")).unwrap();
    until_in(&engine, id, JobState::Running).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_destroyed_has_its_jobs_cancelled_first_and_what_is_exported_takes_them_along() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a", "tank/b", "tank/c"]).await;
    let mut ids = Vec::new();
    for space in ["tank/a", "tank/b", "tank/c"] {
        ids.push(scrub(&engine, space, SLOW).await.id);
    }
    engine.pause_job(ids[0]).unwrap();
    assert_eq!(engine.destroy_space("tank/a".into(), false).await.unwrap_err().code, Code::NotConfirmed);
    assert_eq!(engine.job(ids[0]).unwrap().state, JobState::Paused, "a refusal changes nothing");
    assert!(engine.destroy_space("tank/a".into(), true).await.unwrap().changed);
    assert_eq!(engine.job(ids[0]).unwrap().state, JobState::Cancelled);
    until_in(&engine, ids[2], JobState::Running).await;
    let exported = tokio::time::timeout(LIMIT, engine.export_pool("tank".into())).await;
    assert!(exported.expect("nothing holds the pool").unwrap().changed);
    let left: Vec<(u64, JobState)> = engine.jobs(None, None).iter().map(|job| (job.id, job.state)).collect();
    assert_eq!(left, [(ids[0], JobState::Cancelled)], "what ended stays, what has not is the pool's");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spaces_are_scrubbed_when_it_is_time() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(engine.jobs(None, None).is_empty());
    let scrub = engine.space("tank/a").unwrap().scrub;
    assert_eq!((&scrub.last_at, &scrub.last_state, scrub.job), (&None, &None, None));
    engine.shutdown().await;
    drop(engine);
    let mut settings = rig.settings();
    settings.scrub_every = Some(Duration::from_millis(700));
    let engine = Engine::start(settings).await.unwrap();
    let begun = Instant::now();
    eventually(&engine, "two scrubs", || engine.jobs(Some(JobState::Done), None).len() >= 2).await;
    assert!(begun.elapsed() >= Duration::from_millis(700), "one and then another");
    assert!(
        engine.jobs(None, None).iter().all(|job| job.pace.priority == JobPriority::Low && job.object.name == "tank/a")
    );
    let never = holdfast_api::SetSettings { scrub_every_seconds: Some(0), ..Default::default() };
    engine.set_preferences(never).await.unwrap();
    eventually(&engine, "the end of the last", || engine.space("tank/a").unwrap().scrub.job.is_none()).await;
    let scrub = engine.space("tank/a").unwrap().scrub;
    assert_eq!((scrub.last_state, &scrub.next_at), (Some(JobState::Done), &None), "{scrub:?}");
    assert!(scrub.last_result.is_some_and(|result| result.contains("all agree")));
    let last: jiff::Timestamp = scrub.last_at.unwrap().parse().unwrap();
    let daily = holdfast_api::SetSettings { scrub_every_seconds: Some(24 * 60 * 60), ..Default::default() };
    engine.set_preferences(daily).await.unwrap();
    let next: jiff::Timestamp = engine.space("tank/a").unwrap().scrub.next_at.unwrap().parse().unwrap();
    assert_eq!(next.duration_since(last).as_secs(), 24 * 60 * 60);
    engine.destroy_space("tank/a".into(), true).await.unwrap();
    eventually(&engine, "a space that is gone is forgotten", || engine.jobs.inner().table.scrubbed.is_empty()).await;
    engine.shutdown().await;
}

async fn holds_what_was_written(engine: &Arc<Engine>, name: &str) {
    let (_, _, space) = engine.space_at(&name.parse().unwrap()).unwrap();
    let read = engine.on_reactor(move || async move {
        for at in 0..16 {
            let data = space.read(at * MIB, IoBuf::new(MIB as usize)).await?;
            assert!(data.iter().all(|byte| *byte == at as u8 + 1), "MiB {at} is not what was written");
        }
        Ok::<_, holdfast_device::IoError>(())
    });
    read.await.unwrap().unwrap();
}

/// A conversion that changes nothing.
fn as_it_is() -> ConvertSpace {
    ConvertSpace {
        layout: None,
        copies: None,
        parity: None,
        columns: None,
        interleave_bytes: None,
        journal_bytes: None,
        integrity: None,
        thin: None,
        size_bytes: None,
        discard_beyond: false,
        pace: SetPace::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_space_is_converted_while_it_keeps_its_data() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let request = ConvertSpace { layout: Some(LayoutKind::Parity), pace: capped(1), ..as_it_is() };
    let begun = engine.convert_space("tank/a".into(), request.clone()).await.unwrap();
    assert!(begun.changed && begun.job.kind == JobKind::Convert && begun.job.total_bytes >= 16 * MIB, "{begun:?}");
    assert!(!engine.convert_space("tank/a".into(), request.clone()).await.unwrap().changed);
    let other = ConvertSpace { layout: Some(LayoutKind::Simple), ..request };
    let refused = engine.convert_space("tank/a".into(), other).await.unwrap_err();
    assert!(refused.code == Code::Conflict && refused.next_action.contains("job cancel 1"), "{refused}");
    let id = begun.job.id;
    engine.set_job(id, SetPace { cap_bytes_per_second: Some(0), ..SetPace::default() }).unwrap();
    until_in(&engine, id, JobState::Done).await;
    assert_eq!(engine.space("tank/a").unwrap().layout, LayoutKind::Parity);
    holds_what_was_written(&engine, "tank/a").await;
    assert_eq!(engine.verify_space("tank/a").await.unwrap().mismatched_blocks, 0);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_evacuated_and_a_lost_one_repaired() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a", "tank/b"]).await;
    let spare: Vec<String> = (4..=5).map(|number| rig.path(&format!("d{number}")).display().to_string()).collect();
    for path in &spare {
        engine.create_file_disk(CreateFileDisk { path: path.clone(), size_bytes: 128 * MIB }).await.unwrap();
    }
    engine.add_disks("tank".into(), AddDisks { disks: spare, force: false }).await.unwrap();
    let disk = rig.path("d1").display().to_string();
    let plan = engine.plan_evacuation(&disk).await.unwrap();
    assert!(plan.fits && plan.stuck == 0 && plan.moves > 0 && plan.name == format!("tank/disk {disk}"), "{plan:?}");
    assert!(plan.spaces.iter().map(|space| space.name.as_str()).eq(["tank/a", "tank/b"]), "{plan:?}");
    assert_eq!(
        (plan.disks[0].path.as_str(), plan.disks[0].used_bytes, plan.disks[0].used_bytes_then),
        (&*disk, plan.slab_bytes, 0)
    );
    assert_eq!(
        engine.disk(&DiskRef::new(&disk)).await.unwrap().usage,
        Some(holdfast_model::Usage::Auto),
        "nothing is changed"
    );
    let job = engine.evacuate_disk(disk.clone(), Default::default()).await.unwrap().job;
    assert_eq!((job.kind, job.target(), job.pool.name), (JobKind::Evacuate, format!("disk {disk}"), "tank".into()));
    assert_eq!(job.total_bytes, plan.move_bytes);
    until_in(&engine, job.id, JobState::Done).await;
    for then in &plan.disks {
        let now = engine.disk(&DiskRef::new(&then.path)).await.unwrap();
        assert_eq!(now.free_bytes, Some(then.data_bytes - then.used_bytes_then), "{}", then.path);
    }
    assert_eq!(engine.plan_evacuation(&disk).await.unwrap().moves, 0);
    for space in ["tank/a", "tank/b"] {
        let rows = engine.space_map(space).await.unwrap();
        assert!(rows.iter().all(|row| row.slabs.iter().all(|slab| slab.path != disk)), "{rows:?}");
        holds_what_was_written(&engine, space).await;
    }
    assert_eq!(
        engine.disk(&holdfast_api::DiskRef::new(&disk)).await.unwrap().usage,
        Some(holdfast_model::Usage::Retired)
    );

    let lost = engine.space_map("tank/a").await.unwrap()[0].slabs[0].path.clone();
    std::fs::rename(&lost, rig.path("lost")).unwrap();
    eventually(&engine, "the loss is noticed", || engine.space("tank/a").unwrap().stale_slabs > 0).await;
    // A write, so that what the lost disk misses is written down.
    fill(&engine, "tank/a").await;
    let job = engine.repair_space("tank/a".into(), SetPace::default()).await.unwrap().job;
    let done = until_in(&engine, job.id, JobState::Done).await;
    assert!(done.total_bytes > 0, "{done:?}");
    let rows = engine.space_map("tank/a").await.unwrap();
    assert!(rows.iter().all(|row| row.slabs.iter().all(|slab| slab.path != lost && !slab.stale)), "{rows:?}");
    holds_what_was_written(&engine, "tank/a").await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_was_added_gets_its_share() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a", "tank/b", "tank/c"]).await;
    let nothing = engine.plan_rebalance("tank").await.unwrap();
    assert_eq!((nothing.moves, nothing.move_bytes, nothing.disks.len()), (0, 0, 3));
    let path = rig.path("d4").display().to_string();
    engine.create_file_disk(CreateFileDisk { path: path.clone(), size_bytes: 128 * MIB }).await.unwrap();
    engine.add_disks("tank".into(), AddDisks { disks: vec![path.clone()], force: false }).await.unwrap();
    let plan = engine.plan_rebalance("tank").await.unwrap();
    let new = plan.disks.iter().find(|disk| disk.path == path).unwrap();
    assert!(plan.move_bytes > 8 * MIB && new.used_bytes == 0 && new.used_bytes_then == plan.move_bytes, "{plan:?}");
    let job = engine.rebalance_pool("tank".into(), SetPace::default()).await.unwrap().job;
    assert_eq!((job.kind, job.object.name.as_str()), (JobKind::Rebalance, "tank"));
    let done = until_in(&engine, job.id, JobState::Done).await;
    assert_eq!((done.done_bytes, done.total_bytes), (plan.move_bytes, plan.move_bytes));
    assert!(
        done.result.unwrap().starts_with(&format!("{} moved", holdfast_model::counted(plan.moves, "slab", "slabs")))
    );
    let then = engine.plan_rebalance("tank").await.unwrap();
    assert_eq!(then.moves, 0);
    for (planned, now) in plan.disks.iter().zip(&then.disks) {
        assert_eq!((planned.used_bytes_then, planned.used_percent_then), (now.used_bytes, now.used_percent));
    }
    for space in ["tank/a", "tank/b", "tank/c"] {
        holds_what_was_written(&engine, space).await;
        assert_eq!(engine.verify_space(space).await.unwrap().mismatched_blocks, 0);
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebalancing_goes_on_after_a_restart() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a", "tank/b", "tank/c"]).await;
    let path = rig.path("d4").display().to_string();
    engine.create_file_disk(CreateFileDisk { path: path.clone(), size_bytes: 128 * MIB }).await.unwrap();
    engine.add_disks("tank".into(), AddDisks { disks: vec![path], force: false }).await.unwrap();
    let id = engine.rebalance_pool("tank".into(), SLOW).await.unwrap().job.id;
    until(&engine, id, "it does not begin", |job| job.done_bytes > 0).await;
    engine.shutdown().await;
    drop(engine);
    let engine = rig.start().await;
    let left = engine.plan_rebalance("tank").await.unwrap();
    engine.set_job(id, SetPace { cap_bytes_per_second: Some(0), ..SetPace::default() }).unwrap();
    let done = until_in(&engine, id, JobState::Done).await;
    assert!(left.moves > 0 && done.total_bytes <= left.move_bytes, "{left:?}, {done:?}");
    assert_eq!(engine.plan_rebalance("tank").await.unwrap().moves, 0);
    holds_what_was_written(&engine, "tank/a").await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_goes_on_after_a_restart() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let [old, new] = ["d1", "d4"].map(|name| rig.path(name).display().to_string());
    engine.create_file_disk(CreateFileDisk { path: new.clone(), size_bytes: 128 * MIB }).await.unwrap();
    let request = ReplaceDisk { new: Some(new.clone()), pace: SLOW, ..ReplaceDisk::default() };
    let asked = engine.replace_disk(old.clone(), request.clone()).await.unwrap();
    assert!(asked.changed && !engine.replace_disk(old.clone(), request.clone()).await.unwrap().changed);
    let shown = engine.disk(&DiskRef::new(&old)).await.unwrap();
    assert_eq!(shown.details, [DiskDetail::Retired, DiskDetail::Removing]);
    until(&engine, asked.job.id, "it does not begin", |job| job.state == JobState::Running).await;
    engine.shutdown().await;
    drop(engine);
    let engine = rig.start().await;
    assert!(!engine.replace_disk(old.clone(), request).await.unwrap().changed);
    assert_eq!(engine.pool("tank").unwrap().disks.len(), 4);
    engine.set_job(asked.job.id, SetPace { cap_bytes_per_second: Some(0), ..SetPace::default() }).unwrap();
    until_in(&engine, asked.job.id, JobState::Done).await;
    let members: Vec<String> = engine.pool("tank").unwrap().disks.into_iter().map(|disk| disk.path).collect();
    assert!(members.len() == 3 && members.contains(&new) && !members.contains(&old), "{members:?}");
    holds_what_was_written(&engine, "tank/a").await;
    assert!(engine.disk(&DiskRef::new(&old)).await.unwrap().can_pool);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_pool_is_upgraded() {
    let rig = Rig::new();
    let engine = rig.start().await;
    let disks: Vec<String> = (1..=2).map(|number| rig.path(&format!("d{number}")).display().to_string()).collect();
    for path in &disks {
        engine.create_file_disk(CreateFileDisk { path: path.clone(), size_bytes: 128 * MIB }).await.unwrap();
    }
    let taken = engine.take(&disks, false).await.unwrap();
    let (env, candidates) = (engine.env(), taken.iter().map(|taken| taken.candidate.clone()).collect());
    let made = engine.on_reactor(move || async move {
        let name = "tank".parse().unwrap();
        let pool =
            holdfast_pool::Pool::create_with(env, name, candidates, holdfast_pool::Features::NONE).await.unwrap();
        pool.export().await.unwrap();
    });
    made.await.unwrap();
    drop(taken);
    let wanted = ImportPools {
        pool: Some("tank".into()),
        disk_dirs: vec![rig.folder.path().display().to_string()],
        force: false,
    };
    engine.import_pools(wanted).await.unwrap();
    let known = engine.pool("tank").unwrap();
    assert_eq!((known.features, known.upgrade_available.is_empty()), (Vec::<String>::new(), false));
    let plan = engine.plan_upgrade("tank").unwrap();
    assert!(plan.added == ["documents", "log copies"] && plan.labels == 4, "{plan:?}");
    let job = engine.upgrade_pool("tank".into(), SetPace::default()).await.unwrap().job;
    assert_eq!((job.kind, job.object.name.as_str()), (JobKind::Upgrade, "tank"));
    until_in(&engine, job.id, JobState::Done).await;
    let known = engine.pool("tank").unwrap();
    assert_eq!((known.features, known.upgrade_available), (plan.added, Vec::new()));
    assert_eq!(engine.plan_upgrade("tank").unwrap().labels, 0);
    engine.shutdown().await;
}

fn resized(size_bytes: u64, discard_beyond: bool) -> ConvertSpace {
    ConvertSpace { size_bytes: Some(size_bytes), discard_beyond, ..as_it_is() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_space_is_made_smaller_only_where_no_data_is_lost_or_that_is_given_up() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let grown = engine.convert_space("tank/a".into(), resized(24 * MIB, false)).await.unwrap().job;
    assert_eq!(grown.kind, JobKind::Convert);
    until_in(&engine, grown.id, JobState::Done).await;
    assert_eq!(engine.space("tank/a").unwrap().size_bytes, 24 * MIB);
    let free = engine.pool("tank").unwrap().free_bytes;

    let plan = engine.plan_conversion("tank/a", &resized(8 * MIB, false)).await.unwrap();
    assert_eq!((plan.size_bytes, plan.size_bytes_then, plan.least_size_bytes), (24 * MIB, 8 * MIB, Some(16 * MIB)));
    assert!(!plan.fits && plan.lost_bytes == 8 * MIB && plan.raw_bytes_then < plan.raw_bytes_now, "{plan:?}");
    let refused = engine.convert_space("tank/a".into(), resized(8 * MIB, false)).await.unwrap_err();
    assert!(
        refused.code == Code::Conflict && refused.next_action.contains(&format!("--size {}", 16 * MIB)),
        "{refused}"
    );
    assert_eq!(engine.space("tank/a").unwrap().size_bytes, 24 * MIB);

    let job = engine.convert_space("tank/a".into(), resized(16 * MIB, false)).await.unwrap().job;
    until_in(&engine, job.id, JobState::Done).await;
    assert!(engine.pool("tank").unwrap().free_bytes > free, "rows beyond the end are given back");
    holds_what_was_written(&engine, "tank/a").await;

    let both = ConvertSpace { layout: Some(LayoutKind::Parity), ..resized(8 * MIB, true) };
    let plan = engine.plan_conversion("tank/a", &both).await.unwrap();
    assert!(plan.fits, "{plan:?}");
    let free = engine.pool("tank").unwrap().free_bytes;
    let job = engine.convert_space("tank/a".into(), both).await.unwrap().job;
    until_in(&engine, job.id, JobState::Done).await;
    assert_eq!(
        engine.pool("tank").unwrap().free_bytes,
        free + plan.raw_bytes_now - plan.raw_bytes_then,
        "with its journal: {plan:?}"
    );
    let space = engine.space("tank/a").unwrap();
    assert_eq!((space.size_bytes, space.layout, space.raw_bytes > 0), (8 * MIB, LayoutKind::Parity, true));
    let (_, _, inner) = engine.space_at(&"tank/a".parse().unwrap()).unwrap();
    let read =
        engine.on_reactor(move || async move { inner.read(7 * MIB, IoBuf::new(4096)).await.map(|data| data[0]) });
    assert_eq!(read.await.unwrap().unwrap(), 8);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_disk_that_works_again_is_taken_back_when_it_is_asked_for() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let pool = engine.pool_named("tank").unwrap().pool.clone();
    let failing = pool.clone();
    let failed =
        engine.on_reactor(move || async move { failing.disk_out(0, DiskState::Failed, "writes failed").await });
    failed.await.unwrap().unwrap();
    fill(&engine, "tank/a").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let path = rig.path("d1").display().to_string();
    let shown = engine.disk(&DiskRef::new(&path)).await.unwrap();
    assert_eq!(
        (shown.state, shown.details),
        (DiskState::Failed, vec![DiskDetail::IoError]),
        "it is not taken back of itself"
    );
    assert!(shown.conditions[0].next_action.contains("pool import"), "{:?}", shown.conditions);
    let mut wait = Wait::new();
    // A look at the disks of the machine has it open for a moment now and then.
    while !engine.import_pools(Default::default()).await.unwrap().changed {
        tokio::time::sleep(wait.pause(|| "it is taken back")).await;
    }
    eventually(&engine, "it is brought in step", || engine.space("tank/a").unwrap().stale_slabs == 0).await;
    assert_eq!(engine.disk(&DiskRef::new(&path)).await.unwrap().state, DiskState::Online);
    holds_what_was_written(&engine, "tank/a").await;
    drop(pool);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_count_jobs() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let id = scrub(&engine, "tank/a", SLOW).await.id;
    until(&engine, id, "it does not begin", |job| job.done_bytes > 0).await;
    let metrics = engine.metrics();
    assert!(
        metrics.contains("holdfast_jobs{state=\"running\"} 1\n")
            && metrics.contains("holdfast_jobs{state=\"failed\"} 0\n")
    );
    let part = format!("holdfast_job_bytes{{job=\"{id}\",kind=\"scrub\",object=\"tank/a\",part=\"done\"}} ");
    assert!(metrics.contains(&part) && !metrics.contains(&format!("{part}0\n")), "{metrics}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_or_later_file_is_refused_by_name() {
    let rig = Rig::new();
    rig.start().await.shutdown().await;
    for (text, part) in [("{\"version\": 1, \"jobs\": 7}", "damaged"), ("{\"version\": 9}", "later version")] {
        std::fs::write(rig.path("state/jobs.json"), text).unwrap();
        let refused = Engine::start(rig.settings()).await.err().expect("the file is refused");
        assert!(matches!(&refused, StartError::State(error) if error.to_string().contains("jobs.json")), "{refused}");
        assert!(refused.to_string().contains(part), "{refused}");
    }
}

#[test]
fn the_history_is_bounded_and_keeps_the_last() {
    let mut table = Table::default();
    let (pool, id) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let space = Target { pool, pool_name: "tank".into(), kind: ObjectKind::Space, id, name: "tank/a".into() };
    for _ in 0..table::HISTORY + 10 {
        let id = table.add(JobSpec::new(JobKind::Scrub, space.clone()), JobPace::default()).id;
        assert!(table.end(id, JobState::Done, None).is_some() && table.end(id, JobState::Failed, None).is_none());
    }
    assert_eq!((table.ended.len(), table.ended[0].id, table.jobs.len()), (table::HISTORY, 11, 0));
    assert_eq!(table.any(210).map(|record| record.state), Some(JobState::Done));
    let text = serde_json::to_string(&table).unwrap();
    assert_eq!(serde_json::from_str::<Table>(&text).unwrap(), table);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_all_spaces_lets_go_of_one_that_is_destroyed() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a", "tank/b"]).await;
    let disk = rig.path("d1").display().to_string();
    let id = engine.evacuate_disk(disk, slow_evacuation()).await.unwrap().job.id;
    until(&engine, id, "it does not begin", |job| job.done_bytes > 0).await;
    assert!(engine.destroy_space("tank/a".into(), true).await.unwrap().changed);
    make_full(&engine, "tank/c").await;
    engine.set_job(id, SetPace { cap_bytes_per_second: Some(0), ..SetPace::default() }).unwrap();
    let ended = until(&engine, id, "it does not end", |job| job.state.has_ended()).await;
    assert_eq!(ended.state, JobState::Done, "{ended:?}");
    holds_what_was_written(&engine, "tank/b").await;
    holds_what_was_written(&engine, "tank/c").await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_one_that_is_paused_can_be_cancelled() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let disk = rig.path("d1").display().to_string();
    let first = engine.evacuate_disk(disk, slow_evacuation()).await.unwrap().job.id;
    until(&engine, first, "it does not begin", |job| job.done_bytes > 0).await;
    engine.pause_job(first).unwrap();
    let request = ConvertSpace { layout: Some(LayoutKind::Simple), ..as_it_is() };
    let second = engine.convert_space("tank/a".into(), request).await.unwrap().job.id;
    until_in(&engine, second, JobState::Running).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let cancelled = engine.cancel_job(second).await.unwrap();
    assert_eq!((cancelled.changed, cancelled.job.state), (true, JobState::Cancelled));
    engine.set_job(first, SetPace { cap_bytes_per_second: Some(0), ..SetPace::default() }).unwrap();
    engine.resume_job(first).unwrap();
    until_in(&engine, first, JobState::Done).await;
    holds_what_was_written(&engine, "tank/a").await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversion_that_is_refused_leaves_the_shape_as_it_was() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let before = engine.space("tank/a").unwrap();
    let much =
        ConvertSpace { layout: Some(LayoutKind::Parity), thin: Some(false), size_bytes: Some(1 << 30), ..as_it_is() };
    assert_eq!(engine.convert_space("tank/a".into(), much).await.unwrap_err().code, Code::NoSpace);
    let after = engine.space("tank/a").unwrap();
    assert_eq!((after.layout, after.columns, after.size_bytes), (before.layout, before.columns, before.size_bytes));
    for job in engine.jobs(None, None) {
        until_in(&engine, job.id, JobState::Done).await;
    }
    let after = engine.space("tank/a").unwrap();
    assert!(after.provisioning == before.provisioning && after.journal.is_none(), "{after:?}");
    holds_what_was_written(&engine, "tank/a").await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_space_is_not_made_thin_and_fixed_at_once() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let parity = ConvertSpace { layout: Some(LayoutKind::Parity), thin: Some(false), pace: capped(1), ..as_it_is() };
    let job = engine.convert_space("tank/a".into(), parity.clone()).await.unwrap().job.id;
    let thin = ConvertSpace { thin: Some(true), ..parity.clone() };
    let refused = engine.convert_space("tank/a".into(), thin).await.unwrap_err();
    assert!(refused.code == Code::Conflict && refused.next_action.contains(&format!("job cancel {job}")), "{refused}");
    let unsaid = ConvertSpace { thin: None, ..parity };
    assert!(!engine.convert_space("tank/a".into(), unsaid).await.unwrap().changed);
    engine.shutdown().await;
}
