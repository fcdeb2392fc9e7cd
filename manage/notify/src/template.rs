//! Bodies of webhooks.
//!
//! Invariant: a body is JSON in UTF-8 and follows from message and template alone, so a message that is sent again is
//! the same.

use holdfast_api::{Severity, WebhookTemplate, word};
use serde_json::{Value, json};
use url::Url;

use crate::message::Message;

/// The topic that a URL of ntfy names, and the URL that messages with a topic go to.
pub(crate) fn topic(url: &Url) -> Option<(Url, String)> {
    let mut base = url.clone();
    let topic = url.path_segments()?.rfind(|part| !part.is_empty())?.to_owned();
    base.path_segments_mut().ok()?.pop_if_empty().pop();
    Some((base, topic))
}

fn generic(message: &Message) -> Value {
    let events = message.entries.iter().map(|entry| {
        json!({
            "id": entry.id,
            "time": entry.time,
            "severity": entry.severity,
            "object": entry.object,
            "cause": entry.cause,
            "next_action": entry.next_action,
            "count": entry.count,
            "last_time": entry.last_time,
        })
    });
    json!({
        "version": 1,
        "test": message.is_test,
        "host": message.host,
        "severity": message.severity,
        "subject": message.subject,
        "events": events.collect::<Vec<_>>(),
        "omitted_events": message.omitted,
        "console": message.link(),
    })
}

/// `&`, `<` and `>` mean something in texts of Slack.
fn slack(message: &Message) -> Value {
    let plain = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    json!({ "text": format!("*{}*\n{}", plain(&message.subject), plain(&message.text())) })
}

fn teams(message: &Message) -> Value {
    let color = match message.severity {
        Severity::Info => "default",
        Severity::Warning => "warning",
        Severity::Error => "attention",
    };
    let mut body = vec![json!({
        "type": "TextBlock", "text": message.subject, "weight": "bolder", "size": "medium", "color": color, "wrap": true
    })];
    for entry in &message.entries {
        let times = if entry.count > 1 { format!(" ({} times)", entry.count) } else { String::new() };
        let mut facts = vec![json!({ "title": "Cause", "value": format!("{}{times}", entry.cause) })];
        if !entry.next_action.is_empty() {
            facts.push(json!({ "title": "Next", "value": entry.next_action }));
        }
        facts.push(json!({ "title": "Time", "value": entry.last_time }));
        body.push(json!({ "type": "TextBlock", "text": entry.object.to_string(), "weight": "bolder", "wrap": true }));
        body.push(json!({ "type": "FactSet", "facts": facts }));
    }
    if message.omitted > 0 {
        body.push(json!({ "type": "TextBlock", "text": format!("More events: {}", message.omitted), "wrap": true }));
    }
    let actions: Vec<Value> = message
        .link()
        .iter()
        .map(|link| json!({ "type": "Action.OpenUrl", "title": "Console", "url": link }))
        .collect();
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
                "actions": actions,
            },
        }],
    })
}

fn ntfy(message: &Message, topic: &str) -> Value {
    let (priority, tag) = match message.severity {
        Severity::Info => (3, "information_source"),
        Severity::Warning => (4, "warning"),
        Severity::Error => (5, "rotating_light"),
    };
    let mut body = json!({
        "topic": topic, "title": message.subject, "message": message.text(), "priority": priority, "tags": [tag]
    });
    if let Some(link) = message.link() {
        body["click"] = link.into();
    }
    body
}

/// Where the request goes, and its body.
pub(crate) fn request(template: WebhookTemplate, url: Url, message: &Message) -> (Url, Vec<u8>) {
    let (url, body) = match template {
        WebhookTemplate::Generic => (url, generic(message)),
        WebhookTemplate::Slack => (url, slack(message)),
        WebhookTemplate::Teams => (url, teams(message)),
        WebhookTemplate::Ntfy => match topic(&url) {
            Some((base, topic)) => (base, ntfy(message, &topic)),
            None => (url, ntfy(message, &word(&template))),
        },
    };
    (url, body.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Origin, entry};

    fn made(template: WebhookTemplate, url: &str) -> (String, Value) {
        let origin = Origin { host: "nas".into(), console: Some("https://nas:8443".into()) };
        let entries =
            vec![entry(Severity::Warning, "disk <d1>", "a & b"), entry(Severity::Error, "pool tank", "is read-only")];
        let (url, body) = request(template, url.parse().unwrap(), &Message::new(&origin, entries, 2));
        (url.into(), serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn programs_get_every_field() {
        let (url, body) = made(WebhookTemplate::Generic, "https://x/hook?key=1");
        assert_eq!(url, "https://x/hook?key=1");
        assert_eq!(
            (&body["severity"], &body["host"], &body["omitted_events"]),
            (&json!("error"), &json!("nas"), &json!(2))
        );
        assert_eq!(body["events"][1]["object"], json!({ "kind": "pool", "id": "tank", "name": "tank" }));
        assert_eq!(body["events"][1]["next_action"], "see to it");
        assert_eq!(body["console"], "https://nas:8443/events");
    }

    #[test]
    fn chats_get_their_own_shape() {
        let (_, slack) = made(WebhookTemplate::Slack, "https://x/hook");
        let text = slack["text"].as_str().unwrap();
        assert!(text.contains("disk &lt;d1&gt;") && text.contains("a &amp; b") && !text.contains('<'), "{text}");
        let (_, teams) = made(WebhookTemplate::Teams, "https://x/hook");
        let card = &teams["attachments"][0]["content"];
        assert_eq!((&card["type"], &card["body"][0]["color"]), (&json!("AdaptiveCard"), &json!("attention")));
        assert!(card["body"].to_string().contains("a & b") && card["actions"][0]["url"] == "https://nas:8443/events");
    }

    #[test]
    fn ntfy_gets_the_topic_beside_the_message() {
        let (url, body) = made(WebhookTemplate::Ntfy, "https://x/base/alerts/?up=1");
        assert_eq!(
            (url.as_str(), &body["topic"], &body["priority"]),
            ("https://x/base?up=1", &json!("alerts"), &json!(5))
        );
        assert!(body["message"].as_str().unwrap().contains("is read-only"));
        assert_eq!(made(WebhookTemplate::Ntfy, "https://ntfy.sh/alerts").0, "https://ntfy.sh/");
    }
}
