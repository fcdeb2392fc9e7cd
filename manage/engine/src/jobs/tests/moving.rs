//! Jobs of pools that another engine takes over.

use super::*;

/// A second engine, with its own state folder.
async fn other(rig: &Rig) -> Arc<Engine> {
    let mut settings = rig.settings();
    settings.state_dir = rig.path("state2");
    Engine::start(settings).await.unwrap()
}

async fn import(engine: &Arc<Engine>, rig: &Rig) {
    let request =
        ImportPools { pool: Some("tank".into()), disk_dirs: vec![rig.path("").display().to_string()], force: false };
    assert!(engine.import_pools(request).await.unwrap().changed);
}

/// The documents of a pool whose names begin so.
fn documents(engine: &Engine, prefix: &str) -> Vec<(String, Vec<u8>)> {
    engine.pool_named("tank").unwrap().pool.documents(prefix)
}

async fn finishes(engine: &Engine, id: u64) -> Job {
    engine.set_job(id, SetPace { cap_bytes_per_second: Some(0), ..SetPace::default() }).unwrap();
    until_in(engine, id, JobState::Done).await
}

#[tokio::test(flavor = "multi_thread")]
async fn they_go_on_where_the_pool_is_imported() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a", "tank/b"]).await;
    let id = scrub(&engine, "tank/a", SetPace { cap_bytes_per_second: Some(8 * MIB), ..SetPace::default() }).await.id;
    let waiting = scrub(&engine, "tank/b", SLOW).await.id;
    engine.pause_job(waiting).unwrap();
    until(&engine, id, "it does not begin", |job| job.done_bytes >= 12 * MIB).await;
    engine.export_pool("tank".into()).await.unwrap();
    assert!(engine.jobs(None, None).is_empty(), "they are the pool's");

    // The numbers are taken there.
    let second = other(&rig).await;
    let there = rig.path("e1").display().to_string();
    second.create_file_disk(CreateFileDisk { path: there.clone(), size_bytes: 128 * MIB }).await.unwrap();
    second.create_pool(CreatePool { name: "shelf".into(), disks: vec![there], force: false }).await.unwrap();
    let own = second.upgrade_pool("shelf".into(), SetPace::default()).await.unwrap().job;
    until_in(&second, own.id, JobState::Done).await;
    import(&second, &rig).await;
    let jobs = second.jobs(None, Some("tank"));
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    let [run, paused] = ["tank/a", "tank/b"].map(|space| jobs.iter().find(|job| job.object.name == space).unwrap());
    assert!(
        run.done_bytes + 4 * MIB >= 12 * MIB && run.id != paused.id && run.id != own.id && paused.id != own.id,
        "{jobs:?}"
    );
    assert_eq!(paused.state, JobState::Paused);
    let done = finishes(&second, run.id).await;
    assert_eq!(done.result.as_deref(), Some("32 MiB compared, all agree"), "each part once");
    let read: u64 = second.pool_named("tank").unwrap().pool.disks().iter().map(|disk| disk.counts.read_bytes).sum();
    assert!(read < 32 * MIB - 4 * MIB, "{} MiB were read anew", read / MIB);
    second.resume_job(paused.id).unwrap();
    finishes(&second, paused.id).await;
    let scrubbed = second.space("tank/a").unwrap().scrub.last_at;
    assert!(scrubbed.is_some());
    second.export_pool("tank".into()).await.unwrap();
    second.shutdown().await;

    import(&engine, &rig).await;
    assert!(engine.jobs(None, Some("tank")).is_empty(), "they have ended");
    assert_eq!(engine.space("tank/a").unwrap().scrub.last_at, scrubbed);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn they_go_on_elsewhere_when_their_node_is_gone() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let id = scrub(&engine, "tank/a", SLOW).await.id;
    until(&engine, id, "it does not begin", |job| job.done_bytes > 0).await;
    eventually(&engine, "it is on its pool", || !documents(&engine, "job/").is_empty()).await;
    engine.shutdown().await;
    drop(engine);
    let second = other(&rig).await;
    import(&second, &rig).await;
    let job = second.jobs(None, Some("tank")).pop().expect("it came with the pool");
    finishes(&second, job.id).await;
    second.shutdown().await;
    drop(second);

    // What its first node remembers of it counts for nothing.
    let engine = rig.start().await;
    assert!(engine.jobs(None, Some("tank")).iter().all(|job| job.state.has_ended()), "{:?}", engine.jobs(None, None));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_so_already_is_not_written() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let id = scrub(&engine, "tank/a", SLOW).await.id;
    until(&engine, id, "it does not begin", |job| job.done_bytes > 0).await;
    engine.pause_job(id).unwrap();
    engine.halt_jobs_of(engine.pool("tank").unwrap().id).await;
    let pool = engine.pool_named("tank").unwrap();
    engine.keep_jobs_of(&pool).await.unwrap();
    let (kept, position) = (documents(&engine, "job/"), pool.pool.status().position);
    assert_eq!(kept.len(), 1);
    for _ in 0..3 {
        engine.keep_jobs_of(&pool).await.unwrap();
    }
    assert_eq!((documents(&engine, "job/"), pool.pool.status().position), (kept, position));
    engine.cancel_job(id).await.unwrap();
    engine.keep_jobs_of(&pool).await.unwrap();
    assert!(documents(&engine, "job/").is_empty());
    engine.shutdown().await;
}
