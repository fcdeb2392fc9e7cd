//! Who asks, as front ends say it.
//!
//! Invariant: what is not said of a caller gives the caller nothing.

use std::sync::Arc;

use holdfast_identity::Token;

use crate::name_rules::NameRules;

/// The groups of a caller beside the first one.
#[derive(Clone, Debug)]
pub enum Groups {
    /// These.
    Known(Vec<u32>),
    /// All of the caller's at the moment when this is asked; `None` if they cannot be told. Then what is denied to any group
    /// is denied to the caller, and nothing that is allowed to one is allowed.
    ///
    /// It is for who asks on behalf of somebody whose groups cost something to read, and who checks modes. Only descriptors
    /// that depend on groups ask for them, while files are held: it answers at once, and asks no volume.
    Asked(fn(caller: &Caller) -> Option<Vec<u32>>),
}

impl Groups {
    /// Those that are known.
    pub fn known(&self) -> &[u32] {
        match self {
            Self::Known(groups) => groups,
            Self::Asked(_) => &[],
        }
    }
}

impl Default for Groups {
    fn default() -> Self {
        Self::Known(Vec::new())
    }
}

impl FromIterator<u32> for Groups {
    fn from_iter<I: IntoIterator<Item = u32>>(groups: I) -> Self {
        Self::Known(groups.into_iter().collect())
    }
}

impl PartialEq for Groups {
    /// Whose groups are asked for stands beside them.
    fn eq(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Asked(_), Self::Asked(_))) || self.known() == other.known()
    }
}

impl Eq for Groups {}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Who it is by the rules of NT: with a token, descriptors alone decide what the caller may do, and new files are its
    /// user's, also in quotas. Without one it is a user of POSIX.
    pub token: Option<Arc<Token>>,
    /// The user.
    pub uid: u32,
    /// The user's first group.
    pub gid: u32,
    /// Further groups.
    pub groups: Groups,
    /// Who it is to the one who tells groups, such as the thread that asks.
    pub asker: u32,
    /// Permissions were checked by the one who passes the request on, as the kernel does for its mounts. Ownership
    /// rules that need the volume's own knowledge are checked all the same, and so is the descriptor of a file that has
    /// one of its own: who checks by the mode alone knows too little. With a token, that was checked, too.
    pub is_checked: bool,
    /// Names that differ in case only are the same to the caller.
    pub ignores_case: bool,
    /// What names the caller gives and gets.
    pub names: NameRules,
    /// A file that loses its last name by the caller stays as long as [somebody knows it](crate::service::Remembers), as a
    /// kernel does whose programs may still come back to it.
    pub keeps_unnamed: bool,
}
