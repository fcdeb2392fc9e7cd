//! The server over SCSI units in memory, against an initiator that speaks the protocol PDU by PDU.

mod commands;
mod ends;
mod held;
mod logins;
mod management;
mod payload;
mod support;
