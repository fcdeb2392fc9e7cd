//! The commands about the settings of the server.

use anyhow::Result;
use holdfast_api::{ServerSettings, SetSettings, SettingName, SettingsChanged};

use crate::arguments::{Chosen, SetSetting, SettingsCommand};
use crate::client::Client;
use crate::output::print;
use crate::remote::tell;

/// The seconds of a time that is set; one that goes back to its default is named in `reset`.
fn seconds(chosen: Option<Chosen>, name: SettingName, reset: &mut Vec<SettingName>) -> Option<u64> {
    match chosen? {
        Chosen::Seconds(seconds) => Some(seconds),
        Chosen::Default => {
            reset.push(name);
            None
        }
    }
}

fn request(set: SetSetting) -> SetSettings {
    let mut reset = Vec::new();
    if set.host_name.as_deref() == Some("") {
        reset.push(SettingName::HostName);
    }
    let scrub_every_seconds = seconds(set.scrub_every, SettingName::ScrubEvery, &mut reset);
    let repair_after_seconds = seconds(set.repair_after, SettingName::RepairAfter, &mut reset);
    if set.alert.as_ref().is_some_and(|alert| alert.0.is_none()) {
        reset.push(SettingName::Alerts);
    }
    let host_name = set.host_name.filter(|name| !name.is_empty());
    let alert_percents = set.alert.and_then(|alert| alert.0);
    SetSettings { host_name, scrub_every_seconds, repair_after_seconds, alert_percents, reset }
}

/// Shows or changes the settings of the server.
pub async fn settings_command(client: &Client, json: bool, command: Option<SettingsCommand>) -> Result<()> {
    match command.unwrap_or(SettingsCommand::Show) {
        SettingsCommand::Show => print(json, &client.get::<ServerSettings>("/settings").await?),
        SettingsCommand::Set(set) => {
            let answer: SettingsChanged = client.patch("/settings", &request(set)).await?;
            tell(json, &answer, answer.changed, "the settings are set".into())
        }
    }
}
