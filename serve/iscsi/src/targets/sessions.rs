//! The registry of sessions.
//!
//! ```text
//!   login ─▶ enter ─┬─ another of the same identity: it is ended first (reinstatement, RFC 7143 6.3.5)
//!                   ├─ too many: refused
//!                   └─ TSIH, until the entry is dropped
//! ```
//!
//! Invariant: no two sessions have the same identity or the same number.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_device::Signal;
use holdfast_listener::Tracked;

use crate::name::same_name;
use crate::orders::{Order, Orders};
use crate::parameters::Parameters;
use crate::settings::TargetLimits;
use crate::status::SessionStatus;

/// What tells sessions apart: a new login of the same is the same session again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) initiator: String,
    pub(crate) isid: [u8; 6],
    /// None in discovery.
    pub(crate) target: Option<String>,
    pub(crate) group: u16,
}

/// A session in the registry.
pub(crate) struct SessionEntry {
    pub(crate) tsih: u16,
    pub(crate) identity: Identity,
    pub(crate) alias: Option<String>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) user: Option<String>,
    pub(crate) mutual: bool,
    pub(crate) parameters: Mutex<Parameters>,
    pub(crate) tracked: Arc<Tracked>,
    pub(crate) orders: Orders,
    pub(crate) closed: Arc<Signal>,
}

impl SessionEntry {
    /// As administrators see it.
    pub(crate) fn status(&self) -> SessionStatus {
        SessionStatus {
            tsih: self.tsih,
            target: self.identity.target.clone(),
            initiator: self.identity.initiator.clone(),
            initiator_alias: self.alias.clone(),
            isid: self.identity.isid,
            portal: self.local.map_or_else(|| "a local socket".into(), |local| local.to_string()),
            group: self.identity.group,
            user: self.user.clone(),
            mutual: self.mutual,
            parameters: self.parameters.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            connection: self.tracked.status(),
        }
    }
}

/// Why a session is not let in.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There are as many as there may be.
    Full,
    /// One of the same identity is to end first.
    Reinstated(Arc<Signal>),
}

/// The sessions.
pub(crate) struct Sessions {
    limits: TargetLimits,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    by_number: BTreeMap<u16, Arc<SessionEntry>>,
    last: u16,
}

impl Table {
    fn free_number(&mut self) -> Option<u16> {
        if self.by_number.len() >= usize::from(u16::MAX) {
            return None;
        }
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.by_number.contains_key(&self.last) {
                return Some(self.last);
            }
        }
    }
}

/// A session's place, until it is dropped.
pub(crate) struct Place {
    sessions: Arc<Sessions>,
    pub(crate) entry: Arc<SessionEntry>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.sessions.table().by_number.remove(&self.entry.tsih);
        self.entry.orders.close();
        self.entry.closed.raise();
    }
}

/// What a session brings with it.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) identity: Identity,
    pub(crate) alias: Option<String>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) user: Option<String>,
    pub(crate) mutual: bool,
    pub(crate) parameters: Parameters,
    pub(crate) tracked: Arc<Tracked>,
}

impl Sessions {
    pub(super) fn new(limits: TargetLimits) -> Self {
        Self { limits, table: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, tsih: u16) -> Option<Arc<SessionEntry>> {
        self.table().by_number.get(&tsih).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<SessionEntry>> {
        self.table().by_number.values().cloned().collect()
    }

    /// Those of a target.
    pub(crate) fn of(&self, iqn: &str) -> Vec<Arc<SessionEntry>> {
        let table = self.table();
        let sessions = table.by_number.values();
        sessions
            .filter(|session| session.identity.target.as_deref().is_some_and(|target| same_name(target, iqn)))
            .cloned()
            .collect()
    }

    /// Lets a session in.
    pub(crate) fn enter(self: &Arc<Self>, candidate: &Candidate) -> Result<Place, Refused> {
        let mut table = self.table();
        let same = |entry: &&Arc<SessionEntry>| entry.identity == candidate.identity;
        if let Some(other) = table.by_number.values().find(same).cloned() {
            drop(table);
            other.orders.give(Order::End("its initiator logged in anew"));
            return Err(Refused::Reinstated(other.closed.clone()));
        }
        let discovery = candidate.identity.target.is_none();
        let limit = if discovery { self.limits.discovery_sessions } else { self.limits.sessions };
        let count = table.by_number.values().filter(|entry| entry.identity.target.is_none() == discovery).count();
        let number = if count < limit { table.free_number() } else { None };
        let Some(tsih) = number else { return Err(Refused::Full) };
        let Candidate { identity, alias, local, user, mutual, parameters, tracked } = candidate.clone();
        let entry = Arc::new(SessionEntry {
            tsih,
            identity,
            alias,
            local,
            user,
            mutual,
            parameters: Mutex::new(parameters),
            tracked,
            orders: Orders::default(),
            closed: Arc::default(),
        });
        table.by_number.insert(tsih, entry.clone());
        Ok(Place { sessions: self.clone(), entry })
    }
}
