//! Accounts, tokens and the audit log as tables.

use holdfast_api::{Account, AuditRecord, Session, Token, word};

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
                record.change.account.clone(),
                record.change.from.clone(),
                record.change.operation.clone(),
                record.change.object.to_string(),
                record.change.status.to_string(),
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
