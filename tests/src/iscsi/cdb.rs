//! Commands of SCSI as tests send them (SPC-4, SBC-3).

/// A command without parameters.
pub fn six(opcode: u8) -> [u8; 6] {
    [opcode, 0, 0, 0, 0, 0]
}

/// TEST UNIT READY.
pub const TEST_UNIT_READY: [u8; 6] = [0; 6];

/// INQUIRY of the page `page`, or the standard data.
pub fn inquiry(page: Option<u8>, len: u16) -> [u8; 6] {
    let [high, low] = len.to_be_bytes();
    [0x12, u8::from(page.is_some()), page.unwrap_or(0), high, low, 0]
}

/// REPORT LUNS.
pub fn report_luns(len: u32) -> [u8; 12] {
    let mut cdb = [0; 12];
    cdb[0] = 0xa0;
    cdb[6..10].copy_from_slice(&len.to_be_bytes());
    cdb
}

/// A command of 16 bytes on `blocks` blocks from `block` on.
pub fn sixteen(opcode: u8, flags: u8, block: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (opcode, flags);
    cdb[2..10].copy_from_slice(&block.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// A command of 10 bytes on `blocks` blocks from `block` on.
pub fn ten(opcode: u8, flags: u8, block: u32, blocks: u16) -> [u8; 10] {
    let mut cdb = [0; 10];
    (cdb[0], cdb[1]) = (opcode, flags);
    cdb[2..6].copy_from_slice(&block.to_be_bytes());
    cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// READ (16).
pub fn read(block: u64, blocks: u32) -> [u8; 16] {
    sixteen(0x88, 0, block, blocks)
}

/// WRITE (16).
pub fn write(block: u64, blocks: u32) -> [u8; 16] {
    sixteen(0x8a, 0, block, blocks)
}

/// WRITE (16) that is durable when it is answered.
pub fn write_fua(block: u64, blocks: u32) -> [u8; 16] {
    sixteen(0x8a, 0x08, block, blocks)
}

/// SYNCHRONIZE CACHE (16) of everything.
pub fn synchronize() -> [u8; 16] {
    sixteen(0x91, 0, 0, 0)
}

/// READ CAPACITY (16).
pub fn read_capacity() -> [u8; 16] {
    let mut cdb = sixteen(0x9e, 0x10, 0, 32);
    cdb[2..10].fill(0);
    cdb
}

/// PERSISTENT RESERVE IN with the service action `action`.
pub fn reserve_in(action: u8, len: u16) -> [u8; 10] {
    let [high, low] = len.to_be_bytes();
    [0x5e, action, 0, 0, 0, 0, 0, high, low, 0]
}

/// PERSISTENT RESERVE OUT with the service action `action` for the whole unit, with a reservation of the type `kind`.
pub fn reserve_out(action: u8, kind: u8) -> [u8; 10] {
    [0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0]
}

/// Parameters of PERSISTENT RESERVE OUT; `aptpl` keeps what is registered over a loss of power.
pub fn reserve_parameters(key: u64, new_key: u64, aptpl: bool) -> Vec<u8> {
    let mut parameters = vec![0; 24];
    parameters[..8].copy_from_slice(&key.to_be_bytes());
    parameters[8..16].copy_from_slice(&new_key.to_be_bytes());
    parameters[20] = u8::from(aptpl);
    parameters
}
