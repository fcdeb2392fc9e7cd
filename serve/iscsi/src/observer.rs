//! What administrators should know: logins that failed, sessions that come and go.

use crate::status::SessionStatus;

/// A login that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedLogin {
    /// From where.
    pub peer: String,
    /// The initiator, as it calls itself; empty if it did not say.
    pub initiator: String,
    /// The target that it asked for, if it did.
    pub target: Option<String>,
    /// The user that it named, if it did.
    pub user: Option<String>,
    /// Status class and detail, as the initiator saw them.
    pub status: u16,
    /// Why, for people.
    pub reason: String,
}

/// Hears of it. Called on reactors: it must not block.
pub trait Observer: Send + Sync {
    /// A login was refused.
    fn login_failed(&self, failed: FailedLogin);
    /// A session began.
    fn session_began(&self, session: &SessionStatus);
    /// A session ended, and why.
    fn session_ended(&self, session: &SessionStatus, why: &str);
}
