//! What files of volumes keep to prove their data.

use anyhow::Result;
use holdfast_api::{FileIntegrity, FileIntegrityChanged, SetFileIntegrity, word};

use crate::acls::place;
use crate::arguments::IntegrityCommand;
use crate::client::{Client, segment};
use crate::jobs;
use crate::output::{harmless, print};
use crate::remote::tell;
use crate::volumes::volume_path;

/// Does a command about integrity.
pub(crate) async fn integrity_command(client: &Client, json: bool, command: IntegrityCommand) -> Result<()> {
    match command {
        IntegrityCommand::Get { path } => {
            let (volume, below) = place(client, &path).await?;
            let asked = format!("{}/integrity?path={}", volume_path(&volume), segment(&below));
            print(json, &client.get::<FileIntegrity>(&asked).await?)
        }
        IntegrityCommand::Set { path, mode, below, start } => {
            let (volume, path) = place(client, &path).await?;
            let request = SetFileIntegrity { path: path.clone(), mode: mode.into(), below, pace: start.pace() };
            let answer: FileIntegrityChanged =
                client.put(&format!("{}/integrity", volume_path(&volume)), &request).await?;
            match &answer.job {
                Some(job) => jobs::told(client, json, (&answer, answer.changed, job), start.wait).await,
                None => {
                    let mode = word(&answer.integrity.mode);
                    let done = format!("new files below {} are {mode}", harmless(&path));
                    tell(json, &answer, answer.changed, done)
                }
            }
        }
    }
}
