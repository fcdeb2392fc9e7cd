//! Settings that are changed while the daemon runs: checked, kept, and overridden by the command line.

use std::time::Duration;

use holdfast_api::{Code, SetSettings, SettingName, SettingOrigin};
use holdfast_engine::{Engine, Given};

use crate::support::{Rig, pool};

const DAY: u64 = 24 * 60 * 60;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_set_holds_at_once_and_over_a_restart() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(3).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let before = engine.preferences();
    assert_eq!((before.scrub_every.seconds, before.scrub_every.origin), (Some(7 * DAY), SettingOrigin::Default));
    assert_eq!((before.host_name.value.is_empty(), before.host_name.origin), (false, SettingOrigin::Default));
    let change = SetSettings {
        host_name: Some("nas".into()),
        scrub_every_seconds: Some(0),
        repair_after_seconds: Some(DAY),
        ..SetSettings::default()
    };
    assert!(engine.set_preferences(change.clone()).await.unwrap());
    assert!(!engine.set_preferences(change).await.unwrap());
    assert_eq!(engine.pools()[0].default_grace_seconds, Some(DAY));
    let after = engine.preferences();
    engine.shutdown().await;
    drop(engine);

    let engine = rig.start().await;
    assert_eq!(engine.preferences(), after);
    assert_eq!((after.host_name.value.as_str(), after.host_name.origin), ("nas", SettingOrigin::Set));
    assert_eq!((after.scrub_every.seconds, after.scrub_every.origin), (None, SettingOrigin::Set));
    assert_eq!(engine.status().daemon.host_name, "nas");
    let reset = vec![SettingName::HostName, SettingName::ScrubEvery, SettingName::RepairAfter];
    assert!(engine.set_preferences(SetSettings { reset, ..SetSettings::default() }).await.unwrap());
    assert_eq!(engine.preferences(), before);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_and_nothing_of_it_is_set() {
    let rig = Rig::new();
    let engine = rig.start().await;
    let before = engine.preferences();
    let good = SetSettings { host_name: Some("nas".into()), ..SetSettings::default() };
    for wrong in [
        SetSettings { scrub_every_seconds: Some(60), ..good.clone() },
        SetSettings { repair_after_seconds: Some(u64::MAX), ..good.clone() },
        SetSettings { alert_percents: Some(vec![101]), ..good.clone() },
        SetSettings { reset: vec![SettingName::HostName], ..good.clone() },
        SetSettings { host_name: Some("not a name".into()), ..SetSettings::default() },
    ] {
        let refused = engine.set_preferences(wrong.clone()).await.unwrap_err();
        assert!(refused.code == Code::Invalid && !refused.next_action.is_empty(), "{wrong:?}: {refused}");
        assert!(refused.field.is_some(), "{wrong:?}: {refused}");
    }
    assert_eq!(engine.preferences(), before);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_overrides_what_is_set_and_says_so() {
    let rig = Rig::new();
    let engine = rig.start().await;
    let scrub = |seconds| SetSettings { scrub_every_seconds: Some(seconds), ..SetSettings::default() };
    engine.set_preferences(scrub(DAY)).await.unwrap();
    engine.shutdown().await;
    drop(engine);

    let mut settings = rig.settings();
    settings.given = Given { scrub_every: Some(Some(Duration::from_secs(2 * DAY))), ..Given::default() };
    let engine = Engine::start(settings).await.unwrap();
    let held = engine.preferences().scrub_every;
    assert_eq!((held.seconds, held.origin), (Some(2 * DAY), SettingOrigin::CommandLine));
    let refused = engine.set_preferences(scrub(DAY)).await.unwrap_err();
    assert!(refused.code == Code::Conflict && refused.message.contains("--scrub-every"), "{refused}");
    assert_eq!(refused.field.as_deref(), Some("scrub_every_seconds"));
    let other = SetSettings { repair_after_seconds: Some(60), ..SetSettings::default() };
    assert!(engine.set_preferences(other).await.unwrap(), "the others can be set");
    engine.shutdown().await;
    drop(engine);

    let engine = rig.start().await;
    let held = engine.preferences().scrub_every;
    assert_eq!((held.seconds, held.origin), (Some(DAY), SettingOrigin::Set), "what was set before is there again");
    engine.shutdown().await;
}
