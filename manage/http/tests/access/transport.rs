//! Connections: what is spoken, and clients that dawdle.

use std::time::Duration;

use holdfast_access::ThrottleSettings;
use holdfast_api::Role;
use holdfast_harness::LIMIT;
use holdfast_http::Limits;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rig::{Rig, bearer};

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_left_and_the_others_served() {
    let short = Duration::from_secs(2);
    let rig = Rig::start_with(
        Limits { handshake: short, header: short, stall: short, ..Limits::default() },
        ThrottleSettings::default(),
    )
    .await;
    // Nothing at all, where a handshake is due.
    let mut silent = TcpStream::connect(rig.address).await.unwrap();
    // Half a header.
    let mut half = rig.connect().await;
    half.write_all(b"GET /api/v1/setup HTTP/1.1\r\nhost: x\r\nx-slow: ").await.unwrap();
    // A header a byte at a time.
    let mut drip = rig.connect().await;
    let dripping = tokio::spawn(async move {
        for byte in
            b"GET /api/v1/setup HTTP/1.1\r\nhost: x\r\nx-slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"
                .iter()
                .cycle()
        {
            if drip.write_all(&[*byte]).await.is_err() || drip.flush().await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut rest = Vec::new();
    tokio::time::timeout(LIMIT, silent.read_to_end(&mut rest)).await.expect("no handshake, no connection").ok();
    tokio::time::timeout(LIMIT, half.read_to_end(&mut rest)).await.expect("half a header is given up").ok();
    tokio::time::timeout(LIMIT, dripping).await.expect("a dripping header is given up").unwrap();
    assert_eq!(rig.ask("GET", "/setup", &[], Value::Null).await.status, StatusCode::OK);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_make_room_for_whoever_has_an_account() {
    let rig = Rig::start_with(Limits { connections: 6, ..Limits::default() }, ThrottleSettings::default()).await;
    rig.people().await;
    let token = bearer(&rig.token("ann", Role::Administrator, &[]).await);
    // One that is known, and stays.
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(rig.connect().await)).await.unwrap();
    tokio::spawn(connection);
    let follow = Request::get("/api/v1/events/follow").header("host", "x").header("authorization", token[0].1.clone());
    let mut followed = sender.send_request(follow.body(Full::<Bytes>::default()).unwrap()).await.unwrap().into_body();
    let mut strangers = Vec::new();
    for network in [2, 3] {
        for _ in 0..3 {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, network], 0).into()).unwrap();
            strangers.push(socket.connect(rig.address).await.unwrap());
        }
    }
    for _ in 0..4 {
        let asked = tokio::time::timeout(LIMIT, rig.ask("GET", "/pools", &token, Value::Null));
        assert_eq!(asked.await.expect("a place becomes free before anybody loses it").status, StatusCode::OK);
    }
    let mut oldest = strangers.remove(0);
    assert_eq!(oldest.read(&mut [0; 1]).await.unwrap_or(0), 0, "the oldest stranger was sent away");
    rig.engine.events().emit(
        holdfast_api::Severity::Info,
        &holdfast_model::ObjectRef::server("test"),
        "one more",
        "nothing",
    );
    let mut told = Vec::new();
    while !String::from_utf8_lossy(&told).contains("one more") {
        let frame = tokio::time::timeout(LIMIT, followed.frame())
            .await
            .expect("it goes on")
            .expect("it has not ended")
            .unwrap();
        told.extend_from_slice(&frame.into_data().unwrap());
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_there_are_places_wait_and_harm_nobody() {
    let short = Duration::from_secs(2);
    let rig = Rig::start_with(
        Limits { handshake: short, header: short, stall: short, ..Limits::default() },
        ThrottleSettings::default(),
    )
    .await;
    let mut held = Vec::new();
    for _ in 0..300 {
        held.push(TcpStream::connect(rig.address).await.unwrap());
    }
    // Those from one address never take all places, and those that say nothing lose theirs.
    for mut stream in held {
        let mut rest = Vec::new();
        tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest)).await.expect("it is closed in the end").ok();
    }
    assert_eq!(rig.ask("GET", "/setup", &[], Value::Null).await.status, StatusCode::OK);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_old_protocol_and_no_plain_text_is_answered() {
    let rig = Rig::start().await;
    let mut plain = TcpStream::connect(rig.address).await.unwrap();
    plain.write_all(b"GET /api/v1/setup HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(LIMIT, plain.read_to_end(&mut answer)).await.expect("it is closed").ok();
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/"), "{answer:?}");
    rig.stop().await;
}

/// The body comes later than the refusal is known: the next request on the connection is answered all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_takes_no_other_along() {
    let rig = Rig::start().await;
    let mut stream = rig.connect().await;
    let mut answers = Vec::new();
    for count in 1..=3 {
        let head = "POST /api/v1/notifications/rules HTTP/1.1\r\nhost: x\r\ncontent-length: 12\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_all(b"[null, null]").await.unwrap();
        stream.flush().await.unwrap();
        while String::from_utf8_lossy(&answers).matches("HTTP/1.1 401").count() < count {
            let mut some = [0; 4096];
            let len = tokio::time::timeout(LIMIT, stream.read(&mut some)).await.expect("an answer").unwrap();
            assert_ne!(len, 0, "the connection ended before answer {count}");
            answers.extend_from_slice(&some[..len]);
        }
    }
    let head = "POST /api/v1/notifications/rules HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut rest = String::new();
    tokio::time::timeout(LIMIT, stream.read_to_string(&mut rest)).await.expect("it ends").ok();
    assert!(rest.contains("HTTP/1.1 401") && rest.to_lowercase().contains("connection: close"), "{rest}");
    rig.stop().await;
}
