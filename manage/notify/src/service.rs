//! Hears events, keeps the desk in the store, and sends.
//!
//! ```text
//!   config.db:  notifications            channels with their secrets, rules
//!               notifications.passing    what is collected, what waits, what ended; no part of backups
//! ```
//!
//! Invariants: a message is in the store before its first attempt, and the end of its last one before anything follows;
//! documents are written one at a time, so an older state never replaces a newer one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_api::{ApiError, Code, Event, NotifyDeliveryState, ObjectHealth, Severity};
use holdfast_model::{Health, ObjectKind, ObjectRef};
use holdfast_store::{AuditRow, AuditShare, Store, StoreError};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use crate::desk::{Attempt, Desk, Outcome, Plan};
use crate::message::Origin;
use crate::pace::Pace;
use crate::send::{Failure, Identity, send};
use crate::work::{Ended, Work};

/// The document of channels and rules.
pub(crate) const PLAN: &str = "notifications";
/// The document of what is under way.
const WORK: &str = "notifications.passing";
/// How long an attempt may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Attempts that are under way at most.
const AT_ONCE: usize = 4;
/// Tests that are under way at most.
const TESTS: usize = 4;
/// After how long the clock is looked at again in any case: it may have been set.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What notifications need of the daemon.
pub trait Host: Send + Sync {
    /// The events after the one of this number that are kept, and each one that comes, without a gap between them.
    fn follow(&self, after: u64) -> (Vec<Event>, Receiver<Event>);
    /// Notes an event.
    fn emit(&self, severity: Severity, object: &ObjectRef, cause: &str, next_action: &str);
    /// Says that channels, rules or deliveries are not as they were.
    fn changed(&self);
}

/// What callers are answered.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

/// Channels, rules, and what is under way.
pub struct Notifications {
    store: Arc<Store>,
    desk: Mutex<Desk>,
    /// What somebody chose to call the server.
    named: Mutex<Option<String>>,
    /// Held while a change of channels or rules is made.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Held while what is under way is written.
    writing: tokio::sync::Mutex<()>,
    woken: Notify,
    pub(crate) tests: Semaphore,
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// A time as answers carry it.
pub(crate) fn time(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}

fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().filter(|character| !character.is_control()).take(64).collect();
    if name.is_empty() { "localhost".into() } else { name }
}

fn unreadable(store: &Store, document: &str, error: &serde_json::Error) -> StoreError {
    StoreError::Damaged { path: store.path().into(), reason: format!("document {document}: {error}") }
}

/// Whether a stored document could be read again, such as one from a backup; those of others are.
///
/// # Errors
/// Why not.
pub fn check_document(name: &str, content: &str) -> Result<(), String> {
    match name {
        PLAN => serde_json::from_str::<Plan>(content).map(drop).map_err(|error| error.to_string()),
        _ => Ok(()),
    }
}

