//! The table of targets, which all reactors share.
//!
//! ```text
//!   Targets ─┬─ targets by name: device, access, portals
//!            ├─ sessions by TSIH                          targets/sessions
//!            └─ failed logins                             login/throttle
//! ```
//!
//! Invariant: a target that was removed takes no new session, and its removal ends when its last session has.

mod portals;
mod sessions;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use holdfast_scsi::Device;

use crate::account::Account;
use crate::error::IscsiError;
use crate::login::throttle::{Attempt, Throttle};
use crate::login::{Closed, Way};
use crate::name::{is_name, same_name};
use crate::observer::Observer;
use crate::orders::Order;
use crate::settings::TargetLimits;
use crate::status::SessionStatus;
pub use portals::Portal;
pub(crate) use portals::portal_address;
use sessions::Sessions;
pub(crate) use sessions::{Candidate, Identity, Place, Refused, SessionEntry};

/// An initiator that may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Its name.
    pub iqn: String,
    /// By what it proves its name; none if it need not.
    pub chap: Option<Account>,
}

/// Who may log in to a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether any initiator may. Those that are listed with CHAP must still prove who they are.
    pub open: bool,
    /// Those that are listed.
    pub initiators: Vec<Allowed>,
    /// By what the target proves its own name to an initiator that asks for it.
    pub mutual: Option<Account>,
}

impl Access {
    /// Whether an initiator may log in, and by what it proves its name.
    pub(crate) fn of(&self, initiator: &str) -> Option<Option<&Account>> {
        let listed = self.initiators.iter().find(|allowed| same_name(&allowed.iqn, initiator));
        match listed {
            Some(allowed) => Some(allowed.chap.as_ref()),
            None => self.open.then_some(None),
        }
    }

    fn check(&self) -> Result<(), IscsiError> {
        for (at, allowed) in self.initiators.iter().enumerate() {
            if !is_name(&allowed.iqn) {
                return Err(IscsiError::Name(allowed.iqn.escape_debug().to_string()));
            }
            if self.initiators[..at].iter().any(|other| same_name(&other.iqn, &allowed.iqn)) {
                return Err(IscsiError::Twice(allowed.iqn.clone()));
            }
        }
        let accounts: Vec<&Account> = self.initiators.iter().filter_map(|allowed| allowed.chap.as_ref()).collect();
        check_accounts(&accounts, self.mutual.as_ref())
    }
}

fn check_accounts(accounts: &[&Account], mutual: Option<&Account>) -> Result<(), IscsiError> {
    for account in accounts.iter().copied().chain(mutual) {
        if account.user.is_empty() || account.user.len() > 255 || account.user.contains('\0') {
            return Err(IscsiError::User(account.user.escape_debug().to_string()));
        }
        if !account.secret.is_sound() {
            return Err(IscsiError::Secret(account.user.clone()));
        }
    }
    let same = |account: &&&Account| mutual.is_some_and(|mutual| mutual.secret == account.secret);
    match accounts.iter().find(same) {
        Some(account) => Err(IscsiError::SameSecret(account.user.clone())),
        None => Ok(()),
    }
}

/// A target.
pub struct TargetSettings {
    /// Its name.
    pub iqn: String,
    /// What people call it.
    pub alias: Option<String>,
    /// What it shows. Each portal group is one SCSI port of it, of which the number of the group is the relative
    /// identifier.
    pub device: Arc<Device>,
    /// Who may log in.
    pub access: Access,
    /// Where; with none, at every address that the server listens on, which is group 1 then.
    pub portals: Vec<Portal>,
}

pub(crate) struct Target {
    pub(crate) alias: Option<String>,
    pub(crate) device: Arc<Device>,
    pub(crate) access: Access,
    pub(crate) portals: Vec<Portal>,
}

/// By what initiators and the server prove their names in discovery.
#[derive(Clone, Default)]
struct Discovery {
    chap: Option<Account>,
    mutual: Option<Account>,
}

