//! Hands a message to a channel's server, once.
//!
//! Invariants: it is over within the time that it is given; a failure says whether another attempt can help, and holds
//! no secret and nothing of the other side's but its status or a short line.

use std::time::Duration;

use crate::channel::{Channel, Sender};
use crate::message::Message;
use crate::{mail, webhook};

/// Bytes of what another server said that are kept.
const SAID_BYTES: usize = 300;

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// Whether the server refused this message for good.
    pub(crate) is_refusal: bool,
}

impl Failure {
    /// The server could not be asked, or may take it later.
    pub(crate) fn passing(message: impl Into<String>) -> Self {
        Self { message: short(&message.into()), is_refusal: false }
    }

    /// The server will not take it.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { message: short(&message.into()), is_refusal: true }
    }
}

fn short(text: &str) -> String {
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    let mut short: String = text.chars().map(plain).collect();
    if short.len() > SAID_BYTES {
        let end = (0..=SAID_BYTES).rev().find(|end| short.is_char_boundary(*end)).unwrap_or(0);
        short.truncate(end);
        short.push('…');
    }
    short.trim().to_owned()
}

/// What tells one message from all others, also where it comes twice.
pub(crate) struct Identity {
    /// The delivery's number.
    pub(crate) id: u64,
    /// When it was made, in milliseconds since 1970.
    pub(crate) created_ms: i64,
}

/// Sends `message` by `channel` within `patience`; answers what the server said to it.
pub(crate) async fn send(
    channel: &Channel,
    message: &Message,
    identity: &Identity,
    now_ms: i64,
    patience: Duration,
) -> Result<String, Failure> {
    let sending = async {
        match &channel.sender {
            Sender::Mail(settings) => mail::send(settings, message, identity, patience).await,
            Sender::Webhook(settings) => webhook::send(settings, message, identity, now_ms).await,
        }
    };
    let late = || Failure::passing(format!("the server did not answer within {} s", patience.as_secs()));
    tokio::time::timeout(patience, sending).await.unwrap_or_else(|_| Err(late()))
}
