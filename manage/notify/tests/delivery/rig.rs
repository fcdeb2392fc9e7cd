//! Notifications on a store and an event log of the test.

use std::sync::{Arc, Mutex};

use holdfast_api::{
    CreateNotifyChannel, CreateNotifyRule, Event, NotifyDelivery, NotifyDeliveryState, SetMail, SetWebhook, Severity,
};
use holdfast_harness::Wait;
use holdfast_model::ObjectRef;
use holdfast_notify::{Host, Notifications};
use holdfast_store::{AuditLimits, AuditWhich, Store};
use tokio::sync::{broadcast, watch};

/// Events of a test.
pub struct Log {
    events: Mutex<Vec<Event>>,
    followers: broadcast::Sender<Event>,
}

impl Log {
    pub fn all(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }
}

impl Host for Log {
    fn follow(&self, after: u64) -> (Vec<Event>, broadcast::Receiver<Event>) {
        let events = self.events.lock().unwrap();
        (events.iter().filter(|event| event.id > after).cloned().collect(), self.followers.subscribe())
    }

    fn emit(&self, severity: Severity, object: &ObjectRef, cause: &str, next_action: &str) {
        let mut events = self.events.lock().unwrap();
        let event = Event {
            id: events.len() as u64 + 1,
            time: jiff::Timestamp::now().to_string(),
            severity,
            object: object.clone(),
            cause: cause.into(),
            next_action: next_action.into(),
        };
        events.push(event.clone());
        let _ = self.followers.send(event);
    }

    fn changed(&self) {}
}

pub struct Rig {
    folder: tempfile::TempDir,
    pub store: Arc<Store>,
    pub log: Arc<Log>,
    pub notifications: Arc<Notifications>,
    running: Option<(watch::Sender<bool>, tokio::task::JoinHandle<()>)>,
}

impl Rig {
    /// One that hears nothing yet.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(folder.path(), AuditLimits::default()).unwrap());
        let log = Arc::new(Log { events: Mutex::default(), followers: broadcast::channel(16).0 });
        let notifications = Notifications::open(store.clone(), 0).unwrap();
        Self { folder, store, log, notifications, running: None }
    }

    /// Hears and sends from now on.
    pub fn start(&mut self) {
        let (stop, stopped) = watch::channel(false);
        let run = self.notifications.clone().run(self.log.clone(), stopped);
        self.running = Some((stop, tokio::spawn(run)));
    }

    /// Ends in order.
    pub async fn end(&mut self) {
        let (stop, running) = self.running.take().expect("it runs");
        stop.send(true).unwrap();
        running.await.unwrap();
    }

    /// Begins anew on what is stored, as after a kill.
    pub fn begin_anew(&mut self) {
        if let Some((_, running)) = self.running.take() {
            running.abort();
        }
        self.store = Arc::new(Store::open(self.folder.path(), AuditLimits::default()).unwrap());
        self.notifications = Notifications::open(self.store.clone(), self.log.all().len() as u64).unwrap();
        self.start();
    }

    pub async fn mail(&self, name: &str, mail: SetMail) {
        let request = CreateNotifyChannel { name: name.into(), mail: Some(mail), webhook: None };
        self.notifications.create_channel(request).await.unwrap();
    }

    pub async fn webhook(&self, name: &str, webhook: SetWebhook) {
        let request = CreateNotifyChannel { name: name.into(), mail: None, webhook: Some(webhook) };
        self.notifications.create_channel(request).await.unwrap();
    }

    /// A rule that sends warnings and errors by `channel`.
    pub async fn rule(&self, channel: &str) {
        let request = CreateNotifyRule {
            name: format!("rule-{channel}"),
            channel: channel.into(),
            severity: None,
            objects: vec![],
            digest_seconds: 0,
            quiet: None,
            errors_pass_quiet: None,
            enabled: None,
        };
        self.notifications.create_rule(request).await.unwrap();
    }

    /// Waits until the deliveries are as wanted.
    pub async fn until(&self, what: &str, wanted: impl Fn(&[NotifyDelivery]) -> bool) -> Vec<NotifyDelivery> {
        let mut wait = Wait::new();
        loop {
            let deliveries = self.notifications.deliveries();
            if wanted(&deliveries) {
                return deliveries;
            }
            tokio::time::sleep(wait.pause(|| format!("{what}: {deliveries:?}"))).await;
        }
    }

    /// Waits until so many messages are delivered.
    pub async fn delivered(&self, count: usize) -> Vec<NotifyDelivery> {
        let is_delivered = |delivery: &&NotifyDelivery| delivery.state == NotifyDeliveryState::Delivered;
        self.until("delivered", |all| all.iter().filter(is_delivered).count() >= count).await
    }

    /// Operation, object, status and what is there afterwards, of each record.
    pub fn audit(&self) -> Vec<(String, String, u16, String)> {
        let rows = self.store.audit(&AuditWhich { limit: 100, ..AuditWhich::default() }).unwrap();
        rows.into_iter().map(|row| (row.operation, row.object, row.status, row.after.unwrap_or_default())).collect()
    }
}
