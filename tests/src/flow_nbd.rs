//! A connection of NBD over TCP that takes several requests at once.

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use crate::flow::{Pipe, Request};

const READ: u16 = 0;
const WRITE: u16 = 1;

/// A connection to an export.
pub struct Export {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
    cookie: u64,
    /// Bytes that each outstanding request reads.
    reads: HashMap<u64, usize>,
    data: Vec<u8>,
}

impl Export {
    /// Connects to `export` of the server at `address`.
    ///
    /// # Panics
    /// If it cannot.
    pub fn new(address: SocketAddr, export: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a socket can be set");
        let mut answers = BufReader::with_capacity(64 << 10, stream.try_clone().expect("a socket can be shared"));
        answers.read_exact(&mut [0; 18]).expect("a greeting");
        // Flags, and the option GO for the export without further questions.
        let name = export.as_bytes();
        let lengths = [(name.len() as u32 + 6).to_be_bytes(), (name.len() as u32).to_be_bytes()].concat();
        let hello = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &7u32.to_be_bytes(), &lengths, name, &[0, 0]].concat();
        (&stream).write_all(&hello).expect("the server reads");
        loop {
            let mut reply = [0; 20];
            answers.read_exact(&mut reply).expect("a reply");
            let number = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().expect("four bytes"));
            answers.read_exact(&mut vec![0; number(16) as usize]).expect("a reply");
            match number(12) {
                1 => break,
                3 => (),
                other => panic!("the export {export} is refused: {other:x}"),
            }
        }
        Self { stream, answers, cookie: 0, reads: HashMap::new(), data: Vec::new() }
    }
}

impl Pipe for Export {
    fn send(&mut self, request: Request, data: &Arc<[u8]>) -> Result<(), String> {
        self.cookie += 1;
        let mut message = 0x2560_9513u32.to_be_bytes().to_vec();
        message.extend(0u16.to_be_bytes());
        message.extend(if request.write { WRITE } else { READ }.to_be_bytes());
        message.extend(self.cookie.to_be_bytes());
        message.extend(request.offset.to_be_bytes());
        message.extend((request.len as u32).to_be_bytes());
        if request.write {
            message.extend(&data[..request.len]);
        }
        self.reads.insert(self.cookie, if request.write { 0 } else { request.len });
        self.stream.write_all(&message).map_err(|error| error.to_string())
    }

    fn finish_one(&mut self) -> Result<(), String> {
        let mut reply = [0; 16];
        self.answers.read_exact(&mut reply).map_err(|error| error.to_string())?;
        let cookie = u64::from_be_bytes(reply[8..].try_into().expect("eight bytes"));
        let len = self.reads.remove(&cookie).ok_or("an answer to nothing")?;
        if reply[4..8] != [0; 4] {
            return Err(format!("refused: {reply:?}"));
        }
        self.data.resize(len, 0);
        self.answers.read_exact(&mut self.data).map_err(|error| error.to_string())
    }
}