impl Notifications {
    /// Reads what `store` holds. `newest` is the number of the last event that there is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(store: Arc<Store>, newest: u64) -> Result<Arc<Self>, StoreError> {
        let plan: Plan = match store.document(PLAN)? {
            Some(text) => serde_json::from_str(&text).map_err(|error| unreadable(&store, PLAN, &error))?,
            None => Plan::default(),
        };
        // What was under way is worth less than a daemon that starts.
        let work =
            store.document(WORK)?.map(|text| serde_json::from_str::<Work>(&text)).transpose().unwrap_or_else(|error| {
                tracing::error!("what notifications were under way is lost: {}", unreadable(&store, WORK, &error));
                None
            });
        let desk = Desk::new(plan, work.unwrap_or_default(), newest, Pace::default(), now_ms());
        Ok(Arc::new(Self {
            store,
            desk: Mutex::new(desk),
            named: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            woken: Notify::new(),
            tests: Semaphore::new(TESTS),
        }))
    }

    /// Says where the console is; messages link to it.
    pub fn set_console(&self, url: Option<String>) {
        self.desk().origin.console = url;
    }

    /// Says what the server is called; the machine's own name stands for none.
    pub fn set_host_name(&self, name: Option<String>) {
        *self.named.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where messages come from, as it is now.
    pub(crate) fn origin(&self) -> Origin {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut desk = self.desk();
        desk.origin.host = named.unwrap_or_else(machine_name);
        desk.origin.clone()
    }

    /// Gives the store work on a thread that may wait for the disk.
    pub(crate) async fn stored<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> ApiResult<T> {
        let store = self.store.clone();
        let failed = |message: String| {
            ApiError::new(
                Code::Failed,
                "configuration store",
                message,
                "see the daemon's log, and check the free room on its file system",
            )
        };
        let done = tokio::task::spawn_blocking(move || act(&store)).await;
        done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }

    /// Writes what is under way. Where that cannot be, the store's own trouble tells of it.
    pub(crate) async fn keep(&self) {
        let _writing = self.writing.lock().await;
        let text = serde_json::to_string(&self.desk().work);
        let kept = match text {
            Ok(text) => self.stored(move |store| store.set_document(WORK, &text)).await,
            Err(error) => Err(ApiError::new(Code::Failed, "notifications", error.to_string(), "")),
        };
        if let Err(error) = kept {
            tracing::error!("what notifications are under way cannot be written: {error}");
        }
    }

    /// Has what changed looked at.
    pub(crate) fn wake(&self) {
        self.woken.notify_one();
    }

    /// The channels that do not deliver.
    pub fn troubles(&self) -> Vec<ObjectHealth> {
        let desk = self.desk();
        let shown = |(channel, condition): (&String, &holdfast_api::Condition)| ObjectHealth {
            object: crate::channel::reference(channel),
            health: Health::Warning,
            conditions: vec![condition.clone()],
        };
        desk.work.troubles.iter().map(shown).collect()
    }

    /// Writes down that a message was delivered or given up.
    pub(crate) async fn audit(&self, ended: &Ended) {
        let after = serde_json::json!({
            "delivery": ended.id, "rule": ended.rule, "subject": ended.subject, "state": ended.state,
            "attempts": ended.attempts, "error": ended.error,
        });
        let row = AuditRow {
            time_ms: ended.ended_ms,
            account: "daemon".into(),
            origin: "daemon".into(),
            operation: "notification_deliver".into(),
            kind: ObjectKind::Channel.word().into(),
            object_id: ended.channel.clone(),
            object: ended.channel.clone(),
            after: Some(after.to_string()),
            status: if ended.state == NotifyDeliveryState::Delivered { 200 } else { 502 },
            share: AuditShare::Deliveries,
            ..AuditRow::default()
        };
        if let Err(error) = self.stored(move |store| store.audit_append(&row)).await {
            tracing::error!(channel = ended.channel, "a delivery could not be written to the audit log: {error}");
        }
    }

    /// Hears and sends until `stop` says so. What is not delivered by then is tried again by the next daemon.
    pub async fn run(self: Arc<Self>, host: Arc<dyn Host>, mut stop: watch::Receiver<bool>) {
        let mut attempts: JoinSet<(u64, String, Result<String, Failure>)> = JoinSet::new();
        let mut events = self.catch_up(&*host);
        self.keep().await;
        loop {
            self.origin();
            let flushed = self.desk().flush(now_ms(), &TimeZone::system());
            if flushed {
                self.keep().await;
                host.changed();
            }
            let started = self.desk().start(now_ms(), AT_ONCE);
            for attempt in started {
                attempts.spawn(attempted(attempt));
            }
            let wait = self.desk().due().map_or(LOOK_AGAIN, |due| {
                Duration::from_millis(due.saturating_sub(now_ms()).clamp(0, LOOK_AGAIN.as_millis() as i64) as u64)
            });
            // Where all that may be under way is, its end is waited for.
            let wait = if attempts.len() >= AT_ONCE { LOOK_AGAIN } else { wait };
            tokio::select! {
                () = over(&mut stop) => break,
                Some(done) = attempts.join_next() => match done {
                    Ok((id, channel, result)) => self.ended(&*host, id, &channel, result).await,
                    Err(error) => tracing::error!("an attempt to notify broke off: {error}"),
                },
                event = events.recv() => {
                    if self.heard(&*host, &mut events, event) {
                        self.keep().await;
                        host.changed();
                    }
                }
                () = self.woken.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        attempts.shutdown().await;
        self.keep().await;
    }

    /// Hears all events that came meanwhile.
    fn catch_up(&self, host: &dyn Host) -> Receiver<Event> {
        let mut desk = self.desk();
        let (missed, events) = host.follow(desk.heard());
        let now = now_ms();
        for event in &missed {
            desk.hear(event, now);
        }
        events
    }

    /// Hears an event and those that came with it. Answers whether a rule collects any.
    fn heard(&self, host: &dyn Host, events: &mut Receiver<Event>, first: Result<Event, RecvError>) -> bool {
        let mut next = first.map_err(|error| matches!(error, RecvError::Lagged(_)));
        let mut collected = false;
        loop {
            match next {
                Ok(event) => collected |= self.desk().hear(&event, now_ms()),
                Err(true) => {
                    *events = self.catch_up(host);
                    collected = true;
                }
                Err(false) => return collected,
            }
            next = events.try_recv().map_err(|error| matches!(error, TryRecvError::Lagged(_)));
        }
    }

    async fn ended(&self, host: &dyn Host, id: u64, channel: &str, result: Result<String, Failure>) {
        if let Err(failure) = &result {
            tracing::warn!(delivery = id, channel, "an attempt to notify failed: {}", failure.message);
        }
        let outcome = self.desk().finish(id, result, now_ms());
        self.keep().await;
        self.tell(host, outcome).await;
    }

    async fn tell(&self, host: &dyn Host, outcome: Outcome) {
        if let Some(ended) = &outcome.ended {
            self.audit(ended).await;
        }
        if let Some((severity, object, cause, next_action)) = outcome.event {
            host.emit(severity, &object, &cause, &next_action);
        }
        host.changed();
    }
}

/// Waits until the daemon stops.
async fn over(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Makes an attempt.
async fn attempted(attempt: Attempt) -> (u64, String, Result<String, Failure>) {
    let Attempt { waiting, channel } = attempt;
    let identity = Identity { id: waiting.id, created_ms: waiting.created_ms };
    let result = send(&channel, &waiting.message, &identity, now_ms(), PATIENCE).await;
    (waiting.id, waiting.channel, result)
}
