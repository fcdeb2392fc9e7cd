//! Payload is copied nowhere: what the socket fills is what the disk writes from, and what the disk filled is what the
//! socket sends, by the addresses of the bytes.
//!
//! ```text
//!   socket fills spaces() of Inbound ─▶ Prepared::data_out ─▶ write of the block object      one buffer
//!   read of the block object ─▶ DataIn::Block ─▶ slices() of Outbound ─▶ socket              one buffer
//! ```

use std::io::IoSlice as SendSlice;
use std::sync::{Arc, Mutex};

use holdfast_block::{Balancer, ObjectService, Qos, Target};
use holdfast_device::reactor;
use holdfast_device::{
    BlockLimits, BlockObject, CloneRange, Device, Durability, Extent, Extents, Geometry, Io, IoBuf, IoSlice, Limits,
    StableId, Zeroes,
};
use holdfast_iscsi::inbound::{Inbound, Incoming, Place};
use holdfast_iscsi::outbound::{Digests, Outbound, Pdus};
use holdfast_iscsi::protocol::Header;
use holdfast_iscsi::protocol::constants::*;
use holdfast_listener::PIECES_AT_ONCE;
use holdfast_model::Uuid;
use holdfast_scsi::{DataIn, InitiatorPort, Nexus, Outcome, Prepared, Response, Status, lun_field};

use crate::support::client::{pattern, read10, write10};
use crate::support::device_of;
use crate::support::memory::Memory;

/// Bytes of payload that may be moved: what came in with the header.
const MOVED: usize = 1152;

/// Notes where the buffers lie that it is handed.
struct Noting {
    inner: Memory,
    written: Mutex<Vec<(usize, usize)>>,
    read: Mutex<Vec<(usize, usize)>>,
}

impl StableId for Noting {
    fn id(&self) -> Uuid {
        StableId::id(&self.inner)
    }
}

impl BlockLimits for Noting {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn cloning(&self) -> Option<&dyn CloneRange> {
        None
    }
}

impl Device for Noting {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.read.lock().unwrap().push((buf.as_ptr().addr(), buf.len()));
        self.inner.read(offset, buf)
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        self.written.lock().unwrap().push((data.as_ptr().addr(), data.len()));
        self.inner.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        self.inner.discard(offset, len)
    }
}

impl Zeroes for Noting {
    fn unmap(&self, offset: u64, len: u64, durability: Durability) -> Io<()> {
        self.inner.unmap(offset, len, durability)
    }

