//! Changes of trees that are made together.
//!
//! Invariant: what passed [`Transaction::check`] fits into nodes and into the log.

use crate::error::{ErrorKind, VolumeError};
use crate::{MAX_KEY_BYTES, MAX_VALUE_BYTES, TREES};

/// Operations of a transaction, at most.
pub(crate) const MOST_OPERATIONS: usize = 64;
/// The same with those that the journal adds.
pub(crate) const MOST_LOGGED: usize = 4 * MOST_OPERATIONS;

/// One change of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub tree: u8,
    pub key: Vec<u8>,
    /// `None` takes the key out.
    pub value: Option<Vec<u8>>,
}

impl Operation {
    /// What it puts into a tree, if it does.
    pub fn value_of(&self, tree: u8) -> Option<(&[u8], &[u8])> {
        self.value.as_deref().filter(|_| self.tree == tree).map(|value| (&self.key[..], value))
    }

    pub fn check(&self) -> Result<(), VolumeError> {
        let refuse = |why: String| Err(VolumeError::new(ErrorKind::Invalid, why));
        let value = self.value.as_ref().map_or(0, Vec::len);
        if self.tree >= TREES {
            return refuse(format!("there is no tree {}", self.tree));
        }
        if self.key.is_empty() || self.key.len() > MAX_KEY_BYTES || value > MAX_VALUE_BYTES {
            return refuse(format!("an entry of {} and {value} bytes is too large, or has no key", self.key.len()));
        }
        Ok(())
    }
}

/// Blocks of data whose checksums a transaction carries, at most: what is written with more is not waited for less.
pub(crate) const MOST_SUMS: usize = 16;

/// What a block of data must hold for the transaction that names it to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockSum {
    /// The block, counted from the beginning of the device.
    pub place: u64,
    /// Its CRC-32C.
    pub crc: u32,
}

/// Changes that are made together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub(crate) operations: Vec<Operation>,
    /// The data that must be there for them, where they need not wait for it.
    pub(crate) sums: Vec<BlockSum>,
}

impl Transaction {
    /// One without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a value in, in place of the one that the key has.
    pub fn put(&mut self, tree: u8, key: &[u8], value: &[u8]) -> &mut Self {
        self.operations.push(Operation { tree, key: key.into(), value: Some(value.into()) });
        self
    }

    /// Takes a key out, if it is there.
    pub fn remove(&mut self, tree: u8, key: &[u8]) -> &mut Self {
        self.operations.push(Operation { tree, key: key.into(), value: None });
        self
    }

    pub(crate) fn check(&self) -> Result<(), VolumeError> {
        if self.operations.len() > MOST_OPERATIONS {
            let text = format!("a transaction of {} operations; {MOST_OPERATIONS} at most", self.operations.len());
            return Err(VolumeError::new(ErrorKind::Invalid, text));
        }
        self.operations.iter().try_for_each(Operation::check)
    }
}
