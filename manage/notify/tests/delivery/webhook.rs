//! Webhooks.

use holdfast_api::{NotifyDeliveryState, SetWebhook, Severity, WebhookTemplate};
use holdfast_model::{ObjectKind, ObjectRef};
use holdfast_notify::Host;
use ring::hmac;

use crate::rig::Rig;
use crate::servers::{Request, Wire, web_server};

const OK: &str = "HTTP/1.1 200 OK\ncontent-length: 2\n\nok";

fn settings(url: String) -> SetWebhook {
    SetWebhook { url: Some(url), ..SetWebhook::default() }
}

/// Checks the signature as a receiver does.
fn is_signed(request: &Request, secret: &str) -> bool {
    let timestamp = request.header("x-holdfast-timestamp").unwrap();
    let age = jiff::Timestamp::now().as_second() - timestamp.parse::<i64>().unwrap();
    let signature = request.header("x-holdfast-signature").unwrap().strip_prefix("sha256=").unwrap();
    let tag: Vec<u8> =
        (0..signature.len() / 2).map(|at| u8::from_str_radix(&signature[2 * at..2 * at + 2], 16).unwrap()).collect();
    let signed = [timestamp.as_bytes(), b".", &request.body].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    age < 300 && hmac::verify(&key, &signed, &tag).is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_signed_carries_its_token_and_checks_its_server() {
    let server = web_server(Wire::Tls, 0, OK).await;
    let mut rig = Rig::new();
    let mut hook = settings(format!("https://localhost:{}/hook?key=1#part", server.port));
    (hook.secret, hook.token, hook.ca_certificate) =
        (Some("key".into()), Some("bearer".into()), Some(server.pem.clone()));
    rig.webhook("hook", hook).await;
    rig.rule("hook").await;
    rig.start();
    rig.log.emit(Severity::Warning, &ObjectRef::named(ObjectKind::Disk, "d1"), "is missing", "attach it again");
    let deliveries = rig.delivered(1).await;
    assert_eq!((deliveries[0].events, deliveries[0].attempts), (1, 1));
    let requests = server.taken();
    let request = &requests[0];
    assert_eq!(request.line, "POST /hook?key=1 HTTP/1.1");
    assert_eq!(request.header("host"), Some(&*format!("localhost:{}", server.port)));
    assert_eq!(request.header("authorization"), Some("Bearer bearer"));
    assert!(is_signed(request, "key") && !is_signed(request, "other"), "{request:?}");
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!((body["events"][0]["cause"].as_str(), body["test"].as_bool()), (Some("is missing"), Some(false)));
    assert_eq!(rig.audit().iter().map(|record| record.2).collect::<Vec<_>>(), [200]);
    rig.end().await;

    let strange = web_server(Wire::Tls, 0, OK).await;
    let mut hook = settings(format!("https://127.0.0.1:{}/hook", strange.port));
    hook.ca_certificate = Some(server.pem.clone());
    rig.webhook("strange", hook).await;
    let tested = rig.notifications.test_channel("strange").await.unwrap();
    assert!(!tested.delivered && tested.message.contains("certificate") && strange.taken().is_empty(), "{tested:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_not_followed_and_answers_are_not_read_to_their_end() {
    let elsewhere = web_server(Wire::Plain, 0, OK).await;
    let away = format!("HTTP/1.1 307 Away\nlocation: http://127.0.0.1:{}/\ncontent-length: 0\n\n", elsewhere.port);
    let redirecting = web_server(Wire::Plain, 0, &away).await;
    let rig = Rig::new();
    rig.webhook("away", settings(format!("http://127.0.0.1:{}/secret-part", redirecting.port))).await;
    let tested = rig.notifications.test_channel("away").await.unwrap();
    assert!(!tested.delivered && tested.message.contains("redirects are not followed"), "{tested:?}");
    assert!(elsewhere.taken().is_empty() && redirecting.taken().len() == 1);

    let endless = web_server(Wire::Plain, 0, "HTTP/1.1 200 OK\ncontent-length: 9999999999999\n\n").await;
    rig.webhook("endless", settings(format!("http://[::ffff:127.0.0.1]:{}/", endless.port))).await;
    let tested = rig.notifications.test_channel("endless").await.unwrap();
    assert!(tested.delivered, "{tested:?}");
    let flood = format!("HTTP/1.1 200 OK\nx: {}\n\n", "x".repeat(1 << 20));
    let flooding = web_server(Wire::Plain, 0, &flood).await;
    rig.webhook("flood", settings(format!("http://127.0.0.1:{}/secret-part", flooding.port))).await;
    let tested = rig.notifications.test_channel("flood").await.unwrap();
    assert!(
        !tested.delivered && !tested.message.contains("xxx") && !tested.message.contains("secret-part"),
        "{tested:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_template_arrives_in_its_shape() {
    let server = web_server(Wire::Plain, 0, OK).await;
    let rig = Rig::new();
    let mut keys = Vec::new();
    for template in [WebhookTemplate::Slack, WebhookTemplate::Teams, WebhookTemplate::Ntfy] {
        let mut hook = settings(format!("http://127.0.0.1:{}/alerts", server.port));
        hook.template = Some(template);
        let name = holdfast_api::word(&template);
        rig.webhook(&name, hook).await;
        assert!(rig.notifications.test_channel(&name).await.unwrap().delivered);
        let request = server.taken().pop().unwrap();
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        keys.push((request.line, body.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")));
    }
    let post = |path: &str| format!("POST {path} HTTP/1.1");
    assert_eq!(
        keys,
        [
            (post("/alerts"), "text".into()),
            (post("/alerts"), "attachments type".into()),
            (post("/"), "message priority tags title topic".to_owned())
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_server_outlives_the_daemon() {
    let port = web_server(Wire::Plain, 0, OK).await.port;
    let mut rig = Rig::new();
    rig.webhook("hook", settings(format!("http://127.0.0.1:{port}/"))).await;
    rig.rule("hook").await;
    rig.start();
    rig.log.emit(Severity::Error, &ObjectRef::named(ObjectKind::Pool, "tank"), "is read-only", "");
    let tried = |all: &[holdfast_api::NotifyDelivery]| all.iter().any(|one| one.attempts > 0);
    rig.until("tried", tried).await;
    // Killed; while no daemon runs, something else happens.
    rig.begin_anew();
    rig.log.emit(Severity::Error, &ObjectRef::named(ObjectKind::Pool, "tank"), "is offline", "");
    let waiting = rig.notifications.deliveries();
    assert_eq!(waiting[0].state, NotifyDeliveryState::Queued, "{waiting:?}");
    let server = web_server(Wire::Plain, port, OK).await;
    rig.delivered(2).await;
    let bodies: Vec<String> =
        server.taken().iter().map(|one| String::from_utf8_lossy(&one.body).into_owned()).collect();
    assert!(bodies.len() == 2 && bodies[0].contains("is read-only") && bodies[1].contains("is offline"), "{bodies:?}");
    rig.end().await;
    // A backup has channels and rules with their secrets, and nothing that was under way.
    let copy = rig.store.path().with_file_name("copy");
    rig.store.backup(&copy).unwrap();
    let bytes = std::fs::read(&copy).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(holds("rule-hook") && !holds("notifications.passing"));
}
