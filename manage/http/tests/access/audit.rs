//! Every change is written down, with what was before and after, and no secret.

use holdfast_api::Role;
use holdfast_model::{ObjectKind, ObjectRef};
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::rig::{PASSWORD, Rig, bearer};

#[tokio::test(flavor = "multi_thread")]
async fn who_did_what_from_where_before_and_after() {
    let rig = Rig::peopled().await;
    let ann = rig.login("ann").await;
    let headers = ann.headers();
    let disks: Vec<String> = (1..=2).map(|number| format!("{}/d{number}", rig.folder.path().display())).collect();
    for path in &disks {
        rig.ask("POST", "/disks", &headers, json!({ "path": path, "size_bytes": 128 << 20 })).await;
    }
    let pool = json!({ "name": "tank", "disks": disks });
    assert_eq!(rig.ask("POST", "/pools", &headers, pool.clone()).await.status, StatusCode::CREATED);
    assert_eq!(rig.ask("POST", "/pools", &headers, pool).await.status, StatusCode::OK);
    let set = [("x-request-id", "r-42".to_owned())];
    let set: Vec<_> = headers.iter().cloned().chain(set).collect();
    rig.ask("PATCH", "/pools/tank", &set, json!({ "alert_percents": [50] })).await;
    rig.ask("DELETE", "/pools/tank?confirm=true", &headers, Value::Null).await;
    let secret = rig.token("oda", Role::Operator, &[]).await;
    rig.ask("DELETE", "/exports/none", &bearer(&secret), Value::Null).await;
    rig.ask("POST", "/accounts", &headers, json!({ "name": "new", "password": "hunter2 hunter2", "role": "viewer" }))
        .await;
    rig.try_login("ann", "a wrong password").await;
    let answer = rig.ask("GET", "/audit?limit=1000", &headers, Value::Null).await;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    for hidden in [PASSWORD, "hunter2", "a wrong password", &secret, &ann.cookie, &ann.csrf, "argon2"] {
        assert!(!text.contains(hidden), "{hidden} is in the audit log");
    }
    let records = answer.json();
    let records = records.as_array().unwrap();
    let of = |operation: &str| records.iter().filter(|record| record["operation"] == operation).collect::<Vec<_>>();
    let made = of("pool_create");
    assert_eq!(made.len(), 1, "what changed nothing is no change");
    assert_eq!(
        (&made[0]["object"]["id"], &made[0]["object"]["name"], &made[0]["before"]),
        (&made[0]["after"]["id"], &json!("tank"), &Value::Null)
    );
    let set = of("pool_set")[0];
    assert_eq!(
        (&set["account"], &set["role"], &set["via"], &set["from"]),
        (&json!("ann"), &json!("administrator"), &json!("session"), &json!("127.0.0.1"))
    );
    assert_eq!((&set["request_id"], &set["status"], &set["method"]), (&json!("r-42"), &json!(200), &json!("PATCH")));
    assert_ne!(set["before"], set["after"]);
    let gone = of("pool_destroy")[0];
    assert_eq!((&gone["before"]["name"], &gone["after"]), (&json!("tank"), &Value::Null));
    assert!(of("nbd_unexport").is_empty());
    let logins = of("session_create");
    assert!(logins.iter().any(|login| login["status"] == 401 && login["account"] == "ann"), "{logins:?}");
    let one = rig.ask("GET", "/audit?kind=pool&object=tank&limit=1", &headers, Value::Null).await.json();
    assert_eq!(one[0]["operation"], "pool_destroy", "without 'after' the newest are given");
    let later = rig.ask("GET", "/audit?after=1&limit=1", &headers, Value::Null).await.json();
    assert_eq!(later[0]["id"], 2);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_of_targets_are_changed_without_a_trace_of_their_secrets_and_only_administrators_open_one() {
    let rig = Rig::peopled().await;
    let ann = rig.login("ann").await.headers();
    let token = rig.token("oda", Role::Operator, &["targets"]).await;
    let oda = bearer(&token);
    assert_eq!(rig.ask("POST", "/targets", &oda, json!({ "name": "vm" })).await.status, StatusCode::CREATED);
    let opened = json!({ "name": "any", "open": true });
    assert_eq!(rig.ask("POST", "/targets", &oda, opened.clone()).await.status, StatusCode::FORBIDDEN);
    assert_eq!(rig.ask("PATCH", "/targets/vm", &oda, json!({ "open": true })).await.status, StatusCode::FORBIDDEN);
    assert_eq!(rig.ask("POST", "/targets", &ann, opened).await.status, StatusCode::CREATED);
    let (one, two, three) = ("hunter3 hunter3", "hunter4 hunter4", "hunter5 hunter5");
    let host = "iqn.2000-01.org.example:host";
    let allow = json!({ "iqn": host, "chap": { "user": "ann", "secret": one } });
    assert_eq!(rig.ask("POST", "/targets/vm/initiators", &oda, allow).await.status, StatusCode::OK);
    let mutual = json!({ "mutual": { "user": "me", "secret": two } });
    assert_eq!(rig.ask("PATCH", "/targets/vm", &oda, mutual).await.status, StatusCode::OK);
    let same = json!({ "mutual": { "user": "me", "secret": one } });
    assert_eq!(rig.ask("PATCH", "/targets/vm", &oda, same).await.status, StatusCode::BAD_REQUEST);
    let discovery = json!({ "user": "who", "secret": three });
    assert_eq!(rig.ask("PUT", "/iscsi/discovery", &oda, discovery.clone()).await.status, StatusCode::FORBIDDEN);
    assert_eq!(rig.ask("PUT", "/iscsi/discovery", &ann, discovery).await.status, StatusCode::OK);
    let denied = format!("/targets/vm/initiators/{}", host.replace(':', "%3A"));
    assert_eq!(rig.ask("DELETE", &denied, &oda, Value::Null).await.json()["changed"], true);
    let mut shown = String::new();
    for path in ["/audit?limit=1000", "/targets", "/targets/vm", "/iscsi/discovery", "/events", "/status", "/metrics"] {
        shown += &String::from_utf8_lossy(&rig.ask("GET", path, &ann, Value::Null).await.body);
    }
    for hidden in [one, two, three] {
        assert!(!shown.contains(hidden), "{hidden} is shown");
    }
    let records = rig.ask("GET", "/audit?kind=target&object=vm", &ann, Value::Null).await.json();
    let operations: Vec<&str> =
        records.as_array().unwrap().iter().filter_map(|record| record["operation"].as_str()).collect();
    for operation in ["target_create", "initiator_allow", "target_set", "initiator_deny"] {
        assert!(operations.contains(&operation), "{operation} is not in {operations:?}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_a_whole_store_without_sessions_and_restores() {
    let rig = Rig::peopled().await;
    let ann = rig.login("ann").await;
    let answer = rig.ask("GET", "/backup", &ann.headers(), Value::Null).await;
    assert!(answer.status == StatusCode::OK && answer.body.starts_with(b"SQLite format 3\0"), "{:?}", answer.status);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    std::fs::write(&file, &answer.body).unwrap();
    let left: Vec<_> =
        std::fs::read_dir(rig.engine.state_folder()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("backup-")), "{left:?}");
    let error = holdfast_engine::restore(rig.engine.state_folder(), &file).unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
    let other = folder.path().join("other");
    assert!(holdfast_engine::restore(&other, &file).unwrap().is_none());
    let store = holdfast_store::Store::open(&other, Default::default()).unwrap();
    assert_eq!((store.accounts().unwrap().len(), store.sessions().unwrap().len()), (3, 0));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_write_little_into_the_log_and_nothing_that_a_terminal_obeys() {
    let rig = Rig::start().await;
    let which = || holdfast_store::AuditWhich { limit: 1000, ..Default::default() };
    let setup = json!({ "token": "x", "name": "eve", "password": PASSWORD });
    let mut throttled = 0;
    for _ in 0..50 {
        let answer = rig.ask("POST", "/setup", &[], setup.clone()).await;
        throttled += usize::from(answer.status == StatusCode::TOO_MANY_REQUESTS);
    }
    assert!(throttled > 30, "{throttled}");
    rig.people().await;
    let before = rig.access.audit(which()).await.unwrap().len();
    for _ in 0..50 {
        assert_eq!(rig.ask("POST", "/setup", &[], setup.clone()).await.status, StatusCode::CONFLICT);
    }
    assert_eq!(rig.access.audit(which()).await.unwrap().len(), before, "nothing was tried, so nothing is written");
    rig.pass(std::time::Duration::from_secs(3600));
    assert_eq!(rig.try_login("\u{1b}]0;x\u{7}\n\u{9b}31m\u{202e}gnp", PASSWORD).await.status, StatusCode::UNAUTHORIZED);
    let records = rig.access.audit(which()).await.unwrap();
    let last = &records.last().unwrap().change;
    assert_eq!(last.account, "\u{fffd}]0;x\u{fffd}\u{fffd}\u{fffd}31m\u{fffd}gnp");
    assert_eq!(last.object, ObjectRef::named(ObjectKind::Account, &last.account));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_for_administrators_and_written_down_before_and_after() {
    let rig = Rig::peopled().await;
    let (ann, oda) = (rig.login("ann").await, rig.login("oda").await);
    let change = json!({ "host_name": "nas", "scrub_every_seconds": 86400 });
    assert_eq!(rig.ask("PATCH", "/settings", &oda.headers(), change.clone()).await.status, StatusCode::FORBIDDEN);
    let answer = rig.ask("PATCH", "/settings", &ann.headers(), change.clone()).await.json();
    let set = &answer["settings"]["preferences"];
    assert_eq!((&answer["changed"], &set["host_name"]["value"]), (&json!(true), &json!("nas")), "{answer}");
    assert_eq!(set["scrub_every"], json!({ "seconds": 86400, "origin": "set" }));
    assert_eq!(rig.ask("PATCH", "/settings", &ann.headers(), change).await.json()["changed"], false);
    let records = rig.ask("GET", "/audit?object=settings", &ann.headers(), Value::Null).await.json();
    let done: Vec<_> = records.as_array().unwrap().iter().filter(|record| record["status"] == 200).collect();
    assert_eq!(done.len(), 1, "{records}");
    let origin = |when: &str| done[0][when]["preferences"]["host_name"]["origin"].clone();
    assert_eq!((origin("before"), origin("after")), (json!("default"), json!("set")), "{records}");
    let seen = rig.ask("GET", "/status", &oda.headers(), Value::Null).await.json();
    assert_eq!(seen["daemon"]["host_name"], "nas", "everybody sees which server it is");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_a_copy_of_everything_is_written_down() {
    let rig = Rig::peopled().await;
    let ann = rig.login("ann").await;
    let copy = rig.ask("GET", "/backup", &ann.headers(), Value::Null).await;
    assert!(copy.status == StatusCode::OK && copy.body.starts_with(b"SQLite format 3"));
    let records = rig.ask("GET", "/audit?object=backup", &ann.headers(), Value::Null).await.json();
    assert_eq!((&records[0]["account"], &records[0]["operation"]), (&json!("ann"), &json!("backup")), "{records}");
    let left: Vec<_> =
        std::fs::read_dir(rig.engine.state_folder()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("copy")), "{left:?}");
    rig.stop().await;
}
