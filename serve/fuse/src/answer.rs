//! Answers: what goes back to the kernel, and what is taken back where it does not arrive.
//!
//! A request may be given up by its process before its answer is there; the kernel then refuses the answer, and knows
//! neither the nodes nor the open file in it.
//!
//! Invariant: what an undelivered answer counted or opened is uncounted and closed.

use std::io::{ErrorKind as IoKind, IoSlice};
use std::rc::Rc;

use holdfast_device::reactor::fuse_ring::FuseRing;
use holdfast_device::reactor::message_device::MessageDevice;
use holdfast_model::wire::Writer;
use holdfast_volume::VolumeError;
use holdfast_volume::service::Data;
use smallvec::SmallVec;

use crate::protocol::constants::ENODEV;
use crate::protocol::reply::header;

/// Facts about a file, with its open handle or in the long form, are no longer.
const MOST_FACTS_BYTES: usize = 288;
/// Parts that the kernel takes at once (`UIO_MAXIOV`), without the header.
const MOST_PARTS: usize = 1023;

/// A number of `errno.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl From<VolumeError> for Errno {
    fn from(error: VolumeError) -> Self {
        Self(error.kind.errno())
    }
}

pub(crate) enum Body {
    /// The kernel waits for no answer.
    Silence,
    /// Success.
    Nothing,
    Bytes(Vec<u8>),
    Data(Data),
}

pub(crate) struct Answer {
    pub(crate) body: Body,
    /// Nodes that it names.
    pub(crate) nodes: SmallVec<[u64; 1]>,
    /// The open file that it names.
    pub(crate) handle: Option<(u64, u64)>,
    /// The open directory that it names.
    pub(crate) directory: Option<u64>,
}

/// What an operation comes to.
pub(crate) type Answered = Result<Answer, Errno>;

impl Answer {
    pub(crate) fn new(body: Body) -> Self {
        Self { body, nodes: SmallVec::new(), handle: None, directory: None }
    }

    pub(crate) fn nothing() -> Self {
        Self::new(Body::Nothing)
    }

    /// What `write` writes.
    pub(crate) fn of(write: impl FnOnce(&mut Writer)) -> Self {
        let mut writer = Writer::with_capacity(MOST_FACTS_BYTES);
        write(&mut writer);
        Self::new(Body::Bytes(writer.into_bytes()))
    }

    pub(crate) fn with_node(mut self, node: u64) -> Self {
        self.nodes.push(node);
        self
    }

    pub(crate) fn with_directory(mut self, number: u64) -> Self {
        self.directory = Some(number);
        self
    }

    pub(crate) fn with_handle(mut self, node: u64, handle: u64) -> Self {
        self.handle = Some((node, handle));
        self
    }
}

/// The way that a request came, and its answer goes.
pub(crate) enum Way {
    Device,
    Ring(Rc<FuseRing>, u32),
}

/// Sends an answer. `false`: the kernel does not want it any more.
pub(crate) fn send(device: &MessageDevice, way: &Way, unique: u64, error: i32, body: &Body) -> bool {
    match body {
        Body::Silence => true,
        Body::Nothing => write(device, way, unique, error, &[]),
        Body::Bytes(bytes) => write(device, way, unique, error, &[bytes]),
        Body::Data(data) if data.parts().nth(MOST_PARTS).is_some() => {
            write(device, way, unique, error, &[&data.to_vec()])
        }
        Body::Data(data) => write(device, way, unique, error, &data.parts().collect::<SmallVec<[&[u8]; 8]>>()),
    }
}

fn write(device: &MessageDevice, way: &Way, unique: u64, error: i32, parts: &[&[u8]]) -> bool {
    let header = header(unique, error, parts.iter().map(|part| part.len()).sum());
    let sent = match way {
        Way::Ring(ring, slot) => ring.answer(*slot, &header, parts.iter().copied()),
        Way::Device => {
            let mut slices: SmallVec<[IoSlice<'_>; 9]> = SmallVec::with_capacity(parts.len() + 1);
            slices.push(IoSlice::new(&header));
            slices.extend(parts.iter().map(|part| IoSlice::new(part)));
            device.write_vectored(&slices).map(drop)
        }
    };
    match sent {
        Ok(()) => true,
        Err(refused) => {
            // ENOENT: the request was given up. ENODEV: the mount is gone.
            if refused.kind() != IoKind::NotFound && refused.raw_os_error() != Some(ENODEV) {
                tracing::warn!("the kernel refused the answer to a request: {refused}");
            }
            false
        }
    }
}
