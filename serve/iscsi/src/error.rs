//! What can go wrong with targets. What goes wrong with one login or command goes to its initiator.

/// An error of targets.
#[derive(Debug, thiserror::Error)]
pub enum IscsiError {
    /// The name is taken.
    #[error("target '{0}' already exists; remove it first or choose another name")]
    Exists(String),
    /// There is none of that name.
    #[error("there is no target '{0}'; list the targets to see their names")]
    Unknown(String),
    /// The name is none that the protocol has.
    #[error(
        "'{0}' is no iSCSI name: write iqn.YYYY-MM.DOMAIN[:NAME], eui.16 DIGITS or naa.16 OR 32 DIGITS, in small letters"
    )]
    Name(String),
    /// A secret is too short or too long.
    #[error("the secret of '{0}' must have 12 to 255 bytes")]
    Secret(String),
    /// A user's name is empty or too long.
    #[error("'{0}' cannot be the name of a CHAP user: names have 1 to 255 bytes and no NUL")]
    User(String),
    /// An initiator could answer for the target.
    #[error("the secret of '{0}' is also the target's own, so that each could pass for the other; choose two secrets")]
    SameSecret(String),
    /// An initiator is listed twice.
    #[error("initiator '{0}' is listed twice")]
    Twice(String),
    /// Two portals of one address, or a group of number 0.
    #[error("portal {0} is listed twice, or has group 0; groups are numbered from 1")]
    Portal(String),
}
