//! The audit log: who asked for which change, and what the object was before and after.
//!
//! Invariant: it holds the newest records within its limits of number and bytes; ids rise and are never given twice.

use std::sync::PoisonError;

use rusqlite::{Connection, Row};

use crate::{Store, StoreError, failed};

/// How much of the log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditLimits {
    /// Records at most.
    pub records: u64,
    /// Bytes of their texts at most.
    pub bytes: u64,
}

impl Default for AuditLimits {
    fn default() -> Self {
        Self { records: 100_000, bytes: 256 << 20 }
    }
}

/// A record. The texts of `before` and `after` are JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditRow {
    /// Its number; given by the store.
    pub id: i64,
    /// When, in milliseconds since 1970.
    pub time_ms: i64,
    /// Who.
    pub account: String,
    /// The word of the role.
    pub role: String,
    /// The word of how they proved who they were.
    pub via: String,
    /// From where.
    pub origin: String,
    /// The operation's id.
    pub operation: String,
    /// The request's method.
    pub method: String,
    /// The request's path.
    pub path: String,
    /// The object, with its kind.
    pub object: String,
    /// The object before.
    pub before: Option<String>,
    /// The object afterwards.
    pub after: Option<String>,
    /// The status of the answer.
    pub status: u16,
    /// The request's id.
    pub request_id: String,
}

impl AuditRow {
    fn bytes(&self) -> u64 {
        let texts = [
            &self.account,
            &self.role,
            &self.via,
            &self.origin,
            &self.operation,
            &self.method,
            &self.path,
            &self.object,
            &self.request_id,
        ];
        let objects = [&self.before, &self.after];
        let objects = objects.iter().map(|text| text.as_ref().map_or(0, String::len)).sum::<usize>();
        (texts.iter().map(|text| text.len()).sum::<usize>() + objects) as u64
    }
}

/// Which records are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditWhich {
    /// Only those with higher ids; without it the newest are given.
    pub after: Option<i64>,
    /// At most so many.
    pub limit: u32,
    /// Only those of this account.
    pub account: Option<String>,
    /// Only those of this object.
    pub object: Option<String>,
}

/// How much of the log there is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    records: u64,
    bytes: u64,
}

pub(crate) fn extent(connection: &Connection) -> rusqlite::Result<Extent> {
    connection.query_row("SELECT count(*), coalesce(sum(bytes), 0) FROM audit", [], |row| {
        Ok(Extent { records: row.get::<_, i64>(0)? as u64, bytes: row.get::<_, i64>(1)? as u64 })
    })
}

const COLUMNS: &str =
    "id, time_ms, account, role, via, origin, operation, method, path, object, before, after, status, request_id";

fn record(row: &Row<'_>) -> rusqlite::Result<AuditRow> {
    Ok(AuditRow {
        id: row.get(0)?,
        time_ms: row.get(1)?,
        account: row.get(2)?,
        role: row.get(3)?,
        via: row.get(4)?,
        origin: row.get(5)?,
        operation: row.get(6)?,
        method: row.get(7)?,
        path: row.get(8)?,
        object: row.get(9)?,
        before: row.get(10)?,
        after: row.get(11)?,
        status: row.get(12)?,
        request_id: row.get(13)?,
    })
}

impl Store {
    /// Appends a record and drops the oldest beyond the limits.
    ///
    /// # Errors
    /// If it cannot be written; nothing is changed then.
    pub fn audit_append(&self, row: &AuditRow) -> Result<(), StoreError> {
        let mut extent = self.audit.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connection = self.connection();
        let explain = failed(&self.path, "write the audit log");
        let transaction = connection.transaction().map_err(&explain)?;
        let mut next = Extent { records: extent.records + 1, bytes: extent.bytes + row.bytes() };
        let statement = "INSERT INTO audit (time_ms, account, role, via, origin, operation, method, path, object, before, after, \
                         status, request_id, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
        let values = rusqlite::params![
            row.time_ms,
            row.account,
            row.role,
            row.via,
            row.origin,
            row.operation,
            row.method,
            row.path,
            row.object,
            row.before,
            row.after,
            row.status,
            row.request_id,
            row.bytes() as i64
        ];
        transaction.execute(statement, values).map_err(&explain)?;
        while next.records > 1 && (next.records > self.limits.records || next.bytes > self.limits.bytes) {
            let statement = "DELETE FROM audit WHERE id = (SELECT min(id) FROM audit) RETURNING bytes";
            let gone: i64 = transaction.query_row(statement, [], |row| row.get(0)).map_err(&explain)?;
            next = Extent { records: next.records - 1, bytes: next.bytes.saturating_sub(gone as u64) };
        }
        transaction.commit().map_err(&explain)?;
        *extent = next;
        Ok(())
    }

    /// Records, the oldest first.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn audit(&self, which: &AuditWhich) -> Result<Vec<AuditRow>, StoreError> {
        let order = if which.after.is_some() { "ASC" } else { "DESC" };
        let query = format!(
            "SELECT {COLUMNS} FROM audit WHERE id > ?1 AND (?2 IS NULL OR account = ?2) AND (?3 IS NULL OR object = ?3) \
             ORDER BY id {order} LIMIT ?4"
        );
        let values = (which.after.unwrap_or(0), &which.account, &which.object, which.limit);
        let mut rows: Vec<AuditRow> =
            self.run("read the audit log", |connection| connection.prepare(&query)?.query_map(values, record)?.collect())?;
        rows.sort_by_key(|row| row.id);
        Ok(rows)
    }
}
