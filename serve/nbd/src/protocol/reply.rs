//! The header of a reply, in the style that was agreed.
//!
//! ```text
//!  simple       magic 4 | error 4 | cookie 8                                          then data of a read
//!  structured   magic 4 | flags 2 | type 2 | cookie 8 | length 4                      then length bytes
//!  extended     magic 4 | flags 2 | type 2 | cookie 8 | request offset 8 | length 8   then length bytes
//! ```
//!
//! Invariant: each function appends one whole record, or its head where the data of a read follows from its own memory,
//! so that two replies are never mixed.

use super::constants::*;
use super::{Errno, Request};

/// How requests are framed and answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyStyle {
    /// One simple reply a request.
    #[default]
    Simple,
    /// Chunks with 32-bit lengths.
    Structured,
    /// Chunks with 64-bit lengths, and requests with them.
    Extended,
}

impl ReplyStyle {
    /// Whether answers come in chunks.
    pub fn chunked(self) -> bool {
        self != Self::Simple
    }

    /// Whether requests have 64-bit lengths.
    pub fn extended(self) -> bool {
        self == Self::Extended
    }
}

/// An extent of a metadata context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusExtent {
    /// Its length.
    pub len: u64,
    /// Its `STATE_*` bits.
    pub state: u32,
}

fn simple(out: &mut Vec<u8>, cookie: u64, error: u32) {
    let mut head = [0; 16];
    head[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    head[4..8].copy_from_slice(&error.to_be_bytes());
    head[8..].copy_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&head);
}

fn chunk(out: &mut Vec<u8>, style: ReplyStyle, request: &Request, kind: u16, done: bool, len: u64) {
    let flags = if done { REPLY_FLAG_DONE } else { 0 };
    let mut head = [0; 32];
    head[4..6].copy_from_slice(&flags.to_be_bytes());
    head[6..8].copy_from_slice(&kind.to_be_bytes());
    head[8..16].copy_from_slice(&request.cookie.to_be_bytes());
    if style.extended() {
        head[..4].copy_from_slice(&EXTENDED_REPLY_MAGIC.to_be_bytes());
        head[16..24].copy_from_slice(&request.offset.to_be_bytes());
        head[24..].copy_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&head);
    } else {
        head[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        head[16..20].copy_from_slice(&(len as u32).to_be_bytes());
        out.extend_from_slice(&head[..20]);
    }
}

/// Success without data. Structured clients take the shorter simple reply here.
pub fn done(out: &mut Vec<u8>, style: ReplyStyle, request: &Request) {
    match style {
        ReplyStyle::Extended => chunk(out, style, request, REPLY_TYPE_NONE, true, 0),
        _ => simple(out, request.cookie, 0),
    }
}

/// The end of a read in chunks.
pub fn last_chunk(out: &mut Vec<u8>, style: ReplyStyle, request: &Request) {
    chunk(out, style, request, REPLY_TYPE_NONE, true, 0);
}

/// Failure, with a text for people where the style carries one.
pub fn failed(out: &mut Vec<u8>, style: ReplyStyle, request: &Request, errno: Errno, text: &str) {
    if !style.chunked() {
        return simple(out, request.cookie, errno.code());
    }
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    chunk(out, style, request, REPLY_TYPE_ERROR, true, 6 + text.len() as u64);
    out.extend_from_slice(&errno.code().to_be_bytes());
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The head of `len` bytes of data from `offset`, which follow it.
pub fn data(out: &mut Vec<u8>, style: ReplyStyle, request: &Request, offset: u64, len: u64, done: bool) {
    if !style.chunked() {
        return simple(out, request.cookie, 0);
    }
    chunk(out, style, request, REPLY_TYPE_OFFSET_DATA, done, 8 + len);
    out.extend_from_slice(&offset.to_be_bytes());
}

/// `len` zeros from `offset`, which are not sent.
pub fn hole(out: &mut Vec<u8>, style: ReplyStyle, request: &Request, offset: u64, len: u32, done: bool) {
    chunk(out, style, request, REPLY_TYPE_OFFSET_HOLE, done, 12);
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
}

/// The extents of one metadata context, as the whole answer. A structured reply has 32-bit lengths: an extent that is
/// longer is cut, and ends the list.
pub fn block_status(out: &mut Vec<u8>, style: ReplyStyle, request: &Request, context: u32, extents: &[StatusExtent]) {
    if style.extended() {
        chunk(out, style, request, REPLY_TYPE_BLOCK_STATUS_EXT, true, 8 + 16 * extents.len() as u64);
        out.extend_from_slice(&context.to_be_bytes());
        out.extend_from_slice(&(extents.len() as u32).to_be_bytes());
        for extent in extents {
            out.extend_from_slice(&extent.len.to_be_bytes());
            out.extend_from_slice(&u64::from(extent.state).to_be_bytes());
        }
        return;
    }
    const WHOLE_BLOCKS: u32 = !4095;
    let cut = extents.iter().position(|extent| extent.len > u32::MAX.into()).map_or(extents.len(), |at| at + 1);
    chunk(out, style, request, REPLY_TYPE_BLOCK_STATUS, true, 4 + 8 * cut as u64);
    out.extend_from_slice(&context.to_be_bytes());
    for extent in &extents[..cut] {
        out.extend_from_slice(&u32::try_from(extent.len).unwrap_or(WHOLE_BLOCKS).to_be_bytes());
        out.extend_from_slice(&extent.state.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Command;

    const REQUEST: Request = Request { flags: 0, command: Command::Read, cookie: 5, offset: 9, length: 100 };

    #[test]
    fn heads_have_the_lengths_of_their_style() {
        for (style, bytes) in [(ReplyStyle::Simple, 16), (ReplyStyle::Structured, 28), (ReplyStyle::Extended, 40)] {
            let mut out = Vec::new();
            data(&mut out, style, &REQUEST, 9, 100, true);
            assert_eq!(out.len(), bytes, "{style:?}");
        }
    }

    #[test]
    fn a_long_extent_is_cut_for_32_bits_and_whole_for_64() {
        let extents = [StatusExtent { len: 1 << 40, state: 3 }, StatusExtent { len: 4096, state: 0 }];
        let mut out = Vec::new();
        block_status(&mut out, ReplyStyle::Structured, &REQUEST, 1, &extents);
        assert_eq!((out.len(), &out[24..28]), (32, &0xffff_f000_u32.to_be_bytes()[..]));
        out.clear();
        block_status(&mut out, ReplyStyle::Extended, &REQUEST, 1, &extents);
        assert_eq!((out.len(), &out[40..48]), (72, &(1_u64 << 40).to_be_bytes()[..]));
    }
}
