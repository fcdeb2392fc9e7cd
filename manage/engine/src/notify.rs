//! What notifications are handed: the event log, and consoles that show what becomes of them.

use std::sync::Arc;

use holdfast_api::{Event, Severity};
use holdfast_model::ObjectRef;
use holdfast_notify::Host;
use tokio::sync::broadcast::Receiver;

use crate::events::EventLog;
use crate::live::Live;

struct Daemon {
    events: Arc<EventLog>,
    consoles: Arc<Live>,
}

/// The daemon as notifications see it.
pub(crate) fn host(events: Arc<EventLog>, consoles: Arc<Live>) -> Arc<dyn Host> {
    Arc::new(Daemon { events, consoles })
}

impl Host for Daemon {
    fn follow(&self, after: u64) -> (Vec<Event>, Receiver<Event>) {
        self.events.follow(after)
    }

    fn emit(&self, severity: Severity, object: &ObjectRef, cause: &str, next_action: &str) {
        self.events.emit(severity, object, cause, next_action);
    }

    fn changed(&self) {
        self.consoles.notifications_changed();
    }
}
