//! Settings of the server that administrators change while it runs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::ServerSettings;

/// Where the value of a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettingOrigin {
    /// Nothing is set: it is the default.
    Default,
    /// It was set, and is kept over restarts.
    Set,
    /// The daemon was started with an option for it, which overrides what is set.
    CommandLine,
}

/// A text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TextSetting {
    /// What it is.
    pub value: String,
    /// Where that comes from.
    pub origin: SettingOrigin,
}

/// A time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimeSetting {
    /// Whole seconds, rounded up; none for never.
    pub seconds: Option<u64>,
    /// Where that comes from.
    pub origin: SettingOrigin,
}

/// Thresholds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PercentsSetting {
    /// In percent, rising.
    pub percents: Vec<u8>,
    /// Where that comes from.
    pub origin: SettingOrigin,
}

/// Settings that can be changed while the daemon runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Preferences {
    /// What the server is called in the console.
    pub host_name: TextSetting,
    /// Interval between automatic scrubs of each space.
    pub scrub_every: TimeSetting,
    /// How long a disk may be away before its data is rebuilt on other disks, for pools without a time of their own.
    pub repair_after: TimeSetting,
    /// How full a pool may become before it warns, for pools without thresholds of their own.
    pub alerts: PercentsSetting,
}

/// The name of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettingName {
    /// What the server is called.
    HostName,
    /// How often each space is scrubbed.
    ScrubEvery,
    /// How long a disk may be away.
    RepairAfter,
    /// When pools warn.
    Alerts,
}

/// Changes settings; what is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSettings {
    /// What the server is called in the console: 1 to 253 letters, digits, `.`, `_` and `-`.
    #[serde(default)]
    pub host_name: Option<String>,
    /// Interval between automatic scrubs of each space: an hour to ten years, 0 for never.
    #[serde(default)]
    pub scrub_every_seconds: Option<u64>,
    /// How long a disk may be away before its data is rebuilt on other disks: a second to a year, 0 for never.
    #[serde(default)]
    pub repair_after_seconds: Option<u64>,
    /// How full a pool may become before it warns, in percent, 8 thresholds at most; never for an empty list.
    #[serde(default)]
    pub alert_percents: Option<Vec<u8>>,
    /// Settings that go back to their defaults. None of them may be set in the same request.
    #[serde(default)]
    pub reset: Vec<SettingName>,
}

/// The answer to a change of settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingsChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The settings as they are now.
    pub settings: ServerSettings,
}
