//! What is sent is what is received, and a request with a field that nobody knows is refused.

use holdfast_api::{
    AddDisks, ApiError, Code, ConvertSpace, CreateExport, CreateFileDisk, CreatePool, CreateSpace, ErrorBody,
    EvacuateDisk, Event, GrowSpace, ImportPools, Job, JobKind, JobPace, JobPriority, JobState, LayoutKind, LocateDisk,
    Protection, Qos, RemoveDisk, ReplaceDisk, RetireDisk, SetDisk, SetExport, SetPace, SetPool, SetQos, SetSettings,
    SetSpace, Severity, Space, SpaceOption, SpacePlan, SpaceScrub, WipeDisk,
};
use holdfast_model::{Health, Media, ObjectRef, Provisioning, SpaceState, Usage};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, expected: Value) {
    assert_eq!(serde_json::to_value(value).unwrap(), expected);
    assert_eq!(&serde_json::from_value::<T>(expected).unwrap(), value);
}

#[test]
fn requests_and_answers_keep_their_shape() {
    round_trip(
        &CreatePool { name: "tank".into(), disks: vec!["/d".into()], force: true },
        json!({ "name": "tank", "disks": ["/d"], "force": true }),
    );
    round_trip(
        &CreateSpace {
            name: "tank/vm".into(),
            layout: LayoutKind::Mirror,
            copies: Some(3),
            parity: None,
            columns: None,
            interleave_bytes: Some(65536),
            size_bytes: 1 << 40,
            thin: true,
            journal_bytes: None,
            integrity: None,
            enclosure_aware: true,
        },
        json!({ "name": "tank/vm", "layout": "mirror", "copies": 3, "parity": null, "columns": null, "interleave_bytes": 65536,
                "size_bytes": 1099511627776u64, "thin": true, "journal_bytes": null, "integrity": null, "enclosure_aware": true }),
    );
    round_trip(
        &SpacePlan {
            name: "tank/vm".into(),
            size_bytes: 4096,
            enclosure_aware: false,
            fits: true,
            options: vec![SpaceOption {
                chosen: true,
                layout: LayoutKind::Parity,
                copies: 1,
                parity: 1,
                columns: 3,
                interleave_bytes: 65536,
                usable_bytes: 20,
                raw_bytes: 30,
                unused_bytes: 1,
                journal_bytes: 2,
                efficiency_percent: 66.7,
                survives_disks: 1,
                rebuildable_losses: 0,
                full_stripe_cost: 1.5,
                small_write_writes: 4,
                small_write_reads: 2,
                rebuild_reads: Some(2),
            }],
            notes: vec!["x".into()],
        },
        json!({ "name": "tank/vm", "size_bytes": 4096, "enclosure_aware": false, "fits": true, "notes": ["x"], "options": [{
                "chosen": true, "layout": "parity", "copies": 1, "parity": 1, "columns": 3, "interleave_bytes": 65536,
                "usable_bytes": 20, "raw_bytes": 30, "unused_bytes": 1, "journal_bytes": 2, "efficiency_percent": 66.7,
                "survives_disks": 1, "rebuildable_losses": 0, "full_stripe_cost": 1.5, "small_write_writes": 4, "small_write_reads": 2,
                "rebuild_reads": 2 }] }),
    );
    round_trip(
        &SetDisk { media: Some(Media::Ssd), enclosure: None, slot: None, usage: Some(Usage::HotSpare), force: false },
        json!({ "media": "ssd", "enclosure": null, "slot": null, "usage": "hot-spare", "force": false }),
    );
    round_trip(
        &Event {
            id: 7,
            time: "2026-01-02T03:04:05.678Z".into(),
            severity: Severity::Warning,
            object: ObjectRef::disk(uuid::Uuid::nil(), "X"),
            cause: "gone".into(),
            next_action: "put it back".into(),
        },
        json!({ "id": 7, "time": "2026-01-02T03:04:05.678Z", "severity": "warning", "object": { "kind": "disk", "id": "00000000-0000-0000-0000-000000000000", "name": "X" }, "cause": "gone",
                "next_action": "put it back" }),
    );
    round_trip(
        &Job {
            id: 3,
            kind: JobKind::Scrub,
            object: ObjectRef::space(uuid::Uuid::from_u128(2), "tank/vm"),
            pool: ObjectRef::pool(uuid::Uuid::from_u128(1), "tank"),
            state: JobState::Failed,
            done_bytes: 1,
            total_bytes: 2,
            rate_bytes_per_second: 0,
            seconds_left: None,
            pace: JobPace { priority: JobPriority::Low, cap_bytes_per_second: Some(1 << 20) },
            created: "2026-01-02T03:04:05.678Z".into(),
            started: None,
            ended: None,
            reason: None,
            error: Some(ApiError::new(Code::Failed, "space tank/vm", "a disk failed", "look at it")),
            result: None,
        },
        json!({ "id": 3, "kind": "scrub", "object": { "kind": "space", "id": "00000000-0000-0000-0000-000000000002", "name": "tank/vm" },
                "pool": { "kind": "pool", "id": "00000000-0000-0000-0000-000000000001", "name": "tank" }, "state": "failed", "done_bytes": 1, "total_bytes": 2,
                "rate_bytes_per_second": 0, "seconds_left": null,
                "priority": "low", "cap_bytes_per_second": 1048576,
                "created": "2026-01-02T03:04:05.678Z", "started": null, "ended": null, "result": null, "reason": null,
                "error": { "code": "failed", "field": null, "message": "a disk failed", "object": "space tank/vm", "next_action": "look at it" } }),
    );
    round_trip(
        &ErrorBody { error: ApiError::new(Code::NotConfirmed, "pool tank", "it would be lost", "repeat with --yes") },
        json!({ "error": { "code": "not-confirmed", "field": null, "message": "it would be lost", "object": "pool tank",
                           "next_action": "repeat with --yes" } }),
    );
    round_trip(
        &Space {
            name: "tank/vm".into(),
            id: uuid::Uuid::from_u128(1),
            layout: LayoutKind::Simple,
            copies: 1,
            parity: 0,
            columns: 2,
            interleave_bytes: 4096,
            integrity: holdfast_model::Integrity::Crc32c,
            provisioning: Provisioning::Thin,
            size_bytes: 8192,
            chunk_bytes: 4096,
            enclosure_aware: false,
            allocated_bytes: 0,
            raw_bytes: 0,
            journal: None,
            dirty_bytes: 0,
            stale_slabs: 0,
            protection: Protection {
                wanted_losses: 2,
                held_losses: 1,
                summary: "survives 1 lost disk".into(),
                ..Protection::default()
            },
            state: SpaceState::Resyncing,
            health: Health::Healthy,
            conditions: vec![],
            notes: vec![],
            counters: Default::default(),
            qos: Qos { max_iops: Some(2000), ..Qos::default() },
            scrub: SpaceScrub {
                last_at: Some("2026-01-02T03:04:05.678Z".into()),
                last_state: Some(JobState::Done),
                ..Default::default()
            },
        },
        json!({ "name": "tank/vm", "id": "00000000-0000-0000-0000-000000000001", "layout": "simple", "copies": 1, "parity": 0, "columns": 2,
                "interleave_bytes": 4096, "integrity": "crc32c", "provisioning": "thin", "size_bytes": 8192, "chunk_bytes": 4096, "enclosure_aware": false,
                "allocated_bytes": 0,
                "raw_bytes": 0, "journal": null, "dirty_bytes": 0, "stale_slabs": 0, "state": "resyncing", "health": "healthy", "conditions": [], "notes": [],
                "protection": { "wanted_losses": 2, "held_losses": 1, "wanted_enclosures": null, "held_enclosures": null, "rows": 0, "weak_rows": 0,
                                "unreadable_rows": 0, "converted_percent": null, "in_step_percent": null, "job_percent": null,
                                "rebuildable_losses": 0, "summary": "survives 1 lost disk", "reasons": [] },
                "counters": { "reads": 0, "read_bytes": 0, "writes": 0, "written_bytes": 0, "discards": 0,
                              "discarded_bytes": 0, "errors": 0 },
                "qos": { "max_iops": 2000, "burst_iops": null, "max_bytes_per_second": null, "burst_bytes_per_second": null, "min_iops": null },
                "scrub": { "last_at": "2026-01-02T03:04:05.678Z", "last_state": "done", "last_result": null, "next_at": null, "job": null } }),
    );
}

