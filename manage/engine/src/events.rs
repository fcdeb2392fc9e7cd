//! The event log: what happened to which object, why, and what to do next.
//!
//! ```text
//!   emit ──▶ ring in memory (newest KEPT) ──▶ list, follow
//!        ├─▶ events.jsonl, one line each; past FILE_BYTES it becomes events.1.jsonl, and the one before that goes
//!        └─▶ tracing
//! ```
//!
//! Invariant: ids count up without a gap, also over restarts; memory and files are bounded. A log that cannot be
//! written loses its file, never the event in memory, and never the request that caused it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_api::{Event, Severity};
use holdfast_model::ObjectRef;
use tokio::sync::broadcast;

/// Events that are kept in memory.
pub const KEPT: usize = 4096;
/// The size at which a file is rotated.
pub const FILE_BYTES: u64 = 4 << 20;
const FILE: &str = "events.jsonl";
const OLD_FILE: &str = "events.1.jsonl";
const QUEUE: usize = 1024;

struct Ring {
    events: VecDeque<Event>,
    next_id: u64,
    lost_lines: u64,
}

/// Takes events, keeps them, and tells followers.
pub struct EventLog {
    ring: Mutex<Ring>,
    followers: broadcast::Sender<Event>,
    lines: SyncSender<Line>,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
}

enum Line {
    Event(Box<Event>),
    Stop,
}

impl EventLog {
    /// Opens the log in `folder` and reads what is kept there.
    ///
    /// # Errors
    /// If the folder cannot be written to or no thread can be started.
    pub fn open(folder: &Path) -> std::io::Result<Arc<Self>> {
        let mut events = VecDeque::new();
        for name in [OLD_FILE, FILE] {
            read_lines(&folder.join(name), &mut events);
        }
        let next_id = events.back().map_or(1, |event: &Event| event.id + 1);
        let writer = LogWriter::open(folder)?;
        let (lines, queue) = sync_channel(QUEUE);
        let writer = std::thread::Builder::new().name("event-log".into()).spawn(move || writer.run(&queue))?;
        Ok(Arc::new(Self {
            ring: Mutex::new(Ring { events, next_id, lost_lines: 0 }),
            followers: broadcast::channel(256).0,
            lines,
            writer: Mutex::new(Some(writer)),
        }))
    }

    /// Notes an event. Never waits for a disk.
    pub fn emit(&self, severity: Severity, object: &ObjectRef, cause: &str, next_action: &str) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let event = Event {
            id: ring.next_id,
            time: now(),
            severity,
            object: object.clone(),
            cause: cause.into(),
            next_action: next_action.into(),
        };
        ring.next_id += 1;
        if ring.events.len() >= KEPT {
            ring.events.pop_front();
        }
        ring.events.push_back(event.clone());
        if let Err(TrySendError::Full(_)) = self.lines.try_send(Line::Event(Box::new(event.clone()))) {
            ring.lost_lines += 1;
        }
        // Within the lock: a follower passes over what comes with a lower id than it had.
        let _ = self.followers.send(event);
        drop(ring);
        match severity {
            Severity::Info => tracing::info!(%object, next_action, "{cause}"),
            Severity::Warning => tracing::warn!(%object, next_action, "{cause}"),
            Severity::Error => tracing::error!(%object, next_action, "{cause}"),
        }
    }

    /// The newest `limit` events with ids above `after`, oldest first.
    pub fn list(&self, after: u64, limit: usize) -> Vec<Event> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let matching = ring.events.iter().filter(|event| event.id > after).count();
        ring.events.iter().filter(|event| event.id > after).skip(matching.saturating_sub(limit)).cloned().collect()
    }

    /// The events that are kept, and each one that comes, without a gap between them.
    pub fn follow(&self, after: u64) -> (Vec<Event>, broadcast::Receiver<Event>) {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.followers.subscribe();
        (ring.events.iter().filter(|event| event.id > after).cloned().collect(), receiver)
    }

    /// Number of events ever noted, and of lines that were not written because the disk was slower than the events.
    pub fn counts(&self) -> (u64, u64) {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        (ring.next_id - 1, ring.lost_lines)
    }

    /// Writes what is waiting, and ends the writer.
    pub fn close(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = self.lines.send(Line::Stop);
            let _ = writer.join();
        }
    }
}

impl holdfast_pool::EventSink for EventLog {
    fn emit(&self, event: holdfast_pool::Event) {
        let severity = match event.severity {
            holdfast_pool::Severity::Info => Severity::Info,
            holdfast_pool::Severity::Warning => Severity::Warning,
            holdfast_pool::Severity::Error => Severity::Error,
        };
        Self::emit(self, severity, &event.object, &event.cause, &event.next_action);
    }
}

