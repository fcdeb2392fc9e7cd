//! The commands that ask a daemon.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use holdfast_api::{
    AddDisks, Changed, Connection, CreateExport, CreateFileDisk, CreatePool, Disk, DiskChanged, EvacuateDisk,
    EvacuationPlan, Event, Export, ExportChanged, GrowSpace, History, HistoryKind, ImportPools, JobChanged, LayoutKind,
    LocateDisk, Pool, PoolChanged, PoolsImported, Protocol, RebalancePlan, RemoveDisk, ReplaceDisk, SalvagePool,
    Salvaged, SetDisk, SetExport, SetPool, SetSpace, Space, SpaceChanged, SpacePlan, SpaceRow, SpaceVerified, Status,
    UpgradePlan, WipeDisk,
};
use holdfast_model::{BLOCK_BYTES, ByteSize, Integrity, SpacePath, counted};
use serde::Serialize;

use crate::arguments::{
    DiskCommand, EventCommand, Grace, IntegrityWord, LayoutWord, NbdCommand, PoolCommand, SpaceCommand,
};
use crate::client::{Client, segment};
use crate::jobs;
use crate::output::{Shown, grouped, layout_text, print, print_json, print_line, status_text, with_conditions};

/// A path as the daemon can use it, which has another working folder.
fn absolute(path: &Path) -> Result<String> {
    let whole =
        std::path::absolute(path).with_context(|| format!("path {}: it cannot be made absolute", path.display()))?;
    whole
        .into_os_string()
        .into_string()
        .map_err(|path| anyhow::anyhow!("path {path:?}: it is no text; next: choose another path"))
}

/// A disk as the daemon can look for it: what is there or looks like a path is one.
fn disk(text: &str) -> Result<String> {
    if text.contains('/') || Path::new(text).exists() { absolute(Path::new(text)) } else { Ok(text.into()) }
}

fn disks(texts: &[String]) -> Result<Vec<String>> {
    texts.iter().map(|text| disk(text)).collect()
}

impl From<LayoutWord> for LayoutKind {
    fn from(word: LayoutWord) -> Self {
        match word {
            LayoutWord::Simple => Self::Simple,
            LayoutWord::Mirror => Self::Mirror,
            LayoutWord::Parity => Self::Parity,
        }
    }
}

impl From<IntegrityWord> for Integrity {
    fn from(word: IntegrityWord) -> Self {
        match word {
            IntegrityWord::None => Self::None,
            IntegrityWord::Crc32c => Self::Crc32c,
        }
    }
}

fn space_path(space: &SpacePath) -> String {
    format!("/spaces/{}/{}", segment(space.pool.as_str()), segment(space.space.as_str()))
}

/// What a pool has, in a line.
fn pool_text(pool: &Pool) -> String {
    format!(
        "pool {} has {}, {}",
        pool.name,
        counted(pool.disks.len() as u64, "disk", "disks"),
        ByteSize(pool.raw_bytes)
    )
}

/// Prints what a change did: the API's answer, or one line for people.
pub(crate) fn tell<T: Serialize>(json: bool, answer: &T, changed: bool, done: String) -> Result<()> {
    if json {
        return print_json(answer);
    }
    print_line(&if changed { done } else { format!("nothing changed: {done}") })
}

/// Says that a size was rounded up, where it was.
pub(crate) fn rounded(asked: ByteSize, has: u64) -> String {
    let whole = asked.bytes().checked_next_multiple_of(BLOCK_BYTES);
    if asked.bytes() == has || whole != Some(has) {
        return String::new();
    }
    format!("; {} were rounded up to {}, whole blocks of 4 KiB", asked.exact(), ByteSize(has).exact())
}

/// Prints what became of something that was to go.
pub(crate) fn tell_gone(json: bool, answer: &Changed) -> Result<()> {
    if json {
        return print_json(answer);
    }
    print_line(&if answer.changed { answer.message.clone() } else { format!("nothing changed: {}", answer.message) })
}