#[test]
fn what_may_be_left_out_may_be_left_out_and_nothing_else_goes_in() {
    fn check<T: DeserializeOwned>(least: Value) {
        assert!(serde_json::from_value::<T>(least.clone()).is_ok(), "{least}");
        let mut more = least;
        more["bogus"] = json!(1);
        assert!(serde_json::from_value::<T>(more.clone()).is_err(), "{more}");
    }
    check::<CreatePool>(json!({ "name": "a", "disks": [] }));
    check::<AddDisks>(json!({ "disks": [] }));
    check::<ImportPools>(json!({}));
    check::<CreateSpace>(json!({ "name": "a/b", "layout": "simple", "size_bytes": 1 }));
    check::<ConvertSpace>(json!({ "layout": "parity" }));
    check::<GrowSpace>(json!({ "size_bytes": 1 }));
    check::<CreateExport>(json!({ "space": "a/b" }));
    check::<CreateFileDisk>(json!({ "path": "/x", "size_bytes": 1 }));
    check::<SetDisk>(json!({}));
    check::<SetSpace>(json!({}));
    check::<SetExport>(json!({}));
    check::<SetQos>(json!({}));
    check::<WipeDisk>(json!({}));
    check::<RetireDisk>(json!({}));
    check::<EvacuateDisk>(json!({}));
    check::<RemoveDisk>(json!({}));
    check::<ReplaceDisk>(json!({}));
    check::<LocateDisk>(json!({ "on": true }));
    check::<SetPool>(json!({}));
    check::<SetPace>(json!({}));
    check::<SetSettings>(json!({}));
}

#[test]
fn a_limit_that_is_left_out_stays_and_zero_lifts_it() {
    let set = |json: Value| serde_json::from_value::<SetQos>(json).unwrap();
    let qos = set(json!({ "max_iops": 2000, "burst_iops": 500, "min_iops": 7 })).applied_to(Qos::default());
    assert_eq!(
        (qos.max_iops, qos.burst_iops, qos.min_iops, qos.max_bytes_per_second),
        (Some(2000), Some(500), Some(7), None)
    );
    let qos = set(json!({ "max_iops": 0, "max_bytes_per_second": 8192 })).applied_to(qos);
    assert_eq!(
        (qos.max_iops, qos.burst_iops, qos.min_iops, qos.max_bytes_per_second),
        (None, None, Some(7), Some(8192))
    );
    assert_eq!(SetQos::default().applied_to(qos), qos);
}
