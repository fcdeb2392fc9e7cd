//! The CDBs and lists of offloaded copy, as an initiator builds them, and what it reads of the answers.

use crate::world::Host;

/// Bytes of a token.
pub const TOKEN: usize = 512;

fn token_cdb(action: u8, list: u32, len: usize) -> Vec<u8> {
    let mut cdb = vec![0x83, action, 0, 0, 0, 0];
    cdb.extend(list.to_be_bytes());
    cdb.extend((len as u32).to_be_bytes());
    cdb.extend([0, 0]);
    cdb
}

/// RECEIVE COPY RESULTS by an identifier of four bytes, or one that takes none.
pub fn results_cdb(action: u8, list: u32, allowed: u32) -> Vec<u8> {
    let mut cdb = vec![0x84, action];
    cdb.extend(list.to_be_bytes());
    cdb.extend([0; 4]);
    cdb.extend(allowed.to_be_bytes());
    cdb.extend([0, 0]);
    cdb
}

/// The same by an identifier of one byte.
pub fn results1_cdb(action: u8, list: u8, allowed: u32) -> Vec<u8> {
    results_cdb(action, u32::from(list) << 24, allowed)
}

pub fn extended_cdb(action: u8, len: usize) -> Vec<u8> {
    token_cdb(action, 0, len)
}

pub fn abort_cdb(list: u32) -> Vec<u8> {
    let mut cdb = vec![0x83, 0x1c];
    cdb.extend(list.to_be_bytes());
    cdb.resize(16, 0);
    cdb
}

fn ranges(list: &mut Vec<u8>, ranges: &[(u64, u32)]) {
    for (lba, blocks) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
}

/// A list of POPULATE TOKEN.
pub fn populate_list(timeout: u32, wanted: &[(u64, u32)]) -> Vec<u8> {
    let len = 16 * wanted.len() as u16;
    let mut list = (14 + len).to_be_bytes().to_vec();
    list.extend([0, 0]);
    list.extend(timeout.to_be_bytes());
    list.extend([0; 6]);
    list.extend(len.to_be_bytes());
    ranges(&mut list, wanted);
    list
}

/// A list of WRITE USING TOKEN; bit 0 of the flags is IMMED, bit 1 DEL_TKN.
pub fn write_list(flags: u8, offset: u64, token: &[u8], wanted: &[(u64, u32)]) -> Vec<u8> {
    let len = 16 * wanted.len() as u16;
    let mut list = (534 + len).to_be_bytes().to_vec();
    list.push(flags);
    list.resize(8, 0);
    list.extend(offset.to_be_bytes());
    list.extend(token);
    list.extend([0; 6]);
    list.extend(len.to_be_bytes());
    ranges(&mut list, wanted);
    list
}

/// The token of zeros.
pub fn zeros() -> Vec<u8> {
    let mut token = vec![0; TOKEN];
    token[..4].copy_from_slice(&[0xff, 0xff, 0, 1]);
    token[6..8].copy_from_slice(&[1, 0xf8]);
    token
}

/// What RECEIVE ROD TOKEN INFORMATION or RECEIVE COPY STATUS(LID4) tells.
#[derive(Debug)]
pub struct Told {
    pub action: u8,
    pub status: u8,
    pub completion: u8,
    pub unit: u8,
    pub count: u64,
    pub sense: Vec<u8>,
    pub token: Option<Vec<u8>>,
}

impl Told {
    pub fn parse(data: &[u8], with_token: bool) -> Self {
        let word = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
        assert_eq!(word(0) as usize, data.len() - 4);
        let end = 32 + usize::from(data[13]);
        let token = with_token.then(|| {
            assert_eq!(word(end) as usize, data.len() - end - 4);
            (word(end) > 0).then(|| data[end + 6..].to_vec())
        });
        Self {
            action: data[4],
            status: data[5],
            completion: data[12],
            unit: data[15],
            count: u64::from_be_bytes(data[16..24].try_into().unwrap()),
            sense: data[32..32 + usize::from(data[14])].to_vec(),
            token: token.flatten(),
        }
    }
}

impl Host {
    pub async fn told(&self, lun: u16, list: u32) -> Told {
        Told::parse(&self.good(lun, &results_cdb(7, list, 4096), &[]).await, true)
    }

    /// A token of these ranges.
    pub async fn populate(&self, lun: u16, wanted: &[(u64, u32)]) -> Vec<u8> {
        let list = populate_list(0, wanted);
        self.good(lun, &token_cdb(0x10, 77, list.len()), &list).await;
        let told = self.told(lun, 77).await;
        let blocks: u64 = wanted.iter().map(|(_, blocks)| u64::from(*blocks)).sum();
        assert_eq!((told.action, told.status, told.unit, told.count), (0x10, 1, 0xf1, blocks));
        let token = told.token.unwrap();
        assert_eq!(token.len(), TOKEN);
        token
    }

    pub async fn write_using(&self, lun: u16, id: u32, list: &[u8]) -> holdfast_scsi::Response {
        self.send(lun, &token_cdb(0x11, id, list.len()), list).await
    }

    /// Has these ranges written by a token.
    pub async fn use_token(&self, lun: u16, token: &[u8], wanted: &[(u64, u32)]) {
        let list = write_list(0, 0, token, wanted);
        self.good(lun, &token_cdb(0x11, 78, list.len()), &list).await;
    }

    /// What it hears that may not use a token.
    pub async fn refused(&self, lun: u16, token: &[u8], wanted: &[(u64, u32)]) -> (u8, u8, u8) {
        crate::world::told(&self.write_using(lun, 79, &write_list(0, 0, token, wanted)).await)
    }

    pub async fn populate_refused(&self, lun: u16, list: &[u8]) -> (u8, u8, u8) {
        self.sense(lun, &token_cdb(0x10, 80, list.len()), list).await
    }
}
