//! The settings of the server as a table, with where each comes from.

use holdfast_api::{ServerSettings, SettingOrigin, TimeSetting};
use holdfast_model::counted;

use super::{Shown, facts, some};

/// Where a value comes from, behind it.
fn from(origin: SettingOrigin) -> &'static str {
    match origin {
        SettingOrigin::Default => " (default)",
        SettingOrigin::Set => "",
        SettingOrigin::CommandLine => " (command line)",
    }
}

/// A time in the largest unit that divides it.
fn time(seconds: u64) -> String {
    let units = [(24 * 60 * 60, "day", "days"), (60 * 60, "hour", "hours"), (60, "minute", "minutes")];
    let found = units.into_iter().find(|(length, ..)| seconds.is_multiple_of(*length));
    let (length, one, many) = found.unwrap_or((1, "second", "seconds"));
    counted(seconds / length, one, many)
}

fn when(setting: TimeSetting, word: &str) -> String {
    setting.seconds.map_or_else(|| "never".into(), |seconds| format!("{word} {}", time(seconds))) + from(setting.origin)
}

impl Shown for ServerSettings {
    fn text(&self) -> String {
        let (preferences, certificate) = (&self.preferences, self.certificate.as_ref());
        let percents: Vec<String> = preferences.alerts.percents.iter().map(|percent| format!("{percent} %")).collect();
        let alerts = if percents.is_empty() { "never".into() } else { format!("at {}", percents.join(", ")) };
        let https = if self.https.is_empty() { "-".into() } else { self.https.join(" ") };
        let made = |own: bool| if own { "the daemon itself" } else { "an authority" };
        facts(&[
            ("host name", preferences.host_name.value.clone() + from(preferences.host_name.origin)),
            ("scrub", when(preferences.scrub_every, "every")),
            ("rebuild lost disks", when(preferences.repair_after, "after")),
            ("pools warn", alerts + from(preferences.alerts.origin)),
            ("https", https),
            ("certificate SHA-256", some(&certificate.map(|one| one.sha256_fingerprint.clone()))),
            ("certificate by", some(&certificate.map(|one| made(one.self_signed)))),
            ("certificate until", some(&certificate.map(|one| one.not_after.clone()))),
            ("session idle", format!("{} s", self.session_idle_seconds)),
            ("session at most", format!("{} s", self.session_seconds)),
            ("state folder", self.state_folder.clone()),
            ("version", self.version.clone()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_largest_unit_that_divides_them() {
        let setting = |seconds| TimeSetting { seconds, origin: SettingOrigin::Set };
        assert_eq!(when(setting(Some(7 * 24 * 60 * 60)), "every"), "every 7 days");
        assert_eq!(when(setting(Some(60)), "after"), "after 1 minute");
        assert_eq!(when(setting(Some(61)), "after"), "after 61 seconds");
        assert_eq!(
            when(TimeSetting { seconds: None, origin: SettingOrigin::CommandLine }, "every"),
            "never (command line)"
        );
    }
}
