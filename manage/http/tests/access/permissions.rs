//! Every operation of the API's document, asked for by those who may not.

use holdfast_api::Role;
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::rig::{Rig, bearer};

/// The operations of the document: id, method, and a path with its parameters filled in.
fn operations() -> Vec<(String, String, String)> {
    let document: Value = serde_json::from_str(&holdfast_http::document()).unwrap();
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let filled = path.replace("{id}", "1").replace("{lun}", "1").replace(['{', '}'], "");
            found.push((operation["operationId"].as_str().unwrap().into(), method.to_uppercase(), filled));
        }
    }
    assert!(found.len() > 60, "{}", found.len());
    found
}

const PUBLIC: [&str; 3] = ["setup_show", "setup", "session_create"];
/// POST requests that only look.
const PLANS: [&str; 7] = [
    "disk_evacuate_plan",
    "disk_replace_plan",
    "space_plan",
    "space_convert_plan",
    "pool_rebalance_plan",
    "pool_upgrade_plan",
    "volume_shrink_plan",
];
const ENDLESS: [&str; 2] = ["event_follow", "live"];
/// What reads and is for administrators; or, where it works through names of files, for operators.
const NOT_FOR_VIEWERS: [&str; 13] = [
    "account_list",
    "account_show",
    "audit_list",
    "settings_show",
    "backup",
    "volume_usage",
    "volume_integrity_show",
    "volume_journal_read",
    "volume_acl_show",
    "volume_acl_access",
    "volume_files",
    "principal_list",
    "snapshot_diff",
];

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_anything_without_a_login() {
    let rig = Rig::peopled().await;
    let wrong = [
        vec![],
        bearer("hf_0000"),
        vec![("authorization", "Basic YW5uOnBhc3M=".into())],
        vec![("cookie", "__Host-holdfast-session=x".into())],
    ];
    for (id, method, path) in operations() {
        for headers in &wrong {
            let answer = rig.send(&method, &path, headers, "{}").await;
            if PUBLIC.contains(&id.as_str()) {
                assert!(answer.status != StatusCode::FORBIDDEN, "{id}");
            } else {
                assert_eq!(
                    (answer.status, answer.code().as_str()),
                    (StatusCode::UNAUTHORIZED, "not-authenticated"),
                    "{id} {headers:?}"
                );
            }
        }
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewers_token_changes_nothing() {
    let rig = Rig::peopled().await;
    let token = rig.token("vic", Role::Viewer, &[]).await;
    let before =
        rig.access.audit(holdfast_store::AuditWhich { limit: 1000, ..Default::default() }).await.unwrap().len();
    for (id, method, path) in operations() {
        if PUBLIC.contains(&id.as_str()) || ENDLESS.contains(&id.as_str()) {
            continue;
        }
        let reads = (method == "GET" || PLANS.contains(&id.as_str())) && !NOT_FOR_VIEWERS.contains(&id.as_str());
        let answer = rig.send(&method, &path, &bearer(&token), "{}").await;
        if reads {
            assert!(!matches!(answer.status.as_u16(), 401 | 403 | 500..), "{id}: {answer:?}");
        } else if id == "session_delete" {
            assert_eq!(answer.json()["changed"], json!(false), "a token has no session to end");
        } else {
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (StatusCode::FORBIDDEN, "forbidden"),
                "{id}: {answer:?}"
            );
        }
    }
    let after = rig.access.audit(holdfast_store::AuditWhich { limit: 1000, ..Default::default() }).await.unwrap();
    let refused = after[before..].iter().filter(|record| record.change.status < 400).count();
    assert_eq!(refused, 0, "{after:?}");
    assert_eq!(rig.access.accounts().len(), 3);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_does_daily_work_and_destroys_nothing() {
    let rig = Rig::peopled().await;
    let token = rig.token("oda", Role::Operator, &[]).await;
    let headers = bearer(&token);
    for (method, path) in [
        ("DELETE", "/pools/tank?confirm=true"),
        ("POST", "/pools"),
        ("POST", "/pools/tank/export"),
        ("POST", "/import"),
        ("POST", "/salvage"),
        ("DELETE", "/spaces/tank/vm?confirm=true"),
        ("POST", "/disks/x/wipe"),
        ("POST", "/disks"),
        ("GET", "/accounts"),
        ("GET", "/audit"),
        ("GET", "/settings"),
        ("GET", "/backup"),
    ] {
        let answer = rig.ask(method, path, &headers, json!({})).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{method} {path}");
        assert!(
            String::from_utf8_lossy(&answer.body).contains("administrator"),
            "it names the role that is needed: {answer:?}"
        );
    }
    for (method, path) in [
        ("POST", "/spaces/tank/vm/scrub"),
        ("PATCH", "/pools/tank"),
        ("POST", "/jobs/7/pause"),
        ("DELETE", "/exports/x"),
    ] {
        let answer = rig.ask(method, path, &headers, json!({})).await;
        assert!(!matches!(answer.status.as_u16(), 401 | 403), "{method} {path}: {answer:?}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_gives_up_no_data_and_names_no_file() {
    let rig = Rig::peopled().await;
    let root = bearer(&rig.token("ann", Role::Administrator, &[]).await);
    let oda = bearer(&rig.token("oda", Role::Operator, &[]).await);
    let vic = bearer(&rig.token("vic", Role::Viewer, &[]).await);
    let disks: Vec<String> = (1..=4).map(|number| format!("{}/d{number}", rig.folder.path().display())).collect();
    for path in &disks {
        rig.ask("POST", "/disks", &root, json!({ "path": path, "size_bytes": 128 << 20 })).await;
    }
    let made = rig.ask("POST", "/pools", &root, json!({ "name": "tank", "disks": &disks[..2] })).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let strange = rig.folder.path().join("strange");
    std::fs::write(&strange, b"precious".repeat(16 << 20)).unwrap();
    let in_path = |path: &str| path.replace('/', "%2F");
    let strange = strange.to_str().unwrap();
    for headers in [&oda, &vic] {
        let shown = rig.ask("GET", &format!("/disks/{}", in_path(strange)), headers, Value::Null).await;
        let nothing = rig.ask("GET", &format!("/disks/{}", in_path("/nothing/there")), headers, Value::Null).await;
        assert_eq!((shown.status, shown.code()), (nothing.status, nothing.code()), "{shown:?}");
        let history = rig
            .ask("GET", &format!("/history?kind=disk&seconds=60&name={}", in_path(strange)), headers, Value::Null)
            .await;
        assert_eq!(history.code(), "not-found");
    }
    assert_eq!(
        rig.ask("GET", &format!("/disks/{}", in_path(&disks[2])), &vic, Value::Null).await.status,
        StatusCode::OK
    );
    let add = |disk: &str, force: bool| json!({ "disks": [disk], "force": force });
    assert_eq!(rig.ask("POST", "/pools/tank/disks", &oda, add(strange, false)).await.code(), "not-found");
    assert_eq!(rig.ask("POST", "/pools/tank/disks", &oda, add(&disks[2], true)).await.code(), "forbidden");
    let replace = format!("/disks/{}/replace", in_path(&disks[0]));
    assert_eq!(rig.ask("POST", &replace, &oda, json!({ "new": strange })).await.code(), "not-found");
    assert_eq!(rig.ask("POST", &replace, &oda, json!({ "new": disks[3], "force": true })).await.code(), "forbidden");
    let give_up = json!({ "give_up": ["tank/vm"] });
    assert_eq!(rig.ask("POST", &replace, &oda, give_up.clone()).await.code(), "forbidden");
    let plan = rig.ask("POST", &format!("{replace}/plan"), &vic, give_up).await;
    assert_eq!(plan.status, StatusCode::OK, "{plan:?}");
    let smaller = json!({ "size_bytes": 1 << 20, "discard_beyond": true });
    assert_eq!(rig.ask("POST", "/spaces/tank/vm/convert", &oda, smaller).await.code(), "forbidden");
    let added = rig.ask("POST", "/pools/tank/disks", &oda, add(&disks[2], false)).await;
    assert_eq!(added.status, StatusCode::OK, "{added:?}");
    // An administrator may, but is asked first where there is data, whoever wrote it.
    assert_eq!(rig.ask("POST", "/pools/tank/disks", &root, add(strange, false)).await.code(), "not-confirmed");
    assert!(std::fs::read(strange).unwrap().starts_with(b"precious"));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_channels_are_set_by_administrators_and_never_shown() {
    let rig = Rig::peopled().await;
    let secret = "secret-part";
    let ann = bearer(&rig.token("ann", Role::Administrator, &[]).await);
    let channels = [
        json!({ "name": "hook", "webhook": { "url": format!("http://127.0.0.1:9/{secret}"), "secret": secret, "token": secret } }),
        json!({ "name": "ops", "mail": { "server": "127.0.0.1", "port": 9, "user": "u", "password": secret, "from": "a@b.c", "to": ["d@e.f"] } }),
    ];
    let mut said = String::new();
    for channel in channels {
        for (status, changed) in [(StatusCode::CREATED, true), (StatusCode::OK, false)] {
            let answer = rig.ask("POST", "/notifications/channels", &ann, channel.clone()).await;
            assert_eq!((answer.status, &answer.json()["changed"]), (status, &json!(changed)), "{answer:?}");
            said += &String::from_utf8_lossy(&answer.body);
        }
        let path = format!("/notifications/channels/{}", channel["name"].as_str().unwrap());
        let tested = rig.ask("POST", &format!("{path}/test"), &ann, Value::Null).await;
        assert_eq!((tested.status, &tested.json()["delivered"]), (StatusCode::OK, &json!(false)), "{tested:?}");
        said += &String::from_utf8_lossy(&tested.body);
        let vic = bearer(&rig.token("vic", Role::Viewer, &[]).await);
        let oda = bearer(&rig.token("oda", Role::Operator, &[]).await);
        for headers in [&ann, &vic, &oda] {
            let shown = rig.ask("GET", &path, headers, Value::Null).await;
            assert_eq!(shown.status, StatusCode::OK);
            said += &String::from_utf8_lossy(&shown.body);
        }
        for headers in [&vic, &oda] {
            for (method, path) in [("PATCH", path.clone()), ("DELETE", path.clone()), ("POST", format!("{path}/test"))]
            {
                assert_eq!(
                    rig.ask(method, &path, headers, json!({})).await.status,
                    StatusCode::FORBIDDEN,
                    "{method} {path}"
                );
            }
        }
    }
    let refused =
        rig.ask("POST", "/notifications/channels", &ann, json!({ "name": "bad", "webhook": { "url": secret } })).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    said += &String::from_utf8_lossy(&refused.body);
    for path in ["/notifications/channels", "/notifications/deliveries", "/audit", "/events", "/status"] {
        said += &String::from_utf8_lossy(&rig.ask("GET", path, &ann, Value::Null).await.body);
    }
    assert!(said.contains("notification_deliver") && said.contains("\"password_set\":true"), "{said}");
    assert!(!said.contains(secret), "{said}");
    rig.stop().await;
}
