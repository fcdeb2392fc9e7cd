//! An initiator that sends what it is told.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use holdfast_harness::LIMIT;
use holdfast_iscsi::protocol::Header;
use holdfast_iscsi::protocol::constants::*;
use holdfast_iscsi::protocol::header::padding;
use holdfast_iscsi::protocol::text;
use holdfast_model::wire::crc32c;

use super::{INITIATOR, TARGET};

/// A PDU.
#[derive(Clone, Debug)]
pub struct Pdu {
    pub header: Header,
    pub data: Vec<u8>,
}

/// How a login ended.
pub type Status = u16;

pub struct Client {
    pub wire: TcpStream,
    pub isid: [u8; 6],
    pub tsih: u16,
    pub header_digest: bool,
    pub data_digest: bool,
    pub cmd_sn: u32,
    pub exp_stat_sn: u32,
    pub max_cmd_sn: u32,
    pub exp_cmd_sn: u32,
    pub tag: u32,
    pub keys: BTreeMap<String, String>,
}

pub fn text_of(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    pairs.iter().for_each(|(key, value)| text::push(&mut bytes, key, value));
    bytes
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let wire = TcpStream::connect(address).unwrap();
        wire.set_read_timeout(Some(LIMIT)).unwrap();
        wire.set_nodelay(true).unwrap();
        Self {
            wire,
            isid: [0x80, 0, 0, 0, 0, 1],
            tsih: 0,
            header_digest: false,
            data_digest: false,
            cmd_sn: 1000,
            exp_stat_sn: 0,
            max_cmd_sn: 0,
            exp_cmd_sn: 0,
            tag: 1,
            keys: BTreeMap::new(),
        }
    }

    /// One that is logged in, and has its first unit attention behind it.
    pub fn enter(address: SocketAddr, offered: &[(&str, &str)]) -> Self {
        let mut client = Self::connect(address);
        assert_eq!(client.login(offered), 0);
        client.settle();
        client
    }

    pub fn settle(&mut self) {
        for _ in 0..4 {
            if self.command(&[0; 6], 0, 0, &[]).0 == 0 {
                return;
            }
        }
        panic!("the unit is not ready");
    }

    /// Logs in to the target without secrets.
    pub fn login(&mut self, offered: &[(&str, &str)]) -> Status {
        let names = [("InitiatorName", INITIATOR), ("TargetName", TARGET)];
        self.login_as(&names, offered)
    }

    pub fn login_as(&mut self, names: &[(&str, &str)], offered: &[(&str, &str)]) -> Status {
        let pairs = [names, offered].concat();
        let flags = FLAG_TRANSIT | STAGE_OPERATIONAL << 2 | STAGE_FULL_FEATURE;
        let answer = self.exchange(flags, &pairs);
        let status = answer.header.u16(36);
        if status == 0 {
            self.tsih = answer.header.u16(14);
            let agreed = |client: &Self, key: &str| client.keys.get(key).is_some_and(|value| value == "CRC32C");
            (self.header_digest, self.data_digest) = (agreed(self, "HeaderDigest"), agreed(self, "DataDigest"));
        }
        status
    }

    /// One exchange of a login.
    pub fn exchange(&mut self, flags: u8, pairs: &[(&str, &str)]) -> Pdu {
        let header = Header::new(LOGIN | 0x40, flags)
            .with(8, &self.isid)
            .with_u16(14, self.tsih)
            .with_task_tag(77)
            .with_u32(24, self.cmd_sn);
        self.send(header, &text_of(pairs));
        let answer = self.receive();
        assert_eq!(answer.header.opcode(), LOGIN_RESPONSE);
        self.keys.extend(text::parse(&answer.data).unwrap().iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        answer
    }

    pub fn send(&mut self, header: Header, data: &[u8]) {
        let header = header.with_data_bytes(data.len());
        let mut bytes = header.0.to_vec();
        if self.header_digest {
            bytes.extend(crc32c(&header.0).to_le_bytes());
        }
        let from = bytes.len();
        bytes.extend(data);
        bytes.extend(vec![0; padding(data.len())]);
        if self.data_digest && !data.is_empty() {
            let digest = crc32c(&bytes[from..]);
            bytes.extend(digest.to_le_bytes());
        }
        self.wire.write_all(&bytes).unwrap();
    }

    fn read_exact(&mut self, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.wire.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The next PDU; none if the server closes.
    pub fn next(&mut self) -> Option<Pdu> {
        let header = Header(self.read_exact(48)?.try_into().unwrap());
        if self.header_digest {
            assert_eq!(self.read_exact(4)?, crc32c(&header.0).to_le_bytes());
        }
        let len = header.data_bytes();
        let mut data = self.read_exact(len + padding(len))?;
        if self.data_digest && len > 0 {
            assert_eq!(self.read_exact(4)?, crc32c(&data).to_le_bytes());
        }
        data.truncate(len);
        let numbered = match header.opcode() {
            READY_TO_TRANSFER => false,
            DATA_IN => header.has(DATA_IN_STATUS),
            NOP_IN => header.task_tag() != NO_TAG,
            _ => true,
        };
        if numbered {
            assert!(self.exp_stat_sn == 0 || header.u32(24) == self.exp_stat_sn, "StatSN of {header:?}");
            self.exp_stat_sn = header.u32(24) + 1;
        }
        (self.exp_cmd_sn, self.max_cmd_sn) = (header.u32(28), header.u32(32));
        Some(Pdu { header, data })
    }

    pub fn receive(&mut self) -> Pdu {
        self.next().expect("the server has more to say")
    }

    /// Whether the server closes now.
    pub fn closed(&mut self) -> bool {
        matches!(self.wire.read(&mut [0; 1]), Ok(0) | Err(_))
    }

    pub fn new_tag(&mut self) -> u32 {
        self.tag += 1;
        self.tag
    }

    /// A request with the next number of a command.
    pub fn numbered(&mut self, opcode: u8, flags: u8) -> Header {
        let tag = self.new_tag();
        let cmd_sn = self.cmd_sn;
        if opcode & 0x40 == 0 {
            self.cmd_sn = cmd_sn.wrapping_add(1);
        }
        Header::new(opcode, flags).with_task_tag(tag).with_u32(24, cmd_sn).with_u32(28, self.exp_stat_sn)
    }

    /// The header of a command.
    pub fn command_header(&mut self, cdb: &[u8], flags: u8, expected: usize) -> Header {
        self.numbered(SCSI_COMMAND, flags).with_u32(20, expected as u32).with(32, cdb)
    }

    /// A command that reads up to `read` bytes, or writes `data`, of which `immediate` go with it and the rest is asked for.
    pub fn command(&mut self, cdb: &[u8], read: usize, immediate: usize, data: &[u8]) -> (u8, Vec<u8>, Pdu) {
        let mut flags = FLAG_FINAL;
        flags |= if data.is_empty() { 0 } else { COMMAND_WRITE };
        flags |= if read > 0 { COMMAND_READ } else { 0 };
        let header = self.command_header(cdb, flags, read.max(data.len()));
        self.send(header, &data[..immediate]);
        self.finish(data)
    }

    /// Serves requests for data until the status comes.
    pub fn finish(&mut self, data: &[u8]) -> (u8, Vec<u8>, Pdu) {
        let mut found = Vec::new();
        loop {
            let pdu = self.receive();
            match pdu.header.opcode() {
                DATA_IN => {
                    assert_eq!(pdu.header.u32(40) as usize, found.len());
                    found.extend_from_slice(&pdu.data);
                    if pdu.header.has(DATA_IN_STATUS) {
                        return (pdu.header.0[3], found, pdu);
                    }
                }
                READY_TO_TRANSFER => self.answer_request(&pdu.header, data, 4096),
                SCSI_RESPONSE => return (pdu.header.0[3], found, pdu),
                _ => panic!("{pdu:?}"),
            }
        }
    }

    /// Sends the data that was asked for, in pieces.
    pub fn answer_request(&mut self, request: &Header, data: &[u8], piece: usize) {
        let (offset, len) = (request.u32(40) as usize, request.u32(44) as usize);
        self.send_data(request.task_tag(), request.transfer_tag(), data, offset..offset + len, piece);
    }

    pub fn send_data(&mut self, task: u32, transfer: u32, data: &[u8], range: std::ops::Range<usize>, piece: usize) {
        let mut at = range.start;
        let mut number = 0;
        while at < range.end {
            let end = (at + piece).min(range.end);
            let header = Header::new(DATA_OUT, if end == range.end { FLAG_FINAL } else { 0 })
                .with_task_tag(task)
                .with_transfer_tag(transfer)
                .with_u32(36, number)
                .with_u32(40, at as u32);
            self.send(header, &data[at..end]);
            (at, number) = (end, number + 1);
        }
    }

    pub fn write(&mut self, block: u32, immediate: usize, data: &[u8]) -> u8 {
        self.command(&write10(block, data.len() / 512), 0, immediate, data).0
    }

    pub fn read(&mut self, block: u32, len: usize) -> Vec<u8> {
        let (status, data, _) = self.command(&read10(block, len / 512), len, 0, &[]);
        assert_eq!(status, 0);
        data
    }

    /// Task management: the response.
    pub fn manage(&mut self, function: u8, referred: u32, ref_cmd_sn: u32) -> u8 {
        let header = self.numbered(TASK_MANAGEMENT | 0x40, FLAG_FINAL | function);
        self.send(header.with_transfer_tag(referred).with_u32(32, ref_cmd_sn), &[]);
        let answer = self.receive();
        assert_eq!((answer.header.opcode(), answer.header.task_tag()), (TASK_MANAGEMENT_RESPONSE, header.task_tag()));
        answer.header.0[2]
    }
}

pub fn write10(block: u32, blocks: usize) -> [u8; 10] {
    ten(0x2a, block, blocks)
}

pub fn read10(block: u32, blocks: usize) -> [u8; 10] {
    ten(0x28, block, blocks)
}

fn ten(opcode: u8, block: u32, blocks: usize) -> [u8; 10] {
    let [a, b, c, d] = block.to_be_bytes();
    let [e, f] = (blocks as u16).to_be_bytes();
    [opcode, 0, a, b, c, d, 0, e, f, 0]
}

/// Bytes that tell where they are.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8).wrapping_add(seed)).collect()
}
