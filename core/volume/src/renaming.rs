//! How names of directories change: what is removed, and what a name gives way to.
//!
//! Invariant: a request says what it means to remove or replace, and is refused where something else is there.

/// What a name is to be removed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remove {
    /// Of anything but a directory (`unlink`).
    File,
    /// Of an empty directory (`rmdir`).
    Directory,
}

/// What happens to a file that has the new name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rename {
    /// It loses the name.
    Replace,
    /// The request is refused.
    NoReplace,
    /// Both change their names.
    Exchange,
    /// Where the old name was, a character device of the number 0 is from then on, as file systems that lie over others
    /// mark what is gone (`RENAME_WHITEOUT`).
    Whiteout {
        /// The other file loses the name; otherwise the request is refused.
        replaces: bool,
    },
}

impl Rename {
    /// Whether a file that has the new name loses it.
    pub fn replaces(self) -> bool {
        matches!(self, Self::Replace | Self::Whiteout { replaces: true })
    }

    /// Whether the new name must be free.
    pub fn needs_free(self) -> bool {
        matches!(self, Self::NoReplace | Self::Whiteout { replaces: false })
    }
}
