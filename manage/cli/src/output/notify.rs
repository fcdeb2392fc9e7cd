//! Channels, rules and deliveries as tables.

use holdfast_api::{NotifyChannel, NotifyDelivery, NotifyRule, word};

use super::{Shown, facts, or_dash, some, table, with_conditions};

fn is_set(set: bool) -> String {
    if set { "set".into() } else { "not set".into() }
}

impl Shown for Vec<NotifyChannel> {
    fn text(&self) -> String {
        let rows = self.iter().map(|channel| {
            let mail = channel.mail.as_ref().map(|mail| (format!("{}:{}", mail.server, mail.port), mail.to.join(" ")));
            let webhook = channel.webhook.as_ref().map(|hook| (hook.server.clone(), word(&hook.template)));
            let (server, to) = mail.or(webhook).unwrap_or_default();
            let state = if channel.trouble.is_some() { "failing" } else { "ok" };
            vec![channel.name.clone(), word(&channel.kind), server, to, state.into(), channel.queued.to_string()]
        });
        table(&["CHANNEL", "KIND", "SERVER", "TO", "STATE", "WAITING"], rows)
    }
}

impl Shown for NotifyChannel {
    fn text(&self) -> String {
        let mut rows = vec![("channel", self.name.clone()), ("kind", word(&self.kind))];
        if let Some(mail) = &self.mail {
            rows.extend([
                ("server", mail.server.clone()),
                ("port", mail.port.to_string()),
                ("security", word(&mail.security)),
                ("user", some(&mail.user)),
                ("password", is_set(mail.password_set)),
                ("from", mail.from.clone()),
                ("to", mail.to.join(", ")),
                ("authority", is_set(mail.ca_certificate_set)),
            ]);
        }
        if let Some(webhook) = &self.webhook {
            rows.extend([
                ("server", webhook.server.clone()),
                ("template", word(&webhook.template)),
                ("secret", is_set(webhook.secret_set)),
                ("token", is_set(webhook.token_set)),
                ("authority", is_set(webhook.ca_certificate_set)),
            ]);
        }
        rows.push(("waiting", self.queued.to_string()));
        with_conditions(facts(&rows), self.trouble.as_slice())
    }
}

impl Shown for Vec<NotifyRule> {
    fn text(&self) -> String {
        let rows = self.iter().map(|rule| {
            let objects = if rule.objects.is_empty() { "all".into() } else { rule.objects.join(", ") };
            let digest = if rule.digest_seconds == 0 { "-".into() } else { format!("{} s", rule.digest_seconds) };
            let quiet = rule.quiet.as_ref().map_or_else(
                || "-".into(),
                |quiet| format!("{quiet}{}", if rule.errors_pass_quiet { ", errors pass" } else { "" }),
            );
            let state = if rule.enabled { "enabled" } else { "disabled" };
            vec![
                rule.name.clone(),
                rule.channel.clone(),
                word(&rule.severity),
                objects,
                digest,
                quiet,
                state.into(),
                rule.collected.to_string(),
            ]
        });
        table(&["RULE", "CHANNEL", "FROM", "OBJECTS", "DIGEST", "QUIET", "STATE", "COLLECTED"], rows)
    }
}

impl Shown for NotifyRule {
    fn text(&self) -> String {
        vec![self.clone()].text()
    }
}

impl Shown for Vec<NotifyDelivery> {
    fn text(&self) -> String {
        let rows = self.iter().map(|delivery| {
            vec![
                delivery.id.to_string(),
                delivery.created.clone(),
                delivery.channel.clone(),
                delivery.rule.clone().unwrap_or_else(|| "(test)".into()),
                word(&delivery.state),
                delivery.attempts.to_string(),
                delivery.subject.clone(),
                or_dash(delivery.error.as_deref().unwrap_or_default()),
            ]
        });
        table(&["ID", "TIME", "CHANNEL", "RULE", "STATE", "ATTEMPTS", "SUBJECT", "ERROR"], rows)
    }
}
