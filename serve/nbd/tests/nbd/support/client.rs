//! A small NBD client, which does what it is told also where that is wrong.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use holdfast_harness::LIMIT;
use holdfast_listener::Address;
use holdfast_model::wire::{Reader, Writer};
use holdfast_nbd::protocol::ReplyStyle;
use holdfast_nbd::protocol::constants::*;

pub trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

pub struct Client {
    pub wire: Box<dyn Wire>,
    pub style: ReplyStyle,
    reads: HashMap<u64, (u64, usize)>,
    next: u64,
}

/// What an export said of itself.
#[derive(Debug, Default)]
pub struct Told {
    pub size: u64,
    pub flags: u16,
    pub name: Option<String>,
    pub description: Option<String>,
    pub block_sizes: Option<[u32; 3]>,
}

/// One whole reply.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    pub text: String,
    pub data: Vec<(u64, Vec<u8>)>,
    pub holes: Vec<(u64, u32)>,
    pub extents: Vec<(u64, u64)>,
}

pub fn open(address: &Address) -> Box<dyn Wire> {
    let patience = Some(LIMIT);
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).unwrap();
            stream.set_read_timeout(patience).unwrap();
            Box::new(stream)
        }
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(patience).unwrap();
            Box::new(stream)
        }
    }
}

impl Client {
    /// Shakes hands as far as the options.
    pub fn connect(address: &Address) -> Self {
        Self::greet(open(address), FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES)
    }

    pub fn greet(mut wire: Box<dyn Wire>, flags: u32) -> Self {
        let mut greeting = [0; 18];
        wire.read_exact(&mut greeting).unwrap();
        let mut reader = Reader::new(&greeting);
        assert_eq!((reader.u64_be().unwrap(), reader.u64_be().unwrap()), (INIT_MAGIC, OPTION_MAGIC));
        assert_eq!(reader.u16_be().unwrap(), FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
        wire.write_all(&flags.to_be_bytes()).unwrap();
        Self::under(wire)
    }

    /// Behind the greeting, for instance under TLS.
    pub fn under(wire: Box<dyn Wire>) -> Self {
        Self { wire, style: ReplyStyle::Simple, reads: HashMap::new(), next: 1 }
    }

    /// In transmission, in the style that is asked for, with `base:allocation` where the style has it.
    pub fn enter(address: &Address, name: &str, style: ReplyStyle) -> (Self, Told) {
        let mut client = Self::connect(address);
        let told = client.choose(name, style);
        (client, told)
    }

    pub fn choose(&mut self, name: &str, style: ReplyStyle) -> Told {
        let option = match style {
            ReplyStyle::Simple => None,
            ReplyStyle::Structured => Some(OPT_STRUCTURED_REPLY),
            ReplyStyle::Extended => Some(OPT_EXTENDED_HEADERS),
        };
        if let Some(option) = option {
            assert_eq!(self.option(option, &[]), [(REP_ACK, vec![])]);
            let replies = self.option(OPT_SET_META_CONTEXT, &contexts(name, &[BASE_ALLOCATION]));
            assert_eq!(replies.len(), 2, "{replies:?}");
        }
        self.style = style;
        let replies = self.option(OPT_GO, &info(name, &[INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE]));
        told(&replies)
    }

    pub fn send_option(&mut self, option: u32, data: &[u8]) {
        let mut writer = Writer::new();
        writer.u64_be(OPTION_MAGIC).u32_be(option).u32_be(data.len() as u32).raw(data);
        self.wire.write_all(&writer.into_bytes()).unwrap();
    }

    pub fn option_reply(&mut self, option: u32) -> (u32, Vec<u8>) {
        let mut head = [0; 20];
        self.wire.read_exact(&mut head).unwrap();
        let mut reader = Reader::new(&head);
        assert_eq!((reader.u64_be().unwrap(), reader.u32_be().unwrap()), (OPTION_REPLY_MAGIC, option));
        let (kind, len) = (reader.u32_be().unwrap(), reader.u32_be().unwrap());
        (kind, self.exactly(len as usize))
    }

    /// Asks for an option; all its replies.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(option, data);
        let mut replies = Vec::new();
        loop {
            let reply = self.option_reply(option);
            let last = reply.0 == REP_ACK || reply.0 >= 1 << 31;
            replies.push(reply);
            if last {
                return replies;
            }
        }
    }

