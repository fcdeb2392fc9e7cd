//! How iSCSI is served: limits and habits.
//!
//! Nobody's share of the payload memory is fixed: a session may hold as much as it leaves to others, and one command more
//! than that where it holds none. The data that commands wait for must come: when none came for `send_timeout`, or not all
//! within that and a second for each 512 KiB, the session is ended, whatever pings it answers.
//!
//! Memory that initiators can make a server hold is at most `memory_bytes` of payload, and for each connection 256 KiB of
//! answers that wait behind a full socket, one read beyond that, and about 20 KiB.

use std::time::Duration;

use holdfast_listener::ListenSettings;

/// Limits and habits of a server.
#[derive(Clone, Debug)]
pub struct IscsiSettings {
    /// How it listens.
    pub listen: ListenSettings,
    /// How long an initiator may take to log in.
    pub login_timeout: Duration,
    /// Bytes of text that a login may send.
    pub login_bytes: usize,
    /// Commands in flight in a session.
    pub tasks: u32,
    /// Payload bytes of all sessions together; commands beyond are answered with TASK SET FULL.
    pub memory_bytes: u64,
    /// An initiator that is silent for so long is asked whether it is there.
    pub ping_after: Duration,
    /// One that does not answer for so long is dropped.
    pub ping_timeout: Duration,
    /// One that takes no answer for so long, or sends nothing of the data that was asked for, is dropped.
    pub send_timeout: Duration,
    /// How long a session that is told to end has for its tasks and its logout.
    pub drain_timeout: Duration,
}

impl Default for IscsiSettings {
    fn default() -> Self {
        Self {
            listen: ListenSettings::default(),
            login_timeout: Duration::from_secs(15),
            login_bytes: 64 << 10,
            tasks: 128,
            memory_bytes: 1 << 30,
            ping_after: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(15),
            send_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(5),
        }
    }
}

/// How many sessions a table of targets lets in.
#[derive(Clone, Copy, Debug)]
pub struct TargetLimits {
    /// Sessions with targets.
    pub sessions: usize,
    /// Discovery sessions.
    pub discovery_sessions: usize,
}

impl Default for TargetLimits {
    fn default() -> Self {
        Self { sessions: 1024, discovery_sessions: 64 }
    }
}