/// The named targets that a server offers. Targets come and go while it runs.
pub struct Targets {
    by_name: RwLock<BTreeMap<String, Target>>,
    discovery: RwLock<Discovery>,
    sessions: Arc<Sessions>,
    throttle: Mutex<Throttle>,
    observer: RwLock<Option<Arc<dyn Observer>>>,
}

impl Targets {
    /// An empty table.
    pub fn new(limits: TargetLimits) -> Arc<Self> {
        Arc::new(Self {
            by_name: RwLock::default(),
            discovery: RwLock::default(),
            sessions: Arc::new(Sessions::new(limits)),
            throttle: Mutex::default(),
            observer: RwLock::default(),
        })
    }

    /// Has `observer` hear of logins and sessions from now on.
    pub fn set_observer(&self, observer: Arc<dyn Observer>) {
        *self.observer.write().unwrap_or_else(PoisonError::into_inner) = Some(observer);
    }

    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.observer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Offers a target.
    ///
    /// # Errors
    /// When the name is taken or none, or its access or portals make no sense.
    pub fn add(&self, target: TargetSettings) -> Result<(), IscsiError> {
        let TargetSettings { iqn, alias, device, access, portals } = target;
        if !is_name(&iqn) {
            return Err(IscsiError::Name(iqn.escape_debug().to_string()));
        }
        access.check()?;
        portals::check(&portals)?;
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        if by_name.keys().any(|name| same_name(name, &iqn)) {
            return Err(IscsiError::Exists(iqn));
        }
        by_name.insert(iqn, Target { alias, device, access, portals });
        Ok(())
    }

