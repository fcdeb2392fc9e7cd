//! What a directory tree of a volume takes.
//!
//! Invariant: memory follows the depth of the tree and [`TOLD`], whatever the number of files. A file with several
//! names counts with its part at each, so that the sum of all is what is taken.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use holdfast_api::{ApiError, VolumeUsage, VolumeUsagePart};
use holdfast_device::reactor;
use holdfast_volume::service::{Attributes, FileId, FileKind, FileService};
use holdfast_volume::{ErrorKind, VolumeError};

use super::acl::administrator;
use super::from_volume;
use crate::engine::Engine;
use crate::error::{ApiResult, not_found};

/// Names below the directory that are told, those that take most.
const TOLD: usize = 100;
/// Names that are read at once.
const AT_ONCE: usize = 64;
/// Directories above one another that keep what was read of them while those below are walked; deeper ones read again.
const KEPT: usize = 256;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    files: u64,
    directories: u64,
    size_bytes: u64,
    allocated_bytes: u64,
    unreadable: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.directories += other.directories;
        self.size_bytes += other.size_bytes;
        self.allocated_bytes += other.allocated_bytes;
        self.unreadable += other.unreadable;
    }

    fn of(file: &Attributes) -> Self {
        if file.kind == FileKind::Directory {
            return Self { directories: 1, allocated_bytes: file.allocated_bytes, ..Self::default() };
        }
        let names = u64::from(file.links.max(1));
        Self {
            files: 1,
            size_bytes: file.size_bytes / names,
            allocated_bytes: file.allocated_bytes / names,
            ..Self::default()
        }
    }
}

/// A directory that is being walked.
struct Level {
    directory: FileId,
    cursor: u64,
    /// What was read behind the cursor and not gone through yet, the next one last.
    read: Vec<holdfast_volume::service::Entry>,
    is_over: bool,
}

impl Level {
    fn new(directory: FileId) -> Self {
        Self { directory, cursor: 0, read: Vec::new(), is_over: false }
    }
}

/// The names below the directory that take most.
#[derive(Default)]
struct Largest(BTreeMap<(u64, u64, Vec<u8>), (bool, Sum)>);

impl Largest {
    fn add(&mut self, name: Vec<u8>, is_directory: bool, sum: Sum) {
        self.0.insert((sum.allocated_bytes, sum.size_bytes, name), (is_directory, sum));
        if self.0.len() > TOLD {
            self.0.pop_first();
        }
    }

    fn parts(self) -> Vec<VolumeUsagePart> {
        let part = |((.., name), (directory, sum)): ((u64, u64, Vec<u8>), (bool, Sum))| VolumeUsagePart {
            name: String::from_utf8_lossy(&name).into_owned(),
            directory,
            files: sum.files,
            size_bytes: sum.size_bytes,
            allocated_bytes: sum.allocated_bytes,
        };
        self.0.into_iter().rev().map(part).collect()
    }
}

