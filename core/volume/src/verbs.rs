//! What can be wrong with a volume, in nine families: each finding says what a repair has to look at again.
//!
//! ```text
//!   names    1..   extents   20..   room   30..   nodes   40..   beside   50..   snapshots   60..   clones   63..   security   68..
//!   journal  74..
//! ```
//!
//! Invariant: a number never changes its meaning; what was kept of an earlier scan is read by it.

use std::borrow::Cow;
use std::fmt;

use holdfast_model::wire::{Reader, WireError, Writer};
use serde::{Serialize, Serializer};

use crate::error::VolumeError;
use crate::keys::{self, RUN, kind};
use crate::quota::Subject;
use crate::volume::ROOT;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Room or a number is wrong; all files are there.
    Minor,
    /// A name or an attribute is wrong; the bytes of files are there.
    Degraded,
    /// Files cannot be read, or their bytes are in danger.
    Severe,
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are the same all over: a file, a directory, the slot of a name, a place")]
pub enum Verb {
    /// A file that no name leads to, and that is not noted to be removed.
    Orphan { file: u64 },
    /// A name whose file does not exist.
    Dangling {
        directory: u64,
        slot: u64,
        #[serde(serialize_with = "text")]
        name: Vec<u8>,
    },
    /// A name whose file is gone; another one has its number.
    StaleGeneration {
        directory: u64,
        slot: u64,
        #[serde(serialize_with = "text")]
        name: Vec<u8>,
    },
    /// A name that stands where it is not looked for.
    WrongSlot {
        directory: u64,
        slot: u64,
        #[serde(serialize_with = "text")]
        name: Vec<u8>,
    },
    /// A directory that no way leads to from the root.
    Unreachable { directory: u64 },
    /// A name that its directory has twice.
    Duplicate {
        directory: u64,
        slot: u64,
        #[serde(serialize_with = "text")]
        name: Vec<u8>,
    },
    /// A name that its file does not know, or knows otherwise.
    EntryUnknown {
        directory: u64,
        slot: u64,
        #[serde(serialize_with = "text")]
        name: Vec<u8>,
    },
    /// A name that a file says it has beside others, and that its directory does not have.
    LinkUnknown {
        file: u64,
        directory: u64,
        #[serde(serialize_with = "text")]
        name: Vec<u8>,
    },
    /// Several files that no name leads to, of the 64 from `first` on: a bit each.
    Orphans { first: u64, files: u64 },
    /// A name whose file has a record that cannot be read.
    RecordLost {
        directory: u64,
        slot: u64,
        #[serde(serialize_with = "text")]
        name: Vec<u8>,
    },
    /// An extent whose blocks are another file's.
    Overlap { file: u64, end: u64, place: u64 },
    /// An extent that the map of owners does not know.
    Unowned { file: u64, end: u64, place: u64 },
    /// An extent that lies in no zone of data.
    Beyond { file: u64, end: u64, place: u64 },
    /// The map of owners names an extent that its file does not have.
    OwnerAlone { place: u64 },
    /// Blocks that are taken, and no file's.
    Leak { place: u64, blocks: u64 },
    /// Blocks of a file that are free by their bitmap, and could be given out twice.
    Double { place: u64, blocks: u64 },
    /// A record that counts its names, entries or blocks wrong.
    Count { file: u64 },
    /// The bitmap of a zone of data cannot be read.
    Bitmap { zone: u64 },
    /// A node that cannot be read, or is not what its parent names; keys from `low` to `high` are out of reach.
    NodeLost {
        tree: u8,
        address: u64,
        #[serde(skip)]
        low: Vec<u8>,
        #[serde(skip)]
        high: Option<Vec<u8>>,
    },
    /// A node of another tree, level or range than its parent says.
    NodeMisplaced {
        tree: u8,
        address: u64,
        #[serde(skip)]
        low: Vec<u8>,
        #[serde(skip)]
        high: Option<Vec<u8>>,
    },
    /// A node that two parents name: this is the one of them that it does not belong to.
    NodeShared {
        tree: u8,
        address: u64,
        #[serde(skip)]
        low: Vec<u8>,
        #[serde(skip)]
        high: Option<Vec<u8>>,
    },
    /// Blocks of nodes that are free by their bitmap.
    NodeFree { address: u64, blocks: u64 },
    /// Blocks for nodes that are taken, and no node's.
    NodeLeak { address: u64, blocks: u64 },
    /// What the log said of a node that was lost already when the volume was opened: the change went with the node.
    LeftOut {
        tree: u8,
        #[serde(skip)]
        key: Vec<u8>,
    },
    /// An extended attribute whose parts are not whole.
    Attribute {
        file: u64,
        #[serde(serialize_with = "text")]
        name: Vec<u8>,
    },
    /// A symbolic link that leads nowhere, or a target of what is no link.
    SymbolicLink { file: u64 },
    /// A note that a file is to be removed that has names, or is not there.
    Note { file: u64 },
    /// A key or a value of a file that cannot be read.
    Unreadable {
        tree: u8,
        #[serde(skip)]
        key: Vec<u8>,
    },
    /// Parts of a file that has no record.
    NoRecord { file: u64 },
    /// What an owner, a group or a directory tree takes is counted wrong.
    QuotaWrong { subject: Subject },
    /// A node of a snapshot that cannot be read. The snapshot is named by its checkpoint.
    SnapshotNode { snapshot: u64, tree: u8, address: u64 },
    /// Blocks of a file of a snapshot that another file has by now.
    SnapshotData { snapshot: u64, file: u64, place: u64 },
    /// A file that names a security descriptor which is not there: nobody but its owner and administrators gets at it.
    SecurityLost { file: u64 },
    /// A security descriptor that the two trees which have them do not both have as it is.
    SecurityTwin { number: u64 },
    /// A stream of a file that lacks some of its parts, or stands where it is not looked for.
    Stream { file: u64, slot: u64 },
    /// A reparse point that is not whole, or of which its file does not know.
    Reparse { file: u64 },
    /// Blocks that a snapshot has, and that are not noted to be kept for it.
    Unkept { snapshot: u64, place: u64, blocks: u64 },
    /// An extent of blocks that are shared, and that no reference says the file has.
    SharerUnknown { file: u64, end: u64, place: u64 },
    /// A reference to blocks that are shared, and that neither its file nor a snapshot has.
    SharerAlone {
        place: u64,
        #[serde(skip)]
        key: Vec<u8>,
    },
    /// An extent of blocks that others have, too, and that the file takes for its own: it would write over them.
    Unshared { file: u64, end: u64, place: u64 },
    /// Blocks that are kept for snapshots, and that files share: nothing says so of them.
    KeptApart { place: u64 },
    /// How much snapshots up to a checkpoint keep, which their files let go of afterwards, is counted wrong.
    KeptWrong { snapshot: u64 },
    /// Records of the change journal are missing or cannot be read at a position.
    JournalGap { usn: u64 },
    /// What the change journal notes of a file that is open cannot be read.
    JournalNote { file: u64 },
}

