//! Permissions that are set once more while a job hands them on.

use holdfast_api::{FileAclChanged, SetFileAcl};
use holdfast_volume::VolumeError;
use holdfast_volume::service::{Caller, FileKind, FileService, NewFile};

use super::*;
use crate::jobs::control::Control;
use crate::jobs::spec::Outcome;

/// Files below the directory: some steps of the walk.
const FILES: usize = 600;
/// A step a second.
const STEP_A_SECOND: u64 = MIB;
const KIM: &str = "D:P(A;OICI;FA;;;S-1-22-1-4242)(A;OICI;FA;;;BA)";
const NOBODY: &str = "D:P(A;OICI;FA;;;BA)";

async fn with_files(rig: &Rig) -> Arc<Engine> {
    let engine = rig.with_volume().await;
    let volume = volume(&engine);
    let made = engine.on_reactor(move || async move {
        let caller = Caller::default();
        let directory = NewFile { kind: FileKind::Directory, mode: 0o755, target: b"" };
        let projects = volume.create(&caller, volume.root(), b"projects", &directory).await?;
        for number in 0..FILES {
            let file = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
            volume.create(&caller, projects.id, format!("f{number}").as_bytes(), &file).await?;
        }
        Ok::<_, VolumeError>(())
    });
    made.await.unwrap().unwrap();
    engine
}

async fn set(engine: &Arc<Engine>, sddl: &str, below: bool, pace: SetPace) -> FileAclChanged {
    let request = SetFileAcl { path: "/projects".into(), sddl: sddl.into(), below, pace };
    engine.set_file_acl(VOLUME.into(), request).await.unwrap()
}

/// Files of the directory that give kim something.
async fn of_kim(engine: &Arc<Engine>) -> Vec<usize> {
    let mut found = Vec::new();
    for number in 0..FILES {
        let acl = engine.file_acl(VOLUME, &format!("/projects/f{number}")).await.unwrap();
        if acl.sddl.contains("S-1-22-1-4242") {
            found.push(number);
        }
    }
    found
}

/// Hands on what gives kim all, so slowly that it is not done by itself; answers when it has passed files.
async fn begun(engine: &Arc<Engine>) -> u64 {
    let id = set(engine, KIM, true, capped(STEP_A_SECOND)).await.job.unwrap().id;
    until(engine, id, "it does not begin", |job| job.done_bytes >= STEP_A_SECOND).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_correction_reaches_the_files_that_the_job_has_passed() {
    let rig = Rig::new();
    let engine = with_files(&rig).await;
    let id = begun(&engine).await;
    let answer = set(&engine, NOBODY, true, SetPace::default()).await;
    assert_eq!(answer.job.map(|job| job.id), Some(id), "the one that is there");
    engine.set_job(id, capped(0)).unwrap();
    until_in(&engine, id, JobState::Done).await;
    assert_eq!(of_kim(&engine).await, Vec::<usize>::new());

    // One that changes nothing goes on where it is, however often it is repeated.
    let id = begun(&engine).await;
    let passed = engine.job(id).unwrap().done_bytes;
    let answer = set(&engine, KIM, true, SetPace::default()).await;
    assert_eq!(answer.job.map(|job| job.id), Some(id));
    assert!(!engine.jobs.inner().control(id).unwrap().takes_anew());
    engine.set_job(id, capped(0)).unwrap();
    let done = until_in(&engine, id, JobState::Done).await;
    assert!(passed >= STEP_A_SECOND && done.done_bytes <= 3 * STEP_A_SECOND, "three steps: {done:?}");
    assert_eq!(of_kim(&engine).await.len(), FILES);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_waits_or_is_taken_up_again_hands_on_what_was_set_last() {
    let rig = Rig::new();
    let mut engine = with_files(&rig).await;
    let id = begun(&engine).await;
    engine.pause_job(id).unwrap();
    assert_eq!(set(&engine, NOBODY, true, SetPace::default()).await.job.map(|job| job.id), Some(id));
    engine.set_job(id, capped(0)).unwrap();
    engine.resume_job(id).unwrap();
    until_in(&engine, id, JobState::Done).await;
    assert_eq!(of_kim(&engine).await, Vec::<usize>::new());

    let id = begun(&engine).await;
    engine.pause_job(id).unwrap();
    engine.shutdown().await;
    drop(engine);
    engine = rig.start().await;
    assert_eq!(set(&engine, NOBODY, true, SetPace::default()).await.job.map(|job| job.id), Some(id));
    engine.set_job(id, capped(0)).unwrap();
    engine.resume_job(id).unwrap();
    until_in(&engine, id, JobState::Done).await;
    assert_eq!(of_kim(&engine).await, Vec::<usize>::new());
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_set_meanwhile_is_handed_on_too() {
    let rig = Rig::new();
    let engine = with_files(&rig).await;
    let id = begun(&engine).await;
    set(&engine, NOBODY, false, SetPace::default()).await;
    // As a client does it, whose change no request tells of.
    engine.jobs.inner().control(id).unwrap().takes_anew();
    engine.set_job(id, capped(0)).unwrap();
    until_in(&engine, id, JobState::Done).await;
    assert_eq!(of_kim(&engine).await, Vec::<usize>::new());
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_asked_anew_at_its_end_is_queued_again() {
    let rig = Rig::new();
    let engine = with_files(&rig).await;
    let id = begun(&engine).await;
    engine.pause_job(id).unwrap();
    engine.jobs.stop_tasks(|record| record.id == id).await.unwrap();
    let control = Arc::new(Control::new(holdfast_device::reactor::clock(), || 0, 0, JobPace::default()));
    let over = tokio::sync::watch::channel(true).1;
    let end = || Ok(Ok(Outcome { result: "done".into(), findings: Vec::new() }));
    engine.jobs.inner().tasks.insert(id, Task { control: control.clone(), over: over.clone() });
    set(&engine, NOBODY, true, SetPace::default()).await;
    engine.jobs.finish(id, end());
    assert_eq!(engine.job(id).unwrap().state, JobState::Paused, "it has not ended");
    engine.jobs.inner().table.job(id).unwrap().state = JobState::Running;
    control.ask_anew();
    engine.jobs.inner().tasks.insert(id, Task { control, over });
    engine.jobs.finish(id, end());
    engine.jobs.wake.notify_one();
    until_in(&engine, id, JobState::Done).await;
    assert_eq!(of_kim(&engine).await, Vec::<usize>::new());
    engine.shutdown().await;
}