/// Goes through everything below `top`, until nobody waits for it any more.
async fn walk<S: FileService>(
    service: &S,
    top: &Attributes,
    wanted: &Weak<()>,
) -> Result<(Sum, Vec<VolumeUsagePart>), VolumeError> {
    let (mut all, mut largest) = (Sum::of(top), Largest::default());
    if top.kind != FileKind::Directory {
        return Ok((all, Vec::new()));
    }
    let mut levels = vec![Level::new(top.id)];
    // The name below the top that is being gone through, if that is a directory.
    let mut part: Option<(Vec<u8>, Sum)> = None;
    while let Some(level) = levels.last_mut() {
        if wanted.strong_count() == 0 {
            return Err(VolumeError::new(ErrorKind::Busy, "nobody waits for the answer any more"));
        }
        if level.read.is_empty() && !level.is_over {
            reactor::yield_now().await;
            match service.list(&administrator(), level.directory, level.cursor, AT_ONCE, true).await {
                Ok(mut entries) => {
                    level.is_over = entries.len() < AT_ONCE;
                    entries.reverse();
                    level.read = entries;
                }
                Err(error) if error.kind == ErrorKind::ReadOnly => return Err(error),
                // It went meanwhile.
                Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Stale) => level.is_over = true,
                Err(_) => {
                    level.is_over = true;
                    let lost = Sum { unreadable: 1, ..Sum::default() };
                    part.as_mut().map_or(&mut all, |(_, sum)| sum).add(lost);
                }
            }
        }
        let Some(entry) = level.read.pop() else {
            if level.is_over {
                levels.pop();
                if levels.len() == 1
                    && let Some((name, sum)) = part.take()
                {
                    all.add(sum);
                    largest.add(name, true, sum);
                }
            }
            continue;
        };
        level.cursor = entry.cursor;
        let is_directory = entry.kind == FileKind::Directory;
        let sum = entry.attributes.as_ref().map_or_else(|| Sum { unreadable: 1, ..Sum::default() }, Sum::of);
        match &mut part {
            Some((_, whole)) => whole.add(sum),
            None if is_directory => part = Some((entry.name, sum)),
            None => {
                all.add(sum);
                largest.add(entry.name, false, sum);
            }
        }
        if is_directory {
            if levels.len() > KEPT
                && let Some(level) = levels.last_mut()
            {
                (level.read, level.is_over) = (Vec::new(), false);
            }
            levels.push(Level::new(entry.id));
        }
    }
    Ok((all, largest.parts()))
}

/// The file at the end of a path from the root; symbolic links are not followed.
pub(crate) async fn find<S: FileService>(service: &S, path: &str) -> Result<Option<Attributes>, VolumeError> {
    let mut found = service.stat(service.root()).await?;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        match service.lookup(&administrator(), found.id, name.as_bytes()).await? {
            Some(next) => found = next,
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// The same, where a path that leads through what is no directory, or has a name that is none, leads nowhere.
pub(crate) async fn find_any<S: FileService>(service: &S, path: &str) -> Result<Option<Attributes>, VolumeError> {
    match find(service, path).await {
        Err(error) if matches!(error.kind, ErrorKind::NotDirectory | ErrorKind::NameTooLong) => Ok(None),
        found => found,
    }
}

impl Engine {
    /// What a directory tree of a volume takes. It goes on only while somebody waits for it.
    ///
    /// # Errors
    /// If there is no such volume or path, or the volume is not open.
    pub async fn volume_usage(&self, path: &str, below: &str) -> ApiResult<VolumeUsage> {
        let (open, name, object) = self.volume_at(path)?;
        let (_, volume) = open.open_volume_named(&name, &object)?;
        let waits = Arc::new(());
        let (wanted, below) = (Arc::downgrade(&waits), below.to_owned());
        let asked = below.clone();
        let walked = self.on_reactor(move || async move {
            match find(&*volume, &asked).await? {
                Some(top) => walk(&*volume, &top, &wanted).await.map(Some),
                None => Ok(None),
            }
        });
        let walked = walked.await?;
        drop(waits);
        let (sum, largest) = match walked {
            Ok(Some(walked)) => walked,
            Ok(None) => return Err(no_path(path, &below)),
            Err(error)
                if matches!(error.kind, ErrorKind::NotDirectory | ErrorKind::NotFound | ErrorKind::NameTooLong) =>
            {
                return Err(no_path(path, &below));
            }
            Err(error) => return Err(from_volume(object, &error)),
        };
        Ok(VolumeUsage {
            path: format!("/{}", below.trim_matches('/')),
            files: sum.files,
            directories: sum.directories,
            size_bytes: sum.size_bytes,
            allocated_bytes: sum.allocated_bytes,
            unreadable: sum.unreadable,
            largest,
        })
    }
}

pub(super) fn no_path(volume: &str, below: &str) -> ApiError {
    not_found(format!("path {below} of volume {volume}"), "write the path from the volume's root on").at("path")
}
