//! Work that has to wait for other work in its space says so, and for which.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_paused_job_says_so_and_what_to_do() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let disk = rig.path("d1").display().to_string();
    let slow = ConvertSpace { layout: Some(LayoutKind::Simple), columns: Some(2), pace: SLOW, ..as_it_is() };
    let converting = engine.convert_space("tank/a".into(), slow).await.unwrap().job.id;
    until(&engine, converting, "it does not begin", |job| job.done_bytes > 0).await;
    engine.pause_job(converting).unwrap();

    let leaving = engine.evacuate_disk(disk, Default::default()).await.unwrap().job.id;
    let waiting = until(&engine, leaving, "it does not say that it waits", |job| job.reason.is_some()).await;
    let reason = waiting.reason.clone().unwrap();
    assert_eq!((waiting.state, waiting.rate_bytes_per_second, waiting.seconds_left), (JobState::Queued, 0, None));
    assert!(
        reason.cause.contains(&format!("moved by job {converting}, convert of tank/a, which is paused")),
        "{reason:?}"
    );
    assert!(reason.next_action.contains(&format!("holdfast job resume {converting}")), "{reason:?}");
    assert!(engine.jobs(Some(JobState::Queued), None).iter().any(|job| job.id == leaving));

    let smaller = resized(8 * MIB, true);
    let refused = engine.convert_space("tank/a".into(), smaller).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict, "{refused}");
    assert!(refused.message.contains(&format!("job {converting}")), "{refused}");
    assert!(refused.next_action.contains(&format!("holdfast job cancel {converting}")), "{refused}");
    assert_eq!(engine.space("tank/a").unwrap().size_bytes, 16 * MIB);

    let uncapped = SetPace { cap_bytes_per_second: Some(0), ..SetPace::default() };
    assert!(
        engine.set_job(leaving, SetPace { priority: Some(JobPriority::High), ..SetPace::default() }).unwrap().changed
    );
    engine.set_job(converting, uncapped).unwrap();
    engine.resume_job(converting).unwrap();
    for id in [converting, leaving] {
        assert!(until_in(&engine, id, JobState::Done).await.reason.is_none());
    }
    engine.shutdown().await;
}
