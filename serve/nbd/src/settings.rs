//! How NBD is served: limits and habits.
//!
//! Memory that clients can make a server hold is at most `connections` x (`payload_bytes` + 32 MiB), where the 32 MiB
//! are the one request that may pass the limit when nothing else is in flight, plus buffers of about 8 KiB a
//! connection, 90 KiB while it shakes hands, and 300 KiB under TLS.

use std::time::Duration;

use holdfast_listener::ListenSettings;

/// Limits and habits of a server.
#[derive(Clone, Debug)]
pub struct NbdSettings {
    /// How it listens.
    pub listen: ListenSettings,
    /// Requests in flight on a connection, from their header until their reply is sent; then its socket is not read.
    pub requests: u32,
    /// Payload bytes in flight on a connection; then its socket is not read. A single request may pass it.
    pub payload_bytes: u64,
    /// How long a client may take to choose an export.
    pub handshake_timeout: Duration,
    /// How long a connection that is being closed waits for the requests in flight.
    pub drain_timeout: Duration,
}

impl Default for NbdSettings {
    fn default() -> Self {
        Self {
            listen: ListenSettings::default(),
            requests: 128,
            payload_bytes: 64 << 20,
            handshake_timeout: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
