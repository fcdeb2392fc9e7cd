//! A volume on a device that lost names of files, and of which a record and an entry of a directory cannot be read: made,
//! and damaged past all rules, with checksums that fit.

use holdfast_volume::service::{Caller, FileId, FileKind, FileService, NewFile};
use holdfast_volume::{Settings, Store, Transaction, Volume};

use crate::files::{NEW, device, format_volume, open_volume};

/// Files of a directory.
pub const OF_DIRECTORY: u64 = 1000;
/// What keys of records and of entries of directories have behind the number of the file (docs/on-disk-format.md,
/// section 11).
const RECORD: u8 = 0;
const ENTRY: u8 = 2;

async fn directory(volume: &Volume, name: String) -> FileId {
    let caller = Caller::default();
    let new = NewFile { kind: FileKind::Directory, mode: 0o755, target: b"" };
    let id = volume.create(&caller, volume.root(), name.as_bytes(), &new).await.expect("created").id;
    for number in 0..OF_DIRECTORY {
        volume.create(&caller, id, format!("file {number}").as_bytes(), &NEW).await.expect("created");
    }
    id
}

fn shard(file: u64) -> u8 {
    (file / 64 % 32) as u8
}

/// Entries of a directory: their keys, and what they say.
async fn entries(store: &Store, directory: FileId) -> Vec<(Vec<u8>, Vec<u8>)> {
    let from = [&directory.number.to_be_bytes()[..], &[ENTRY]].concat();
    let found = store.range(shard(directory.number), &from, OF_DIRECTORY as usize).await.expect("read");
    found.into_iter().filter(|(key, _)| key.starts_with(&from)).collect()
}

/// What is damaged of a volume.
pub struct Victims {
    /// Directories that lose all their names.
    directories: Vec<FileId>,
    /// One that loses an entry to damage.
    directory: FileId,
    /// A file of that one, whose record is damaged.
    file: FileId,
}

impl Victims {
    /// Makes a volume of so many files, in directories `d0`, `d1` and so on, and of as many more as are to lose their
    /// names, in `o0` and so on.
    pub async fn fill(path: &str, files: u64, orphans: u64) -> Self {
        format_volume(path, None).await;
        let volume = open_volume(path).await;
        for number in 0..files / OF_DIRECTORY {
            directory(&volume, format!("d{number}")).await;
        }
        let mut directories = Vec::new();
        for number in 0..orphans / OF_DIRECTORY {
            directories.push(directory(&volume, format!("o{number}")).await);
        }
        let find = async |dir: FileId, name: &[u8]| {
            volume.lookup(&Caller::default(), dir, name).await.expect("looked up").expect("it was made").id
        };
        let directory = find(volume.root(), b"d0").await;
        let file = find(directory, b"file 1").await;
        volume.shut_down().await.expect("closed");
        Self { directories, directory, file }
    }

    /// Takes all names out of directories, and makes one record and one entry elsewhere unreadable.
    pub async fn damage(&self, path: &str) {
        let store = Store::open(device(path), Settings::default()).await.expect("opened");
        for directory in &self.directories {
            for some in entries(&store, *directory).await.chunks(48) {
                let mut gone = Transaction::new();
                some.iter().for_each(|(key, _)| _ = gone.remove(shard(directory.number), key));
                store.apply(&gone).await.expect("there is room");
            }
        }
        let record = [&self.file.number.to_be_bytes()[..], &[RECORD]].concat();
        let is_other = |value: &[u8]| value[..8] != self.file.number.to_le_bytes();
        let entries = entries(&store, self.directory).await;
        let (entry, _) = entries.iter().find(|(_, value)| is_other(value)).expect("it has others");
        let mut wrong = Transaction::new();
        wrong.put(shard(self.file.number), &record, b"?").put(shard(self.directory.number), entry, b"?");
        store.apply(&wrong).await.expect("there is room");
        store.checkpoint().await.expect("it lasts");
    }
}