    pub fn exactly(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.wire.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The bytes of a request, and its cookie.
    pub fn request(&mut self, flags: u16, command: u16, offset: u64, length: u64, payload: &[u8]) -> (u64, Vec<u8>) {
        let cookie = self.next;
        self.next += 1;
        let mut writer = Writer::new();
        if self.style.extended() {
            let flags = if command == CMD_WRITE { flags | CMD_FLAG_PAYLOAD_LEN } else { flags };
            writer.u32_be(EXTENDED_REQUEST_MAGIC).u16_be(flags).u16_be(command);
            writer.u64_be(cookie).u64_be(offset).u64_be(length);
        } else {
            writer.u32_be(REQUEST_MAGIC).u16_be(flags).u16_be(command);
            writer.u64_be(cookie).u64_be(offset).u32_be(length as u32);
        }
        writer.raw(payload);
        if command == CMD_READ {
            self.reads.insert(cookie, (offset, length as usize));
        }
        (cookie, writer.into_bytes())
    }

    pub fn send(&mut self, flags: u16, command: u16, offset: u64, length: u64, payload: &[u8]) -> u64 {
        let (cookie, bytes) = self.request(flags, command, offset, length, payload);
        self.wire.write_all(&bytes).unwrap();
        cookie
    }

    /// Sends a request and takes its reply.
    pub fn ask(&mut self, flags: u16, command: u16, offset: u64, length: u64, payload: &[u8]) -> Reply {
        let cookie = self.send(flags, command, offset, length, payload);
        let reply = self.reply();
        assert_eq!(reply.cookie, cookie);
        reply
    }

    pub fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> u32 {
        self.ask(flags, CMD_WRITE, offset, data.len() as u64, data).error
    }

    /// Reads, with holes filled in.
    pub fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        let reply = self.ask(0, CMD_READ, offset, len as u64, &[]);
        assert_eq!((reply.error, &*reply.text), (0, ""));
        let (mut bytes, mut covered) = (vec![0; len], 0);
        for (at, data) in &reply.data {
            bytes[(at - offset) as usize..][..data.len()].copy_from_slice(data);
            covered += data.len();
        }
        covered += reply.holes.iter().map(|(_, len)| *len as usize).sum::<usize>();
        assert_eq!(covered, len);
        bytes
    }

