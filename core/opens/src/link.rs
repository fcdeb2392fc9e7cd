//! The words in which front ends say by which name a file is to go: any of them can then carry it out.
//!
//! ```text
//!   directory u64 | its generation u32 | name      little-endian
//! ```
//!
//! Invariant: what is written here is read back as it was, and nothing else is read.

use std::time::Duration;

use crate::key::FileKey;
use crate::open::Link;
use crate::table::Table;

const HEAD_BYTES: usize = 12;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkName {
    /// The directory's number in the volume.
    pub directory: u64,
    /// What tells the directory from earlier ones of that number.
    pub generation: u32,
    /// The name in it.
    pub name: Vec<u8>,
}

impl LinkName {
    /// The words.
    pub fn to_link(&self) -> Link {
        [&self.directory.to_le_bytes()[..], &self.generation.to_le_bytes(), &self.name].concat().into()
    }

    /// What the words say; `None` if they are none.
    pub fn of(link: &Link) -> Option<Self> {
        let (head, name) = link.split_at_checked(HEAD_BYTES).filter(|(_, name)| !name.is_empty())?;
        let (directory, generation) = head.split_at(8);
        Some(Self {
            directory: u64::from_le_bytes(directory.try_into().ok()?),
            generation: u32::from_le_bytes(generation.try_into().ok()?),
            name: name.to_vec(),
        })
    }
}

impl Table {
    /// A file was renamed: where it was to go by the old name, when an open of it or all are closed, it goes by the new
    /// one.
    pub fn relink(&self, file: FileKey, from: &Link, to: &Link, now: Duration) {
        let Some(seat) = self.find(file) else { return };
        self.act(&seat, now, |state, _| {
            let opens = state.opens.iter_mut().filter_map(|open| open.on_close.as_mut());
            let links = opens.chain(state.pending.as_mut());
            links.filter(|link| *link == from).for_each(|link| *link = to.clone());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_and_others_are_none() {
        let name = LinkName { directory: 7 << 40, generation: 9, name: b"a name".to_vec() };
        let link = name.to_link();
        assert_eq!(LinkName::of(&link), Some(name));
        for len in 0..=HEAD_BYTES {
            assert_eq!(LinkName::of(&link[..len].into()), None, "{len} bytes");
        }
    }
}