    fn write_zeroes(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Io<()> {
        self.inner.write_zeroes(offset, len, durability, keep_room)
    }
}

impl Extents for Noting {
    fn extents(&self, offset: u64, len: u64, max: usize) -> Io<Vec<Extent>> {
        self.inner.extents(offset, len, max)
    }
}

fn noting() -> (Arc<Noting>, Nexus) {
    let object = Arc::new(Noting { inner: Memory::new(16 << 20), written: Mutex::default(), read: Mutex::default() });
    let service = ObjectService::new(object.clone() as Arc<dyn BlockObject>, Balancer::new(1), reactor::clock());
    let target = Target::new("disk", "a test's".into(), Arc::new(service), false, &Qos::default()).unwrap();
    let initiator = InitiatorPort { name: crate::support::INITIATOR.into(), isid: [0x80, 0, 0, 0, 0, 1] };
    let nexus = device_of(StableId::id(&*object), Arc::new(target)).connect(initiator, 1);
    while answer(&nexus, nexus.prepare(lun_field(0), &[0; 6], 0, 0)).status != Status::Good {}
    (object, nexus)
}

fn answer(nexus: &Nexus, prepared: Prepared) -> Response {
    match nexus.start(prepared) {
        Outcome::Answered(response) => response,
        Outcome::Later(_) => panic!("memory answers at once"),
    }
}

/// Where the data of a write goes, as in a connection.
struct Goal(Prepared);

impl Place for Goal {
    fn space(&mut self) -> &mut [u8] {
        self.0.data_out()
    }
}

/// Receives a write of `len` bytes in data PDUs of `segment` bytes, as fast as the spaces take it, and hands it to the
/// nexus; answers for each byte of the payload the address at which the socket put it.
fn receive_write(nexus: &Nexus, data: &[u8], segment: usize, digests: Digests) -> Vec<usize> {
    let len = data.len();
    let mut wire = Outbound::<()>::default();
    let mut of_payload: Vec<Option<usize>> = Vec::new();
    for at in (0..len).step_by(segment) {
        let part = &data[at..(at + segment).min(len)];
        let header = Header::new(DATA_OUT, 0).with_u32(40, at as u32).with_data_bytes(part.len());
        let before = wire.bytes();
        wire.pdu(&header, part, digests);
        let head = HEADER_BYTES + if digests.header { 4 } else { 0 };
        of_payload.extend(vec![None; head]);
        of_payload.extend((at..at + part.len()).map(Some));
        of_payload.resize(of_payload.len() + wire.bytes() - before - head - part.len(), None);
    }
    let mut slices = [SendSlice::new(&[]); PIECES_AT_ONCE];
    let count = wire.slices(&mut slices);
    let bytes: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
    let prepared = nexus.prepare(lun_field(0), &write10(0, len / 512), 0, len as u32);
    let mut goal = Some(Goal(prepared));
    let mut inbound = Inbound::<Goal>::new(1 << 20, &[]);
    inbound.agree(digests.header, digests.data, 1 << 20);
    let (mut sent, mut filled_at) = (0, vec![0; len]);
    loop {
        while let Some(incoming) = inbound.take().unwrap() {
            match incoming {
                Incoming::Header(header, _) => {
                    let at = header.u32(40) as usize;
                    inbound.begin(goal.take().unwrap(), at, usize::MAX);
                }
                Incoming::Data(place) => goal = Some(place),
                _ => panic!("damaged"),
            }
        }
        if sent == bytes.len() {
            break;
        }
        // One receive of a socket that has everything: both spaces, in their order.
        let mut count = 0;
        for space in inbound.spaces() {
            let len = space.len().min(bytes.len() - sent);
            space[..len].copy_from_slice(&bytes[sent..sent + len]);
            for (at, of) in of_payload[sent..sent + len].iter().enumerate() {
                if let Some(of) = of {
                    filled_at[*of] = space.as_ptr().addr() + at;
                }
            }
            (sent, count) = (sent + len, count + len);
        }
        inbound.filled(count);
    }
    assert_eq!(answer(nexus, goal.unwrap().0).status, Status::Good);
    filled_at
}

#[test]
fn writes_go_to_the_disk_from_where_the_socket_put_them() {
    let (object, nexus) = noting();
    for (segment, digests) in [
        (256 << 10, Digests::default()),
        (64 << 10, Digests { header: true, data: true }),
        (1 << 20, Digests::default()),
    ] {
        let data = pattern(1 << 20, 7);
        let filled_at = receive_write(&nexus, &data, segment, digests);
        let written = std::mem::take(&mut *object.written.lock().unwrap());
        let [(start, len)] = written[..] else { panic!("one write, {written:?}") };
        assert_eq!(len, data.len());
        let moved = filled_at.iter().enumerate().filter(|(at, filled)| **filled != start + at).count();
        let pdus = data.len() / segment;
        assert!(moved <= MOVED * pdus, "{moved} bytes of {pdus} PDUs were moved");
    }
}

#[test]
fn reads_are_sent_from_where_the_disk_put_them() {
    let (object, nexus) = noting();
    let data = pattern(1 << 20, 9);
    receive_write(&nexus, &data, 1 << 20, Digests::default());
    // Also where the first block begins in the middle of one of the disk's.
    for (block, len) in [(0, 1 << 20), (3, 64 << 10)] {
        object.read.lock().unwrap().clear();
        let prepared = nexus.prepare(lun_field(0), &read10(block, len / 512), len as u32, 0);
        let DataIn::Block { buf, start, len: found } = answer(&nexus, prepared).data else { panic!("a block") };
        let read = object.read.lock().unwrap()[0];
        assert_eq!((buf.as_ptr().addr(), buf.len(), found), (read.0, read.1, len));
        let block_data = buf.freeze();
        let mut out = Outbound::<()>::default();
        let segment = 8 << 10;
        for at in (0..len).step_by(segment) {
            let header = Header::new(DATA_IN, 0).with_data_bytes(segment);
            out.payload(&header, block_data.slice(start + at, segment), Digests { header: true, data: true });
        }
        drop(block_data);
        let mut sent_from = Vec::new();
        while !out.is_empty() {
            let mut slices = [SendSlice::new(&[]); PIECES_AT_ONCE];
            let count = out.slices(&mut slices);
            let payload = slices[..count].iter().filter(|slice| slice.len() == segment);
            sent_from.extend(payload.map(|slice| slice.as_ptr().addr()));
            let all = slices[..count].iter().map(|slice| slice.len()).sum();
            out.sent(all);
        }
        let expected: Vec<usize> = (0..len).step_by(segment).map(|at| read.0 + start + at).collect();
        assert_eq!(sent_from, expected, "from block {block}");
    }
}
