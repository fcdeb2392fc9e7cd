//! Scrubs by the calendar where the clock was wrong.

use jiff::{SignedDuration, Timestamp};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_scrub_that_a_clock_put_into_the_future_hinders_none_and_is_told_once() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a", "tank/b"]).await;
    let job = scrub(&engine, "tank/a", SetPace::default()).await;
    until_in(&engine, job.id, JobState::Done).await;
    let later = Timestamp::now() + SignedDuration::from_hours(24 * 400);
    engine.jobs.inner().table.scrubbed.values_mut().for_each(|scrubbed| scrubbed.at = later);
    let before = Timestamp::now();
    eventually(&engine, "it is told", || told(&engine, "pool tank", "the clock was ahead") > 0).await;
    let is_now = |at: Timestamp| (before - SignedDuration::from_mins(1)..=Timestamp::now()).contains(&at);
    assert!(engine.jobs.inner().table.scrubbed.values().all(|scrubbed| is_now(scrubbed.at)));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(told(&engine, "pool tank", "the clock was ahead"), 1, "once for both");
    let scrub = engine.space("tank/a").unwrap().scrub;
    assert_eq!(scrub.last_state, Some(JobState::Done), "what it found stays");
    // A little is no matter.
    let soon = Timestamp::now() + SignedDuration::from_mins(5);
    engine.jobs.inner().table.scrubbed.values_mut().for_each(|scrubbed| scrubbed.at = soon);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(told(&engine, "pool tank", "the clock was ahead"), 1);
    engine.shutdown().await;
    drop(engine);
    let mut settings = rig.settings();
    settings.scrub_every = Some(Duration::from_millis(700));
    let engine = Engine::start(settings).await.unwrap();
    engine.jobs.inner().table.scrubbed.values_mut().for_each(|scrubbed| scrubbed.at = later);
    let is_done = || !engine.jobs(Some(JobState::Done), Some("tank/b")).is_empty();
    eventually(&engine, "one is asked for", is_done).await;
    engine.shutdown().await;
}
