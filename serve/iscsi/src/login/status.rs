//! How a login is refused (RFC 7143 11.13.5).

use std::borrow::Cow;
use std::time::Duration;

/// Status class and detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum LoginStatus {
    /// The initiator did something wrong.
    Initiator = 0x0200,
    /// It did not prove its name.
    Authentication = 0x0201,
    /// It may not log in to the target.
    Authorization = 0x0202,
    /// There is no such target.
    NotFound = 0x0203,
    /// The target is there no longer.
    Removed = 0x0204,
    /// Another version of the protocol.
    Version = 0x0205,
    /// A session has no more connections.
    TooManyConnections = 0x0206,
    /// A name is missing.
    Missing = 0x0207,
    /// Another type of session than there is.
    SessionType = 0x0209,
    /// There is no such session.
    NoSession = 0x020a,
    /// Something that is no login.
    InvalidRequest = 0x020b,
    /// The target failed.
    Target = 0x0300,
    /// The target cannot be used now.
    Unavailable = 0x0301,
    /// There are too many already.
    OutOfResources = 0x0302,
}

/// Why a login is refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// What the initiator is told.
    pub status: LoginStatus,
    /// What administrators are told.
    pub reason: Cow<'static, str>,
    /// How long the answer waits.
    pub delay: Duration,
}

impl Refusal {
    /// A refusal.
    pub fn new(status: LoginStatus, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { status, reason: reason.into(), delay: Duration::ZERO }
    }

    /// The initiator did something wrong.
    pub fn initiator(reason: &'static str) -> Self {
        Self::new(LoginStatus::Initiator, reason)
    }

    /// It did not prove its name.
    pub fn authentication(reason: &'static str) -> Self {
        Self::new(LoginStatus::Authentication, reason)
    }

    /// The same, after a while.
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}
