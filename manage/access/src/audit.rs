//! The audit log: every change, with the object before and after.
//!
//! Invariants: a record holds no secret, and no character that a terminal would obey or a reader not see; an object of
//! any size takes a bounded part of the log.

use holdfast_api::{AuditChange, AuditRecord, word};
use holdfast_model::{ObjectKind, ObjectRef};
use holdfast_store::{AuditRow, AuditShare, AuditWhich};
use serde_json::{Map, Value, json};

use crate::{Access, ApiResult, time};

/// The longest JSON of an object that is kept.
const OBJECT_BYTES: usize = 16 << 10;
const TEXT_BYTES: usize = 512;
const SECRETS: [&str; 7] = ["password", "secret", "token", "current", "new", "csrf", "password_hash"];

/// Blanks out whatever the names of `value`'s members say to be a secret.
pub fn redact(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if member.is_string() && SECRETS.contains(&name.as_str()) {
                    *member = "***".into();
                } else {
                    redact(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        _ => {}
    }
}

/// Of two objects that are too large the members that differ, and if these are too large as well, their sizes.
fn bounded(before: Option<Value>, after: Option<Value>) -> (Option<String>, Option<String>) {
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    let fits = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() <= OBJECT_BYTES);
    let whole = (text(&before), text(&after));
    if fits(&whole.0) && fits(&whole.1) {
        return whole;
    }
    if let (Some(Value::Object(old)), Some(Value::Object(new))) = (&before, &after) {
        let differing = |one: &Map<String, Value>, other: &Map<String, Value>| {
            let members = one.iter().filter(|(name, member)| other.get(*name) != Some(member));
            Some(Value::Object(members.map(|(name, member)| (name.clone(), member.clone())).collect()))
        };
        let parts = (text(&differing(old, new)), text(&differing(new, old)));
        if fits(&parts.0) && fits(&parts.1) {
            return parts;
        }
    }
    let shorten = |text: Option<String>| {
        text.map(
            |text| if text.len() <= OBJECT_BYTES { text } else { json!({ "too_large_bytes": text.len() }).to_string() },
        )
    };
    (shorten(whole.0), shorten(whole.1))
}

/// Whether a character does something instead of being seen: moves the cursor, or turns the direction of what follows.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn short(text: &str) -> String {
    text.chars().take(TEXT_BYTES).map(|character| if acts(character) { '\u{fffd}' } else { character }).collect()
}

fn record(row: AuditRow) -> AuditRecord {
    let parsed = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
    AuditRecord {
        id: row.id as u64,
        time: time(row.time_ms),
        change: AuditChange {
            account: row.account,
            role: row.role.parse().ok(),
            via: serde_json::from_value(Value::String(row.via)).ok(),
            from: row.origin,
            operation: row.operation,
            method: row.method,
            path: row.path,
            object: ObjectRef::new(ObjectKind::of_word(&row.kind).unwrap_or_default(), row.object_id, row.object),
            before: parsed(row.before),
            after: parsed(row.after),
            status: row.status,
            request_id: row.request_id,
        },
    }
}

impl Access {
    /// Writes a change down in a share of the log; on the disk when it answers.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub async fn record(&self, change: AuditChange, share: AuditShare) -> ApiResult<()> {
        let (mut before, mut after) = (change.before, change.after);
        before.iter_mut().chain(&mut after).for_each(redact);
        let (before, after) = bounded(before, after);
        let row = AuditRow {
            id: 0,
            time_ms: self.now_ms(),
            account: short(&change.account),
            role: change.role.map(|role| role.to_string()).unwrap_or_default(),
            via: change.via.map(|via| word(&via)).unwrap_or_default(),
            origin: change.from,
            operation: change.operation,
            method: change.method,
            path: short(&change.path),
            kind: change.object.kind.word().into(),
            object_id: short(&change.object.id),
            object: short(&change.object.name),
            before,
            after,
            status: change.status,
            request_id: short(&change.request_id),
            share,
        };
        self.stored(move |store| store.audit_append(&row)).await
    }

    /// The records that `which` names, oldest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn audit(&self, which: AuditWhich) -> ApiResult<Vec<AuditRecord>> {
        let rows = self.stored(move |store| store.audit(&which)).await?;
        Ok(rows.into_iter().map(record).collect())
    }
}
