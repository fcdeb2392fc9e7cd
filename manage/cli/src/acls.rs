//! Permissions of files of volumes.

use anyhow::{Result, bail};
use holdfast_api::{EffectiveAccess, FileAcl, FileAclChanged, SetFileAcl, Volume};
use holdfast_model::SpacePath;

use crate::arguments::AclCommand;
use crate::client::{Client, segment};
use crate::jobs;
use crate::output::{harmless, print};
use crate::remote::tell;
use crate::volumes::volume_path;

/// The volume of a file, and its path there: of `POOL/VOLUME/PATH`, or of a path of the server below a mounted volume.
pub(crate) async fn place(client: &Client, text: &str) -> Result<(SpacePath, String)> {
    if !text.starts_with('/') {
        let mut parts = text.splitn(3, '/');
        let (pool, volume) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let below = parts.next().unwrap_or_default();
        return Ok((format!("{pool}/{volume}").parse()?, format!("/{below}")));
    }
    let volumes: Vec<Volume> = client.get("/volumes").await?;
    let below = |volume: &Volume| {
        let mount = volume.mount.as_ref().filter(|mount| mount.mounted)?;
        let rest = text.strip_prefix(mount.directory.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then(|| (volume.name.clone(), rest.to_owned()))
    };
    let found = volumes.iter().filter_map(below).min_by_key(|(_, rest)| rest.len());
    match found {
        Some((volume, rest)) => Ok((volume.parse()?, if rest.is_empty() { "/".into() } else { rest })),
        None => bail!("path {text}: no volume is mounted there; next: write POOL/VOLUME/PATH"),
    }
}

/// Does a command about permissions.
pub(crate) async fn acl_command(client: &Client, json: bool, command: AclCommand) -> Result<()> {
    match command {
        AclCommand::Get { path } => {
            let (volume, below) = place(client, &path).await?;
            let asked = format!("{}/acl?path={}", volume_path(&volume), segment(&below));
            print(json, &client.get::<FileAcl>(&asked).await?)
        }
        AclCommand::Set { path, sddl, below: hands_on, start } => {
            let (volume, below) = place(client, &path).await?;
            let request = SetFileAcl { path: below, sddl, below: hands_on, pace: start.pace() };
            let answer: FileAclChanged = client.put(&format!("{}/acl", volume_path(&volume)), &request).await?;
            match &answer.job {
                Some(job) => jobs::told(client, json, (&answer, answer.changed, job), start.wait).await,
                None => {
                    let done = format!("permissions of {} are {}", harmless(&path), harmless(&answer.acl.sddl));
                    tell(json, &answer, answer.changed, done)
                }
            }
        }
        AclCommand::Access { path, user } => {
            let (volume, below) = place(client, &path).await?;
            let (below, user) = (segment(&below), segment(&user));
            let asked = format!("{}/acl/access?path={below}&user={user}", volume_path(&volume));
            print(json, &client.get::<EffectiveAccess>(&asked).await?)
        }
    }
}
