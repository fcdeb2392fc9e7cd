//! All trees read from the device, and checked against each other and against the room that is taken.
//!
//! Invariant: a scan changes nothing, and believes nothing that is only in memory.

use std::collections::BTreeSet;

use holdfast_model::BLOCK_BYTES;

use crate::error::VolumeError;
use crate::page::{NodeRef, PAGE_BYTES};
use crate::store::{Store, held};

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A node cannot be read, or is not what its parent names; all below it is out of reach.
    NodeLost {
        /// Its tree.
        tree: u8,
        /// Where it stands.
        address: u64,
        /// What is wrong.
        why: String,
    },
    /// A node is of another tree or level than its parent, or covers other keys than that says.
    NodeMisplaced {
        /// The tree in which it was met.
        tree: u8,
        /// Where it stands.
        address: u64,
    },
    /// Two parents name one place.
    NodeShared {
        /// Where it stands.
        address: u64,
    },
    /// A block of a node that is free by its bitmap.
    BlockFree {
        /// Where it is.
        address: u64,
    },
    /// A block that is taken by its bitmap, and no node's.
    BlockLost {
        /// Where it is.
        address: u64,
    },
    /// A record or a value of a file cannot be read.
    Unreadable {
        /// The file.
        file: u64,
        /// What is wrong.
        why: String,
    },
    /// Keys of a file that has no record.
    NoRecord {
        /// The file.
        file: u64,
    },
    /// An entry whose file does not exist, or is another one of its number.
    Dangling {
        /// The directory.
        directory: u64,
        /// The name.
        name: Vec<u8>,
    },
    /// An entry that its file does not know, or that says another kind.
    EntryUnknown {
        /// The directory.
        directory: u64,
        /// The name.
        name: Vec<u8>,
    },
    /// An entry that stands where its name is not looked for.
    WrongSlot {
        /// The directory.
        directory: u64,
        /// The name.
        name: Vec<u8>,
    },
    /// A file without an entry that leads to it, and that is not noted to be removed.
    Orphan {
        /// The file.
        file: u64,
    },
    /// A name that a file says it has, and that no directory has.
    LinkUnknown {
        /// The file.
        file: u64,
        /// The directory that it names.
        directory: u64,
        /// The name.
        name: Vec<u8>,
    },
    /// A count in a record is wrong: of names, entries or blocks.
    WrongCount {
        /// The file.
        file: u64,
        /// Which one, what it is and what it should be.
        what: String,
    },
    /// A directory that cannot be reached from the root.
    Unreachable {
        /// The directory.
        directory: u64,
    },
    /// A block that two extents have, or that lies outside of zones of data.
    ExtentWrong {
        /// The file.
        file: u64,
        /// The block of the device.
        place: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// The map of owners says something else of a block than the extents.
    OwnerWrong {
        /// The block of the device.
        place: u64,
    },
    /// A zone of data that has more or fewer blocks taken than files have.
    ZoneWrong {
        /// The zone.
        zone: u32,
        /// Blocks that are taken.
        taken: u32,
        /// Blocks that files have.
        used: u32,
    },
}

/// A node that is to be looked at, and what its parent says of it.
struct Expected {
    node: NodeRef,
    tree: u8,
    level: Option<u8>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

impl Store {
    /// Reads all that the newest durable root refers to. Changes go on meanwhile; checkpoints wait.
    ///
    /// # Errors
    /// None of the volume's: what cannot be read is a finding.
    pub async fn scan(&self) -> Result<Vec<Finding>, VolumeError> {
        let newest = self.checkpoint.lock().await;
        let (mut findings, mut used) = (Vec::new(), BTreeSet::new());
        for (tree, root) in &newest.root.trees {
            let root = Expected { node: *root, tree: *tree, level: None, low: Vec::new(), high: None };
            let mut waiting = vec![root];
            while let Some(expected) = waiting.pop() {
                waiting.extend(self.scan_node(&expected, &mut used, &mut findings).await);
            }
        }
        let taken: BTreeSet<u64> = held(&self.zones).taken().collect();
        findings.extend(used.difference(&taken).map(|address| Finding::BlockFree { address: *address }));
        findings.extend(taken.difference(&used).map(|address| Finding::BlockLost { address: *address }));
        Ok(findings)
    }

    /// Looks at one node; answers its children.
    async fn scan_node(
        &self,
        expected: &Expected,
        used: &mut BTreeSet<u64>,
        findings: &mut Vec<Finding>,
    ) -> Vec<Expected> {
        let Expected { node, tree, level, low, high } = expected;
        let address = node.address;
        let blocks = (0..PAGE_BYTES as u64 / BLOCK_BYTES).map(|block| address + block * BLOCK_BYTES);
        if blocks.fold(false, |shared, block| !used.insert(block) | shared) {
            findings.push(Finding::NodeShared { address });
            return Vec::new();
        }
        let page = match self.read_node(*node).await {
            Ok(page) => page,
            Err(error) => {
                findings.push(Finding::NodeLost { tree: *tree, address, why: error.to_string() });
                return Vec::new();
            }
        };
        let fits = page.tree() == *tree
            && level.is_none_or(|level| page.level() == level)
            && page.low() == low
            && page.high() == high.as_deref();
        if !fits {
            findings.push(Finding::NodeMisplaced { tree: *tree, address });
            return Vec::new();
        }
        if page.level() == 0 {
            return Vec::new();
        }
        let child = |index: usize| Expected {
            node: page.child(index),
            tree: *tree,
            level: Some(page.level() - 1),
            low: page.key(index).to_vec(),
            high: if index + 1 < page.count() { Some(page.key(index + 1).to_vec()) } else { high.clone() },
        };
        (0..page.count()).map(child).collect()
    }
}
