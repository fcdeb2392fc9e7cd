//! A session as administrators see it.

use holdfast_listener::ConnectionStatus;

use crate::parameters::Parameters;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// Its number here.
    pub tsih: u16,
    /// The target; none in discovery.
    pub target: Option<String>,
    /// The initiator's name.
    pub initiator: String,
    /// What the initiator calls itself for people.
    pub initiator_alias: Option<String>,
    /// The number that the initiator gave it.
    pub isid: [u8; 6],
    /// The address that it came in at, and its group.
    pub portal: String,
    /// The target portal group.
    pub group: u16,
    /// The CHAP user that it proved to be, if any.
    pub user: Option<String>,
    /// Whether the target proved its name too.
    pub mutual: bool,
    /// What was agreed on.
    pub parameters: Parameters,
    /// Peer, since when, and what it did.
    pub connection: ConnectionStatus,
}
