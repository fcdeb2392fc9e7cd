//! What was asked of the server, pools, spaces, exports, LUNs, volumes and disks: each second of the last hour, each minute of the
//! last 30 days.
//!
//! ```text
//!   counters ── each second ─▶ table.rs ─▶ tracker.rs, ring.rs    an hour in memory
//!                                 └── each minute ─▶ store.rs     30 days in history.db
//!                                                      └───────── points.rs ─▶ answers
//! ```
//!
//! Invariants: nobody who serves requests waits for it. In memory are at most [`ring::SEGMENTS`] minutes of one object
//! each, in the file at most [`store::ROWS`]; an object of which nothing is asked takes neither.

mod points;
mod ring;
mod store;
mod table;
mod tracker;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_api::{ApiError, Code, DiskRef, History as Series, HistoryKind, Rates};
use holdfast_block::Totals;
use holdfast_model::Latencies;

use crate::engine::Engine;
use crate::error::{ApiResult, not_found, stopping};
use crate::events::EventLog;
use crate::spaces::parse_path;
use points::{Points, Window};
use store::Store;
use table::Table;

/// What tells one object of a history from the others, also when another one gets its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    kind: HistoryKind,
    id: String,
}

impl Key {
    /// The object of this kind with this id; an export is known by its name, the server by none.
    pub(crate) fn new(kind: HistoryKind, id: impl ToString) -> Self {
        Self { kind, id: id.to_string() }
    }
}

/// The counters of an object, as they are now.
pub(crate) struct Reading<'a> {
    pub(crate) key: Key,
    pub(crate) name: &'a str,
    /// The pool that it adds to, if any.
    pub(crate) within: Option<Key>,
    pub(crate) totals: Totals,
    pub(crate) latencies: &'a dyn Fn() -> (Latencies, Latencies),
}

/// What one second brought, of objects of which something was asked.
#[derive(Default)]
pub(crate) struct Second {
    pub(crate) server: Rates,
    pub(crate) objects: Vec<(HistoryKind, String, Rates)>,
}

/// The history of everything.
pub(crate) struct History {
    table: Mutex<Table>,
    store: Store,
}

impl History {
    /// Opens the history in a state folder. A file that is damaged is set aside.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn open(folder: &Path, events: Arc<EventLog>) -> std::io::Result<Self> {
        Ok(Self { table: Mutex::default(), store: Store::open(folder, events)? })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a second's sample; `read` shows the counters of each object. Minutes that are over are written.
    pub(crate) fn sample(&self, second: i64, elapsed: f64, read: impl FnOnce(&mut dyn FnMut(Reading<'_>))) -> Second {
        let mut table = self.table();
        let rows = table.begin(second, elapsed);
        read(&mut |reading| table.take(&reading));
        let sampled = table.end();
        drop(table);
        if let Some(rows) = rows {
            self.store.write(rows);
        }
        sampled
    }

    /// Writes the minute that is under way, and ends the writer.
    pub(crate) fn close(&self) {
        let rows = self.table().minute_so_far();
        self.store.write(rows);
        self.store.close();
    }

    /// The last `seconds` of an object as at most `points` values.
    async fn series(&self, key: Key, name: String, seconds: u64, points: u64) -> ApiResult<Series> {
        let (window, mut drawn, from_memory) = {
            let table = self.table();
            let window = Window::new(table.now(), seconds as i64, points as i64);
            let mut drawn = Points::new(window);
            let from_memory = table.draw(&key, &mut drawn);
            (window, drawn, from_memory)
        };
        if window.start < from_memory {
            let rows = self.store.read(key.clone(), window.start, from_memory).await.map_err(not_read)?;
            rows.iter().for_each(|row| drawn.minute(row, from_memory));
        }
        Ok(drawn.series(key.kind, name))
    }
}

fn not_read(unread: store::Unread) -> ApiError {
    match unread {
        store::Unread::Stopped => stopping(),
        store::Unread::Busy => {
            ApiError::new(Code::Timeout, "history", "too many history requests at once", "try again in a moment")
        }
        store::Unread::Failed(reason) => ApiError::new(
            Code::Failed,
            "history",
            format!("history.db cannot be read: {reason}"),
            "check the free room and permissions of the state folder",
        ),
    }
}

/// Values of a series, unless the request says otherwise, and at most.
const POINTS: u64 = 600;
const MOST_POINTS: u64 = 3000;

impl Engine {
    /// The last `seconds` of an object of which something may be asked.
    ///
    /// # Errors
    /// If there is no such object, or more is asked for than is kept.
    pub async fn history(&self, kind: HistoryKind, name: &str, seconds: u64, points: Option<u64>) -> ApiResult<Series> {
        let points = points.unwrap_or(POINTS);
        let range =
            |field: &str, value: u64, most: u64| match value {
                value if (1..=most).contains(&value) => Ok(()),
                _ => Err(ApiError::invalid("history", format!("{field} is {value}"), format!("choose 1 to {most}"))
                    .at(field)),
            };
        range("seconds", seconds, store::DAYS as u64 * 86_400)?;
        range("points", points, MOST_POINTS)?;
        let id = match kind {
            HistoryKind::Server => String::new(),
            HistoryKind::Pool => self.pool_named(name)?.pool.id().to_string(),
            HistoryKind::Space => self.space_at(&parse_path(name)?)?.2.record().uuid.to_string(),
            HistoryKind::Export => self.export(name)?.name,
            HistoryKind::Lun => self.lun_named(name)?.id.to_string(),
            HistoryKind::Volume => self.open_volume_at(name)?.1.id.to_string(),
            HistoryKind::Disk => {
                let disk = self.disk(&DiskRef::new(name)).await?;
                let id = disk.id.map(|id| id.to_string());
                id.ok_or_else(|| not_found(format!("history of disk {name}"), "only disks in a pool have a history"))?
            }
        };
        self.history.series(Key::new(kind, id), name.to_owned(), seconds, points).await
    }
}

#[cfg(test)]
mod tests;
