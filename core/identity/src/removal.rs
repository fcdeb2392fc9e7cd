//! Whether a caller may remove or rename a file: by the file itself, or by the directory that it is in ([MS-FSA]
//! 2.1.5.1.2.1).
//!
//! Invariant: in a sticky directory nobody removes by the directory's word what is another's, unless the directory is
//! the caller's (POSIX.1-2017 4.3, restricted deletion).

use crate::check::{Access, Refused, check, is_owner};
use crate::descriptor::SecurityDescriptor;
use crate::mask::AccessMask;
use crate::token::Token;

/// What is to be removed, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Removal<'a> {
    /// The descriptor of the file.
    pub file: &'a SecurityDescriptor,
    /// The descriptor of the directory.
    pub directory: &'a SecurityDescriptor,
    /// The directory has the sticky bit.
    pub is_sticky: bool,
    /// As in [`Access::backup_intent`].
    pub backup_intent: bool,
}

/// Lets those pass who may delete the file, or what is in the directory.
///
/// # Errors
/// [`Refused`] with [`AccessMask::DELETE`] for others.
pub fn check_removal(removal: Removal<'_>, token: &Token) -> Result<(), Refused> {
    let Removal { file, directory, is_sticky, backup_intent } = removal;
    let by_file = check(file, token, Access { desired: AccessMask::DELETE, backup_intent });
    by_file.map(|_| ()).or_else(|refused| {
        let counts = !is_sticky || is_owner(file, token) || is_owner(directory, token);
        let by_directory = || check(directory, token, Access { desired: AccessMask::DELETE_CHILD, backup_intent });
        if counts && by_directory().is_ok() { Ok(()) } else { Err(refused) }
    })
}
