//! Requests that are forged, malformed or too large.

use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::rig::{PASSWORD, Rig};

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_alone_changes_nothing() {
    let rig = Rig::peopled().await;
    let ann = rig.login("ann").await;
    let other = rig.login("ann").await;
    let cookie = ann.headers()[0].clone();
    let body = json!({ "name": "new", "password": PASSWORD, "role": "viewer" });
    for extra in [None, Some(String::new()), Some("x".into()), Some(other.csrf.clone())] {
        let mut headers = vec![cookie.clone()];
        headers.extend(extra.map(|value| ("x-csrf-token", value)));
        let answer = rig.ask("POST", "/accounts", &headers, body.clone()).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::FORBIDDEN, "forbidden"), "{headers:?}");
    }
    assert_eq!(rig.ask("GET", "/accounts", &[cookie], Value::Null).await.status, StatusCode::OK, "looking needs none");
    assert_eq!(rig.ask("POST", "/accounts", &ann.headers(), body).await.status, StatusCode::CREATED);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_change_nothing_and_log_nobody_in() {
    let rig = Rig::peopled().await;
    let ann = rig.login("ann").await;
    let own = format!("https://{}", rig.address);
    let login = json!({ "name": "ann", "password": PASSWORD });
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let mut headers = ann.headers();
        headers.push((name, value.into()));
        assert_eq!(
            rig.ask("DELETE", "/accounts/vic", &headers, Value::Null).await.code(),
            "forbidden",
            "{name} {value}"
        );
        assert_eq!(rig.ask("POST", "/session", &[(name, value.into())], login.clone()).await.code(), "forbidden");
    }
    // What a form of another site can send, where the browser says nothing of where it comes from.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let answer = rig.ask("POST", "/session", &[("content-type", kind.into())], login.clone()).await;
        assert_eq!(answer.code(), "forbidden", "{kind}");
    }
    let headers = [("origin", own), ("sec-fetch-site", "same-origin".into())];
    assert_eq!(rig.ask("POST", "/session", &headers, login).await.status, StatusCode::CREATED);
    let preflight = rig.send("OPTIONS", "/api/v1/accounts", &[("origin", "https://evil.example".into())], "").await;
    assert!(preflight.headers.keys().all(|name| !name.as_str().starts_with("access-control")), "{preflight:?}");
    rig.stop().await;
}

/// What a server says to bytes that are sent as they are.
async fn say(rig: &Rig, bytes: &[u8]) -> String {
    let mut stream = rig.connect().await;
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused_before_it_is_read() {
    let rig = Rig::peopled().await;
    let request = |length: usize| {
        format!(
            "POST /api/v1/session HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let answer = say(&rig, request(2 << 20).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too-large"), "{answer}");
    // What nobody's login vouches for is read to a far smaller size.
    let body = format!("{{\"name\":\"ann\",\"password\":\"{}\"}}", "x".repeat(20 << 10));
    let answer = rig.send("POST", "/api/v1/session", &[], body).await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::PAYLOAD_TOO_LARGE, "too-large"));
    // Without a length, in pieces.
    let mut chunked = b"POST /api/v1/session HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    chunked.extend_from_slice(b"200000\r\n");
    chunked.resize(chunked.len() + (2 << 20), b' ');
    chunked.extend_from_slice(b"\r\n0\r\n\r\n");
    let answer = say(&rig, &chunked).await;
    assert!(answer.starts_with("HTTP/1.1 413") || answer.is_empty(), "{answer}");
    let header = format!(
        "GET /api/v1/pools HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-long: {}\r\n\r\n",
        "x".repeat(64 << 10)
    );
    let answer = say(&rig, header.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431") || answer.is_empty(), "{answer}");
    let many: String = (0..500).map(|number| format!("x-{number}: y\r\n")).collect();
    let answer = say(&rig, format!("GET /api/v1/pools HTTP/1.1\r\nhost: x\r\n{many}\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431") || answer.is_empty(), "{answer}");
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "a".repeat(200 << 10));
    let answer = say(&rig, long.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 414") || answer.starts_with("HTTP/1.1 431") || answer.is_empty(), "{answer}");
    assert_eq!(rig.try_login("ann", PASSWORD).await.status, StatusCode::CREATED, "it serves on");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_sent_becomes_a_header_or_a_line_of_its_own() {
    let rig = Rig::peopled().await;
    let ann = rig.login("ann").await;
    for path in
        ["/disks/a%0d%0aset-cookie:%20x=y", "/accounts/%0aline", "/pools/%00", "/spaces/a/b%0d%0a%0d%0a%3Cscript%3E"]
    {
        let answer = rig.ask("GET", path, &ann.headers(), Value::Null).await;
        assert!(answer.status.is_client_error() && !answer.headers.contains_key("set-cookie"), "{path}: {answer:?}");
        assert_eq!(answer.header("content-type"), "application/json", "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
    }
    let name = "eve\r\nset-cookie: x=y";
    let answer = rig.try_login(name, PASSWORD).await;
    assert!(answer.status == StatusCode::UNAUTHORIZED && !answer.headers.contains_key("set-cookie"));
    let answer =
        say(&rig, b"GET /api/v1/setup HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-request-id: a\tb\x01c\r\n\r\n")
            .await;
    assert!(!answer.contains('\x01'), "{answer}");
    let smuggled = b"POST /api/v1/session HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /api/v1/setup HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = say(&rig, smuggled).await;
    assert!(answer.matches("HTTP/1.1").count() <= 2, "{answer}");
    rig.stop().await;
}