/// The time, as events and answers carry it.
pub fn now() -> String {
    moment(jiff::Timestamp::now())
}

/// A moment, as they carry it.
pub fn moment(at: jiff::Timestamp) -> String {
    format!("{at:.3}")
}

/// A time as answers carry it.
pub(crate) fn rfc3339(time: std::time::SystemTime) -> String {
    jiff::Timestamp::try_from(time).map(|time| format!("{time:.3}")).unwrap_or_default()
}

fn read_lines(path: &Path, events: &mut VecDeque<Event>) {
    let Ok(file) = File::open(path) else { return };
    // A line cut off by a power failure is no event; the ones before it are.
    for event in BufReader::new(file).lines().map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok())
    {
        if events.len() >= KEPT {
            events.pop_front();
        }
        events.push_back(event);
    }
}

struct LogWriter {
    folder: PathBuf,
    file: File,
    written: u64,
    complained: bool,
}

fn open_for_append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

impl LogWriter {
    fn open(folder: &Path) -> std::io::Result<Self> {
        let file = open_for_append(&folder.join(FILE))?;
        let written = file.metadata()?.len();
        let mut writer = Self { folder: folder.into(), file, written, complained: false };
        if written > 0 {
            // Ends a line that a power failure cut off.
            writer.append(b"\n")?;
        }
        Ok(writer)
    }

    fn append(&mut self, line: &[u8]) -> std::io::Result<()> {
        if self.written + line.len() as u64 > FILE_BYTES {
            std::fs::rename(self.folder.join(FILE), self.folder.join(OLD_FILE))?;
            self.file = open_for_append(&self.folder.join(FILE))?;
            self.written = 0;
        }
        self.file.write_all(line)?;
        self.written += line.len() as u64;
        Ok(())
    }

    fn run(mut self, queue: &Receiver<Line>) {
        while let Ok(Line::Event(event)) = queue.recv() {
            let Ok(mut line) = serde_json::to_vec(&event) else { continue };
            line.push(b'\n');
            match self.append(&line) {
                Ok(()) => self.complained = false,
                Err(error) if !self.complained => {
                    self.complained = true;
                    tracing::error!("the event log in {} cannot be written: {error}", self.folder.display());
                }
                Err(_) => {}
            }
        }
        let _ = self.file.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use holdfast_model::Uuid;

    use super::*;

    fn disk(number: u128) -> ObjectRef {
        ObjectRef::disk(Uuid::from_u128(number), number.to_string())
    }

    fn tank() -> ObjectRef {
        ObjectRef::pool(Uuid::nil(), "tank")
    }

    #[test]
    fn ids_go_on_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::open(folder.path()).unwrap();
        log.emit(Severity::Warning, &disk(1), "gone", "put it back");
        log.emit(Severity::Info, &disk(1), "back", "");
        log.close();
        let mut file = OpenOptions::new().append(true).open(folder.path().join(FILE)).unwrap();
        file.write_all(b"{\"id\":3,\"ti").unwrap();
        let log = EventLog::open(folder.path()).unwrap();
        log.emit(Severity::Info, &disk(2), "new", "");
        log.close();
        let log = EventLog::open(folder.path()).unwrap();
        let events = log.list(0, 100);
        assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(events[0].cause, "gone");
        assert_eq!(log.list(1, 1)[0].id, 3, "a limit keeps the newest");
        log.close();
    }

    #[test]
    fn memory_and_files_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::open(folder.path()).unwrap();
        let long = "x".repeat(1000);
        for _ in 0..KEPT + 10 {
            log.emit(Severity::Info, &tank(), &long, "");
            if log.counts().0.is_multiple_of(64) {
                std::thread::sleep(std::time::Duration::from_micros(500));
            }
        }
        log.close();
        assert_eq!(log.list(0, usize::MAX).len(), KEPT);
        let bytes = |name| std::fs::metadata(folder.path().join(name)).map_or(0, |data| data.len());
        assert!(bytes(FILE) <= FILE_BYTES && bytes(OLD_FILE) <= FILE_BYTES);
    }

    #[tokio::test]
    async fn followers_miss_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::open(folder.path()).unwrap();
        log.emit(Severity::Info, &tank(), "one", "");
        let (kept, mut following) = log.follow(0);
        log.emit(Severity::Info, &tank(), "two", "");
        assert_eq!(kept.len(), 1);
        assert_eq!(following.recv().await.unwrap().cause, "two");
        log.close();
    }
}