fn text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

/// A verb as numbers and bytes, in the form in which it is kept.
struct Fields<'a> {
    number: u8,
    numbers: [u64; 3],
    bytes: Cow<'a, [u8]>,
    high: Option<&'a [u8]>,
}

impl Verb {
    fn fields(&self) -> Fields<'_> {
        let of = |number, numbers, bytes, high| Fields { number, numbers, bytes: Cow::Borrowed(bytes), high };
        let plain = |number, numbers| of(number, numbers, &[][..], None);
        match self {
            Self::Orphan { file } => plain(1, [*file, 0, 0]),
            Self::Dangling { directory, slot, name } => of(2, [*directory, *slot, 0], name, None),
            Self::StaleGeneration { directory, slot, name } => of(3, [*directory, *slot, 0], name, None),
            Self::WrongSlot { directory, slot, name } => of(4, [*directory, *slot, 0], name, None),
            Self::Unreachable { directory } => plain(5, [*directory, 0, 0]),
            Self::Duplicate { directory, slot, name } => of(6, [*directory, *slot, 0], name, None),
            Self::EntryUnknown { directory, slot, name } => of(7, [*directory, *slot, 0], name, None),
            Self::LinkUnknown { file, directory, name } => of(8, [*file, *directory, 0], name, None),
            Self::Orphans { first, files } => plain(9, [*first, *files, 0]),
            Self::RecordLost { directory, slot, name } => of(10, [*directory, *slot, 0], name, None),
            Self::Overlap { file, end, place } => plain(20, [*file, *end, *place]),
            Self::Unowned { file, end, place } => plain(21, [*file, *end, *place]),
            Self::Beyond { file, end, place } => plain(22, [*file, *end, *place]),
            Self::OwnerAlone { place } => plain(23, [*place, 0, 0]),
            Self::Leak { place, blocks } => plain(30, [*place, *blocks, 0]),
            Self::Double { place, blocks } => plain(31, [*place, *blocks, 0]),
            Self::Count { file } => plain(32, [*file, 0, 0]),
            Self::Bitmap { zone } => plain(33, [*zone, 0, 0]),
            Self::NodeLost { tree, address, low, high } => of(40, [(*tree).into(), *address, 0], low, high.as_deref()),
            Self::NodeMisplaced { tree, address, low, high } => {
                of(41, [(*tree).into(), *address, 0], low, high.as_deref())
            }
            Self::NodeShared { tree, address, low, high } => {
                of(42, [(*tree).into(), *address, 0], low, high.as_deref())
            }
            Self::NodeFree { address, blocks } => plain(43, [*address, *blocks, 0]),
            Self::NodeLeak { address, blocks } => plain(44, [*address, *blocks, 0]),
            Self::LeftOut { tree, key } => of(45, [(*tree).into(), 0, 0], key, None),
            Self::Attribute { file, name } => of(50, [*file, 0, 0], name, None),
            Self::SymbolicLink { file } => plain(51, [*file, 0, 0]),
            Self::Note { file } => plain(53, [*file, 0, 0]),
            Self::Unreadable { tree, key } => of(54, [(*tree).into(), 0, 0], key, None),
            Self::NoRecord { file } => plain(55, [*file, 0, 0]),
            Self::QuotaWrong { subject } => {
                let (sort, number, sid) = subject.fields();
                Fields { bytes: Cow::Owned(sid), ..plain(56, [sort.into(), number.into(), 0]) }
            }
            Self::SnapshotNode { snapshot, tree, address } => plain(60, [*snapshot, (*tree).into(), *address]),
            Self::SnapshotData { snapshot, file, place } => plain(61, [*snapshot, *file, *place]),
            Self::SecurityLost { file } => plain(68, [*file, 0, 0]),
            Self::SecurityTwin { number } => plain(69, [*number, 0, 0]),
            Self::Stream { file, slot } => plain(70, [*file, *slot, 0]),
            Self::Reparse { file } => plain(71, [*file, 0, 0]),
            Self::Unkept { snapshot, place, blocks } => plain(62, [*snapshot, *place, *blocks]),
            Self::SharerUnknown { file, end, place } => plain(63, [*file, *end, *place]),
            Self::SharerAlone { place, key } => of(64, [*place, 0, 0], key, None),
            Self::Unshared { file, end, place } => plain(65, [*file, *end, *place]),
            Self::KeptApart { place } => plain(66, [*place, 0, 0]),
            Self::KeptWrong { snapshot } => plain(67, [*snapshot, 0, 0]),
            Self::JournalGap { usn } => plain(74, [*usn, 0, 0]),
            Self::JournalNote { file } => plain(75, [*file, 0, 0]),
        }
    }

    /// The numbers that it names, that of its file or directory first where it is about one.
    pub(crate) fn numbers(&self) -> [u64; 3] {
        self.fields().numbers
    }

    fn from_fields(number: u8, [a, b, c]: [u64; 3], bytes: Vec<u8>, high: Option<Vec<u8>>) -> Option<Self> {
        let tree = u8::try_from(a).unwrap_or(u8::MAX);
        let is_sound = match number {
            9 => a.is_multiple_of(RUN) && b != 0,
            // A range that ends somewhere.
            30 | 31 | 43 | 44 => a.checked_add(b).is_some(),
            40..=42 | 45 | 54 => tree < crate::TREES,
            60 => b < u64::from(crate::SHARED_TREES),
            62 => b.checked_add(c).is_some(),
            69 => a > 0 && a <= u32::MAX.into(),
            _ => true,
        };
        if !is_sound {
            return None;
        }
        Some(match number {
            1 => Self::Orphan { file: a },
            2 => Self::Dangling { directory: a, slot: b, name: bytes },
            3 => Self::StaleGeneration { directory: a, slot: b, name: bytes },
            4 => Self::WrongSlot { directory: a, slot: b, name: bytes },
            5 => Self::Unreachable { directory: a },
            6 => Self::Duplicate { directory: a, slot: b, name: bytes },
            7 => Self::EntryUnknown { directory: a, slot: b, name: bytes },
            8 => Self::LinkUnknown { file: a, directory: b, name: bytes },
            9 => Self::Orphans { first: a, files: b },
            10 => Self::RecordLost { directory: a, slot: b, name: bytes },
            20 => Self::Overlap { file: a, end: b, place: c },
            21 => Self::Unowned { file: a, end: b, place: c },
            22 => Self::Beyond { file: a, end: b, place: c },
            23 => Self::OwnerAlone { place: a },
            30 => Self::Leak { place: a, blocks: b },
            31 => Self::Double { place: a, blocks: b },
            32 => Self::Count { file: a },
            33 => Self::Bitmap { zone: a },
            40 => Self::NodeLost { tree, address: b, low: bytes, high },
            41 => Self::NodeMisplaced { tree, address: b, low: bytes, high },
            42 => Self::NodeShared { tree, address: b, low: bytes, high },
            43 => Self::NodeFree { address: a, blocks: b },
            44 => Self::NodeLeak { address: a, blocks: b },
            45 => Self::LeftOut { tree, key: bytes },
            50 => Self::Attribute { file: a, name: bytes },
            51 => Self::SymbolicLink { file: a },
            53 => Self::Note { file: a },
            54 => Self::Unreadable { tree, key: bytes },
            55 => Self::NoRecord { file: a },
            56 => Self::QuotaWrong { subject: Subject::from_fields(a, b, &bytes)? },
            60 => Self::SnapshotNode { snapshot: a, tree: b as u8, address: c },
            61 => Self::SnapshotData { snapshot: a, file: b, place: c },
            62 => Self::Unkept { snapshot: a, place: b, blocks: c },
            63 => Self::SharerUnknown { file: a, end: b, place: c },
            64 => Self::SharerAlone { place: a, key: bytes },
            65 => Self::Unshared { file: a, end: b, place: c },
            66 => Self::KeptApart { place: a },
            67 => Self::KeptWrong { snapshot: a },
            68 => Self::SecurityLost { file: a },
            69 => Self::SecurityTwin { number: a },
            70 => Self::Stream { file: a, slot: b },
            71 => Self::Reparse { file: a },
            74 => Self::JournalGap { usn: a },
            75 => Self::JournalNote { file: a },
            _ => return None,
        })
    }

    /// Its number, which stays.
    pub fn number(&self) -> u8 {
        self.fields().number
    }

    /// How much it matters.
    pub fn severity(&self) -> Severity {
        match self.number() {
            _ if self.is_of_journal() => Severity::Minor,
            10 | 20..=22 | 31 | 33 | 40..=43 | 45 | 51 | 54 | 55 | 61..=63 | 65 => Severity::Severe,
            1..=9 | 50 | 60 | 68 | 70 | 71 => Severity::Degraded,
            _ => Severity::Minor,
        }
    }

    /// Whether it is repaired while the volume is in use.
    pub fn is_online(&self) -> bool {
        self.is_of_journal() || !matches!(self.number(), 10 | 40..=42 | 45 | 54 | 55)
    }

    /// Whether only the change journal lost something.
    fn is_of_journal(&self) -> bool {
        matches!(
            self,
            Self::JournalGap { .. }
                | Self::JournalNote { .. }
                | Self::NodeLost { tree: crate::JOURNAL_TREE, .. }
                | Self::NodeMisplaced { tree: crate::JOURNAL_TREE, .. }
        )
    }

    /// Whether it is about files that no name leads to.
    pub fn is_orphan(&self) -> bool {
        matches!(self, Self::Orphan { .. } | Self::Orphans { .. })
    }

    /// How many things are wrong.
    pub fn count(&self) -> u64 {
        match self {
            Self::Orphans { files, .. } => u64::from(files.count_ones()),
            _ => 1,
        }
    }

    /// Whether its repair reads all metadata of the volume while nobody uses it: what was found says too little.
    pub fn needs_all(&self) -> bool {
        match self {
            Self::Unreadable { tree, key } => {
                let is_root = *tree == keys::shard(ROOT) && *key == keys::record(ROOT);
                is_root || *tree >= crate::SHARED_TREES || key.get(8) == Some(&kind::EXTENT)
            }
            _ => !self.is_online() && !matches!(self, Self::RecordLost { .. }),
        }
    }

    /// As it is kept.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Fields { number, numbers, bytes, high } = self.fields();
        let mut writer = Writer::new();
        writer.u8(number);
        numbers.iter().for_each(|number| _ = writer.u64(*number));
        writer.u16(bytes.len() as u16).raw(&bytes).u8(high.is_some().into()).raw(high.unwrap_or_default());
        writer.into_bytes()
    }

    /// Reads what was kept.
    pub(crate) fn decode(value: &[u8]) -> Result<Self, VolumeError> {
        let read = |reader: &mut Reader<'_>| -> Result<Self, WireError> {
            let number = reader.u8()?;
            let numbers = [reader.u64()?, reader.u64()?, reader.u64()?];
            let bytes = reader.u16().and_then(|len| reader.take(len.into()))?.to_vec();
            let is_bounded = reader.u8()? == 1;
            let high = reader.take(reader.remaining())?.to_vec();
            Self::from_fields(number, numbers, bytes, is_bounded.then_some(high)).ok_or(WireError::Value("verb"))
        };
        read(&mut Reader::new(value)).map_err(|_| VolumeError::corrupt("a finding that was kept cannot be read"))
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        match self {
            Self::Orphan { file } => write!(f, "no name leads to file {file}"),
            Self::Dangling { directory, name, .. } => {
                write!(f, "name {:?} in directory {directory} leads to a file that does not exist", shown(name))
            }
            Self::StaleGeneration { directory, name, .. } => {
                write!(f, "name {:?} in directory {directory} leads to a file that is gone", shown(name))
            }
            Self::WrongSlot { directory, name, .. } => {
                write!(f, "name {:?} in directory {directory} stands where it is not looked for", shown(name))
            }
            Self::Unreachable { directory } => write!(f, "no way leads from the root to directory {directory}"),
            Self::Duplicate { directory, name, .. } => {
                write!(f, "name {:?} is in directory {directory} twice", shown(name))
            }
            Self::EntryUnknown { directory, name, .. } => {
                write!(f, "name {:?} in directory {directory} is not known to its file", shown(name))
            }
            Self::LinkUnknown { file, directory, name } => {
                write!(f, "file {file} has name {:?} in directory {directory}, which does not have it", shown(name))
            }
            Self::Orphans { first, files } => {
                write!(
                    f,
                    "no name leads to {} files from file {} on",
                    files.count_ones(),
                    first + u64::from(files.trailing_zeros())
                )
            }
            Self::RecordLost { directory, name, .. } => {
                write!(f, "name {:?} in directory {directory} leads to a file whose record cannot be read", shown(name))
            }
            Self::Overlap { file, place, .. } => write!(f, "block {place} of file {file} is another file's"),
            Self::Unowned { file, place, .. } => {
                write!(f, "block {place} of file {file} is not in the map of owners")
            }
            Self::Beyond { file, place, .. } => write!(f, "block {place} of file {file} lies in no zone of data"),
            Self::OwnerAlone { place } => write!(f, "block {place} is in the map of owners, and no file has it"),
            Self::Leak { place, blocks } => write!(f, "{blocks} blocks from {place} on are taken, and no file's"),
            Self::Double { place, blocks } => {
                write!(f, "{blocks} blocks from {place} on are a file's, and free by their bitmap")
            }
            Self::Count { file } => write!(f, "file {file} counts its names, entries or blocks wrong"),
            Self::Bitmap { zone } => write!(f, "the bitmap of zone {zone} cannot be read"),
            Self::NodeLost { tree, address, .. } => write!(f, "the node at {address} of tree {tree} cannot be read"),
            Self::NodeMisplaced { tree, address, .. } => {
                write!(f, "the node at {address} of tree {tree} is not the one that belongs there")
            }
            Self::NodeShared { tree, address, .. } => {
                write!(f, "the node at {address} of tree {tree} has two parents")
            }
            Self::NodeFree { address, .. } => write!(f, "the node at {address} is free by its bitmap"),
            Self::NodeLeak { address, blocks } => {
                write!(f, "{blocks} blocks for nodes at {address} are taken, and no node's")
            }
            Self::Attribute { file, name } => {
                write!(f, "extended attribute {:?} of file {file} is not whole", shown(name))
            }
            Self::LeftOut { tree, key } => {
                write!(f, "a change of tree {tree} was lost with the node that it belongs to (key {key:02x?})")
            }
            Self::SymbolicLink { file } => write!(f, "file {file} and where it leads do not agree"),
            Self::Note { file } => write!(f, "file {file} is noted to be removed, and has names or does not exist"),
            Self::Unreadable { tree, key } => write!(f, "an entry of tree {tree} cannot be read (key {key:02x?})"),
            Self::NoRecord { file } => write!(f, "file {file} has parts, and no record"),
            Self::QuotaWrong { subject } => write!(f, "what {subject} takes is counted wrong"),
            Self::SnapshotNode { snapshot, address, .. } => {
                write!(
                    f,
                    "the node at {address} of the snapshot of checkpoint {snapshot} cannot be read: copy out what can be, \
                     then destroy it"
                )
            }
            Self::SnapshotData { snapshot, file, place } => {
                write!(
                    f,
                    "block {place} of file {file} in the snapshot of checkpoint {snapshot} is another file's: copy out what \
                     can be, then destroy it"
                )
            }
            Self::SecurityLost { file } => {
                write!(f, "the security descriptor of file {file} is lost: set its permissions anew")
            }
            Self::SecurityTwin { number } => {
                write!(f, "the two trees of security descriptors do not have number {number} alike")
            }
            Self::Stream { file, .. } => write!(f, "a stream of file {file} is not whole"),
            Self::Reparse { file } => write!(f, "the reparse point of file {file} is not whole, or not known to it"),
            Self::Unkept { snapshot, place, blocks } => {
                write!(f, "{blocks} blocks from {place} on are not kept for the snapshot of checkpoint {snapshot}")
            }
            Self::SharerUnknown { file, place, .. } => {
                write!(f, "block {place}, which is shared, is not known to be file {file}'s, too")
            }
            Self::SharerAlone { place, .. } => {
                write!(f, "block {place}, which is shared, is known to be somebody's who does not have it")
            }
            Self::Unshared { file, place, .. } => {
                write!(f, "block {place} is taken by file {file} for its own, and others have it, too")
            }
            Self::KeptApart { place } => {
                write!(f, "block {place} is kept for snapshots, and not known to be shared, which it is")
            }
            Self::KeptWrong { snapshot } => {
                write!(f, "what is kept for snapshots up to that of checkpoint {snapshot} is counted wrong")
            }
            Self::JournalGap { usn } => write!(f, "records of the change journal are missing from position {usn} on"),
            Self::JournalNote { file } => write!(f, "what the change journal notes of file {file} cannot be read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_kept_and_told() {
        let mut count = 0;
        for number in 0..=u8::MAX {
            let high = matches!(number, 40..=42).then(|| b"high".to_vec());
            let first = if number == 9 { 3 * RUN } else { 3 };
            let Some(verb) = Verb::from_fields(number, [first, 4, 5], b"name".to_vec(), high) else { continue };
            count += 1;
            assert_eq!(verb.number(), number);
            let kept = verb.encode();
            assert_eq!(Verb::decode(&kept), Ok(verb.clone()));
            assert!((0..10).all(|len| Verb::decode(&kept[..len]).is_err()), "{verb} cut short");
            assert!(!verb.to_string().is_empty());
        }
        assert_eq!(count, 44);
    }

    #[test]
    fn numbers_that_no_finding_has_are_refused() {
        let read = |number, numbers| Verb::from_fields(number, numbers, Vec::new(), None);
        assert!(read(9, [RUN, 1, 0]).is_some());
        assert_eq!(read(9, [RUN, 0, 0]), None, "no file");
        assert_eq!(read(9, [RUN + 1, 1, 0]), None, "files of two runs");
        let last = read(9, [u64::MAX - RUN + 1, u64::MAX, 0]).expect("the last run");
        assert!(last.to_string().contains("64 files"), "{last}");
        for number in [30, 31, 43, 44] {
            assert_eq!(read(number, [u64::MAX, 2, 0]), None, "a range without an end");
        }
        assert_eq!(read(54, [crate::TREES.into(), 0, 0]), None, "a tree that there is not");
    }
}