/// Does a disk command.
pub async fn disk_command(client: &Client, json: bool, command: DiskCommand) -> Result<()> {
    match command {
        DiskCommand::List => print(json, &client.get::<Vec<Disk>>("/disks").await?),
        DiskCommand::Show { disk: name } => {
            print(json, &client.get::<Disk>(&format!("/disks/{}", segment(&disk(&name)?))).await?)
        }
        DiskCommand::CreateFile { path, size } => {
            let request = CreateFileDisk { path: absolute(&path)?, size_bytes: size.bytes() };
            let answer: DiskChanged = client.post("/disks", &request).await?;
            let has = answer.disk.size_bytes;
            let done = format!("disk {} has {}{}", answer.disk.path, ByteSize(has), rounded(size, has));
            tell(json, &answer, answer.changed, done)
        }
        DiskCommand::Set { disk: name, media, enclosure, slot, usage, force } => {
            let request = SetDisk { media, enclosure, slot, usage, force };
            let answer: DiskChanged = client.patch(&format!("/disks/{}", segment(&disk(&name)?)), &request).await?;
            tell(json, &answer, answer.changed, format!("disk {} is set", answer.disk.path))
        }
        DiskCommand::Evacuate { disk: name, dry_run, force, start } => {
            let path = format!("/disks/{}/evacuate", segment(&disk(&name)?));
            if dry_run {
                return print(json, &client.post::<EvacuationPlan>(&format!("{path}/plan"), &()).await?);
            }
            let request = EvacuateDisk { force, pace: start.pace() };
            let answer: JobChanged = client.post(&path, &request).await?;
            jobs::begun(client, json, answer, start.wait).await
        }
        DiskCommand::Retire { disk: name, evacuate, force, start } => {
            let path = format!("/disks/{}/retire", segment(&disk(&name)?));
            jobs::retire(client, json, &path, (evacuate, force), start).await
        }
        DiskCommand::Replace { old, new, force, give_up, dry_run, start } => {
            let request = ReplaceDisk {
                new: new.map(|new| disk(&new)).transpose()?,
                force,
                give_up: give_up.iter().map(ToString::to_string).collect(),
                pace: start.pace(),
            };
            let path = format!("/disks/{}/replace", segment(&disk(&old)?));
            if dry_run {
                return print(json, &client.post::<EvacuationPlan>(&format!("{path}/plan"), &request).await?);
            }
            let answer: JobChanged = client.post(&path, &request).await?;
            jobs::begun(client, json, answer, start.wait).await
        }
        DiskCommand::Remove { disk: name, force } => {
            let path = format!("/disks/{}/remove", segment(&disk(&name)?));
            tell_gone(json, &client.post(&path, &RemoveDisk { force }).await?)
        }
        DiskCommand::Locate { disk: name, off } => tell_gone(
            json,
            &client.post(&format!("/disks/{}/locate", segment(&disk(&name)?)), &LocateDisk { on: !off }).await?,
        ),
        DiskCommand::Wipe { disk: name, force } => {
            let path = format!("/disks/{}/wipe", segment(&disk(&name)?));
            let answer: DiskChanged = client.post(&path, &WipeDisk { force }).await?;
            tell(json, &answer, answer.changed, format!("disk {} is blank", answer.disk.path))
        }
    }
}

