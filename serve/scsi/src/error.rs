//! What can go wrong with devices and their units. What goes wrong with one command is answered as sense data.

/// An error of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScsiError {
    /// The number is taken.
    #[error("LUN {0} of this target is taken; remove it first or choose another number")]
    Taken(u16),
    /// Flat space addressing ends there.
    #[error("{0} is no LUN: they go from 0 to 16383")]
    Number(u16),
    /// There are enough.
    #[error("a target has {0} LUNs at most; put more behind another target")]
    TooMany(usize),
}
