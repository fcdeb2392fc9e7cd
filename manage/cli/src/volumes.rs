//! Commands about volumes, as requests.

use std::path::PathBuf;

use anyhow::{Context, Result};
use holdfast_api::{
    AdoptVolume, CreateVolume, DamagedBlock, GrowVolume, MountVolume, SetVolume, SetVolumeQuota, ShrinkVolume, Volume,
    VolumeChanged, VolumeFinding, VolumeQuota, VolumeQuotaChanged, VolumeShrinkPlan, VolumeShrunk, VolumeUsage,
};
use holdfast_model::{ByteSize, SpacePath};

use crate::arguments::{QuotaCommand, QuotaSubject, VolumeCommand};
use crate::client::{Client, segment};
use crate::output::{harmless, print, with_conditions};
use crate::remote::{rounded, tell, tell_gone};
use crate::{acls, integrity, jobs, journals};

/// Where the API has a volume.
pub(crate) fn volume_path(volume: &SpacePath) -> String {
    format!("/volumes/{}/{}", segment(volume.pool.as_str()), segment(volume.space.as_str()))
}

/// The directory from the root on: the server does not know where the command was given.
fn absolute(directory: PathBuf) -> Result<String> {
    let path = std::path::absolute(&directory).with_context(|| format!("directory {}", directory.display()))?;
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("directory {path:?} is not UTF-8"))
}

/// Does a volume command.
pub async fn volume_command(client: &Client, json: bool, command: VolumeCommand) -> Result<()> {
    match command {
        VolumeCommand::List => print(json, &client.get::<Vec<Volume>>("/volumes").await?),
        VolumeCommand::Show { volume } => print(json, &client.get::<Volume>(&volume_path(&volume)).await?),
        VolumeCommand::Create { volume, size, on, layout, shape, case_sensitive } => {
            let request = CreateVolume {
                name: volume.to_string(),
                space: size.map(|size| shape.request(volume.to_string(), layout, size)),
                on: on.map(|on| on.to_string()),
                case_sensitive,
            };
            let answer: VolumeChanged = client.post("/volumes", &request).await?;
            let made = &answer.volume;
            let size = made.size_bytes.map_or_else(|| "no size yet".into(), |size| ByteSize(size).to_string());
            let done = format!("volume {} has {size}, on space {}", made.name, made.space);
            tell(json, &answer, answer.changed, with_conditions(done, &made.conditions))
        }
        VolumeCommand::Mount { volume, directory, over, create_directory } => {
            let request = MountVolume { directory: absolute(directory)?, over, create_directory };
            let answer: VolumeChanged = client.put(&format!("{}/mount", volume_path(&volume)), &request).await?;
            let done = format!("volume {} is mounted on {}", answer.volume.name, request.directory);
            tell(json, &answer, answer.changed, done)
        }
        VolumeCommand::Unmount { volume, force } => {
            let path = format!("{}/mount?force={force}", volume_path(&volume));
            let answer: VolumeChanged = client.delete(&path).await?;
            tell(json, &answer, answer.changed, format!("volume {} is not mounted", answer.volume.name))
        }
        VolumeCommand::Grow { volume, size } => {
            let request = GrowVolume { size_bytes: size.bytes() };
            let answer: VolumeChanged = client.post(&format!("{}/grow", volume_path(&volume)), &request).await?;
            let has = answer.volume.size_bytes.unwrap_or(size.bytes());
            let done = format!("volume {} has {}{}", answer.volume.name, ByteSize(has), rounded(size, has));
            tell(json, &answer, answer.changed, done)
        }
        VolumeCommand::Shrink { volume, size, dry_run, start } => {
            let path = format!("{}/shrink", volume_path(&volume));
            let request = ShrinkVolume { size_bytes: size.bytes(), pace: start.pace() };
            if dry_run {
                let plan: VolumeShrinkPlan = client.post(&format!("{path}/plan"), &request).await?;
                print(json, &plan)?;
                return plan.refusal.map_or(Ok(()), |refusal| Err(refusal.into()));
            }
            let answer: VolumeShrunk = client.post(&path, &request).await?;
            let Some(job) = &answer.job else {
                let has = answer.volume.size_bytes.unwrap_or(size.bytes());
                let done = format!("volume {} has {}", answer.volume.name, ByteSize(has));
                return tell(json, &answer, answer.changed, done);
            };
            jobs::told(client, json, (&answer, answer.changed, job), start.wait).await
        }
        VolumeCommand::Set { volume, mode_change } => {
            let request = SetVolume { mode_change: mode_change.map(Into::into) };
            let answer: VolumeChanged = client.patch(&volume_path(&volume), &request).await?;
            tell(json, &answer, answer.changed, format!("volume {volume} is set"))
        }
        VolumeCommand::Adopt { volume, on } => {
            let request = AdoptVolume { on: on.to_string() };
            let answer: VolumeChanged = client.post(&format!("{}/adopt", volume_path(&volume)), &request).await?;
            let done = format!("volume {} lies on space {}", answer.volume.name, answer.volume.space);
            tell(json, &answer, answer.changed, with_conditions(done, &answer.volume.conditions))
        }
        VolumeCommand::Du { volume, path } => {
            let path = format!("{}/usage?path={}", volume_path(&volume), segment(&path));
            print(json, &client.get::<VolumeUsage>(&path).await?)
        }
        VolumeCommand::Acl(command) => acls::acl_command(client, json, command).await,
        VolumeCommand::Integrity(command) => integrity::integrity_command(client, json, command).await,
        VolumeCommand::Scrub { volume, start } => {
            jobs::start(client, json, &format!("{}/scrub", volume_path(&volume)), start).await
        }
        VolumeCommand::Gather { volume, start } => {
            jobs::start(client, json, &format!("{}/gather", volume_path(&volume)), start).await
        }
        VolumeCommand::Damage { volume } => {
            print(json, &client.get::<Vec<DamagedBlock>>(&format!("{}/damage", volume_path(&volume))).await?)
        }
        VolumeCommand::Journal(command) => journals::journal_command(client, json, command).await,
        VolumeCommand::Quota(command) => quota_command(client, json, command).await,
        VolumeCommand::Scan { volume, start } => {
            jobs::start(client, json, &format!("{}/scan", volume_path(&volume)), start).await
        }
        VolumeCommand::Spotfix { volume, offline, force, start } => {
            let path = format!("{}/spotfix?offline={offline}&force={force}", volume_path(&volume));
            jobs::start(client, json, &path, start).await
        }
        VolumeCommand::Trim { volume, start } => {
            jobs::start(client, json, &format!("{}/trim", volume_path(&volume)), start).await
        }
        VolumeCommand::Salvage { volume, to, force, start } => {
            let to = segment(&absolute(to)?);
            let path = format!("{}/salvage?to={to}&force={force}", volume_path(&volume));
            jobs::start(client, json, &path, start).await
        }
        VolumeCommand::Findings { volume } => {
            let found: Vec<VolumeFinding> = client.get(&format!("{}/findings", volume_path(&volume))).await?;
            print(json, &found)
        }
        VolumeCommand::Destroy { volume, yes, force } => {
            let path = format!("{}?confirm={yes}&force={force}", volume_path(&volume));
            tell_gone(json, &client.delete(&path).await?)
        }
    }
}

