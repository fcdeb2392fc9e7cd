//! FUSE over io_uring: requests and answers in memory that is shared with the kernel
//! (`Documentation/filesystems/fuse/fuse-io-uring.rst`, Linux 6.14).
//!
//! A slot is a header of 288 bytes and a payload. The kernel fills it with a request; the answer is written into it, and
//! one call hands that over and waits for the next request. Each processor of the machine has a queue of slots; requests
//! go to that of the processor that they are made on.
//!
//! ```text
//!   registered ──▶ with the kernel ── request ──▶ here ── answer ──▶ with the kernel ── …
//!                        └── the mount is gone ──▶ dead
//! ```
//!
//! The ring has entries of its own size and is one of its own. The reactor waits for it as for a socket.
//!
//! Invariant: the memory of a slot lives as long as the kernel may write to it: until the slot is dead, or for ever.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue, types};

use super::net::poll_call;
use super::waits::Readiness;
use crate::IoBuf;

/// Bytes of the headers of a slot (`struct fuse_uring_req_header`).
pub const HEADERS_BYTES: usize = 288;
/// Where the header of the operation begins, behind that of the request or answer.
pub const OPERATION_AT: usize = 128;
/// Where it stands how the kernel calls the request.
const COMMIT_ID_AT: usize = 264;
/// Where the length of the payload stands.
const PAYLOAD_BYTES_AT: usize = 272;

/// `FUSE_IO_URING_CMD_REGISTER` and `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
/// Where the length stands in an entry (`struct io_uring_sqe`).
const ENTRY_LEN_AT: usize = 24;

type Uring = IoUring<squeue::Entry128, cqueue::Entry>;

struct Slot {
    queue: u16,
    headers: IoBuf,
    payload: IoBuf,
    /// A request is in it, and no answer yet: the kernel keeps away from it.
    is_here: bool,
}

/// Slots of some queues of a mount. It stays on the reactor that made it.
pub struct FuseRing {
    // Dropped before the ring, as a poll would keep it open.
    readable: Readiness,
    uring: RefCell<Uring>,
    device: OwnedFd,
    slots: RefCell<Vec<Slot>>,
    arrived: RefCell<VecDeque<u32>>,
    /// Slots that the kernel may write to.
    live: Cell<usize>,
}

/// The command of an entry (`struct fuse_uring_cmd_req`).
fn command(commit_id: u64, queue: u16) -> [u8; 80] {
    let mut command = [0; 80];
    command[8..16].copy_from_slice(&commit_id.to_le_bytes());
    command[16..18].copy_from_slice(&queue.to_le_bytes());
    command
}