/// Does a pool command.
pub async fn pool_command(client: &Client, json: bool, command: PoolCommand) -> Result<()> {
    match command {
        PoolCommand::List => print(json, &client.get::<Vec<Pool>>("/pools").await?),
        PoolCommand::Show { pool } => print(json, &client.get::<Pool>(&format!("/pools/{}", segment(&pool))).await?),
        PoolCommand::Create { pool, disk, force } => {
            let answer: PoolChanged =
                client.post("/pools", &CreatePool { name: pool, disks: disks(&disk)?, force }).await?;
            let done = pool_text(&answer.pool);
            tell(json, &answer, answer.changed, done)
        }
        PoolCommand::Set { pool, alert, retire_policy, grace } => {
            let (default_grace, grace_seconds) = match grace {
                Some(Grace::Seconds(seconds)) => (false, Some(seconds)),
                grace => (grace.is_some(), None),
            };
            let default_alerts = alert.as_ref().is_some_and(|alert| alert.0.is_none());
            let alert_percents = alert.and_then(|alert| alert.0);
            let request = SetPool { alert_percents, default_alerts, retire_policy, grace_seconds, default_grace };
            let answer: PoolChanged = client.patch(&format!("/pools/{}", segment(&pool)), &request).await?;
            tell(json, &answer, answer.changed, format!("pool {} is set", answer.pool.name))
        }
        PoolCommand::Add { pool, disk, force } => {
            let path = format!("/pools/{}/disks", segment(&pool));
            let answer: PoolChanged = client.post(&path, &AddDisks { disks: disks(&disk)?, force }).await?;
            let done = pool_text(&answer.pool);
            tell(json, &answer, answer.changed, done)
        }
        PoolCommand::Import { pool, disk_dir, force } => {
            let disk_dirs = disk_dir.iter().map(|dir: &PathBuf| absolute(dir)).collect::<Result<_>>()?;
            let answer: PoolsImported = client.post("/import", &ImportPools { pool, disk_dirs, force }).await?;
            if json {
                return print_json(&answer);
            }
            let mut lines: Vec<String> = Vec::new();
            for imported in &answer.pools {
                let (name, state) = (&imported.pool.name, holdfast_api::word(&imported.pool.state));
                let done = format!("pool {name} is imported, state {state}");
                lines.push(if imported.changed { done } else { format!("nothing changed: {done}") });
            }
            let conditions = answer.pools.iter().flat_map(|imported| &imported.pool.conditions).chain(&answer.refused);
            lines.extend(grouped(conditions));
            if lines.is_empty() {
                lines.push("nothing changed: no pool was found".into());
            }
            print_line(&lines.join("\n"))
        }
        PoolCommand::Rebalance { pool, dry_run, start } => {
            let path = format!("/pools/{}/rebalance", segment(&pool));
            if dry_run {
                return print(json, &client.post::<RebalancePlan>(&format!("{path}/plan"), &()).await?);
            }
            jobs::start(client, json, &path, start).await
        }
        PoolCommand::Upgrade { pool, dry_run, start } => {
            let path = format!("/pools/{}/upgrade", segment(&pool));
            if dry_run {
                return print(json, &client.post::<UpgradePlan>(&format!("{path}/plan"), &()).await?);
            }
            jobs::start(client, json, &path, start).await
        }
        PoolCommand::Salvage { disk, dry_run: _, write, name, pool } => {
            let request = SalvagePool { disks: disks(&disk)?, pool, write, name };
            print(json, &client.post::<Salvaged>("/salvage", &request).await?)
        }
        PoolCommand::Export { pool } => {
            tell_gone(json, &client.post(&format!("/pools/{}/export", segment(&pool)), &()).await?)
        }
        PoolCommand::Destroy { pool, yes } => {
            tell_gone(json, &client.delete(&format!("/pools/{}?confirm={yes}", segment(&pool))).await?)
        }
    }
}

