//! Files that keep checksums of their own: the mode changed at any time, and all that there is held against them.

use holdfast_volume::service::{FileId, FileKind, FileService};
use holdfast_volume::{ChecksumCounts, Integrity, ScrubFrom, Scrubbed, Volume};

use crate::files::Life;
use crate::model::Node;

/// What a new file of a directory keeps.
pub fn inherited(above: &Node, kind: FileKind) -> Integrity {
    match kind {
        FileKind::Regular | FileKind::Directory => above.integrity,
        _ => Integrity::PassThrough,
    }
}

/// Scrubs all of a volume, so many bytes at a time.
pub async fn scrub(volume: &Volume, step_bytes: u64) -> Scrubbed {
    let (mut all, mut from) = (Scrubbed::default(), Some(ScrubFrom::default()));
    while let Some(at) = from {
        let step = volume.scrub(at, step_bytes).await.expect("it goes through");
        assert_ne!(step.next, Some(at), "it goes on");
        from = step.next;
        all.checked += step.checked;
        all.healed += step.healed;
        all.lost += step.lost;
        all.unsummed += step.unsummed;
        all.unreadable += step.unreadable;
        all.damaged.extend(step.damaged);
    }
    all
}

/// Every block with a checksum is as that says, of files and snapshots, and was whenever it was read.
pub async fn check(volume: &Volume) {
    let found = scrub(volume, 1 << 20).await;
    let sound = Scrubbed { checked: found.checked, unsummed: found.unsummed, ..Scrubbed::default() };
    assert_eq!(found, sound);
    let counts = volume.checksum_counts();
    assert_eq!(counts, ChecksumCounts { checked: counts.checked, ..ChecksumCounts::default() });
}

impl Life<'_> {
    /// A file or directory keeps something else.
    pub async fn prove(&self) {
        let files = self.files();
        let is_one = |node: &&Node| matches!(node.kind, FileKind::Regular | FileKind::Directory);
        let all: Vec<FileId> = files.nodes.values().filter(is_one).map(|node| node.id).collect();
        let id = *self.random.pick(&all).expect("the root");
        let modes = [Integrity::Strict, Integrity::Strict, Integrity::Strict, Integrity::PassThrough, Integrity::None];
        let to = modes[self.random.range(0..modes.len())];
        let mut next = files;
        next.nodes.get_mut(&id.number).expect("it is there").integrity = to;
        let operation = async { self.volume.set_integrity(&self.caller, id, to).await.map(drop) };
        self.change_in_part(id, next, operation).await;
    }
}
