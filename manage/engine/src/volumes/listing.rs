//! Directories of a volume, now and in its snapshots, listed a part at a time for somebody who looks for a file.
//!
//! Invariant: nothing is changed, and a snapshot stays in use only while a part of it is read.

use holdfast_api::{ApiError, FileEntry, FileListing, FileType};
use holdfast_volume::service::{Entry, FileKind, FileService};
use holdfast_volume::{ErrorKind, VolumeError};

use super::acl::administrator;
use super::from_volume;
use super::snapshots::shown_time;
use super::usage::{find_any, no_path};
use crate::engine::Engine;
use crate::error::ApiResult;

/// Names that one answer has, at most.
const MOST: usize = 1000;

/// What is listed of a volume.
#[derive(Clone, Debug, Default)]
pub struct ListingAsked {
    /// The directory, from the volume's root on.
    pub path: String,
    /// A snapshot to list it in.
    pub snapshot: Option<String>,
    /// From where to go on, as the answer before had it.
    pub after: Option<String>,
}

fn shown(entry: &Entry) -> FileEntry {
    let kind = match entry.kind {
        FileKind::Regular => FileType::Regular,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        _ => FileType::Special,
    };
    FileEntry {
        name: String::from_utf8_lossy(&entry.name).into_owned(),
        kind,
        size_bytes: entry.attributes.as_ref().map(|facts| facts.size_bytes),
        modified: entry.attributes.as_ref().map(|facts| shown_time(facts.modified)),
    }
}

/// Names behind a cursor; nothing where there is no such directory.
async fn read<S: FileService>(service: &S, path: &str, cursor: u64) -> Result<Option<Vec<Entry>>, VolumeError> {
    match find_any(service, path).await? {
        Some(found) if found.kind == FileKind::Directory => {
            service.list(&administrator(), found.id, cursor, MOST, true).await.map(Some)
        }
        _ => Ok(None),
    }
}

impl Engine {
    /// Names in a directory of a volume, as it is or as a snapshot has it.
    ///
    /// # Errors
    /// If there is no such volume, snapshot or directory, or the volume is not open.
    pub async fn list_files(&self, path: &str, asked: ListingAsked) -> ApiResult<FileListing> {
        let (open, name, object) = self.volume_at(path)?;
        let (_, volume) = open.open_volume_named(&name, &object)?;
        let ListingAsked { path: below, snapshot, after } = asked;
        let cursor = after.as_deref().map_or(Ok(0), str::parse::<u64>).map_err(|_| {
            let next = "repeat with what the answer before had, or leave it out";
            ApiError::invalid(&object, "this is no place from where to go on", next).at("after")
        })?;
        let (directory, of) = (below.clone(), snapshot.clone());
        let reading = self.on_reactor(move || async move {
            match of {
                Some(name) => read(&*volume.open_snapshot(&name)?, &directory, cursor).await,
                None => read(&*volume, &directory, cursor).await,
            }
        });
        let entries = match reading.await? {
            Ok(Some(entries)) => entries,
            Ok(None) => return Err(no_path(path, &below)),
            Err(error) if error.kind == ErrorKind::NotFound && snapshot.is_some() => {
                return Err(from_volume(object, &error).at("snapshot"));
            }
            Err(error) => return Err(from_volume(object, &error)),
        };
        let next = entries.last().filter(|_| entries.len() == MOST).map(|last| last.cursor.to_string());
        let entries = entries.iter().map(shown).collect();
        Ok(FileListing { path: format!("/{}", below.trim_matches('/')), snapshot, entries, next })
    }
}
