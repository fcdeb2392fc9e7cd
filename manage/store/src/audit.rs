//! The audit log: who asked for which change, and what the object was before and after.
//!
//! Invariants: it holds the newest records within its limits of number and bytes; ids rise and are never given twice.
//! What strangers or those who may do nothing else can have written, and what the daemon writes itself, takes a quarter
//! each at most, so no flood of it pushes changes out.

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

/// In which share of the log a record is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditShare {
    /// A change that takes a role: as much as there is room.
    #[default]
    Changes,
    /// What everybody with an account may do for themselves.
    Own,
    /// Logins, and what was refused.
    Attempts,
    /// What became of notifications.
    Deliveries,
}

impl AuditShare {
    const ALL: [Self; 4] = [Self::Changes, Self::Own, Self::Attempts, Self::Deliveries];

    /// How much of `limits` it may take.
    fn limits(self, limits: AuditLimits) -> AuditLimits {
        match self {
            Self::Changes => limits,
            Self::Own | Self::Attempts | Self::Deliveries => {
                AuditLimits { records: (limits.records / 4).max(1), bytes: limits.bytes / 4 }
            }
        }
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
    /// The word of the kind of the object.
    pub kind: String,
    /// The object's id.
    pub object_id: String,
    /// The object's name.
    pub object: String,
    /// The object before.
    pub before: Option<String>,
    /// The object afterwards.
    pub after: Option<String>,
    /// The status of the answer.
    pub status: u16,
    /// The request's id.
    pub request_id: String,
    /// In which share of the log it is.
    pub share: AuditShare,
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
            &self.kind,
            &self.object_id,
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
    /// Only those of objects of this kind.
    pub kind: Option<String>,
    /// Only those of the object with this name or id.
    pub object: Option<String>,
}

/// How much of the log, or of a share of it, there is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    records: u64,
    bytes: u64,
}

impl Extent {
    fn exceeds(self, limits: AuditLimits) -> bool {
        self.records > 1 && (self.records > limits.records || self.bytes > limits.bytes)
    }
}

/// How much there is of each share.
pub(crate) type Extents = [Extent; AuditShare::ALL.len()];

pub(crate) fn extents(connection: &Connection) -> rusqlite::Result<Extents> {
    let mut extents = Extents::default();
    for share in AuditShare::ALL {
        let query = "SELECT count(*), coalesce(sum(bytes), 0) FROM audit WHERE share = ?1";
        extents[share as usize] = connection.query_row(query, [share as i64], |row| {
            Ok(Extent { records: row.get::<_, i64>(0)? as u64, bytes: row.get::<_, i64>(1)? as u64 })
        })?;
    }
    Ok(extents)
}

/// Drops the oldest record, of one share or of all.
fn drop_oldest(connection: &Connection, extents: &mut Extents, share: Option<AuditShare>) -> rusqlite::Result<()> {
    let oldest: i64 = match share {
        Some(share) => {
            connection.query_row("SELECT min(id) FROM audit WHERE share = ?1", [share as i64], |row| row.get(0))?
        }
        None => connection.query_row("SELECT min(id) FROM audit", [], |row| row.get(0))?,
    };
    let statement = "DELETE FROM audit WHERE id = ?1 RETURNING bytes, share";
    let (bytes, share) =
        connection.query_row(statement, [oldest], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    if let Some(extent) = extents.get_mut(share as usize) {
        *extent =
            Extent { records: extent.records.saturating_sub(1), bytes: extent.bytes.saturating_sub(bytes as u64) };
    }
    Ok(())
}

const COLUMNS: &str = "id, time_ms, account, role, via, origin, operation, method, path, kind, object_id, object, before, after, status, request_id, share";

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
        kind: row.get(9)?,
        object_id: row.get(10)?,
        object: row.get(11)?,
        before: row.get(12)?,
        after: row.get(13)?,
        status: row.get(14)?,
        request_id: row.get(15)?,
        share: AuditShare::ALL.get(row.get::<_, i64>(16)? as usize).copied().unwrap_or_default(),
    })
}

impl Store {
    /// Appends a record and drops the oldest beyond the limits, of its share first.
    ///
    /// # Errors
    /// If it cannot be written; nothing is changed then.
    pub fn audit_append(&self, row: &AuditRow) -> Result<(), StoreError> {
        self.note(self.append(row), true)
    }

    fn append(&self, row: &AuditRow) -> Result<(), StoreError> {
        let mut extents = self.audit.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connection = self.connection();
        let explain = failed(&self.path, "write the audit log");
        let transaction = connection.transaction().map_err(&explain)?;
        let mut next = *extents;
        let own = &mut next[row.share as usize];
        *own = Extent { records: own.records + 1, bytes: own.bytes + row.bytes() };
        let statement = "INSERT INTO audit (time_ms, account, role, via, origin, operation, method, path, kind, object_id, object, \
                         before, after, status, request_id, bytes, share) \
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
        let values = rusqlite::params![
            row.time_ms,
            row.account,
            row.role,
            row.via,
            row.origin,
            row.operation,
            row.method,
            row.path,
            row.kind,
            row.object_id,
            row.object,
            row.before,
            row.after,
            row.status,
            row.request_id,
            row.bytes() as i64,
            row.share as i64
        ];
        transaction.execute(statement, values).map_err(&explain)?;
        while next[row.share as usize].exceeds(row.share.limits(self.limits)) {
            drop_oldest(&transaction, &mut next, Some(row.share)).map_err(&explain)?;
        }
        let all = |next: &Extents| Extent {
            records: next.iter().map(|extent| extent.records).sum(),
            bytes: next.iter().map(|extent| extent.bytes).sum(),
        };
        while all(&next).exceeds(self.limits) {
            drop_oldest(&transaction, &mut next, None).map_err(&explain)?;
        }
        transaction.commit().map_err(&explain)?;
        *extents = next;
        Ok(())
    }

    /// Records, the oldest first.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn audit(&self, which: &AuditWhich) -> Result<Vec<AuditRow>, StoreError> {
        let order = if which.after.is_some() { "ASC" } else { "DESC" };
        let query = format!(
            "SELECT {COLUMNS} FROM audit WHERE id > ?1 AND (?2 IS NULL OR account = ?2) AND (?3 IS NULL OR kind = ?3) \
             AND (?4 IS NULL OR object = ?4 OR object_id = ?4) ORDER BY id {order} LIMIT ?5"
        );
        let values = (which.after.unwrap_or(0), &which.account, &which.kind, &which.object, which.limit);
        let mut rows: Vec<AuditRow> = self
            .run("read the audit log", |connection| connection.prepare(&query)?.query_map(values, record)?.collect())?;
        rows.sort_by_key(|row| row.id);
        Ok(rows)
    }
}
