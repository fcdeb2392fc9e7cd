//! Files had keep checksums of their data, or none, while the volume is in use.
//!
//! Invariant: memory for the way down only; a job that begins again finds what it did before right, and goes over it fast.

use std::sync::Arc;

use holdfast_api::{ApiError, Code, IntegrityMode};
use holdfast_model::counted;
use holdfast_space::Pace;
use holdfast_volume::service::{Attributes, FileId, FileKind, FileService};
use holdfast_volume::{ErrorKind, Integrity, Volume, VolumeError};

use super::control::Control;
use super::spec::{Cut, JobSpec, Outcome, Site};
use super::volumes::{failed, volume_of};
use crate::volumes::{administrator, find_any};

/// Names that are listed at once.
const AT_ONCE: usize = 64;
/// Directories below each other that are gone into, at most.
const MOST_DEPTH: usize = 4096;
/// What a file counts for beside its data, in bytes.
const FILE_BYTES: u64 = 4096;

/// The mode, as volumes call it.
pub(crate) fn mode_of(mode: IntegrityMode) -> Integrity {
    match mode {
        IntegrityMode::PassThrough => Integrity::PassThrough,
        IntegrityMode::Strict => Integrity::Strict,
        IntegrityMode::None => Integrity::None,
    }
}

#[derive(Default)]
struct Done {
    changed: u64,
    refused: u64,
}

async fn set(
    volume: &Volume,
    control: &Control,
    facts: &Attributes,
    mode: Integrity,
    done: &mut Done,
) -> Result<Result<(), VolumeError>, Cut> {
    if !matches!(facts.kind, FileKind::Regular | FileKind::Directory) {
        return Ok(Ok(()));
    }
    // What a file holds is read for its checksums, also where the file is strict: an earlier try may have been cut short.
    let data = if mode == Integrity::Strict { facts.allocated_bytes } else { 0 };
    control.step(FILE_BYTES + data).await.map_err(|_| Cut::Stopped)?;
    let is_new = facts.dos.integrity() != mode;
    let set = match volume.set_integrity(&administrator(), facts.id, mode).await {
        Ok(_) => {
            done.changed += u64::from(is_new);
            Ok(())
        }
        // It was removed meanwhile.
        Err(error) if matches!(error.kind, ErrorKind::Stale | ErrorKind::NotFound) => Ok(()),
        // A block of it cannot be read.
        Err(error) if matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Io) && volume.failure().is_none() => {
            done.refused += 1;
            Ok(())
        }
        Err(error) => Err(error),
    };
    control.done(FILE_BYTES + data);
    Ok(set)
}

/// Has them keep it.
pub(super) async fn run(site: &Site, spec: &JobSpec, control: &Control) -> Result<Outcome, Cut> {
    let target = &spec.target;
    let volume: Arc<Volume> = volume_of(site, target)?;
    let (path, mode) = (spec.path.as_deref().unwrap_or("/"), spec.integrity.map_or(Integrity::PassThrough, mode_of));
    let found = find_any(&*volume, path).await.map_err(|error| failed(target, &error))?;
    let Some(top) = found else {
        let text = format!("{path} is not there any more");
        return Err(Cut::Failed(ApiError::new(Code::Failed, target.object(), text, "name another path")));
    };
    let mut done = Done::default();
    set(&volume, control, &top, mode, &mut done).await?.map_err(|error| failed(target, &error))?;
    let mut way: Vec<(FileId, u64)> = Vec::new();
    if top.kind == FileKind::Directory {
        way.push((top.id, 0));
    }
    while let Some((directory, cursor)) = way.last().copied() {
        let entries = match volume.list(&administrator(), directory, cursor, AT_ONCE, true).await {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind, ErrorKind::Stale | ErrorKind::NotFound) => Vec::new(),
            Err(error) => return Err(failed(target, &error)),
        };
        if entries.is_empty() {
            way.pop();
            continue;
        }
        for entry in entries {
            way.last_mut().expect("it is on the way").1 = entry.cursor;
            let facts = match volume.stat(entry.id).await {
                Ok(facts) => facts,
                Err(error) if matches!(error.kind, ErrorKind::Stale | ErrorKind::NotFound) => continue,
                Err(error) => return Err(failed(target, &error)),
            };
            set(&volume, control, &facts, mode, &mut done).await?.map_err(|error| failed(target, &error))?;
            if facts.kind == FileKind::Directory {
                if way.len() < MOST_DEPTH {
                    way.push((entry.id, 0));
                    break;
                }
                done.refused += 1;
            }
        }
    }
    volume.sync().await.map_err(|error| failed(target, &error))?;
    let changed = counted(done.changed, "file or directory is", "files and directories are");
    let mut result = format!("{changed} {} now", holdfast_api::word(&spec.integrity));
    if done.refused > 0 {
        result = format!("{result}; {} could not be read whole, or stand too deep", done.refused);
    }
    Ok(Outcome { result, findings: Vec::new() })
}
