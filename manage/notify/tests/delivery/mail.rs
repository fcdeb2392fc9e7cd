//! Mail.

use holdfast_api::{MailSecurity, NotifyDeliveryState, SetMail, SetNotifyChannel, Severity};
use holdfast_model::{ObjectKind, ObjectRef};
use holdfast_notify::Host;

use crate::rig::Rig;
use crate::servers::{Wire, mail_server};

fn settings(port: u16, security: MailSecurity, pem: &str) -> SetMail {
    SetMail {
        server: Some("localhost".into()),
        port: Some(port),
        security: Some(security),
        from: Some("Storage <nas@example.com>".into()),
        to: Some(vec!["admin@example.com".into(), "second@example.com".into()]),
        ca_certificate: Some(pem.into()),
        ..SetMail::default()
    }
}

/// `\0user\0secret-part` in base64.
const LOGIN: &str = "AHVzZXIAc2VjcmV0LXBhcnQ=";

#[tokio::test(flavor = "multi_thread")]
async fn mail_is_sent_encrypted_and_after_a_login() {
    for (wire, security) in [(Wire::Starttls, MailSecurity::Starttls), (Wire::Tls, MailSecurity::Tls)] {
        let server = mail_server(wire, Some(LOGIN), None).await;
        let mut rig = Rig::new();
        rig.notifications.set_console(Some("https://nas:8443".into()));
        let mut settings = settings(server.port, security, &server.pem);
        (settings.user, settings.password) = (Some("user".into()), Some("secret-part".into()));
        rig.mail("ops", settings).await;
        rig.rule("ops").await;
        rig.start();
        rig.log.emit(
            Severity::Error,
            &ObjectRef::named(ObjectKind::Pool, "tänk"),
            "is read-only: too few disks",
            "attach the missing disks again",
        );
        rig.delivered(1).await;
        let mails = server.taken();
        assert_eq!(mails.len(), 1);
        let mail = &mails[0];
        assert!(mail.encrypted && mail.auth.as_deref() == Some(LOGIN));
        assert!(mail.from.contains("<nas@example.com>") && mail.to.len() == 2, "{mail:?}");
        let head = mail.data.split("\n\n").next().unwrap();
        for part in [
            "Subject: [error] ",
            "From: Storage <nas@example.com>",
            "Auto-Submitted: auto-generated",
            "Message-ID: <holdfast-",
        ] {
            assert!(head.contains(part), "{part} is missing in\n{head}");
        }
        let text = mail.data.replace("=\n", "");
        for part in ["is read-only: too few disks", "Next: attach the missing disks again", "https://nas:8443/events"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        rig.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_encryption_nothing_is_said() {
    // A server that does not offer what is asked for.
    let server = mail_server(Wire::Plain, None, None).await;
    let rig = Rig::new();
    rig.mail("ops", settings(server.port, MailSecurity::Starttls, &server.pem)).await;
    let tested = rig.notifications.test_channel("ops").await.unwrap();
    assert!(!tested.delivered && server.taken().is_empty(), "{tested:?}");
    // A server that no known authority vouches for.
    let server = mail_server(Wire::Tls, None, None).await;
    let other = mail_server(Wire::Tls, None, None).await;
    rig.mail("tls", settings(server.port, MailSecurity::Tls, &other.pem)).await;
    let tested = rig.notifications.test_channel("tls").await.unwrap();
    assert!(!tested.delivered && server.taken().is_empty(), "{tested:?}");
    assert!(tested.message.contains("certificate"), "{tested:?}");
    let channel = rig.notifications.channel("tls").unwrap();
    assert!(channel.trouble.is_some_and(|told| told.cause.contains("a test was not delivered")));
    assert_eq!(channel.rules, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_told_once_and_holds_no_secret() {
    let server = mail_server(Wire::Starttls, Some("other"), None).await;
    let mut rig = Rig::new();
    let mut wrong = settings(server.port, MailSecurity::Starttls, &server.pem);
    (wrong.user, wrong.password) = (Some("user".into()), Some("secret-part".into()));
    rig.mail("ops", wrong).await;
    rig.rule("ops").await;
    let tested = rig.notifications.test_channel("ops").await.unwrap();
    assert!(!tested.delivered && tested.message.contains("535"), "{tested:?}");
    rig.start();
    rig.log.emit(Severity::Error, &ObjectRef::named(ObjectKind::Pool, "tank"), "is read-only", "");
    // Refused three times; the second and the third attempt come 10 and 20 s later.
    let failed = |all: &[holdfast_api::NotifyDelivery]| {
        all.iter().any(|one| one.rule.is_some() && one.state == NotifyDeliveryState::Failed)
    };
    let deliveries = rig.until("given up", failed).await;
    assert_eq!(deliveries.iter().map(|one| one.attempts).collect::<Vec<_>>(), [1, 3]);
    let troubles = rig.notifications.troubles();
    assert!(
        troubles.len() == 1
            && troubles[0].object.to_string() == "channel ops"
            && troubles[0].conditions[0].cause.contains("535")
    );
    rig.until("told", |_| rig.log.all().iter().any(|event| event.object.to_string() == "channel ops")).await;
    let about: Vec<_> = rig.log.all().into_iter().filter(|event| event.object.to_string() == "channel ops").collect();
    assert!(
        about.len() == 1 && about[0].severity == Severity::Error && about[0].next_action.contains("notify test ops")
    );
    let audit = rig.audit();
    assert_eq!(
        audit.iter().map(|(operation, object, status, _)| (&**operation, &**object, *status)).collect::<Vec<_>>(),
        [("notification_deliver", "ops", 502), ("notification_deliver", "ops", 502)]
    );
    let said = format!("{audit:?}{:?}{troubles:?}{:?}", rig.log.all(), rig.notifications.channels());
    assert!(!said.contains("secret-part") && !said.contains(LOGIN), "{said}");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_says_what_the_server_says_and_clears_a_failure() {
    let server = mail_server(Wire::Plain, None, Some("450 4.2.1 mailbox is busy")).await;
    let mut rig = Rig::new();
    rig.mail("ops", settings(server.port, MailSecurity::None, "")).await;
    rig.rule("ops").await;
    rig.start();
    rig.log.emit(Severity::Error, &ObjectRef::named(ObjectKind::Pool, "tank"), "is read-only", "");
    let tried = |all: &[holdfast_api::NotifyDelivery]| all.iter().any(|one| one.attempts == 1 && one.error.is_some());
    let queued = rig.until("tried", tried).await;
    assert!(
        queued[0].state == NotifyDeliveryState::Queued && queued[0].error.as_ref().unwrap().contains("450"),
        "{queued:?}"
    );
    // The channel is set to a server that works: what waits is sent at once, however long it would have waited.
    let better = mail_server(Wire::Plain, None, None).await;
    let set = SetMail { port: Some(better.port), ..SetMail::default() };
    let changed =
        rig.notifications.set_channel("ops", SetNotifyChannel { mail: Some(set), webhook: None }).await.unwrap();
    assert!(changed.changed);
    let tested = rig.notifications.test_channel("ops").await.unwrap();
    assert!(tested.delivered && tested.message.contains("taken as 4711"), "{tested:?}");
    rig.delivered(2).await;
    assert_eq!(better.taken().len(), 2);
    assert!(better.taken().iter().any(|mail| mail.data.contains("this is a test")));
    rig.end().await;
}
