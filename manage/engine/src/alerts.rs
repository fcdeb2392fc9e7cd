//! Alerts: a pool that fills up says so at thresholds, and once each.
//!
//! ```text
//!   used   ────────────── 95 ── event (error), level 3
//!          ─────── 85 ───────── event (warning), level 2
//!          ── 70 ────────────── event (warning), level 1        back below 70 - 5: event (info), level 0
//! ```
//!
//! Invariant: a level that is told is told again only after the use fell [`HYSTERESIS_PERCENT`] below its threshold in
//! between, also over a restart or on another machine: thresholds and levels are kept on the pool. A pool without
//! thresholds of its own has those of the server.

use holdfast_api::{ApiError, Condition, PoolAlert, Severity};
use holdfast_model::ByteSize;
use holdfast_pool::RoomUse;
use serde::{Deserialize, Serialize};
use tokio::sync::MutexGuard;

use crate::engine::{Engine, OpenPool};
use crate::error::ApiResult;
use crate::kept::kept;
use crate::view::percent;

/// Thresholds of a pool for which none were set.
pub(crate) const DEFAULT_PERCENTS: [u8; 3] = [70, 85, 95];
/// Thresholds of a pool, at most.
const MOST: usize = 8;
/// How far below a threshold the use must fall before it counts as over.
const HYSTERESIS_PERCENT: f64 = 5.0;
/// From this threshold on an alert is an error.
const ERROR_PERCENT: u8 = 95;
const NEXT: &str = "add disks with 'holdfast pool add', or discard what is not needed";

/// The document of a pool with its alerts; there is none where all is as usual.
const ALERTS: &str = "alerts";

/// What a pool keeps of its alerts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Alerts {
    /// Its own thresholds, in percent, rising; none leaves them to the server.
    #[serde(default)]
    percents: Option<Vec<u8>>,
    /// How many of those that hold were reached and told.
    #[serde(default)]
    level: usize,
}

/// The alerts of a pool as they hold now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldAlerts {
    /// Thresholds, in percent, rising.
    percents: Vec<u8>,
    /// Whether they are the server's.
    default: bool,
    /// How many of them were reached and told.
    level: usize,
}

impl HeldAlerts {
    /// How many thresholds count as reached at this use.
    fn level_at(&self, used_percent: f64) -> usize {
        let reached = self.percents.iter().take_while(|percent| used_percent >= f64::from(**percent)).count();
        let held =
            self.percents.iter().take_while(|percent| used_percent > f64::from(**percent) - HYSTERESIS_PERCENT).count();
        reached.max(self.level.min(held))
    }

    /// How full its ground is when initiators are told of it: the threshold in the middle; never if 0.
    pub(crate) fn of_luns(&self) -> u8 {
        self.percents.get(self.percents.len() / 2).copied().unwrap_or(0)
    }

    /// The highest threshold that counts as reached.
    fn reached(&self) -> Option<u8> {
        self.level.checked_sub(1).and_then(|at| self.percents.get(at)).copied()
    }
}

fn used_percent(room: &RoomUse) -> f64 {
    percent(room.used_bytes, room.data_bytes)
}

/// What the API shows of a pool's alerts.
pub(crate) fn shown(alerts: &HeldAlerts) -> PoolAlert {
    PoolAlert { percents: alerts.percents.clone(), default: alerts.default, reached_percent: alerts.reached() }
}

/// The condition of a pool that is as full as an alert says.
pub(crate) fn condition(pool: &str, alerts: &HeldAlerts, room: &RoomUse) -> Option<Condition> {
    let reached = alerts.reached()?;
    let cause = format!(
        "pool {pool} is {:.1} % full, above its alert threshold of {reached} %: {} of {} are used",
        used_percent(room),
        ByteSize(room.used_bytes),
        ByteSize(room.data_bytes)
    );
    Some(Condition::new(cause, NEXT))
}

impl Engine {
    /// The alerts of a pool.
    pub(crate) fn alerts_of(&self, open: &OpenPool) -> HeldAlerts {
        let Alerts { percents, level } = kept(&open.pool, ALERTS).unwrap_or_default();
        let default = percents.is_none();
        let of_server = || self.chosen().alert_percents.unwrap_or_else(|| DEFAULT_PERCENTS.to_vec());
        HeldAlerts { percents: percents.unwrap_or_else(of_server), default, level }
    }

    /// Keeps the alerts of a pool on it.
    async fn keep_alerts(&self, open: &OpenPool, alerts: Alerts) -> ApiResult<()> {
        let unusual = Some(&alerts).filter(|alerts| **alerts != Alerts::default());
        self.keep(&open.pool, ALERTS.into(), unusual).await
    }