    /// Offers a target no longer. Its initiators are asked to log out; sessions that do not are ended after a while. The
    /// future ends with the last of them; all goes on when it is dropped.
    ///
    /// # Errors
    /// When there is no such target.
    pub fn remove(&self, iqn: &str) -> Result<BoxFuture<'static, ()>, IscsiError> {
        let removed = self.by_name.write().unwrap_or_else(PoisonError::into_inner).remove(iqn);
        removed.ok_or_else(|| IscsiError::Unknown(iqn.to_owned()))?;
        let sessions = self.sessions.of(iqn);
        sessions.iter().for_each(|session| session.orders.give(Order::Leave("its target was removed")));
        Ok(Box::pin(async move {
            for session in sessions {
                session.closed.wait().await;
            }
        }))
    }

    fn change<T>(&self, iqn: &str, change: impl FnOnce(&mut Target) -> T) -> Result<T, IscsiError> {
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.get_mut(iqn).map(change).ok_or_else(|| IscsiError::Unknown(iqn.to_owned()))
    }

    /// Lets others in from now on. Sessions end at once that would not be let in as they were: of an initiator that may no
    /// longer log in, or that must prove its name by another account or secret now.
    ///
    /// # Errors
    /// When there is no such target, or the access makes no sense.
    pub fn set_access(&self, iqn: &str, access: Access) -> Result<(), IscsiError> {
        access.check()?;
        let before = self.change(iqn, |target| std::mem::replace(&mut target.access, access.clone()))?;
        for session in self.sessions.of(iqn) {
            let name = &session.identity.initiator;
            let stays = match access.of(name) {
                None => false,
                Some(None) => true,
                Some(now) => session.user.is_some() && before.of(name) == Some(now),
            };
            if !stays {
                session.orders.give(Order::End("its initiator may no longer log in"));
            }
        }
        Ok(())
    }

    /// Offers a target at other portals from now on. Sessions over portals that it has no longer are ended.
    ///
    /// # Errors
    /// When there is no such target, or the portals make no sense.
    pub fn set_portals(&self, iqn: &str, portals: Vec<Portal>) -> Result<(), IscsiError> {
        portals::check(&portals)?;
        self.change(iqn, |target| target.portals.clone_from(&portals))?;
        for session in self.sessions.of(iqn) {
            if portals::group_of(&portals, session.local) != Some(session.identity.group) {
                session.orders.give(Order::Leave("its portal is no longer the target's"));
            }
        }
        Ok(())
    }

    /// By what initiators, and the server itself, prove their names before targets are listed; with none, anybody sees
    /// the targets that the name that it claims may log in to.
    ///
    /// # Errors
    /// When a name or a secret cannot be used.
    pub fn set_discovery(&self, chap: Option<Account>, mutual: Option<Account>) -> Result<(), IscsiError> {
        let accounts: Vec<&Account> = chap.iter().collect();
        check_accounts(&accounts, mutual.as_ref())?;
        *self.discovery.write().unwrap_or_else(PoisonError::into_inner) = Discovery { chap, mutual };
        Ok(())
    }

    /// The names of all targets.
    pub fn names(&self) -> Vec<String> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Who is logged in to a target, or to any; discovery sessions only among all.
    pub fn sessions(&self, iqn: Option<&str>) -> Vec<SessionStatus> {
        let sessions = iqn.map_or_else(|| self.sessions.all(), |iqn| self.sessions.of(iqn));
        sessions.iter().map(|session| session.status()).collect()
    }

    /// Ends a session; says whether there was one of this number.
    pub fn drop_session(&self, tsih: u16) -> bool {
        let found = self.sessions.find(tsih);
        found.iter().for_each(|session| session.orders.give(Order::End("an administrator ended it")));
        found.is_some()
    }

    pub(crate) fn registry(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// The way of an initiator to a target, over the local address of its connection, and the target's device.
    pub(crate) fn way(
        &self,
        initiator: &str,
        iqn: &str,
        local: Option<SocketAddr>,
    ) -> Result<(Way, Arc<Device>), Closed> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let written_else = || by_name.iter().find(|(name, _)| same_name(name, iqn)).map(|(_, target)| target);
        let target = by_name.get(iqn).or_else(written_else).ok_or(Closed::NoTarget)?;
        let group = portals::group_of(&target.portals, local).ok_or(Closed::NoTarget)?;
        let chap = target.access.of(initiator).ok_or(Closed::NotAllowed)?.cloned();
        let way = Way { alias: target.alias.clone(), group, chap, mutual: target.access.mutual.clone() };
        Ok((way, target.device.clone()))
    }

    /// The way to discovery.
    pub(crate) fn discovery_way(&self) -> Way {
        let Discovery { chap, mutual } = self.discovery.read().unwrap_or_else(PoisonError::into_inner).clone();
        Way { alias: None, group: 0, chap, mutual }
    }

    /// The targets that an initiator may log in to, or one of them, with the addresses of their portals and their groups.
    pub(crate) fn visible(
        &self,
        initiator: &str,
        only: Option<&str>,
        local: Option<SocketAddr>,
    ) -> Vec<(String, Vec<(SocketAddr, u16)>)> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let seen = |(iqn, target): (&String, &Target)| {
            let wanted = only.is_none_or(|only| same_name(only, iqn)) && target.access.of(initiator).is_some();
            wanted.then(|| (iqn.clone(), portals::addresses(&target.portals, local)))
        };
        by_name.iter().filter_map(seen).collect()
    }

    fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a login of an account waits; none if it is refused.
    pub(crate) fn attempt(&self, user: &str, address: Option<IpAddr>, now: Duration) -> Option<Duration> {
        self.throttle().begin(&Attempt::new(user, address), now)
    }

    /// How the attempt ended.
    pub(crate) fn attempted(&self, user: &str, address: Option<IpAddr>, right: bool, now: Duration) {
        let attempt = Attempt::new(user, address);
        if right { self.throttle().succeeded(&attempt) } else { self.throttle().failed(&attempt, now) }
    }
}

#[cfg(test)]
mod tests;
