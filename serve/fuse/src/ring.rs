//! Requests over io_uring, where the kernel has that and it is switched on
//! (`/sys/module/fuse/parameters/enable_uring`).
//!
//! One call hands an answer over and waits for the next request, and a request is found without any call. In exchange
//! payloads are copied once, as the memory that is shared with the kernel stays where it is. What the kernel does not
//! wait for, such as FORGET, still comes over the device.
//!
//! Invariant: each request that came in a slot is answered in that slot, or the mount is gone.

use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use holdfast_device::reactor::fuse_ring::{FuseRing, OPERATION_AT};
use holdfast_device::{IoBuf, IoSlice};
use holdfast_volume::service::FileService;

use crate::answer::Way;
use crate::connection::{Channel, Message};
use crate::protocol::constants::{ENOTCONN, WRITE};
use crate::protocol::init::MAX_PAYLOAD_BYTES;
use crate::protocol::request::{HEADER_BYTES, Header};

const CPUS: &str = "/sys/devices/system/cpu/possible";

/// The queues that a reactor serves, of as many as processors may be here.
pub(crate) fn queues(reactor: usize, reactors: usize) -> Vec<u16> {
    let text = std::fs::read_to_string(CPUS).unwrap_or_default();
    (0..processors(&text)).filter(|queue| usize::from(*queue) % reactors == reactor).collect()
}

/// How many processors a list such as `0-3,6` numbers, gaps included.
fn processors(list: &str) -> u16 {
    list.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<u16>().ok()).map_or(0, |last| last + 1)
}

impl<S: FileService> Channel<S> {
    /// Serves what comes over io_uring, if both sides agreed on that.
    pub(crate) async fn read_ring(self: Rc<Self>, device: std::io::Result<OwnedFd>, queues: Vec<u16>) {
        let life = &self.connection.life;
        let mut stop = life.stop.wait();
        if matches!(select(&mut stop, life.begun.wait()).await, Either::Left(_)) || !life.is_over_ring() {
            return;
        }
        let ring = device.and_then(|device| FuseRing::new(device, &queues, self.connection.slots, MAX_PAYLOAD_BYTES));
        let ring = match ring {
            Ok(ring) => Rc::new(ring),
            Err(error) => {
                // The kernel waits for the queues of all reactors.
                tracing::error!("a mount ends, as io_uring cannot be set up for it: {error}");
                life.stop.raise();
                return;
            }
        };
        loop {
            let next = match select(&mut stop, pin!(ring.next())).await {
                Either::Left(_) => return,
                Either::Right((next, _)) => next,
            };
            match next {
                Ok(slot) => self.take_slot(&ring, slot),
                Err(error) => {
                    if error.raw_os_error() != Some(ENOTCONN) {
                        tracing::warn!("a mount is not served over io_uring: {error}");
                    }
                    return;
                }
            }
        }
    }

    /// Begins what the request in a slot asks for.
    fn take_slot(self: &Rc<Self>, ring: &Rc<FuseRing>, slot: u32) {
        let taken = ring.request(slot, |headers, payload| {
            let header = Header::parse(headers).expect("a slot has room for a header");
            let operation_bytes = (header.length as usize).saturating_sub(HEADER_BYTES + payload.len());
            let mut message = Message::from_slice(&headers[..HEADER_BYTES]);
            message.extend_from_slice(&headers[OPERATION_AT..][..operation_bytes.min(OPERATION_AT)]);
            if header.opcode == WRITE {
                return (header, message, Some(copied(payload)));
            }
            message.extend_from_slice(payload);
            (header, message, None)
        });
        let (header, message, payload) = taken;
        self.counters.count(header.opcode);
        self.begin(header, message, payload, Way::Ring(ring.clone(), slot));
    }
}

/// A payload in memory that may be handed on.
fn copied(payload: &[u8]) -> IoSlice {
    let mut buf = IoBuf::new(payload.len().next_multiple_of(holdfast_device::buffer::ALIGN_BYTES));
    buf[..payload.len()].copy_from_slice(payload);
    buf.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_by_the_last() {
        assert_eq!((processors("0\n"), processors("0-3\n"), processors("0-3,6\n"), processors("")), (1, 4, 7, 0));
        let all: Vec<u16> = (0..3).flat_map(|reactor| queues(reactor, 3)).collect();
        assert_eq!(all.len(), queues(0, 1).len(), "each queue is one reactor's");
    }
}
