//! Options of the handshake: what the client sends behind their headers, and the records of the answers.
//!
//! ```text
//!  option   IHAVEOPT 8 | option 4 | length 4 | data
//!  reply    magic 8    | option 4 | type 4   | length 4 | data
//! ```
//!
//! Invariant: the data of an option is used up exactly; a byte too few or too many is an error.

use holdfast_model::wire::{Reader, WireError, Writer};

use super::constants::*;

/// Bytes of an option header.
pub const HEADER_BYTES: usize = 16;

/// The header of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// An `OPT_*` number, known or not.
    pub option: u32,
    /// Bytes of data behind it.
    pub length: u32,
}

impl OptionHeader {
    /// Parses a header. [`WireError::Short`] asks for more bytes; any other error means that the stream is lost.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes.get(..HEADER_BYTES).ok_or(WireError::Short)?);
        if reader.u64_be()? != OPTION_MAGIC {
            return Err(WireError::Value("option magic"));
        }
        Ok(Self { option: reader.u32_be()?, length: reader.u32_be()? })
    }
}

/// The data of INFO and GO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoQuery<'a> {
    /// The export; empty for the default one.
    pub name: &'a str,
    /// The `INFO_*` facts that are wanted.
    pub wanted: Vec<u16>,
}

impl<'a> InfoQuery<'a> {
    /// Parses the data.
    pub fn parse(data: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(data);
        let name = text(&mut reader)?;
        let count = reader.u16_be()?;
        if reader.remaining() != usize::from(count) * 2 {
            return Err(WireError::Value("number of information requests"));
        }
        let wanted = (0..count).map(|_| reader.u16_be()).collect::<Result<_, _>>()?;
        Ok(Self { name, wanted })
    }
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextQuery<'a> {
    /// The export; empty for the default one.
    pub name: &'a str,
    /// The contexts that are asked for.
    pub queries: Vec<&'a str>,
}

impl<'a> ContextQuery<'a> {
    /// Parses the data.
    pub fn parse(data: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(data);
        let name = text(&mut reader)?;
        let count = reader.u32_be()?;
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(text(&mut reader)?);
        }
        if reader.remaining() > 0 {
            return Err(WireError::Value("length of the option"));
        }
        Ok(Self { name, queries })
    }
}

fn text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, WireError> {
    let len = reader.u32_be()? as usize;
    if len > MAX_TEXT_BYTES {
        return Err(WireError::Value("length of a text"));
    }
    std::str::from_utf8(reader.take(len)?).map_err(|_| WireError::Value("text"))
}

/// Appends one reply to an option.
pub fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    let mut writer = Writer::new();
    writer.u64_be(OPTION_REPLY_MAGIC).u32_be(option).u32_be(kind).u32_be(data.len() as u32).raw(data);
    out.extend_from_slice(&writer.into_bytes());
}

/// Appends the name and description of one export, in answer to LIST.
pub fn reply_server(out: &mut Vec<u8>, option: u32, name: &str, description: &str) {
    let mut data = Writer::new();
    data.u32_be(name.len() as u32).raw(name.as_bytes()).raw(description.as_bytes());
    reply(out, option, REP_SERVER, &data.into_bytes());
}

/// Appends a metadata context with its number.
pub fn reply_context(out: &mut Vec<u8>, option: u32, id: u32, name: &str) {
    let mut data = Writer::new();
    data.u32_be(id).raw(name.as_bytes());
    reply(out, option, REP_META_CONTEXT, &data.into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_used_up_exactly() {
        let data = [&[0, 0, 0, 2][..], b"vm", &[0, 1, 0, 3]].concat();
        assert_eq!(InfoQuery::parse(&data), Ok(InfoQuery { name: "vm", wanted: vec![INFO_BLOCK_SIZE] }));
        assert!(InfoQuery::parse(&data[..data.len() - 1]).is_err());
        assert!(InfoQuery::parse(&[data, vec![0]].concat()).is_err());
    }

    #[test]
    fn a_lying_count_of_contexts_ends_at_the_data() {
        let data = [&[0, 0, 0, 0][..], &[0xff; 4], &[0, 0, 0, 1, b'x']].concat();
        assert_eq!(ContextQuery::parse(&data), Err(WireError::Short));
    }
}
