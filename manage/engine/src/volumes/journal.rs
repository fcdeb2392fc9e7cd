//! The change journal of a volume: switched on and off, shown and read.
//!
//! Invariant: a reader is never left to believe that it saw all where records are gone: an answer says so.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use holdfast_api::{
    ApiError, Code, JournalEntries, JournalEntry, JournalReason, SetVolumeJournal, VolumeJournal, VolumeJournalChanged,
};
use holdfast_model::ByteSize;
use holdfast_volume::service::FileId;
use holdfast_volume::{ErrorKind, JournalRead, JournalRecord, JournalState, Reasons, Volume, VolumeError};

use super::from_volume;
use super::snapshots::shown_time;
use crate::engine::Engine;
use crate::error::{ApiResult, not_confirmed};

/// Records that one answer has, at most.
const MOST_RECORDS: usize = 1000;

/// A journal takes so much of its volume at most: one part of so many.
const PART_OF_VOLUME: u64 = 8;

/// The reasons, with the bits that stand for them.
const REASONS: [(Reasons, JournalReason); 18] = [
    (Reasons::DATA_OVERWRITE, JournalReason::DataOverwrite),
    (Reasons::DATA_EXTEND, JournalReason::DataExtend),
    (Reasons::DATA_TRUNCATION, JournalReason::DataTruncation),
    (Reasons::NAMED_DATA_OVERWRITE, JournalReason::NamedDataOverwrite),
    (Reasons::NAMED_DATA_EXTEND, JournalReason::NamedDataExtend),
    (Reasons::NAMED_DATA_TRUNCATION, JournalReason::NamedDataTruncation),
    (Reasons::FILE_CREATE, JournalReason::FileCreate),
    (Reasons::FILE_DELETE, JournalReason::FileDelete),
    (Reasons::EA_CHANGE, JournalReason::EaChange),
    (Reasons::SECURITY_CHANGE, JournalReason::SecurityChange),
    (Reasons::RENAME_OLD_NAME, JournalReason::RenameOldName),
    (Reasons::RENAME_NEW_NAME, JournalReason::RenameNewName),
    (Reasons::BASIC_INFO_CHANGE, JournalReason::BasicInfoChange),
    (Reasons::HARD_LINK_CHANGE, JournalReason::HardLinkChange),
    (Reasons::REPARSE_POINT_CHANGE, JournalReason::ReparsePointChange),
    (Reasons::STREAM_CHANGE, JournalReason::StreamChange),
    (Reasons::INTEGRITY_CHANGE, JournalReason::IntegrityChange),
    (Reasons::CLOSE, JournalReason::Close),
];

/// Where a reader of a journal is.
#[derive(Clone, Copy, Debug, Default)]
pub struct JournalAsked {
    /// The journal that it read before; the one that there is if it is left out.
    pub id: Option<u64>,
    /// The position; the first one that there is if it is left out.
    pub from: Option<u64>,
    /// Records, at most.
    pub most: Option<usize>,
}

fn shown(state: JournalState) -> VolumeJournal {
    VolumeJournal { id: state.id, first: state.first, next: state.next, max_bytes: state.max_bytes }
}

fn reasons_of(reasons: Reasons) -> Vec<JournalReason> {
    REASONS.iter().filter(|(bit, _)| reasons.has(*bit)).map(|(_, reason)| *reason).collect()
}

fn entry(record: &JournalRecord, directory: Option<String>) -> JournalEntry {
    JournalEntry {
        usn: record.usn,
        file: record.file.number,
        generation: record.file.generation,
        parent: record.parent.number,
        directory,
        name: String::from_utf8_lossy(&record.name).into_owned(),
        is_directory: record.is_directory,
        reasons: reasons_of(record.reasons),
        new: reasons_of(record.new),
        time: shown_time(record.time),
    }
}

/// Has the records say where their directories are.
async fn entries(volume: &Volume, records: &[JournalRecord]) -> Result<Vec<JournalEntry>, VolumeError> {
    let mut directories: BTreeMap<FileId, Option<String>> = BTreeMap::new();
    let mut all = Vec::with_capacity(records.len());
    for record in records {
        if let Entry::Vacant(unknown) = directories.entry(record.parent) {
            let path = match volume.path_of(record.parent).await {
                Ok(path) => Some(String::from_utf8_lossy(&path).into_owned()),
                Err(error) if error.kind == ErrorKind::Io => return Err(error),
                Err(_) => None,
            };
            unknown.insert(path);
        }
        all.push(entry(record, directories[&record.parent].clone()));
    }
    Ok(all)
}

