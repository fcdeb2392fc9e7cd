//! Change journals of volumes.

use std::time::Duration;

use anyhow::Result;
use holdfast_api::{JournalEntries, SetVolumeJournal, VolumeJournal, VolumeJournalChanged};
use holdfast_model::ByteSize;

use crate::arguments::JournalCommand;
use crate::client::Client;
use crate::output::print;
use crate::remote::tell;
use crate::volumes::volume_path;

/// How often it is looked for more while it is followed.
const FOLLOW: Duration = Duration::from_secs(1);

/// Does a command about change journals.
pub(crate) async fn journal_command(client: &Client, json: bool, command: JournalCommand) -> Result<()> {
    match command {
        JournalCommand::Show { volume } => {
            print(json, &client.get::<VolumeJournal>(&format!("{}/journal", volume_path(&volume))).await?)
        }
        JournalCommand::Set { volume, size } => {
            let request = SetVolumeJournal { max_bytes: size.map(|size| size.bytes()) };
            let answer: VolumeJournalChanged =
                client.put(&format!("{}/journal", volume_path(&volume)), &request).await?;
            let size = answer.journal.as_ref().map_or(0, |journal| journal.max_bytes);
            let done = format!("volume {volume} keeps the last {} of its changes", ByteSize(size));
            tell(json, &answer, answer.changed, done)
        }
        JournalCommand::Remove { volume, yes } => {
            let path = format!("{}/journal?confirm={yes}", volume_path(&volume));
            let answer: VolumeJournalChanged = client.delete(&path).await?;
            tell(json, &answer, answer.changed, format!("volume {volume} has no change journal"))
        }
        JournalCommand::Read { volume, from, follow } => {
            let base = format!("{}/journal/entries", volume_path(&volume));
            let mut query = from.map_or_else(String::new, |from| format!("?from={from}"));
            loop {
                let some: JournalEntries = client.get(&format!("{base}{query}")).await?;
                let is_end = some.entries.is_empty();
                if !is_end || some.gap || !follow {
                    print(json, &some)?;
                }
                // A program goes on by itself from where an answer ends.
                if !follow && (json || is_end) {
                    return Ok(());
                }
                query = format!("?id={}&from={}", some.id, some.next);
                if is_end {
                    tokio::time::sleep(FOLLOW).await;
                }
            }
        }
    }
}
