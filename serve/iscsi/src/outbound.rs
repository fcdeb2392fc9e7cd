//! PDUs that wait to be sent: headers and small data in one run of bytes, payload in the buffers that it was read into.
//!
//! Invariant: PDUs leave in the order in which they were put in, and payload is never copied.

use holdfast_device::IoSlice;
use holdfast_listener::Run;
use holdfast_model::wire::{Crc32c, crc32c};

use crate::protocol::Header;
use crate::protocol::header::padding;

/// Which parts of PDUs carry a CRC-32C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Headers do.
    pub header: bool,
    /// Data does.
    pub data: bool,
}

/// What is known of a run of PDUs.
#[derive(Debug)]
pub struct Held<H> {
    /// Held until the run has left: the memory of its payload.
    pub held: Vec<H>,
    /// Bytes of payload that were put in.
    pub payload_bytes: usize,
    /// How many PDUs they are.
    pub pdus: u32,
}

impl<H> Default for Held<H> {
    fn default() -> Self {
        Self { held: Vec::new(), payload_bytes: 0, pdus: 0 }
    }
}

impl<H> Held<H> {
    /// Lets go of everything.
    pub fn clear(&mut self) {
        self.held.clear();
        (self.payload_bytes, self.pdus) = (0, 0);
    }
}

/// A run of PDUs.
pub type Outbound<H> = Run<Held<H>>;

/// PDUs of a run.
pub trait Pdus {
    /// Appends a PDU with small data, which is copied. The header must announce it.
    fn pdu(&mut self, header: &Header, data: &[u8], digests: Digests);

    /// Appends a PDU with payload. The header must announce it.
    fn payload(&mut self, header: &Header, data: IoSlice, digests: Digests);
}

fn put_header<N>(run: &mut Run<N>, header: &Header, digests: Digests) {
    run.head(|heads| {
        heads.extend_from_slice(&header.0);
        if digests.header {
            heads.extend_from_slice(&crc32c(&header.0).to_le_bytes());
        }
    });
}

impl<H> Pdus for Outbound<H> {
    fn pdu(&mut self, header: &Header, data: &[u8], digests: Digests) {
        debug_assert_eq!(header.data_bytes(), data.len());
        put_header(self, header, digests);
        self.note.pdus += 1;
        if data.is_empty() {
            return;
        }
        self.head(|heads| {
            let from = heads.len();
            heads.extend_from_slice(data);
            heads.resize(heads.len() + padding(data.len()), 0);
            if digests.data {
                let digest = crc32c(&heads[from..]);
                heads.extend_from_slice(&digest.to_le_bytes());
            }
        });
    }

    fn payload(&mut self, header: &Header, data: IoSlice, digests: Digests) {
        debug_assert_eq!(header.data_bytes(), data.len());
        put_header(self, header, digests);
        let len = data.len();
        let digest = digests.data.then(|| {
            let mut crc = Crc32c::new();
            crc.add(&data);
            crc.add(&[0; 3][..padding(len)]);
            crc.value()
        });
        self.note.pdus += 1;
        self.note.payload_bytes += len;
        self.data(data, 0, len);
        if padding(len) > 0 || digest.is_some() {
            self.head(|heads| {
                heads.resize(heads.len() + padding(len), 0);
                heads.extend(digest.iter().flat_map(|digest| digest.to_le_bytes()));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice as SendSlice;

    use holdfast_listener::PIECES_AT_ONCE;

    use super::*;
    use crate::inbound::{Inbound, Incoming};
    use crate::protocol::constants::*;

    #[test]
    fn any_pace_sends_pdus_that_are_received_again() {
        for (pace, header, data) in [(1, true, true), (3, false, true), (7, true, false), (100_000, false, false)] {
            let digests = Digests { header, data };
            let mut out = Outbound::<()>::default();
            for turn in 0..60_u8 {
                let bytes = vec![turn; usize::from(turn) * 3];
                let pdu = Header::new(DATA_IN, 0).with_task_tag(turn.into()).with_data_bytes(bytes.len());
                if turn % 3 == 1 {
                    out.payload(&pdu, IoSlice::padded(&bytes).slice(0, bytes.len()), digests);
                } else {
                    out.pdu(&pdu, &bytes, digests);
                }
            }
            let mut sent: Vec<u8> = Vec::new();
            while !out.is_empty() {
                let mut slices = [SendSlice::new(&[]); PIECES_AT_ONCE];
                let count = out.slices(&mut slices);
                let flat: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).take(pace).collect();
                sent.extend(&flat);
                out.sent(flat.len());
            }
            let mut inbound = Inbound::<Vec<u8>>::new(1 << 20, &sent);
            inbound.agree(header, data, 1 << 20);
            for turn in 0..60_u8 {
                let Some(Incoming::Header(pdu, _)) = inbound.take().unwrap() else { panic!("header {turn}") };
                assert_eq!(pdu.task_tag(), turn.into());
                if turn > 0 {
                    inbound.begin(vec![0; pdu.data_bytes()], 0, usize::MAX);
                    let Some(Incoming::Data(bytes)) = inbound.take().unwrap() else { panic!("data {turn}") };
                    assert_eq!(bytes, vec![turn; usize::from(turn) * 3]);
                }
            }
        }
    }
}
