//! What can go wrong with exports. What goes wrong with one request goes to its client.

/// An error of exports.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// The name is taken.
    #[error("export '{0}' already exists; remove it first or choose another name")]
    Exists(String),
    /// There is none of that name.
    #[error("there is no export '{0}'; list the exports to see their names")]
    Unknown(String),
    /// The protocol cannot carry the name.
    #[error("'{0}' cannot be the name of an export: names have 1 to 4096 bytes and no NUL")]
    Name(String),
}
