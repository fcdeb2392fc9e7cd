//! Why a pool takes no changes any more.
//!
//! Invariant: whoever is refused hears the reason and what to do about it.

use crate::event::Severity;
use crate::pool::Pool;
use crate::{PoolError, PoolErrorKind};

/// The reason.
pub(crate) struct Refusal {
    pub why: String,
    /// What to do about it, where the reason does not say so.
    pub next_action: &'static str,
    /// Whether it was exported or destroyed.
    pub is_over: bool,
    /// Whether it may be changed again once it was closed and opened anew.
    pub reopens: bool,
}

impl Pool {
    /// Why it takes no changes, where it does not.
    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().expect("no panic while held").as_ref().map(|refusal| refusal.why.clone())
    }

    /// Refuses a change where it takes none, and says why and what to do.
    pub(crate) fn check_open(&self) -> Result<(), PoolError> {
        let refusal = self.refusal.lock().expect("no panic while held");
        let Some(Refusal { why, next_action, .. }) = refusal.as_ref() else { return Ok(()) };
        let text = if next_action.is_empty() { why.clone() } else { format!("{why}; {next_action}") };
        Err(PoolError::new(PoolErrorKind::ReadOnly, text))
    }

    pub(crate) fn refused(&self, what: &str) -> PoolError {
        let unknown = || PoolError::new(PoolErrorKind::ReadOnly, format!("pool {} refused the change of {what}", self.name()));
        self.check_open().err().unwrap_or_else(unknown)
    }

    pub(crate) fn refuse_changes(&self, why: &str) {
        self.refuse_once(Refusal { why: why.into(), next_action: self.way_out(), is_over: false, reopens: false });
    }

    /// Takes no changes any more until it is opened anew, which makes good what keeps it from going on.
    pub fn refuse_until_reopened(&self, why: &str) {
        let next_action = "it is closed and imported again; where it is not, export and import it";
        self.refuse_once(Refusal { why: why.into(), next_action, is_over: false, reopens: true });
    }

    /// Takes no changes any more, and says so, unless there is a reason already.
    fn refuse_once(&self, refusal: Refusal) {
        let mut known = self.refusal.lock().expect("no panic while held");
        if known.is_none() {
            self.emit(Severity::Error, format!("pool {}", self.name()), refusal.why.clone(), refusal.next_action);
            *known = Some(refusal);
        }
    }

    /// Whether it waits to be opened anew.
    pub fn is_to_reopen(&self) -> bool {
        self.refusal.lock().expect("no panic while held").as_ref().is_some_and(|refusal| refusal.reopens)
    }

    /// Takes no changes any more, for this reason.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        *self.refusal.lock().expect("no panic while held") = Some(refusal);
    }

    /// Whether it is in service still, as far as is known.
    pub(crate) fn may_be_lost(&self) -> bool {
        let reads_only = self.features().unknown_read_only() != 0;
        let is_over = self.refusal.lock().expect("no panic while held").as_ref().is_some_and(|refusal| refusal.is_over);
        !self.is_lost() && !reads_only && !is_over
    }

    /// What to do about it where it takes no changes.
    pub(crate) fn next_action(&self) -> &'static str {
        self.refusal.lock().expect("no panic while held").as_ref().map_or("", |refusal| refusal.next_action)
    }

    /// What to do where too few disks can be written, or a later version is needed.
    fn way_out(&self) -> &'static str {
        match self.features().unknown_read_only() {
            0 => "attach the missing disks, then export and import the pool",
            _ => "use the later version to change it",
        }
    }
}
