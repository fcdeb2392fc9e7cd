//! Why a pool takes no changes any more.
//!
//! Invariant: a refusal says the reason and what to do about it.

/// The reason.
pub(crate) struct Refusal {
    pub why: String,
    /// What to do about it, where the reason does not say so.
    pub next_action: &'static str,
    /// Whether it was exported or destroyed.
    pub is_over: bool,
    /// Whether it may be changed again once it was closed and opened anew.
    pub reopens: bool,
}
