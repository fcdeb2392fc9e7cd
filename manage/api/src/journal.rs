//! The change journal of a volume: what happened to which file, for backups, indexes and scanners.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The change journal of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeJournal {
    /// Names it: a journal that is switched on anew has another, greater one.
    #[serde(with = "crate::exact")]
    #[schema(value_type = String)]
    pub id: u64,
    /// The first position that can be read.
    pub first: u64,
    /// Where the next record goes.
    pub next: u64,
    /// Bytes of records that are kept at least, once there were so many.
    pub max_bytes: u64,
}

/// Switches the journal on, or gives the one that there is another size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetVolumeJournal {
    /// Bytes of records that are kept at least: 64 KiB to 4 GiB, and no more than an eighth of the volume. Left out: as
    /// it is, or 64 MiB where a volume is large enough for that.
    #[serde(default)]
    pub max_bytes: Option<u64>,
}

/// The answer to a change of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeJournalChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The journal as it is now; none once it is off.
    pub journal: Option<VolumeJournal>,
}

/// Why a record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JournalReason {
    /// Bytes that there were are others.
    DataOverwrite,
    /// The file became longer.
    DataExtend,
    /// The file became shorter.
    DataTruncation,
    /// Bytes of a named stream are others.
    NamedDataOverwrite,
    /// A named stream became longer.
    NamedDataExtend,
    /// A named stream became shorter.
    NamedDataTruncation,
    /// The file was created.
    FileCreate,
    /// Its last name was removed.
    FileDelete,
    /// Extended attributes changed.
    EaChange,
    /// Owner or permissions changed.
    SecurityChange,
    /// The name is that which it had before.
    RenameOldName,
    /// The name is that which it has now.
    RenameNewName,
    /// Times or attributes changed.
    BasicInfoChange,
    /// A further name was given or taken.
    HardLinkChange,
    /// Where it leads changed, as that of a symbolic link.
    ReparsePointChange,
    /// A named stream was added, removed or renamed.
    StreamChange,
    /// How its data is checked changed.
    IntegrityChange,
    /// Nobody has it open any more.
    Close,
}

/// A record of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JournalEntry {
    /// Its position.
    pub usn: u64,
    /// The number of the file, which it keeps while it lives.
    pub file: u64,
    /// The generation of that number: another one is another file.
    pub generation: u32,
    /// The number of the directory of the name.
    pub parent: u64,
    /// Where that directory lies now, from the volume's root on; none if it is no more.
    pub directory: Option<String>,
    /// The name that the record is about.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// All reasons since the file was opened.
    pub reasons: Vec<JournalReason>,
    /// Those for which this record was written.
    pub new: Vec<JournalReason>,
    /// When, RFC 3339 in UTC.
    pub time: String,
}

/// Records of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JournalEntries {
    /// The journal.
    #[serde(with = "crate::exact")]
    #[schema(value_type = String)]
    pub id: u64,
    /// Those from the position on that was asked for, in order.
    pub entries: Vec<JournalEntry>,
    /// The position from which to go on; where it ends if that is the one that was asked for.
    pub next: u64,
    /// Records between what was asked for and what is answered are gone, or the journal is another one: look at all files
    /// once, and go on from `next`.
    pub gap: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_many_digits_comes_back_from_programs_whose_numbers_are_floating_point() {
        let journal = VolumeJournal { id: 17_957_030_327_607_123, first: 8, next: 1448, max_bytes: 1 << 26 };
        let text = serde_json::to_string(&journal).expect("it is written");
        assert!(text.starts_with(r#"{"id":"17957030327607123","first":8"#), "{text}");
        assert_eq!(serde_json::from_str::<VolumeJournal>(&text).expect("it is read"), journal);
        serde_json::from_str::<VolumeJournal>(&text.replace("1795703", "x")).expect_err("this is no number");
    }
}