/// Reads on from where a reader is; nothing where there is no journal.
async fn read(volume: &Volume, asked: JournalAsked) -> Result<Option<JournalEntries>, VolumeError> {
    let Some(there) = volume.journal() else { return Ok(None) };
    let (id, mut from) = (asked.id.unwrap_or(there.id), asked.from.unwrap_or(0));
    let most = asked.most.unwrap_or(MOST_RECORDS).clamp(1, MOST_RECORDS);
    let mut gap = id != there.id;
    if gap {
        from = 0;
    }
    loop {
        match volume.read_journal(there.id, from, most, Reasons::ALL).await? {
            JournalRead::Records { records, next } => {
                let entries = entries(volume, &records).await?;
                return Ok(Some(JournalEntries { id: there.id, entries, next, gap }));
            }
            JournalRead::Cut { first } => (from, gap) = (first, true),
            // It was switched off, or off and on again, meanwhile.
            JournalRead::Other { .. } => return Ok(None),
        }
    }
}

impl Engine {
    fn no_journal(path: &str) -> ApiError {
        let next = format!("'holdfast volume journal set {path}' switches one on");
        ApiError::new(Code::NotFound, format!("volume {path}"), "it has no change journal", next)
    }

    /// The change journal of a volume.
    ///
    /// # Errors
    /// If there is no such volume, it is not open, or it has no journal.
    pub fn volume_journal(&self, path: &str) -> ApiResult<VolumeJournal> {
        let (open, name, object) = self.volume_at(path)?;
        let (_, volume) = open.open_volume_named(&name, &object)?;
        volume.journal().map(shown).ok_or_else(|| Self::no_journal(path))
    }

    /// Switches the change journal of a volume on, or gives the one that there is another size.
    ///
    /// # Errors
    /// If there is no such volume, it is not open, the size cannot be, or there is no room.
    pub async fn set_volume_journal(
        self: &Arc<Self>,
        path: String,
        request: SetVolumeJournal,
    ) -> ApiResult<VolumeJournalChanged> {
        self.change(move |engine| async move {
            let (open, name, object) = engine.volume_at(&path)?;
            let (known, volume) = open.open_volume_named(&name, &object)?;
            let before = volume.journal();
            let most = volume.size_bytes() / PART_OF_VOLUME;
            let usual = before.map_or(JournalState::DEFAULT_BYTES.min(most), |state| state.max_bytes);
            let bytes = request.max_bytes.unwrap_or(usual);
            let set = engine.on_reactor(move || async move { volume.set_journal(bytes).await }).await?;
            let now = set.map_err(|error| {
                let refused = from_volume(object, &error);
                if error.kind == ErrorKind::Invalid { refused.at("max_bytes") } else { refused }
            })?;
            let same = |state: JournalState| (state.id, state.max_bytes) == (now.id, now.max_bytes);
            let changed = !before.is_some_and(same);
            if changed {
                let size = ByteSize(now.max_bytes);
                engine.note(&open.volume_object(&known), &format!("change journal of {size} switched on"));
            }
            Ok(VolumeJournalChanged { changed, journal: Some(shown(now)) })
        })
        .await
    }

    /// Switches the change journal of a volume off.
    ///
    /// # Errors
    /// If there is no such volume, it is not open, or nobody confirmed it.
    pub async fn remove_volume_journal(
        self: &Arc<Self>,
        path: String,
        confirmed: bool,
    ) -> ApiResult<VolumeJournalChanged> {
        self.change(move |engine| async move {
            let (open, name, object) = engine.volume_at(&path)?;
            let (known, volume) = open.open_volume_named(&name, &object)?;
            if volume.journal().is_some() && !confirmed {
                let message = "who follows the volume by its change journal has to look at all files afterwards";
                return Err(not_confirmed(object, message, "repeat with --yes to switch it off"));
            }
            let removed = engine.on_reactor(move || async move { volume.remove_journal().await }).await?;
            let changed = removed.map_err(|error| from_volume(object, &error))?;
            if changed {
                engine.note(&open.volume_object(&known), "change journal switched off");
            }
            Ok(VolumeJournalChanged { changed, journal: None })
        })
        .await
    }

    /// Records of the change journal of a volume.
    ///
    /// # Errors
    /// If there is no such volume, it is not open, it has no journal, or the position lies beyond its end.
    pub async fn volume_journal_entries(&self, path: &str, asked: JournalAsked) -> ApiResult<JournalEntries> {
        let (open, name, object) = self.volume_at(path)?;
        let (_, volume) = open.open_volume_named(&name, &object)?;
        let found = self.on_reactor(move || async move { read(&volume, asked).await }).await?;
        let found = found.map_err(|error| {
            let mut refused = from_volume(object, &error);
            if error.kind == ErrorKind::Invalid {
                refused.next_action = "read from the first position on, by leaving the position out".into();
                refused = refused.at("from");
            }
            refused
        })?;
        found.ok_or_else(|| Self::no_journal(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_word_of_its_own() {
        let all = REASONS.iter().fold(Reasons::NONE, |all, (reason, _)| {
            assert!(!all.has(*reason));
            all | *reason
        });
        assert_eq!(reasons_of(all).len(), REASONS.len());
        assert_eq!(
            reasons_of(Reasons::FILE_CREATE | Reasons::CLOSE),
            [JournalReason::FileCreate, JournalReason::Close]
        );
    }
}
