//! Setup, logins, sessions and tokens: their whole life, and what breaks them.

use std::time::{Duration, Instant};

use holdfast_access::ThrottleSettings;
use holdfast_api::Role;
use holdfast_harness::LIMIT;
use holdfast_http::Limits;
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::rig::{COOKIE, PASSWORD, Rig, bearer};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_link_makes_one_administrator() {
    let rig = Rig::start().await;
    assert_eq!(rig.ask("GET", "/setup", &[], Value::Null).await.json(), json!({ "needed": true }));
    let old = rig.access.setup_token().unwrap();
    let token = rig.access.setup_token().unwrap();
    let request = |token: &str, password: &str| json!({ "token": token, "name": "ann", "password": password });
    for wrong in ["", "x", old.as_str()] {
        let answer = rig.ask("POST", "/setup", &[], request(wrong, PASSWORD)).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{wrong}");
    }
    assert_eq!(rig.ask("POST", "/setup", &[], request(&token, "short")).await.status, StatusCode::BAD_REQUEST);
    rig.pass(Duration::from_secs(25 * 60 * 60));
    assert_eq!(rig.ask("POST", "/setup", &[], request(&token, PASSWORD)).await.status, StatusCode::UNAUTHORIZED);
    let token = rig.access.setup_token().unwrap();
    let (one, other) = tokio::join!(
        rig.ask("POST", "/setup", &[], request(&token, PASSWORD)),
        rig.ask("POST", "/setup", &[], json!({ "token": token, "name": "eve", "password": PASSWORD }))
    );
    let mut statuses = [one.status.as_u16(), other.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409], "it counts once");
    assert_eq!(rig.ask("GET", "/setup", &[], Value::Null).await.json(), json!({ "needed": false }));
    assert!(rig.access.setup_token().is_none());
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_brings_a_new_cookie_that_scripts_and_other_sites_cannot_have() {
    let rig = Rig::peopled().await;
    let planted = format!("{COOKIE}={}", "a".repeat(64));
    let body = json!({ "name": "ann", "password": PASSWORD }).to_string();
    let answer = rig.send("POST", "/api/v1/session", &[("cookie", planted.clone())], body).await;
    let set = answer.header("set-cookie").to_owned();
    for part in ["; Path=/", "; Secure", "; HttpOnly", "; SameSite=Strict"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(
        !planted.contains(&answer.cookie()) && answer.cookie().len() == 64,
        "a session is never fixed before its login"
    );
    assert_eq!(rig.ask("GET", "/session", &[("cookie", planted)], Value::Null).await.status, StatusCode::UNAUTHORIZED);
    let (first, second) = (rig.login("ann").await, rig.login("ann").await);
    assert_ne!(first.cookie, second.cookie);
    let shown = rig.ask("GET", "/session", &first.headers(), Value::Null).await.json();
    assert_eq!(
        (&shown["account"], &shown["role"], &shown["via"]),
        (&json!("ann"), &json!("administrator"), &json!("session"))
    );
    let out = rig.ask("DELETE", "/session", &first.headers(), Value::Null).await;
    assert!(out.status == StatusCode::OK && out.header("set-cookie").contains("Max-Age=0"), "{out:?}");
    assert_eq!(rig.ask("GET", "/session", &first.headers(), Value::Null).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(rig.ask("GET", "/session", &second.headers(), Value::Null).await.status, StatusCode::OK);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_end_when_they_are_idle_and_at_last_in_any_case() {
    let rig = Rig::peopled().await;
    let (idle, busy) = (rig.login("ann").await, rig.login("ann").await);
    for step in 1..=24 {
        rig.pass(Duration::from_secs(29 * 60 + 55));
        let status = rig.ask("GET", "/session", &busy.headers(), Value::Null).await.status;
        assert_eq!(status, StatusCode::OK, "step {step}");
    }
    assert_eq!(rig.ask("GET", "/session", &idle.headers(), Value::Null).await.status, StatusCode::UNAUTHORIZED);
    rig.pass(Duration::from_secs(5 * 60));
    assert_eq!(rig.ask("GET", "/session", &busy.headers(), Value::Null).await.status, StatusCode::UNAUTHORIZED);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_password_ends_the_other_sessions() {
    let rig = Rig::peopled().await;
    let (here, there) = (rig.login("vic").await, rig.login("vic").await);
    let request = |current: &str, new: &str| json!({ "current": current, "new": new });
    let wrong =
        rig.ask("POST", "/session/password", &here.headers(), request("wrong password", "another password")).await;
    assert_eq!(wrong.status, StatusCode::FORBIDDEN);
    let short = rig.ask("POST", "/session/password", &here.headers(), request(PASSWORD, "short")).await;
    assert_eq!(short.status, StatusCode::BAD_REQUEST);
    let done = rig.ask("POST", "/session/password", &here.headers(), request(PASSWORD, "another password")).await;
    assert_eq!(done.status, StatusCode::OK, "{done:?}");
    assert_eq!(rig.ask("GET", "/session", &here.headers(), Value::Null).await.status, StatusCode::OK);
    assert_eq!(rig.ask("GET", "/session", &there.headers(), Value::Null).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(rig.try_login("vic", PASSWORD).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(rig.try_login("vic", "another password").await.status, StatusCode::CREATED);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_always_an_administrator() {
    let rig = Rig::peopled().await;
    let ann = rig.login("ann").await;
    for (method, body) in
        [("DELETE", Value::Null), ("PATCH", json!({ "enabled": false })), ("PATCH", json!({ "role": "viewer" }))]
    {
        let answer = rig.ask(method, "/accounts/ann", &ann.headers(), body).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::CONFLICT, "conflict"), "{answer:?}");
    }
    let raised = rig.ask("PATCH", "/accounts/oda", &ann.headers(), json!({ "role": "administrator" })).await;
    assert_eq!(raised.json()["changed"], json!(true));
    assert_eq!(
        rig.ask("PATCH", "/accounts/ann", &ann.headers(), json!({ "enabled": false })).await.status,
        StatusCode::OK
    );
    assert_eq!(rig.ask("GET", "/session", &ann.headers(), Value::Null).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(rig.try_login("ann", PASSWORD).await.status, StatusCode::UNAUTHORIZED);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_end_follow_their_account_and_keep_to_their_areas() {
    let rig = Rig::peopled().await;
    let narrow = rig.token("oda", Role::Viewer, &["pools"]).await;
    assert_eq!(rig.ask("GET", "/pools", &bearer(&narrow), Value::Null).await.status, StatusCode::OK);
    assert_eq!(rig.ask("GET", "/disks", &bearer(&narrow), Value::Null).await.code(), "forbidden");
    assert_eq!(rig.send("GET", "/metrics", &bearer(&narrow), "").await.status, StatusCode::FORBIDDEN);
    let whole = rig.token("oda", Role::Operator, &[]).await;
    let request = json!({ "name": "x", "role": "viewer", "expires_in_seconds": 3600 });
    for secret in [&narrow, &whole] {
        assert_eq!(rig.ask("POST", "/tokens", &bearer(secret), request.clone()).await.code(), "forbidden");
        let answer = rig
            .ask("POST", "/session/password", &bearer(secret), json!({ "current": PASSWORD, "new": "x".repeat(12) }))
            .await;
        assert_eq!(answer.code(), "forbidden");
    }
    let oda = rig.login("oda").await;
    let high = json!({ "name": "x", "role": "administrator", "expires_in_seconds": 3600 });
    assert_eq!(rig.ask("POST", "/tokens", &oda.headers(), high).await.code(), "forbidden");
    let strange = json!({ "name": "x", "role": "viewer", "areas": ["all"], "expires_in_seconds": 3600 });
    assert_eq!(rig.ask("POST", "/tokens", &oda.headers(), strange).await.code(), "invalid");
    // A role that was lowered lowers the tokens; an account that is disabled disables them.
    let ann = rig.login("ann").await;
    rig.ask("PATCH", "/accounts/oda", &ann.headers(), json!({ "role": "viewer" })).await;
    assert_eq!(rig.ask("GET", "/session", &bearer(&whole), Value::Null).await.json()["role"], json!("viewer"));
    rig.ask("PATCH", "/accounts/oda", &ann.headers(), json!({ "enabled": false })).await;
    assert_eq!(rig.ask("GET", "/session", &bearer(&whole), Value::Null).await.status, StatusCode::UNAUTHORIZED);
    rig.ask("PATCH", "/accounts/oda", &ann.headers(), json!({ "enabled": true })).await;
    assert_eq!(rig.ask("GET", "/session", &bearer(&whole), Value::Null).await.status, StatusCode::OK);
    let listed = rig.ask("GET", "/tokens", &ann.headers(), Value::Null).await;
    assert!(!String::from_utf8_lossy(&listed.body).contains("hf_"), "secrets are shown once");
    assert_eq!(listed.json().as_array().map(Vec::len), Some(2));
    let id = listed.json()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        rig.ask("DELETE", &format!("/tokens/{id}"), &ann.headers(), Value::Null).await.json()["changed"],
        json!(true)
    );
    assert_eq!(rig.ask("GET", "/pools", &bearer(&narrow), Value::Null).await.status, StatusCode::UNAUTHORIZED);
    rig.pass(Duration::from_secs(3601));
    assert_eq!(rig.ask("GET", "/pools", &bearer(&whole), Value::Null).await.status, StatusCode::UNAUTHORIZED);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_wrong_logins_lock_nobody_out_and_slow_nobody_down() {
    let throttle = ThrottleSettings { longest_wait: Duration::from_secs(60) };
    let rig = std::sync::Arc::new(Rig::start_with(Limits::default(), throttle).await);
    rig.people().await;
    let oda = rig.login("oda").await;
    let flood = {
        let rig = rig.clone();
        tokio::spawn(async move {
            let mut refused = 0;
            // Many on one connection, as somebody would who means it.
            for _ in 0..100 {
                let stream = hyper_util::rt::TokioIo::new(rig.connect().await);
                let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
                tokio::spawn(connection);
                for number in 0..100 {
                    let body = json!({ "name": "ann", "password": format!("guess number {number}") }).to_string();
                    let request = hyper::Request::post("/api/v1/session")
                        .header("host", "x")
                        .header("content-type", "application/json");
                    let request = request.body(http_body_util::Full::new(hyper::body::Bytes::from(body))).unwrap();
                    let response = sender.send_request(request).await.unwrap();
                    if response.status() == StatusCode::TOO_MANY_REQUESTS {
                        assert!(response.headers().contains_key("retry-after"));
                        refused += 1;
                    } else {
                        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
                    }
                    http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
                }
            }
            refused
        })
    };
    let mut slowest = Duration::ZERO;
    while !flood.is_finished() {
        let started = Instant::now();
        assert_eq!(rig.ask("GET", "/pools", &oda.headers(), Value::Null).await.status, StatusCode::OK);
        slowest = slowest.max(started.elapsed());
    }
    let refused = flood.await.unwrap();
    println!("{refused} of 10000 were refused unlooked at; the slowest request meanwhile took {slowest:?}");
    assert!(refused > 9_900, "{refused}");
    let audit = rig.access.audit(holdfast_store::AuditWhich { limit: 1000, ..Default::default() }).await.unwrap();
    assert!(audit.len() < 100, "a flood does not fill the audit log: {}", audit.len());
    let mut answer = rig.try_login("ann", PASSWORD).await;
    if answer.status == StatusCode::TOO_MANY_REQUESTS {
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert!(wait <= 60, "{wait}");
        rig.pass(Duration::from_secs(wait));
        answer = rig.try_login("ann", PASSWORD).await;
    }
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    std::sync::Arc::into_inner(rig).unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_the_session_or_token_that_began_it() {
    use http_body_util::BodyExt;
    let rig = Rig::peopled().await;
    let vic = rig.login("vic").await;
    let secret = rig.token("oda", Role::Viewer, &[]).await;
    let ann = rig.login("ann").await;
    let mut streams = Vec::new();
    for (path, headers) in [("live", vic.headers()), ("events/follow", vic.headers()), ("live", bearer(&secret))] {
        let stream = hyper_util::rt::TokioIo::new(rig.connect().await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let mut request = hyper::Request::get(format!("/api/v1/{path}")).header("host", "x");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(http_body_util::Full::new(hyper::body::Bytes::new())).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        streams.push((sender, response.into_body()));
    }
    assert_eq!(rig.ask("DELETE", "/accounts/vic", &ann.headers(), Value::Null).await.status, StatusCode::OK);
    let disable = json!({ "enabled": false });
    assert_eq!(rig.ask("PATCH", "/accounts/oda", &ann.headers(), disable).await.status, StatusCode::OK);
    for (_sender, body) in streams {
        tokio::time::timeout(LIMIT, body.collect()).await.expect("it ends").unwrap();
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_was_replaced_meanwhile_opens_nothing() {
    let rig = Rig::peopled().await;
    let vic = rig.login("vic").await;
    for round in 0..20u64 {
        // The old password is being looked at while another one is set.
        let new = format!("another password {round}");
        let set = holdfast_api::SetAccount { password: Some(new), role: None, enabled: None };
        let (login, set) = tokio::join!(rig.try_login("vic", PASSWORD), async {
            tokio::time::sleep(Duration::from_millis(2 * round)).await;
            rig.access.set_account("vic", set).await
        });
        assert!(set.unwrap().changed);
        if login.status == StatusCode::CREATED {
            let cookie = [("cookie", format!("{COOKIE}={}", login.cookie()))];
            let status = rig.ask("GET", "/session", &cookie, Value::Null).await.status;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "round {round}: a session outlived its password");
        }
        let back = holdfast_api::SetAccount { password: Some(PASSWORD.into()), role: None, enabled: None };
        rig.access.set_account("vic", back).await.unwrap();
        rig.pass(Duration::from_secs(3600));
    }
    assert_eq!(rig.ask("GET", "/session", &vic.headers(), Value::Null).await.status, StatusCode::UNAUTHORIZED);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_far_ahead_leaves_no_endless_session() {
    let rig = Rig::peopled().await;
    rig.pass(Duration::from_secs(365 * 24 * 60 * 60));
    let early = rig.login("ann").await;
    rig.ahead.store(0, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(rig.ask("GET", "/session", &early.headers(), Value::Null).await.status, StatusCode::UNAUTHORIZED);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_to_make_room_can_still_log_in() {
    let rig = Rig::peopled().await;
    // Every write fails, as on a full disk.
    let file = rusqlite::Connection::open(rig.engine.store().path()).unwrap();
    file.execute_batch(
        "ALTER TABLE accounts RENAME TO a; ALTER TABLE sessions RENAME TO s; ALTER TABLE audit RENAME TO l",
    )
    .unwrap();
    let ann = rig.login("ann").await;
    assert_eq!(rig.ask("GET", "/session", &ann.headers(), Value::Null).await.status, StatusCode::OK);
    let told = rig.engine.events().list(0, usize::MAX);
    assert!(told.iter().any(|event| event.object.to_string() == "audit log"), "{told:?}");
    let ill =
        |rig: &Rig| rig.engine.status().objects.into_iter().any(|object| object.object.to_string() == "state folder");
    assert!(ill(&rig), "health tells");
    file.execute_batch(
        "ALTER TABLE a RENAME TO accounts; ALTER TABLE s RENAME TO sessions; ALTER TABLE l RENAME TO audit",
    )
    .unwrap();
    rig.login("ann").await;
    assert!(!ill(&rig), "it is well again once something was written");
    rig.stop().await;
}