    /// Sets the thresholds of a pool; none leaves them to the server. Answers whether they were others.
    pub(crate) async fn set_thresholds(&self, open: &OpenPool, percents: Option<Vec<u8>>) -> ApiResult<bool> {
        let alerting = open.alerting.lock().await;
        let known = self.alerts_of(open);
        let changed = percents != Some(known.percents).filter(|_| !known.default);
        if changed {
            self.keep_alerts(open, Alerts { percents, level: 0 }).await?;
            self.note(&open.object(), "has other alerts");
            self.raise_alerts(open, &alerting).await?;
        }
        Ok(changed)
    }

    /// The server has other thresholds: what was told of a pool without any of its own begins anew.
    pub(crate) async fn follow_thresholds(&self, open: &OpenPool) {
        let alerting = open.alerting.lock().await;
        let begun = match self.alerts_of(open).default && open.pool.refusal().is_none() {
            true => self.keep_alerts(open, Alerts::default()).await,
            false => Ok(()),
        };
        let looked = match begun {
            Ok(()) => self.raise_alerts(open, &alerting).await,
            refused => refused,
        };
        if let Err(error) = looked {
            tracing::warn!("pool {}: its alert state could not be saved: {error}", open.name());
        }
    }

    /// Tells of a pool that reached a threshold, or is below it again. One that takes no changes fills up no further.
    pub(crate) async fn look_at_room(&self, open: &OpenPool) -> ApiResult<()> {
        self.raise_alerts(open, &open.alerting.lock().await).await
    }

    async fn raise_alerts(&self, open: &OpenPool, _alerting: &MutexGuard<'_, ()>) -> ApiResult<()> {
        let (name, room) = (open.name(), open.pool.room_use());
        let known = self.alerts_of(open);
        let now = HeldAlerts { level: known.level_at(used_percent(&room)), ..known.clone() };
        if now.level == known.level || open.pool.refusal().is_some() {
            return Ok(());
        }
        let own = Some(now.percents.clone()).filter(|_| !now.default);
        self.keep_alerts(open, Alerts { percents: own, level: now.level }).await?;
        let object = open.object();
        match condition(&name, &now, &room) {
            Some(condition) if now.level > known.level => {
                let error = now.reached().is_some_and(|percent| percent >= ERROR_PERCENT);
                let severity = if error { Severity::Error } else { Severity::Warning };
                self.events.emit(severity, &object, &condition.cause, &condition.next_action);
            }
            _ => {
                let cause = format!(
                    "is {:.1} % full, back below its alert threshold of {} %",
                    used_percent(&room),
                    known.reached().unwrap_or(0)
                );
                self.events.emit(Severity::Info, &object, &cause, "");
            }
        }
        Ok(())
    }
}

/// Thresholds in order, if they can be; `object` is what they are for.
pub(crate) fn checked(object: &str, mut percents: Vec<u8>) -> ApiResult<Vec<u8>> {
    percents.sort_unstable();
    percents.dedup();
    if percents.len() > MOST || percents.iter().any(|percent| !(1..=100).contains(percent)) {
        let message = format!("alert thresholds {percents:?} are not valid: at most {MOST}, each from 1 to 100");
        return Err(
            ApiError::invalid(object, message, "for example --alert 70,85,95, or --alert none").at("alert_percents")
        );
    }
    Ok(percents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_left_only_well_below_its_threshold() {
        let mut alerts = HeldAlerts { percents: DEFAULT_PERCENTS.to_vec(), default: true, level: 0 };
        for (used, level) in [
            (0.0, 0),
            (69.9, 0),
            (70.0, 1),
            (69.0, 1),
            (65.1, 1),
            (65.0, 0),
            (69.9, 0),
            (96.0, 3),
            (91.0, 3),
            (90.0, 2),
            (84.0, 2),
            (79.0, 1),
            (85.0, 2),
            (10.0, 0),
        ] {
            alerts.level = alerts.level_at(used);
            assert_eq!(alerts.level, level, "at {used}");
        }
    }

    #[test]
    fn thresholds_are_sorted_and_checked() {
        assert_eq!(checked("tank", vec![90, 50, 90]).unwrap(), [50, 90]);
        assert_eq!(checked("tank", Vec::new()).unwrap(), Vec::<u8>::new());
        for wrong in [vec![0], vec![101], (1..=9).collect()] {
            assert!(checked("tank", wrong).unwrap_err().next_action.contains("--alert"));
        }
    }
}
