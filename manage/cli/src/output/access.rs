//! Accounts, tokens and the audit log as tables.

use holdfast_api::{Account, AuditRecord, ServerSettings, Session, Token, word};

use super::{Shown, facts, some, table};

impl Shown for Vec<Account> {
    fn text(&self) -> String {
        let rows = self.iter().map(|account| {
            let state = if account.enabled { "enabled" } else { "disabled" };
            vec![
                account.name.clone(),
                account.role.to_string(),
                state.into(),
                account.created_at.clone(),
                some(&account.last_login_at),
            ]
        });
        table(&["ACCOUNT", "ROLE", "STATE", "CREATED", "LAST LOGIN"], rows)
    }
}

impl Shown for Account {
    fn text(&self) -> String {
        vec![self.clone()].text()
    }
}

impl Shown for Vec<Token> {
    fn text(&self) -> String {
        let rows = self.iter().map(|token| {
            let areas = if token.areas.is_empty() { "all".into() } else { token.areas.join(",") };
            vec![
                token.id.clone(),
                token.name.clone(),
                token.account.clone(),
                token.role.to_string(),
                areas,
                token.expires_at.clone(),
                some(&token.last_used_at),
            ]
        });
        table(&["ID", "NAME", "ACCOUNT", "ROLE", "AREAS", "EXPIRES", "LAST USED"], rows)
    }
}

impl Shown for Vec<AuditRecord> {
    fn text(&self) -> String {
        let rows = self.iter().map(|record| {
            vec![
                record.id.to_string(),
                record.time.clone(),
                record.account.clone(),
                record.from.clone(),
                record.operation.clone(),
                record.object.clone(),
                record.status.to_string(),
            ]
        });
        table(&["ID", "TIME", "ACCOUNT", "FROM", "OPERATION", "OBJECT", "STATUS"], rows)
    }
}

impl Shown for Session {
    fn text(&self) -> String {
        facts(&[
            ("account", self.account.clone()),
            ("role", self.role.to_string()),
            ("by", word(&self.via)),
            ("until", some(&self.expires_at)),
        ])
    }
}

impl Shown for ServerSettings {
    fn text(&self) -> String {
        let certificate = self.certificate.as_ref();
        let https = if self.https.is_empty() { "-".into() } else { self.https.join(" ") };
        let made = |own: bool| if own { "the daemon itself" } else { "an authority" };
        facts(&[
            ("https", https),
            ("certificate SHA-256", some(&certificate.map(|one| one.sha256_fingerprint.clone()))),
            ("certificate by", some(&certificate.map(|one| made(one.self_signed)))),
            ("certificate until", some(&certificate.map(|one| one.not_after.clone()))),
            ("session idle", format!("{} s", self.session_idle_seconds)),
            ("session at most", format!("{} s", self.session_seconds)),
            ("state folder", self.state_folder.clone()),
            ("version", self.version.clone()),
        ])
    }
}
