//! LUNs that could not be served, which are tried again; and what is told of initiators: logins that failed, sessions that
//! came and went.
//!
//! Invariant: who tries passwords fills no log: failed logins of one initiator are told once a minute, with their
//! number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use holdfast_api::Severity;
use holdfast_iscsi::{FailedLogin, Observer, SessionStatus};
use holdfast_model::{ObjectRef, Uuid};

use crate::engine::Engine;
use crate::error::ApiResult;
use crate::events::EventLog;

/// How often LUNs that could not be served are tried again at most.
const RETRY_EVERY: Duration = Duration::from_secs(10);
/// How often failed logins of one initiator are told.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Initiators whose failed logins are told apart.
const MOST_FAILING: usize = 256;

impl Engine {
    /// Tries again to serve LUNs of pools in service that could not be; `tried` says when that was done last.
    pub(crate) async fn retry_luns(self: &Arc<Self>, tried: &mut Option<Instant>) -> ApiResult<()> {
        if tried.is_some_and(|at| at.elapsed() < RETRY_EVERY) {
            return Ok(());
        }
        let pools: BTreeSet<Uuid> = {
            let live = self.live();
            let here: BTreeSet<Uuid> = live.pools.values().map(|open| open.pool.id()).collect();
            let troubled = live.targets.values().flat_map(|target| {
                target.troubles.keys().filter_map(|number| Some(target.known.luns.get(number)?.pool))
            });
            troubled.filter(|pool| here.contains(pool)).collect()
        };
        if pools.is_empty() {
            return Ok(());
        }
        let retried = self.change(move |engine| async move {
            for open in engine.open_pools(&pools) {
                engine.serve_luns(&open).await;
            }
            Ok(())
        });
        retried.await?;
        *tried = Some(Instant::now());
        Ok(())
    }
}

/// Failed logins of an initiator.
struct Failing {
    told: Instant,
    more: u64,
}

/// Notes what initiators do as events.
pub(crate) struct TargetEvents {
    events: Arc<EventLog>,
    engine: OnceLock<Weak<Engine>>,
    failing: Mutex<BTreeMap<String, Failing>>,
}

impl TargetEvents {
    /// Into this log.
    pub(crate) fn new(events: Arc<EventLog>) -> Arc<Self> {
        Arc::new(Self { events, engine: OnceLock::new(), failing: Mutex::default() })
    }

    /// The engine whose targets they are.
    pub(crate) fn set_engine(&self, engine: &Arc<Engine>) {
        let _ = self.engine.set(Arc::downgrade(engine));
    }

    /// The target of this iSCSI name.
    fn object(&self, iqn: Option<&str>) -> ObjectRef {
        let engine = self.engine.get().and_then(Weak::upgrade);
        let known = iqn.and_then(|iqn| engine?.target_object_of(iqn));
        known.unwrap_or_else(|| ObjectRef::server("iSCSI"))
    }

    /// How many were not told since the last that was; none if this one is not to be told.
    fn is_told(&self, who: &str) -> Option<u64> {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if failing.len() >= MOST_FAILING && !failing.contains_key(who) {
            failing.retain(|_, one| one.told.elapsed() < TELL_EVERY);
            if failing.len() >= MOST_FAILING {
                return None;
            }
        }
        let now = Instant::now();
        match failing.get_mut(who) {
            Some(one) if one.told.elapsed() < TELL_EVERY => {
                one.more += 1;
                None
            }
            Some(one) => {
                one.told = now;
                Some(std::mem::take(&mut one.more))
            }
            None => {
                failing.insert(who.to_owned(), Failing { told: now, more: 0 });
                Some(0)
            }
        }
    }
}

/// A text of an initiator, as long as people read it, without control characters.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(223).collect()
}

impl Observer for TargetEvents {
    fn login_failed(&self, failed: FailedLogin) {
        let address = failed.peer.rsplit_once(':').map_or(failed.peer.as_str(), |(address, _)| address);
        let initiator = plain(&failed.initiator);
        let who = if initiator.is_empty() { String::new() } else { format!(" of {initiator}") };
        let Some(more) =
            self.is_told(&format!("{address} {initiator} {}", plain(failed.target.as_deref().unwrap_or_default())))
        else {
            return;
        };
        let user = failed.user.map(|user| format!(" as {}", plain(&user))).unwrap_or_default();
        let more = if more > 0 { format!("; {more} more since the last that was told") } else { String::new() };
        let cause = format!("a login{who} from {address}{user} failed: {}{more}", failed.reason);
        let next = "check who that is; 'holdfast initiator allow' lets it in";
        self.events.emit(Severity::Warning, &self.object(failed.target.as_deref()), &cause, next);
    }

    fn session_began(&self, session: &SessionStatus) {
        // Those that only ask for targets come and go by the minute.
        if session.target.is_some() {
            let user = session.user.as_deref().map(|user| format!(" as {}", plain(user))).unwrap_or_default();
            let cause = format!(
                "{} logged in{user} from {} at {}, session {}",
                plain(&session.initiator),
                session.connection.peer,
                session.portal,
                session.tsih
            );
            self.events.emit(Severity::Info, &self.object(session.target.as_deref()), &cause, "");
        }
    }

    fn session_ended(&self, session: &SessionStatus, why: &str) {
        if session.target.is_some() {
            let cause = format!("session {} of {} ended: {}", session.tsih, plain(&session.initiator), plain(why));
            self.events.emit(Severity::Info, &self.object(session.target.as_deref()), &cause, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(peer: &str, initiator: &str) -> FailedLogin {
        FailedLogin {
            peer: peer.into(),
            initiator: initiator.into(),
            target: None,
            user: Some("ann\n".into()),
            status: 0x0201,
            reason: "the secret is wrong".into(),
        }
    }

    #[test]
    fn logins_that_fail_by_the_thousand_are_told_once_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let events = EventLog::open(folder.path()).unwrap();
        let observer = TargetEvents::new(events.clone());
        for port in 0..1000 {
            observer.login_failed(failed(&format!("192.0.2.7:{port}"), "iqn.2000-01.x:a"));
        }
        observer.login_failed(failed("192.0.2.7:1", "iqn.2000-01.x:b"));
        let told = events.list(0, 10);
        assert_eq!(told.len(), 2, "{told:#?}");
        assert_eq!(told[0].cause, "a login of iqn.2000-01.x:a from 192.0.2.7 as ann failed: the secret is wrong");
        for number in 0..2 * MOST_FAILING {
            observer.login_failed(failed("192.0.2.7:1", &format!("iqn.2000-01.x:{number}")));
        }
        assert!(events.counts().0 as usize <= MOST_FAILING, "whoever takes a name each time is not told for ever");
        let mut failing = observer.failing.lock().unwrap();
        failing.values_mut().for_each(|one| one.told -= TELL_EVERY);
        drop(failing);
        observer.login_failed(failed("192.0.2.7:5", "iqn.2000-01.x:a"));
        assert!(events.list(0, 1)[0].cause.ends_with("; 999 more since the last that was told"));
        events.close();
    }
}