    /// The next whole reply, to whichever request.
    pub fn reply(&mut self) -> Reply {
        let magic = u32::from_be_bytes(self.exactly(4).try_into().unwrap());
        if magic == SIMPLE_REPLY_MAGIC {
            assert!(!self.style.extended());
            let head = self.exactly(12);
            let mut reader = Reader::new(&head);
            let (error, cookie) = (reader.u32_be().unwrap(), reader.u64_be().unwrap());
            let mut reply = Reply { cookie, error, ..Reply::default() };
            if let Some(len) = self.reads.remove(&cookie).filter(|_| error == 0) {
                assert_eq!(self.style, ReplyStyle::Simple, "a read is answered in chunks");
                let data = self.exactly(len.1);
                reply.data.push((len.0, data));
            }
            return reply;
        }
        let mut reply = Reply::default();
        let mut magic = magic;
        loop {
            let extended = self.style.extended();
            assert_eq!(magic, if extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC });
            let head = self.exactly(if extended { 28 } else { 16 });
            let mut reader = Reader::new(&head);
            let (flags, kind) = (reader.u16_be().unwrap(), reader.u16_be().unwrap());
            reply.cookie = reader.u64_be().unwrap();
            if extended {
                reader.u64_be().unwrap();
            }
            let len = if extended { reader.u64_be().unwrap() } else { reader.u32_be().unwrap().into() };
            let body = self.exactly(len as usize);
            self.chunk(kind, &body, &mut reply);
            if flags & REPLY_FLAG_DONE != 0 {
                self.reads.remove(&reply.cookie);
                return reply;
            }
            magic = u32::from_be_bytes(self.exactly(4).try_into().unwrap());
        }
    }

    fn chunk(&self, kind: u16, body: &[u8], reply: &mut Reply) {
        let mut reader = Reader::new(body);
        match kind {
            REPLY_TYPE_NONE => {}
            REPLY_TYPE_OFFSET_DATA => {
                let offset = reader.u64_be().unwrap();
                reply.data.push((offset, reader.take(reader.remaining()).unwrap().to_vec()));
            }
            REPLY_TYPE_OFFSET_HOLE => reply.holes.push((reader.u64_be().unwrap(), reader.u32_be().unwrap())),
            REPLY_TYPE_ERROR => {
                reply.error = reader.u32_be().unwrap();
                let len = reader.u16_be().unwrap();
                reply.text = String::from_utf8(reader.take(len.into()).unwrap().to_vec()).unwrap();
            }
            REPLY_TYPE_BLOCK_STATUS => {
                assert!(!self.style.extended());
                assert_eq!(reader.u32_be().unwrap(), BASE_ALLOCATION_ID);
                while reader.remaining() > 0 {
                    reply.extents.push((reader.u32_be().unwrap().into(), reader.u32_be().unwrap().into()));
                }
            }
            REPLY_TYPE_BLOCK_STATUS_EXT => {
                assert_eq!(reader.u32_be().unwrap(), BASE_ALLOCATION_ID);
                let count = reader.u32_be().unwrap();
                for _ in 0..count {
                    reply.extents.push((reader.u64_be().unwrap(), reader.u64_be().unwrap()));
                }
            }
            other => panic!("chunk of type {other}"),
        }
        assert_eq!(reader.remaining(), 0);
    }

    /// Whether the server has closed the connection.
    pub fn closed(&mut self) -> bool {
        let mut byte = [0];
        match self.wire.read(&mut byte) {
            Ok(count) => count == 0,
            Err(error) => matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe),
        }
    }
}

/// The data of INFO and GO.
pub fn info(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32_be(name.len() as u32).raw(name.as_bytes()).u16_be(wanted.len() as u16);
    for one in wanted {
        writer.u16_be(*one);
    }
    writer.into_bytes()
}

/// The data of the options about contexts.
pub fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32_be(name.len() as u32).raw(name.as_bytes()).u32_be(queries.len() as u32);
    for query in queries {
        writer.u32_be(query.len() as u32).raw(query.as_bytes());
    }
    writer.into_bytes()
}

/// What the replies to INFO or GO say.
pub fn told(replies: &[(u32, Vec<u8>)]) -> Told {
    let mut told = Told::default();
    let (last, facts) = replies.split_last().unwrap();
    assert_eq!(last.0, REP_ACK, "{}", String::from_utf8_lossy(&last.1));
    for (kind, data) in facts {
        assert_eq!(*kind, REP_INFO);
        let mut reader = Reader::new(data);
        let fact = reader.u16_be().unwrap();
        let rest = &data[2..];
        match fact {
            INFO_EXPORT => (told.size, told.flags) = (reader.u64_be().unwrap(), reader.u16_be().unwrap()),
            INFO_NAME => told.name = Some(String::from_utf8(rest.to_vec()).unwrap()),
            INFO_DESCRIPTION => told.description = Some(String::from_utf8(rest.to_vec()).unwrap()),
            INFO_BLOCK_SIZE => told.block_sizes = Some([0; 3].map(|_| reader.u32_be().unwrap())),
            other => panic!("fact {other}"),
        }
    }
    told
}
