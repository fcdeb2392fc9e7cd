//! Settings that administrators change while the daemon runs.
//!
//! ```text
//!   an option of the command line  >  what is kept in the state folder  >  the default
//! ```
//!
//! Invariant: what the command line gives is never changed, so that what is shown is what holds.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use holdfast_api::{
    ApiError, PercentsSetting, Preferences, SetSettings, SettingName, SettingOrigin, TextSetting, TimeSetting,
};
use holdfast_model::{ObjectRef, counted};
use serde::{Deserialize, Serialize};

use crate::alerts;
use crate::engine::Engine;
use crate::error::{ApiResult, conflict, unwritten};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const YEAR: u64 = 365 * 24 * HOUR;
const MOST_NAME_BYTES: usize = 253;
const OBJECT: &str = "settings";

/// What was set; what is none is as by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// What the server is called.
    pub host_name: Option<String>,
    /// How often each space is scrubbed; 0 for never.
    pub scrub_every_seconds: Option<u64>,
    /// How long a disk may be away; 0 for never.
    pub repair_after_seconds: Option<u64>,
    /// Thresholds of pools without any of their own, rising.
    pub alert_percents: Option<Vec<u8>>,
}

/// A time as it is kept.
fn kept(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// A time in whole seconds, rounded up.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// The value that holds, and where it comes from.
fn held<T>(given: Option<T>, chosen: Option<T>, default: T) -> (T, SettingOrigin) {
    match (given, chosen) {
        (Some(given), _) => (given, SettingOrigin::CommandLine),
        (None, Some(chosen)) => (chosen, SettingOrigin::Set),
        (None, None) => (default, SettingOrigin::Default),
    }
}

/// What the machine calls itself.
fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn invalid(field: &str, message: String, next_action: &str) -> ApiError {
    ApiError::invalid(OBJECT, message, next_action).at(field)
}

fn checked_name(name: String) -> ApiResult<String> {
    let shaped = (1..=MOST_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && name.as_bytes()[0].is_ascii_alphanumeric();
    let shown: String = name.chars().take(80).collect();
    let next = "use 1 to 253 letters, digits, '.', '_' and '-', a letter or digit first";
    if shaped { Ok(name) } else { Err(invalid("host_name", format!("{shown:?} is not a valid host name"), next)) }
}

fn checked_time(field: &str, what: &str, seconds: u64, range: (u64, u64), next: &str) -> ApiResult<u64> {
    if seconds == 0 || (range.0..=range.1).contains(&seconds) {
        return Ok(seconds);
    }
    Err(invalid(field, format!("{what} cannot be {}", counted(seconds, "second", "seconds")), next))
}

impl Engine {
    pub(crate) fn chosen(&self) -> Chosen {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).chosen.clone()
    }

    /// How often each space is scrubbed by itself; never if none.
    pub(crate) fn scrub_every(&self) -> Option<Duration> {
        held(self.settings.given.scrub_every, self.chosen().scrub_every_seconds.map(kept), self.settings.scrub_every).0
    }

    /// How long a disk may be away before its data is rebuilt, where its pool does not say; never if none.
    pub(crate) fn repair_after(&self) -> Option<Duration> {
        held(self.settings.given.repair_after, self.chosen().repair_after_seconds.map(kept), self.settings.repair_after)
            .0
    }

    /// The same in whole seconds.
    pub(crate) fn default_grace_seconds(&self) -> Option<u64> {
        self.repair_after().map(whole_seconds)
    }

    /// What the server is called.
    pub fn host_name(&self) -> String {
        self.chosen().host_name.unwrap_or_else(machine_name)
    }

    /// The settings as they hold now.
    pub fn preferences(&self) -> Preferences {
        let chosen = self.chosen();
        let (host_name, host_origin) = held(None, chosen.host_name, machine_name());
        let (scrub, scrub_origin) =
            held(self.settings.given.scrub_every, chosen.scrub_every_seconds.map(kept), self.settings.scrub_every);
        let (repair, repair_origin) =
            held(self.settings.given.repair_after, chosen.repair_after_seconds.map(kept), self.settings.repair_after);
        let (percents, alerts_origin) = held(None, chosen.alert_percents, alerts::DEFAULT_PERCENTS.to_vec());
        Preferences {
            host_name: TextSetting { value: host_name, origin: host_origin },
            scrub_every: TimeSetting { seconds: scrub.map(whole_seconds), origin: scrub_origin },
            repair_after: TimeSetting { seconds: repair.map(whole_seconds), origin: repair_origin },
            alerts: PercentsSetting { percents, origin: alerts_origin },
        }
    }

    /// Changes settings. Answers whether anything changed.
    ///
    /// # Errors
    /// If a value cannot be, or the command line gives the setting; nothing is changed then.
    pub async fn set_preferences(self: &Arc<Self>, request: SetSettings) -> ApiResult<bool> {
        self.change(move |engine| async move { engine.choose(request).await }).await
    }

    /// Refuses what the command line gives.
    fn check_free(&self, name: SettingName) -> ApiResult<()> {
        let (given, option, field) = match name {
            SettingName::ScrubEvery => {
                (self.settings.given.scrub_every.is_some(), "--scrub-every", "scrub_every_seconds")
            }
            SettingName::RepairAfter => {
                (self.settings.given.repair_after.is_some(), "--repair-after", "repair_after_seconds")
            }
            SettingName::HostName | SettingName::Alerts => return Ok(()),
        };
        if !given {
            return Ok(());
        }
        let message = format!("the daemon was started with {option}, which overrides this setting");
        Err(conflict(OBJECT, message, format!("start the daemon without {option}, then set it")).at(field))
    }

    async fn choose(&self, request: SetSettings) -> ApiResult<bool> {
        let SetSettings { host_name, scrub_every_seconds, repair_after_seconds, alert_percents, reset } = request;
        let named = [
            (SettingName::HostName, host_name.is_some()),
            (SettingName::ScrubEvery, scrub_every_seconds.is_some()),
            (SettingName::RepairAfter, repair_after_seconds.is_some()),
            (SettingName::Alerts, alert_percents.is_some()),
        ];
        for (name, set) in named {
            let goes_back = reset.contains(&name);
            if set && goes_back {
                let message = format!("{} cannot be set and reset in one request", holdfast_api::word(&name));
                return Err(invalid("reset", message, "do one of the two"));
            }
            if set || goes_back {
                self.check_free(name)?;
            }
        }
        let scrub = |seconds| {
            let (range, next) = ((HOUR, 10 * YEAR), "choose 1h to 3650d, or never");
            checked_time("scrub_every_seconds", "the time between scrubs", seconds, range, next)
        };
        let repair = |seconds| {
            let (range, next) = ((1, YEAR), "choose 1s to 365d, or never");
            checked_time("repair_after_seconds", "the time before a rebuild", seconds, range, next)
        };
        let wanted = Chosen {
            host_name: host_name.map(checked_name).transpose()?,
            scrub_every_seconds: scrub_every_seconds.map(scrub).transpose()?,
            repair_after_seconds: repair_after_seconds.map(repair).transpose()?,
            alert_percents: alert_percents.map(|percents| alerts::checked(OBJECT, percents)).transpose()?,
        };
        let before = self.chosen();
        let kept = |name: SettingName| !reset.contains(&name);
        let next = Chosen {
            host_name: wanted.host_name.or(before.host_name.clone()).filter(|_| kept(SettingName::HostName)),
            scrub_every_seconds: wanted
                .scrub_every_seconds
                .or(before.scrub_every_seconds)
                .filter(|_| kept(SettingName::ScrubEvery)),
            repair_after_seconds: wanted
                .repair_after_seconds
                .or(before.repair_after_seconds)
                .filter(|_| kept(SettingName::RepairAfter)),
            alert_percents: wanted
                .alert_percents
                .or(before.alert_percents.clone())
                .filter(|_| kept(SettingName::Alerts)),
        };
        if next == before {
            return Ok(false);
        }
        let other_alerts = next.alert_percents != before.alert_percents;
        let changed = self.change_state(|state| state.chosen = next);
        changed.map_err(unwritten)?;
        self.notifications.set_host_name(self.chosen().host_name);
        self.note(&ObjectRef::server(OBJECT), "changed");
        if other_alerts {
            let open: Vec<_> = self.live().pools.values().cloned().collect();
            for open in open {
                self.follow_thresholds(&open).await;
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_overrides_what_is_kept() {
        assert_eq!(held(Some(1), Some(2), 3), (1, SettingOrigin::CommandLine));
        assert_eq!(held(None, Some(2), 3), (2, SettingOrigin::Set));
        assert_eq!(held(None, None, 3), (3, SettingOrigin::Default));
        assert_eq!(whole_seconds(Duration::from_millis(1001)), 2);
    }

    #[test]
    fn values_are_checked() {
        assert_eq!(checked_name("nas-1.example".into()).unwrap(), "nas-1.example");
        for wrong in ["", "-a", "a b", "a\n", &"x".repeat(254)] {
            assert!(checked_name(wrong.into()).is_err(), "{wrong:?}");
        }
        for (seconds, fits) in [(0, true), (59, false), (60, true), (100, true), (101, false)] {
            assert_eq!(checked_time("", "it", seconds, (60, 100), "").is_ok(), fits, "{seconds}");
        }
    }
}