impl FuseRing {
    /// Registers `depth` slots for each of `queues` of the mount that `device` is of, once it has begun.
    ///
    /// # Errors
    /// When the kernel gives no ring. That it takes no slots shows in [`next`](Self::next).
    pub fn new(device: OwnedFd, queues: &[u16], depth: usize, payload_bytes: usize) -> io::Result<Self> {
        let count = queues.len() * depth;
        let entries = u32::try_from(count.next_power_of_two()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut builder = Uring::builder();
        // Not `DEFER_TASKRUN`: a request must wake a reactor that sleeps in another ring.
        builder.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag();
        let uring = builder.build(entries)?;
        let slot = |queue: u16| Slot {
            queue,
            headers: IoBuf::zeroed(HEADERS_BYTES),
            payload: IoBuf::new(payload_bytes),
            is_here: false,
        };
        let slots: Vec<Slot> = queues.iter().flat_map(|queue| (0..depth).map(|_| slot(*queue))).collect();
        let ring = Self {
            readable: Readiness::new(uring.as_raw_fd(), libc::POLLIN, false),
            uring: RefCell::new(uring),
            device,
            slots: RefCell::new(slots),
            arrived: RefCell::default(),
            live: Cell::new(0),
        };
        ring.register()?;
        Ok(ring)
    }

    fn register(&self) -> io::Result<()> {
        let mut slots = self.slots.borrow_mut();
        let mut parts = Vec::with_capacity(slots.len());
        for slot in slots.iter_mut() {
            let part = |buf: &mut IoBuf| libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
            parts.push([part(&mut slot.headers), part(&mut slot.payload)]);
        }
        for (key, (slot, parts)) in slots.iter().zip(&parts).enumerate() {
            let fd = types::Fd(self.device.as_raw_fd());
            let entry = opcode::UringCmd80::new(fd, REGISTER).cmd(command(0, slot.queue));
            let mut entry = entry.addr(Some(parts.as_ptr() as u64)).build().user_data(key as u64);
            // SAFETY: an entry is 128 bytes as the kernel has them, and its length stands there.
            unsafe { (&raw mut entry).cast::<u8>().add(ENTRY_LEN_AT).cast::<u32>().write(parts.len() as u32) };
            self.push(&entry)?;
            self.live.set(self.live.get() + 1);
        }
        // The kernel has read the parts when this returns; what they point to lives as long as the slot.
        self.enter()
    }

    /// Puts an entry into the ring, which has room for one of each slot.
    fn push(&self, entry: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: what an entry points to is memory of a slot, or of the caller until it has entered the ring.
        let pushed = unsafe { self.uring.borrow_mut().submission().push(entry) };
        pushed.map_err(|_| io::Error::other("a ring has fewer entries than slots"))
    }

    /// Submits, and lets the kernel post what is there.
    fn enter(&self) -> io::Result<()> {
        let mut uring = self.uring.borrow_mut();
        let count = uring.submission().len() as u32;
        // SAFETY: no argument is passed, and the entries were vouched for when they were pushed.
        let entered =
            unsafe { uring.submitter().enter::<libc::sigset_t>(count, 0, EnterFlags::GETEVENTS.bits(), None) };
        match entered {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits for a request, and answers its slot. One task at a time.
    ///
    /// # Errors
    /// When no slot lives any more: the mount is gone, or the kernel took none.
    pub async fn next(&self) -> io::Result<u32> {
        poll_fn(|cx| poll_call(&self.readable, cx, || self.try_next())).await
    }

    fn try_next(&self) -> io::Result<u32> {
        if let Some(slot) = self.arrived.borrow_mut().pop_front() {
            return Ok(slot);
        }
        let wants_enter = {
            let mut uring = self.uring.borrow_mut();
            let submission = uring.submission();
            !submission.is_empty() || submission.taskrun() || submission.cq_overflow()
        };
        if wants_enter {
            self.enter()?;
        }
        let mut failed = None;
        for entry in self.uring.borrow_mut().completion() {
            match entry.result() {
                0 => {
                    let slot = entry.user_data() as u32;
                    self.slots.borrow_mut()[slot as usize].is_here = true;
                    self.arrived.borrow_mut().push_back(slot);
                }
                error => {
                    self.live.set(self.live.get() - 1);
                    failed = Some(-error);
                }
            }
        }
        match self.arrived.borrow_mut().pop_front() {
            Some(slot) => Ok(slot),
            None if self.live.get() == 0 => Err(io::Error::from_raw_os_error(failed.unwrap_or(libc::ENOTCONN))),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Looks at the request in a slot: its headers, and its payload.
    ///
    /// # Panics
    /// If there is none.
    pub fn request<R>(&self, slot: u32, look: impl FnOnce(&[u8], &[u8]) -> R) -> R {
        let slots = self.slots.borrow();
        let slot = &slots[slot as usize];
        assert!(slot.is_here, "a slot is looked at while its request is here");
        let at = &slot.headers[PAYLOAD_BYTES_AT..PAYLOAD_BYTES_AT + 4];
        let len = u32::from_le_bytes(at.try_into().expect("four bytes")) as usize;
        look(&slot.headers, &slot.payload[..len.min(slot.payload.len())])
    }

    /// Answers the request in a slot, and waits in it for the next. Answers too long for a slot are refused.
    ///
    /// # Errors
    /// When the answer is too long, or the kernel takes none.
    ///
    /// # Panics
    /// If there is none.
    pub fn answer<'a>(&self, slot: u32, header: &[u8; 16], parts: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        let entry = {
            let mut slots = self.slots.borrow_mut();
            let found = &mut slots[slot as usize];
            assert!(found.is_here, "a request is answered once");
            let mut len = 0;
            for part in parts {
                let room = found.payload.get_mut(len..len + part.len()).ok_or(io::ErrorKind::InvalidInput)?;
                room.copy_from_slice(part);
                len += part.len();
            }
            let id = &found.headers[COMMIT_ID_AT..COMMIT_ID_AT + 8];
            let id = u64::from_le_bytes(id.try_into().expect("eight bytes"));
            found.headers[..16].copy_from_slice(header);
            found.is_here = false;
            found.headers[PAYLOAD_BYTES_AT..PAYLOAD_BYTES_AT + 4].copy_from_slice(&(len as u32).to_le_bytes());
            let fd = types::Fd(self.device.as_raw_fd());
            opcode::UringCmd80::new(fd, COMMIT_AND_FETCH).cmd(command(id, found.queue)).build().user_data(slot.into())
        };
        self.push(&entry)?;
        self.enter()
    }
}

impl Drop for FuseRing {
    fn drop(&mut self) {
        if self.live.get() > 0 {
            // The kernel lets go of them some time after the ring is closed, and tells nobody.
            std::mem::forget(self.slots.take());
        }
    }
}

impl std::fmt::Debug for FuseRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FuseRing({} slots)", self.slots.borrow().len())
    }
}
