//! The API over a real socket, with a real engine on file disks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use holdfast_access::{Access, AccessSettings};
use holdfast_engine::{Engine, Settings};
use holdfast_harness::{LIMIT, folder_for_tests};
use holdfast_http::Api;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

struct Rig {
    folder: tempfile::TempDir,
    engine: Arc<Engine>,
    socket: PathBuf,
    stop: tokio::sync::oneshot::Sender<()>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Rig {
    async fn start() -> Self {
        let folder = tempfile::tempdir_in(folder_for_tests()).unwrap();
        let mut settings = Settings::new(folder.path().join("state"));
        settings.block_devices = false;
        settings.reactors = 1;
        settings.nbd_addresses = vec![format!("unix:{}/nbd.sock", folder.path().display()).parse().unwrap()];
        let engine = Engine::start(settings).await.unwrap();
        let socket = folder.path().join("api.sock");
        let listener = holdfast_http::listen(&socket, Duration::ZERO).unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let access = Access::open(engine.store().clone(), AccessSettings::default()).unwrap();
        let served = tokio::spawn(holdfast_http::serve(listener, Api::new(engine.clone(), access), async move {
            let _ = stopped.await;
        }));
        Self { folder, engine, socket, stop, served }
    }

    async fn send(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Response<Incoming> {
        let stream = UnixStream::connect(&self.socket).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header("host", "x").header("x-request-id", "r-7");
        sender.send_request(request.body(Full::new(body.into())).unwrap()).await.unwrap()
    }

    /// What a server says to a request of which only the header is sent.
    fn announce(&self, bytes: usize) -> String {
        use std::io::{Read, Write};
        let mut stream = std::os::unix::net::UnixStream::connect(&self.socket).unwrap();
        write!(
            stream,
            "POST /api/v1/pools HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {bytes}\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let response = self.send(method, &format!("/api/v1{path}"), body).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        self.engine.shutdown().await;
        tokio::time::timeout(LIMIT, self.served).await.expect("the server ends").unwrap().unwrap();
        assert!(!self.socket.exists(), "the socket is removed");
        drop(self.folder);
    }
}

fn disk_x() -> holdfast_model::ObjectRef {
    holdfast_model::ObjectRef::named(holdfast_model::ObjectKind::Disk, "X")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_life_of_a_pool_over_the_socket() {
    let rig = Rig::start().await;
    let disks: Vec<String> = (1..=3).map(|number| format!("{}/d{number}", rig.folder.path().display())).collect();
    for path in &disks {
        let (status, answer) = rig.ask("POST", "/disks", json!({ "path": path, "size_bytes": 128 << 20 })).await;
        assert_eq!((status, &answer["changed"]), (StatusCode::CREATED, &json!(true)), "{answer}");
    }
    let request = json!({ "name": "tank", "disks": disks });
    assert_eq!(rig.ask("POST", "/pools", request.clone()).await.0, StatusCode::CREATED);
    let (status, answer) = rig.ask("POST", "/pools", request).await;
    assert_eq!((status, &answer["changed"]), (StatusCode::OK, &json!(false)));
    let request = json!({ "name": "tank/vm", "layout": "mirror", "size_bytes": 16 << 20 });
    assert_eq!(rig.ask("POST", "/spaces", request).await.0, StatusCode::CREATED);
    let (status, answer) =
        rig.ask("POST", "/spaces", json!({ "name": "tank/vm", "layout": "mirror", "size_bytes": 32 << 20 })).await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::CONFLICT, &json!("exists")));
    let (_, map) = rig.ask("GET", "/spaces/tank/vm/map", Value::Null).await;
    assert!(
        map.as_array()
            .is_some_and(|rows| rows.iter().all(|row| row["slabs"].as_array().is_some_and(|slabs| slabs.len() == 2)))
    );
    let request = json!({ "name": "tank/p", "layout": "parity", "size_bytes": 16 << 20 });
    let (status, plan) = rig.ask("POST", "/spaces/plan", request.clone()).await;
    assert_eq!(
        (status, &plan["fits"], &plan["options"][0]["parity"]),
        (StatusCode::OK, &json!(true), &json!(1)),
        "{plan}"
    );
    assert_eq!(rig.ask("GET", "/spaces/tank/p", Value::Null).await.0, StatusCode::NOT_FOUND);
    let (status, answer) = rig.ask("POST", "/spaces", request).await;
    assert_eq!((status, &answer["space"]["columns"]), (StatusCode::CREATED, &json!(3)), "{answer}");
    assert!(answer["space"]["journal"]["size_bytes"].as_u64().is_some_and(|bytes| bytes >= 1 << 20), "{answer}");
    let (status, answer) = rig.ask("PATCH", "/spaces/tank/p", json!({ "journal_bytes": 34 << 20 })).await;
    assert_eq!(
        (status, &answer["changed"], &answer["space"]["journal"]["size_bytes"]),
        (StatusCode::OK, &json!(true), &json!(34 << 20)),
        "{answer}"
    );
    assert_eq!(
        rig.ask("PATCH", "/spaces/tank/vm", json!({ "journal_bytes": 34 << 20 })).await.0,
        StatusCode::BAD_REQUEST
    );
    let (status, answer) = rig.ask("POST", "/spaces/tank/p/verify", Value::Null).await;
    assert_eq!((status, &answer["mismatched_blocks"]), (StatusCode::OK, &json!(0)), "{answer}");
    assert_eq!(rig.ask("POST", "/spaces/tank/none/verify", Value::Null).await.0, StatusCode::NOT_FOUND);
    assert_eq!(rig.ask("DELETE", "/spaces/tank/p?confirm=true", Value::Null).await.0, StatusCode::OK);
    assert_eq!(rig.ask("POST", "/spaces/tank/vm/grow", json!({ "size_bytes": 24 << 20 })).await.0, StatusCode::OK);
    assert_eq!(rig.ask("POST", "/exports", json!({ "space": "tank/vm", "name": "x" })).await.0, StatusCode::CREATED);
    let (_, export) = rig.ask("GET", "/exports/x", Value::Null).await;
    assert_eq!((&export["size_bytes"], &export["served"]), (&json!(24 << 20), &json!(true)));
    let disk = disks[0].replace('/', "%2F");
    let (status, answer) = rig.ask("PATCH", &format!("/disks/{disk}"), json!({ "media": "hdd" })).await;
    assert_eq!((status, &answer["disk"]["media"]), (StatusCode::OK, &json!("hdd")));
    assert_eq!(rig.ask("GET", &format!("/disks/{disk}"), Value::Null).await.1["pool"], json!("tank"));
    assert_eq!(rig.ask("GET", "/status", Value::Null).await.1["health"], json!("healthy"));
    assert_eq!(rig.ask("DELETE", "/pools/tank?confirm=true", Value::Null).await.0, StatusCode::CONFLICT);
    assert_eq!(rig.ask("DELETE", "/exports/x", Value::Null).await.1["changed"], json!(true));
    assert_eq!(rig.ask("DELETE", "/spaces/tank/vm", Value::Null).await.1["error"]["code"], json!("not-confirmed"));
    assert_eq!(rig.ask("DELETE", "/spaces/tank/vm?confirm=true", Value::Null).await.0, StatusCode::OK);
    assert_eq!(rig.ask("POST", "/pools/tank/export", Value::Null).await.1["changed"], json!(true));
    assert_eq!(rig.ask("POST", "/import", json!({})).await.1["pools"][0]["changed"], json!(true));
    assert_eq!(rig.ask("DELETE", "/pools/tank?confirm=true", Value::Null).await.1["changed"], json!(true));
    for list in ["/pools", "/spaces", "/exports"] {
        assert_eq!(rig.ask("GET", list, Value::Null).await, (StatusCode::OK, json!([])), "{list}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_asked_for_steered_and_ended_over_the_socket() {
    let rig = Rig::start().await;
    let disks: Vec<String> = (1..=2).map(|number| format!("{}/d{number}", rig.folder.path().display())).collect();
    for path in &disks {
        rig.ask("POST", "/disks", json!({ "path": path, "size_bytes": 128 << 20 })).await;
    }
    rig.ask("POST", "/pools", json!({ "name": "tank", "disks": disks })).await;
    rig.ask("POST", "/spaces", json!({ "name": "tank/vm", "layout": "mirror", "size_bytes": 16 << 20 })).await;
    let (status, answer) = rig.ask("POST", "/spaces/tank/vm/scrub", json!({ "priority": "low" })).await;
    assert_eq!(
        (status, &answer["changed"], &answer["job"]["kind"]),
        (StatusCode::ACCEPTED, &json!(true), &json!("scrub"))
    );
    let id = answer["job"]["id"].as_u64().unwrap();
    let path = format!("/jobs/{id}");
    let done = tokio::time::timeout(LIMIT, async {
        loop {
            let (status, job) = rig.ask("GET", &path, Value::Null).await;
            assert_eq!(status, StatusCode::OK);
            if job["state"] == "done" {
                return job;
            }
        }
    });
    let done = done.await.expect("the scrub ends");
    assert_eq!(
        (&done["object"]["name"], &done["priority"], &done["error"]),
        (&json!("tank/vm"), &json!("low"), &Value::Null),
        "{done}"
    );
    for (query, count) in [("", 1), ("?state=done&object=tank", 1), ("?state=running", 0), ("?object=tank/none", 0)] {
        let (status, list) = rig.ask("GET", &format!("/jobs{query}"), Value::Null).await;
        assert_eq!((status, list.as_array().map(Vec::len)), (StatusCode::OK, Some(count)), "{query}");
    }
    let ended = [("PATCH", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/cancel")];
    for (method, verb) in ended {
        let (status, answer) = rig.ask(method, &format!("{path}{verb}"), json!({})).await;
        assert_eq!((status, &answer["error"]["code"]), (StatusCode::CONFLICT, &json!("conflict")), "{verb}");
        let (status, _) = rig.ask(method, &format!("/jobs/99{verb}"), json!({})).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{verb}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_the_field_that_it_is_about() {
    let rig = Rig::start().await;
    let disks: Vec<String> = (1..=3).map(|number| format!("{}/d{number}", rig.folder.path().display())).collect();
    for path in &disks {
        rig.ask("POST", "/disks", json!({ "path": path, "size_bytes": 128 << 20 })).await;
    }
    rig.ask("POST", "/pools", json!({ "name": "tank", "disks": disks })).await;
    rig.ask("POST", "/spaces", json!({ "name": "tank/vm", "layout": "mirror", "size_bytes": 16 << 20 })).await;
    rig.ask("POST", "/exports", json!({ "space": "tank/vm" })).await;
    let disk = format!("/disks/{}", disks[0].replace('/', "%2F"));
    let space = |change: Value| {
        let mut request = json!({ "name": "tank/x", "layout": "mirror", "size_bytes": 16 << 20 });
        request.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        request
    };
    let cases = [
        // What is no request of its kind.
        ("POST", "/spaces", json!({ "name": "tank/x", "layout": "mirror" }), Some("size_bytes")),
        ("POST", "/spaces", space(json!({ "layout": "raid" })), Some("layout")),
        ("POST", "/spaces", space(json!({ "size_bytes": -1 })), Some("size_bytes")),
        ("POST", "/spaces", space(json!({ "colour": "red" })), Some("colour")),
        ("PATCH", "/exports/vm", json!({ "qos": { "max_iops": "many" } }), Some("qos.max_iops")),
        ("GET", "/events?after=x", Value::Null, Some("after")),
        ("POST", "/pools", json!([1]), None),
        // What cannot be.
        ("POST", "/disks", json!({ "path": "d9", "size_bytes": 128 << 20 }), Some("path")),
        ("POST", "/disks", json!({ "path": "/nowhere/d9", "size_bytes": 5 }), Some("size_bytes")),
        ("PATCH", disk.as_str(), json!({ "enclosure": "A" }), Some("slot")),
        ("PATCH", disk.as_str(), json!({ "slot": 1 }), Some("enclosure")),
        ("PATCH", disk.as_str(), json!({ "enclosure": "", "slot": 1 }), Some("enclosure")),
        ("PATCH", disk.as_str(), json!({ "enclosure": "A", "slot": 99_999_999 }), Some("slot")),
        ("POST", "/pools", json!({ "name": "a b", "disks": disks }), Some("name")),
        ("POST", "/pools", json!({ "name": "other", "disks": [] }), Some("disks")),
        ("POST", "/pools", json!({ "name": "other", "disks": ["/none"] }), Some("disks")),
        ("POST", "/pools", json!({ "name": "other", "disks": disks }), Some("disks")),
        ("POST", "/pools/tank/disks", json!({ "disks": ["/none"] }), Some("disks")),
        ("PATCH", "/pools/tank", json!({ "alert_percents": [101] }), Some("alert_percents")),
        ("PATCH", "/pools/tank", json!({ "grace_seconds": 5, "default_grace": true }), Some("grace_seconds")),
        ("POST", "/spaces", space(json!({ "name": "tank" })), Some("name")),
        ("POST", "/spaces", space(json!({ "name": "none/x" })), Some("name")),
        ("POST", "/spaces", space(json!({ "size_bytes": 0 })), Some("size_bytes")),
        ("POST", "/spaces", space(json!({ "size_bytes": 1_u64 << 33 })), Some("size_bytes")),
        ("POST", "/spaces", space(json!({ "copies": 9 })), Some("copies")),
        ("POST", "/spaces", space(json!({ "columns": 9 })), Some("columns")),
        ("POST", "/spaces", space(json!({ "layout": "parity", "parity": 2 })), Some("layout")),
        ("POST", "/spaces", space(json!({ "layout": "parity", "parity": 9 })), Some("parity")),
        ("POST", "/spaces", space(json!({ "interleave_bytes": 5 })), Some("interleave_bytes")),
        ("POST", "/spaces", space(json!({ "journal_bytes": 64 << 20 })), Some("journal_bytes")),
        ("POST", "/spaces", space(json!({ "layout": "parity", "journal_bytes": 5 })), Some("journal_bytes")),
        ("POST", "/spaces", space(json!({ "enclosure_aware": true })), Some("enclosure_aware")),
        ("POST", "/spaces", space(json!({ "name": "tank/vm", "layout": "simple" })), Some("layout")),
        ("POST", "/spaces/plan", space(json!({ "columns": 9 })), Some("columns")),
        ("POST", "/spaces/tank/vm/grow", json!({ "size_bytes": 4096 }), Some("size_bytes")),
        ("POST", "/spaces/tank/vm/convert", json!({ "columns": 9 }), Some("columns")),
        ("PATCH", "/spaces/tank/vm", json!({ "journal_bytes": 64 << 20 }), Some("journal_bytes")),
        ("PATCH", "/spaces/tank/vm", json!({ "qos": { "burst_iops": 5 } }), Some("qos.burst_iops")),
        ("PATCH", "/exports/vm", json!({ "qos": { "max_bytes_per_second": 5 } }), Some("qos.max_bytes_per_second")),
        ("POST", "/exports", json!({ "space": "tank" }), Some("space")),
        ("POST", "/exports", json!({ "space": "tank/vm", "name": "a b" }), Some("name")),
        ("POST", "/import", json!({ "disk_dirs": ["here"] }), Some("disk_dirs")),
        ("GET", "/history?kind=server&seconds=0", Value::Null, Some("seconds")),
    ];
    for (method, path, body, field) in cases {
        let (status, answer) = rig.ask(method, path, body.clone()).await;
        assert!(status.is_client_error(), "{method} {path} {body}: {answer}");
        assert_eq!(answer["error"]["field"].as_str(), field, "{method} {path} {body}: {answer}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_has_the_error_body() {
    let rig = Rig::start().await;
    let cases = [
        ("GET", "/nothing", Value::Null, StatusCode::NOT_FOUND),
        ("PUT", "/pools", Value::Null, StatusCode::METHOD_NOT_ALLOWED),
        ("GET", "/pools/none", Value::Null, StatusCode::NOT_FOUND),
        ("GET", "/disks/%2Fnone", Value::Null, StatusCode::NOT_FOUND),
        ("GET", "/spaces/none/vm", Value::Null, StatusCode::NOT_FOUND),
        ("GET", "/events?after=x", Value::Null, StatusCode::BAD_REQUEST),
        ("GET", "/jobs/7", Value::Null, StatusCode::NOT_FOUND),
        ("GET", "/jobs/x", Value::Null, StatusCode::BAD_REQUEST),
        ("GET", "/jobs?state=x", Value::Null, StatusCode::BAD_REQUEST),
        ("PATCH", "/jobs/7", json!({ "priority": "highest" }), StatusCode::BAD_REQUEST),
        ("POST", "/spaces/none/vm/scrub", json!({}), StatusCode::NOT_FOUND),
        ("POST", "/spaces/none/vm/repair", json!({}), StatusCode::NOT_FOUND),
        ("POST", "/spaces/none/vm/convert", json!({ "layout": "parity" }), StatusCode::NOT_FOUND),
        ("POST", "/spaces/none/vm/convert", json!({ "layout": "raid" }), StatusCode::BAD_REQUEST),
        ("POST", "/disks/%2Fnone/evacuate", json!({}), StatusCode::CONFLICT),
        ("POST", "/disks/%2Fnone/evacuate/plan", json!({}), StatusCode::CONFLICT),
        ("POST", "/pools/none/rebalance", json!({}), StatusCode::NOT_FOUND),
        ("POST", "/pools/none/rebalance/plan", json!({}), StatusCode::NOT_FOUND),
        ("POST", "/pools/none/upgrade", json!({}), StatusCode::NOT_FOUND),
        ("POST", "/pools/none/upgrade/plan", json!({}), StatusCode::NOT_FOUND),
        ("PATCH", "/pools/none", json!({ "alert_percents": [70] }), StatusCode::NOT_FOUND),
        ("PATCH", "/pools/none", json!({ "alert_percents": [-1] }), StatusCode::BAD_REQUEST),
        ("PATCH", "/pools/none", json!({ "default_grace": 1 }), StatusCode::BAD_REQUEST),
        ("POST", "/spaces/none/vm/convert", json!({ "size_bytes": 4096 }), StatusCode::NOT_FOUND),
        ("GET", "/history?kind=space&name=none%2Fvm&seconds=60", Value::Null, StatusCode::NOT_FOUND),
        ("GET", "/history?kind=house&seconds=60", Value::Null, StatusCode::BAD_REQUEST),
        ("GET", "/history?kind=server&seconds=0", Value::Null, StatusCode::BAD_REQUEST),
        ("GET", "/history?kind=server&seconds=2592001", Value::Null, StatusCode::BAD_REQUEST),
        ("GET", "/history?kind=server&seconds=60&points=3001", Value::Null, StatusCode::BAD_REQUEST),
        ("GET", "/exports/none/connections", Value::Null, StatusCode::NOT_FOUND),
        ("GET", "/pools/%FF", Value::Null, StatusCode::BAD_REQUEST),
        ("POST", "/pools", Value::Null, StatusCode::BAD_REQUEST),
        ("POST", "/pools", json!([1, 2]), StatusCode::BAD_REQUEST),
        ("POST", "/pools", json!({ "name": 7 }), StatusCode::BAD_REQUEST),
        ("POST", "/pools", json!({ "name": "a", "disks": [], "bogus": 1 }), StatusCode::BAD_REQUEST),
        ("POST", "/pools", json!({ "name": "a b", "disks": ["/d"] }), StatusCode::BAD_REQUEST),
        ("POST", "/spaces", json!({ "name": "a/b", "layout": "raid", "size_bytes": 1 }), StatusCode::BAD_REQUEST),
        ("POST", "/spaces", json!({ "name": "a/b", "layout": "simple", "size_bytes": -1 }), StatusCode::BAD_REQUEST),
        ("POST", "/spaces/plan", json!({ "name": "a/b", "layout": "parity", "size_bytes": 1 }), StatusCode::NOT_FOUND),
        ("POST", "/spaces/plan", json!({ "name": "a/b", "layout": "parity" }), StatusCode::BAD_REQUEST),
    ];
    for (method, path, body, expected) in cases {
        let shown: String = body.to_string().chars().take(60).collect();
        let (status, answer) = rig.ask(method, path, body).await;
        assert_eq!(status, expected, "{method} {path} {shown}: {answer}");
        for part in ["code", "message", "object", "next_action"] {
            assert!(answer["error"][part].is_string(), "{method} {path} {shown}: {answer}");
        }
    }
    let answer = rig.announce(2 << 20);
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too-large"), "{answer}");
    let garbage = rig.send("POST", "/api/v1/pools", &b"\xff\x00{{{"[..]).await;
    assert_eq!(
        (garbage.status(), garbage.headers()["x-request-id"].to_str().unwrap()),
        (StatusCode::BAD_REQUEST, "r-7")
    );
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_followed_until_the_daemon_stops() {
    let rig = Rig::start().await;
    let mut following = rig.send("GET", "/api/v1/events/follow", "").await.into_body();
    let first = following.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("started"), "{first:?}");
    rig.engine.events().emit(holdfast_api::Severity::Warning, &disk_x(), "gone", "put it back");
    let second = following.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&second).contains("put it back"), "{second:?}");
    let metrics = rig.send("GET", "/metrics", "").await;
    assert!(metrics.headers()["content-type"].to_str().unwrap().starts_with("text/plain"));
    rig.stop().await;
    while let Some(Ok(_)) = following.frame().await {}
}

/// Reads server-sent events until `wanted` says that one is it; its name and data.
async fn hear(stream: &mut Incoming, mut wanted: impl FnMut(&str, &Value) -> bool) -> Value {
    let hearing = async {
        loop {
            let frame = stream.frame().await.expect("the stream goes on").unwrap().into_data().unwrap_or_default();
            for message in String::from_utf8_lossy(&frame).split("\n\n") {
                let part = |name: &str| message.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                let data = serde_json::from_str(part("data: ")).unwrap_or_default();
                if wanted(part("event: "), &data) {
                    return data;
                }
            }
        }
    };
    tokio::time::timeout(LIMIT, hearing).await.expect("it is told")
}

#[tokio::test(flavor = "multi_thread")]
async fn consoles_are_told_of_every_change_and_of_traffic() {
    let rig = Rig::start().await;
    let (mut one, mut other) =
        (rig.send("GET", "/api/v1/live", "").await.into_body(), rig.send("GET", "/api/v1/live", "").await.into_body());
    let lists =
        |kinds: &Value, kind: &str| kinds["kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|is| is == kind));
    hear(&mut one, |event, data| event == "changed" && lists(data, "accounts")).await;
    let sample = hear(&mut one, |event, _| event == "sample").await;
    assert_eq!(
        (&sample["server"]["reads"], &sample["spaces"], &sample["jobs"]),
        (&json!(0.0), &json!({}), &json!([])),
        "{sample}"
    );
    let disks: Vec<String> = (1..=2).map(|number| format!("{}/d{number}", rig.folder.path().display())).collect();
    for path in &disks {
        rig.ask("POST", "/disks", json!({ "path": path, "size_bytes": 128 << 20 })).await;
    }
    hear(&mut one, |event, data| event == "changed" && lists(data, "disks")).await;
    rig.ask("POST", "/pools", json!({ "name": "tank", "disks": disks })).await;
    rig.ask("POST", "/spaces", json!({ "name": "tank/vm", "layout": "mirror", "size_bytes": 16 << 20 })).await;
    rig.ask("POST", "/exports", json!({ "space": "tank/vm", "name": "x" })).await;
    for stream in [&mut one, &mut other] {
        let mut missing = vec!["pools", "spaces", "exports"];
        hear(stream, |event, data| {
            missing.retain(|kind| event != "changed" || lists(data, "accounts") || !lists(data, kind));
            missing.is_empty()
        })
        .await;
    }
    rig.engine.accounts_changed();
    hear(&mut one, |event, data| event == "changed" && lists(data, "accounts")).await;
    rig.engine.events().emit(holdfast_api::Severity::Info, &disk_x(), "hello", "");
    assert_eq!(
        hear(&mut other, |event, data| event == "noted" && data["object"]["name"] == "X").await["cause"],
        "hello"
    );
    let (status, history) =
        rig.ask("GET", "/history?kind=space&name=tank%2Fvm&seconds=60&points=30", Value::Null).await;
    assert_eq!(
        (status, &history["step_seconds"], history["reads"].as_array().map(Vec::len)),
        (StatusCode::OK, &json!(2), Some(30))
    );
    assert_eq!(rig.ask("GET", "/history?kind=server&seconds=2592000", Value::Null).await.0, StatusCode::OK);
    assert_eq!(rig.ask("GET", "/exports/x/connections", Value::Null).await, (StatusCode::OK, json!([])));
    rig.stop().await;
    while let Some(Ok(_)) = one.frame().await {}
}

/// A client of NBD that does no more than to come and to go (the protocol's handshake, with the oldest of its options).
fn come_and_go(socket: &Path, export: &str) {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    let (mut greeting, mut told) = ([0; 18], [0; 10]);
    stream.read_exact(&mut greeting).unwrap();
    let choice = [
        &3_u32.to_be_bytes()[..],
        b"IHAVEOPT",
        &1_u32.to_be_bytes(),
        &(export.len() as u32).to_be_bytes(),
        export.as_bytes(),
    ];
    stream.write_all(&choice.concat()).unwrap();
    stream.read_exact(&mut told).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn consoles_are_told_of_a_client_that_came_and_went_between_two_looks() {
    let rig = Rig::start().await;
    let disks: Vec<String> = (1..=2).map(|number| format!("{}/d{number}", rig.folder.path().display())).collect();
    for path in &disks {
        rig.ask("POST", "/disks", json!({ "path": path, "size_bytes": 128 << 20 })).await;
    }
    rig.ask("POST", "/pools", json!({ "name": "tank", "disks": disks })).await;
    rig.ask("POST", "/spaces", json!({ "name": "tank/vm", "layout": "mirror", "size_bytes": 16 << 20 })).await;
    rig.ask("POST", "/exports", json!({ "space": "tank/vm", "name": "x" })).await;
    let mut live = rig.send("GET", "/api/v1/live", "").await.into_body();
    hear(&mut live, |event, _| event == "changed").await;
    for _ in 0..4 {
        let (mut quiet, socket) = (0, rig.folder.path().join("nbd.sock"));
        hear(&mut live, |event, _| {
            quiet = if event == "changed" { 0 } else { quiet + u32::from(event == "sample") };
            quiet == 2
        })
        .await;
        tokio::task::spawn_blocking(move || come_and_go(&socket, "x")).await.unwrap();
        hear(&mut live, |event, data| {
            event == "changed" && data["kinds"].as_array().unwrap().contains(&json!("exports"))
        })
        .await;
    }
    rig.stop().await;
    while let Some(Ok(_)) = live.frame().await {}
}

#[test]
fn the_committed_document_is_what_the_routes_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == holdfast_http::document(),
        "docs/openapi.json is not what the routes say: write it with 'holdfast openapi'"
    );
    let document: Value = serde_json::from_str(&committed).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        assert!(path.starts_with("/api/v1/") || path == "/metrics", "{path}");
        for (method, operation) in methods.as_object().unwrap() {
            assert!(
                operation["summary"].is_string() || operation["description"].is_string(),
                "{method} {path} is not explained"
            );
        }
    }
}