/// Does a space command.
pub async fn space_command(client: &Client, json: bool, command: SpaceCommand) -> Result<()> {
    match command {
        SpaceCommand::List => print(json, &client.get::<Vec<Space>>("/spaces").await?),
        SpaceCommand::Show { space } => print(json, &client.get::<Space>(&space_path(&space)).await?),
        SpaceCommand::Accept { space } => {
            let answer: SpaceChanged = client.post(&format!("{}/accept", space_path(&space)), &()).await?;
            tell(json, &answer, answer.changed, format!("space {} can be written to", answer.space.name))
        }
        SpaceCommand::Map { space } => {
            print(json, &client.get::<Vec<SpaceRow>>(&format!("{}/map", space_path(&space))).await?)
        }
        SpaceCommand::Create { space, layout, shape, size, dry_run } => {
            let request = shape.request(space.to_string(), layout, size);
            if dry_run {
                return print(json, &client.post::<SpacePlan>("/spaces/plan", &request).await?);
            }
            let answer: SpaceChanged = client.post("/spaces", &request).await?;
            let made = &answer.space;
            let done = format!(
                "space {} has {}, {} with {} of {}{}{}",
                made.name,
                ByteSize(made.size_bytes),
                layout_text(made.layout, made.copies, made.parity),
                counted(made.columns.into(), "column", "columns"),
                ByteSize(made.interleave_bytes),
                if made.enclosure_aware { ", spread over enclosures" } else { "" },
                rounded(size, made.size_bytes)
            );
            tell(json, &answer, answer.changed, with_conditions(done, &made.notes))
        }
        SpaceCommand::Grow { space, size } => {
            let path = format!("{}/grow", space_path(&space));
            let answer: SpaceChanged = client.post(&path, &GrowSpace { size_bytes: size.bytes() }).await?;
            let has = answer.space.size_bytes;
            let done = format!("space {} has {}{}", answer.space.name, ByteSize(has), rounded(size, has));
            tell(json, &answer, answer.changed, done)
        }
        SpaceCommand::Set { space, journal, qos } => {
            let request = SetSpace { journal_bytes: journal.map(ByteSize::bytes), qos: qos.change() };
            let answer: SpaceChanged = client.patch(&space_path(&space), &request).await?;
            tell(json, &answer, answer.changed, format!("space {} is set", answer.space.name))
        }
        SpaceCommand::Verify { space } => {
            let found: SpaceVerified = client.post(&format!("{}/verify", space_path(&space)), &()).await?;
            print(json, &found)?;
            match found.mismatched_blocks {
                0 => Ok(()),
                blocks => bail!(
                    "space {space}: {} their copies or parity; next: compare that data with a backup",
                    counted(blocks, "block does not match", "blocks do not match")
                ),
            }
        }
        SpaceCommand::Scrub { space, start } => {
            jobs::start(client, json, &format!("{}/scrub", space_path(&space)), start).await
        }
        SpaceCommand::Repair { space, start } => {
            jobs::start(client, json, &format!("{}/repair", space_path(&space)), start).await
        }
        SpaceCommand::Convert { space, shape, start } => {
            jobs::convert(client, json, &format!("{}/convert", space_path(&space)), shape, start).await
        }
        SpaceCommand::Destroy { space, yes } => {
            tell_gone(json, &client.delete(&format!("{}?confirm={yes}", space_path(&space))).await?)
        }
    }
}

/// Does an export command.
pub async fn nbd_command(client: &Client, json: bool, command: NbdCommand) -> Result<()> {
    match command {
        NbdCommand::List => print(json, &client.get::<Vec<Export>>("/exports").await?),
        NbdCommand::Export { space, name, read_only } => {
            let request = CreateExport { space: space.to_string(), name, protocol: Protocol::Nbd, read_only };
            let answer: ExportChanged = client.post("/exports", &request).await?;
            let done = format!(
                "space {} is export {}: {}",
                answer.export.space,
                answer.export.name,
                answer.export.uris.join(" ")
            );
            tell(json, &answer, answer.changed, done)
        }
        NbdCommand::Set { name, read_only, qos } => {
            let request = SetExport { qos: qos.change(), read_only };
            let answer: ExportChanged = client.patch(&format!("/exports/{}", segment(&name)), &request).await?;
            tell(json, &answer, answer.changed, format!("export {} is set", answer.export.name))
        }
        NbdCommand::Connections { name } => {
            print(json, &client.get::<Vec<Connection>>(&format!("/exports/{}/connections", segment(&name))).await?)
        }
        NbdCommand::Unexport { name, space } => {
            let of = space.map_or(String::new(), |space| format!("?space={}", segment(&space.to_string())));
            tell_gone(json, &client.delete(&format!("/exports/{}{of}", segment(&name))).await?)
        }
    }
}

/// Does an event command.
pub async fn event_command(client: &Client, json: bool, command: EventCommand) -> Result<()> {
    let EventCommand::List { follow } = command;
    if !follow {
        return print(json, &client.get::<Vec<Event>>("/events").await?);
    }
    client.follow(|event| print_line(&if json { serde_json::to_string(&event)? } else { event.text() })).await
}

/// Shows what was asked of an object over time.
pub async fn history(
    client: &Client,
    json: bool,
    kind: HistoryKind,
    name: &str,
    seconds: u64,
    points: u64,
) -> Result<()> {
    let name = if kind == HistoryKind::Disk { disk(name)? } else { name.to_owned() };
    let (kind, name) = (holdfast_api::word(&kind), segment(&name));
    print(
        json,
        &client.get::<History>(&format!("/history?kind={kind}&name={name}&seconds={seconds}&points={points}")).await?,
    )
}

/// Shows the health of everything.
pub async fn status(client: &Client, json: bool, all: bool) -> Result<()> {
    let status: Status = client.get("/status").await?;
    if json { print_json(&status) } else { print_line(&status_text(&status, all)) }
}