/// Whose quota it is, as a query.
fn whose(subject: &QuotaSubject) -> String {
    let parts =
        [("path", &subject.path), ("user", &subject.user), ("group", &subject.group), ("owner", &subject.owner)];
    let given = parts.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", segment(value.as_deref()?))));
    given.collect::<Vec<_>>().join("&")
}

/// Whose quota it is, in words.
fn subject_words(subject: &QuotaSubject) -> String {
    harmless(&match (&subject.path, &subject.user, &subject.group, &subject.owner) {
        (Some(path), ..) => format!("directory tree {path}"),
        (_, Some(user), ..) => format!("user {user}"),
        (.., Some(owner)) => format!("owner {owner}"),
        (.., group, None) => format!("group {}", group.as_deref().unwrap_or_default()),
    })
}

/// Does a command about quotas.
async fn quota_command(client: &Client, json: bool, command: QuotaCommand) -> Result<()> {
    let counts = |job: Option<u64>| job.map_or_else(String::new, |job| format!("; job {job} counts what is there"));
    match command {
        QuotaCommand::List { volume, all } => {
            let path = format!("{}/quotas?all={all}", volume_path(&volume));
            print(json, &client.get::<Vec<VolumeQuota>>(&path).await?)
        }
        QuotaCommand::Set { volume, subject, size, files, soft_size, soft_files } => {
            let whom = subject_words(&subject);
            let request = SetVolumeQuota {
                path: subject.path,
                user: subject.user,
                group: subject.group,
                owner: subject.owner,
                hard_bytes: size.map(ByteSize::bytes),
                soft_bytes: soft_size.map(ByteSize::bytes),
                hard_files: files,
                soft_files,
            };
            let answer: VolumeQuotaChanged = client.put(&format!("{}/quotas", volume_path(&volume)), &request).await?;
            let done = format!("the quota of {whom} on volume {volume} is set{}", counts(answer.job));
            tell(json, &answer, answer.changed, done)
        }
        QuotaCommand::Remove { volume, subject } => {
            let path = format!("{}/quotas?{}", volume_path(&volume), whose(&subject));
            let answer: VolumeQuotaChanged = client.delete(&path).await?;
            let done = format!("{} has no quota on volume {volume}{}", subject_words(&subject), counts(answer.job));
            tell(json, &answer, answer.changed, done)
        }
    }
}
