//! Channels against real servers: mail with STARTTLS, TLS and a login, webhooks with and without TLS.

mod mail;
mod rig;
mod servers;
mod webhook;
