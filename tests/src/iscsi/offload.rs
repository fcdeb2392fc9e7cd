//! Offloaded copy as hosts ask for it: tokens, and lists of EXTENDED COPY (SPC-4 6.4, SBC-3 5.11, 5.45).

use super::answer::Answer;
use super::initiator::{Command, Session};
use super::wire::InitiatorError;

/// Bytes of a token.
pub const TOKEN: usize = 512;
/// The list identifiers that are used here.
const POPULATE: u32 = 0x5001;
const WRITE: u32 = 0x5002;

/// Blocks from an address on, and how many.
pub type Blocks = (u64, u32);

fn copy_cdb(action: u8, list: u32, len: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (0x83, action);
    cdb[6..10].copy_from_slice(&list.to_be_bytes());
    cdb[10..14].copy_from_slice(&(len as u32).to_be_bytes());
    cdb
}

/// RECEIVE COPY RESULTS of the operation that has this identifier of four bytes.
pub fn results(action: u8, list: u32, len: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (0x84, action);
    cdb[2..6].copy_from_slice(&list.to_be_bytes());
    cdb[10..14].copy_from_slice(&len.to_be_bytes());
    cdb
}

fn descriptors(list: &mut Vec<u8>, ranges: &[Blocks]) {
    for (block, blocks) in ranges {
        list.extend(block.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
}

/// POPULATE TOKEN: its CDB and its list.
pub fn populate(timeout_seconds: u32, ranges: &[Blocks]) -> ([u8; 16], Vec<u8>) {
    let len = 16 * ranges.len() as u16;
    let mut list = (14 + len).to_be_bytes().to_vec();
    list.extend([0, 0]);
    list.extend(timeout_seconds.to_be_bytes());
    list.extend([0; 6]);
    list.extend(len.to_be_bytes());
    descriptors(&mut list, ranges);
    (copy_cdb(0x10, POPULATE, list.len()), list)
}

/// WRITE USING TOKEN: its CDB and its list.
pub fn write_using(token: &[u8], offset: u64, ranges: &[Blocks]) -> ([u8; 16], Vec<u8>) {
    let len = 16 * ranges.len() as u16;
    let mut list = (534 + len).to_be_bytes().to_vec();
    list.extend([0; 6]);
    list.extend(offset.to_be_bytes());
    list.extend(token);
    list.extend([0; 6]);
    list.extend(len.to_be_bytes());
    descriptors(&mut list, ranges);
    (copy_cdb(0x11, WRITE, list.len()), list)
}

/// The token of zeros.
pub fn zeros() -> Vec<u8> {
    let mut token = vec![0; TOKEN];
    token[..4].copy_from_slice(&0xffff_0001_u32.to_be_bytes());
    token[6..8].copy_from_slice(&504_u16.to_be_bytes());
    token
}

/// The unit of this name, which is the first of VPD page 83h, as a descriptor of EXTENDED COPY.
pub fn cscd(naa: &[u8], block_bytes: u32) -> [u8; 32] {
    let mut descriptor = [0; 32];
    descriptor[..8].copy_from_slice(&[0xe4, 0, 0, 0, 1, 3, 0, naa.len() as u8]);
    descriptor[8..8 + naa.len()].copy_from_slice(naa);
    descriptor[28..].copy_from_slice(&block_bytes.to_be_bytes());
    descriptor
}

/// EXTENDED COPY (LID1) of blocks from one described unit to another: its CDB and its list.
pub fn extended_copy(units: [[u8; 32]; 2], pieces: &[(u64, u64, u16)]) -> ([u8; 16], Vec<u8>) {
    let mut list = vec![0x11, 0, 0, 64];
    list.extend([0; 4]);
    list.extend((28 * pieces.len() as u32).to_be_bytes());
    list.extend([0; 4]);
    list.extend(units.concat());
    for (from, to, blocks) in pieces {
        list.extend([2, 0, 0, 0x18, 0, 0, 0, 1, 0, 0]);
        list.extend(blocks.to_be_bytes());
        list.extend(from.to_be_bytes());
        list.extend(to.to_be_bytes());
    }
    (copy_cdb(0, 0, list.len()), list)
}

impl Session {
    /// Runs a command with its list.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn ask(&mut self, lun: u16, (cdb, list): ([u8; 16], Vec<u8>)) -> Result<Answer, InitiatorError> {
        self.execute(Command::new(lun, &cdb, list, 0))
    }

    /// A token of these blocks.
    ///
    /// # Panics
    /// If there is none to be had.
    #[track_caller]
    pub fn token_of(&mut self, lun: u16, ranges: &[Blocks]) -> Vec<u8> {
        self.ask(lun, populate(0, ranges)).expect("a session").good();
        let told = self.read(lun, &results(7, POPULATE, 1024), 1024).expect("a session").good();
        assert_eq!((told[4], told[5]), (0x10, 1), "{told:?}");
        let token = 32 + usize::from(told[13]) + 6;
        told[token..token + TOKEN].to_vec()
    }

    /// Has blocks written by a token, from its beginning.
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn write_by(&mut self, lun: u16, token: &[u8], ranges: &[Blocks]) {
        self.ask(lun, write_using(token, 0, ranges)).expect("a session").good();
    }
}
