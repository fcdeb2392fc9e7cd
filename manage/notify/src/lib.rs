//! Notifications: events go out as mail and webhooks.
//!
//! ```text
//!   channel.rs, secret.rs   ways out, and what must not be shown        rule.rs      which events go out, and when
//!   desk.rs                 decides, on a clock that it is handed       work.rs      what is collected and what waits
//!   pace.rs                 how often, how patiently                    message.rs   what is said
//!   send.rs                 one attempt: mail.rs, or webhook.rs with template.rs, both by tls.rs
//!   settings.rs             what administrators change                  service.rs   hears, stores, sends
//! ```
//!
//! Invariants: what is to be sent is in the store before it is sent, so a daemon that is killed loses none of it and
//! may send a message twice; emitting an event never waits for any of this; a secret leaves the store only for the
//! server that it belongs to.

mod channel;
mod desk;
mod mail;
mod message;
mod pace;
mod rule;
mod secret;
mod send;
mod service;
mod settings;
mod template;
mod tls;
mod webhook;
mod work;

pub use service::{Host, Notifications, check_document};
