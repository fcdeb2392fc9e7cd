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
//! A request that waits for a later one keeps its slot for as long. So another one is registered in its place, and stays.
//! A new slot takes new requests only: those that wait at the kernel for a slot are taken when an answer is handed over.
//!
//! The ring has entries of its own size and is one of its own. The reactor waits for it as for a socket.
//!
//! A kernel that is short of memory takes none, or some, of the entries that are submitted. The others stay in the ring and
//! are submitted at the next turn, and so on until they are taken.
//!
//! Invariant: the memory of a slot, and of the vectors that name it, lives as long as the kernel may look at it: until the
//! slot is dead, or for ever.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::task::{Context, Poll, Waker};

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
/// Slots of a queue, beyond those that it begins with, for requests that wait for others.
const MOST_MORE: usize = 256;
/// Entries that a ring of the kernel has at most (`IORING_MAX_ENTRIES`).
const MOST_ENTRIES: usize = 1 << 15;
/// Where the length stands in an entry (`struct io_uring_sqe`).
const ENTRY_LEN_AT: usize = 24;

type Uring = IoUring<squeue::Entry128, cqueue::Entry>;

struct Slot {
    queue: u16,
    headers: IoBuf,
    payload: IoBuf,
    /// Both, as the kernel is told of them. It may look later than when it is told.
    parts: Box<[libc::iovec; 2]>,
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
    /// The task that waits for a request.
    waiting: RefCell<Option<Waker>>,
    /// Slots that the kernel may write to.
    live: Cell<usize>,
    payload_bytes: usize,
    /// Slots that there is room for.
    room: usize,
    /// For each queue: requests that wait for others, and slots beyond those that it began with.
    suspended: RefCell<BTreeMap<u16, (usize, usize)>>,
}

/// The command of an entry (`struct fuse_uring_cmd_req`).
fn command(commit_id: u64, queue: u16) -> [u8; 80] {
    let mut command = [0; 80];
    command[8..16].copy_from_slice(&commit_id.to_le_bytes());
    command[16..18].copy_from_slice(&queue.to_le_bytes());
    command
}

impl Slot {
    fn new(queue: u16, payload_bytes: usize) -> Self {
        let (mut headers, mut payload) = (IoBuf::zeroed(HEADERS_BYTES), IoBuf::new(payload_bytes));
        let part = |buf: &mut IoBuf| libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
        let parts = Box::new([part(&mut headers), part(&mut payload)]);
        Self { queue, headers, payload, parts, is_here: false }
    }

    /// The entry that offers the slot to the kernel.
    fn registration(&self, device: &OwnedFd, key: u64) -> squeue::Entry128 {
        let entry = opcode::UringCmd80::new(types::Fd(device.as_raw_fd()), REGISTER).cmd(command(0, self.queue));
        let mut entry = entry.addr(Some(self.parts.as_ptr() as u64)).build().user_data(key);
        // SAFETY: an entry is 128 bytes as the kernel has them, and its length stands there.
        unsafe { (&raw mut entry).cast::<u8>().add(ENTRY_LEN_AT).cast::<u32>().write(self.parts.len() as u32) };
        entry
    }
}

impl FuseRing {
    /// Registers `depth` slots for each of `queues` of the mount that `device` is of, once it has begun.
    ///
    /// # Errors
    /// When the kernel gives no ring. That it takes no slots shows in [`next`](Self::next).
    pub fn new(device: OwnedFd, queues: &[u16], depth: usize, payload_bytes: usize) -> io::Result<Self> {
        let ring = Self::prepared(device, queues, depth, payload_bytes)?;
        ring.enter(u32::MAX)?;
        Ok(ring)
    }

    /// A ring whose entries the kernel was not told of yet.
    fn prepared(device: OwnedFd, queues: &[u16], depth: usize, payload_bytes: usize) -> io::Result<Self> {
        let count = queues.len() * depth;
        let most = (count + queues.len() * MOST_MORE).next_power_of_two().min(MOST_ENTRIES);
        let room = most.max(count.next_power_of_two());
        let entries = u32::try_from(room).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut builder = Uring::builder();
        // Not `DEFER_TASKRUN`: a request must wake a reactor that sleeps in another ring.
        builder.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag();
        let uring = builder.build(entries)?;
        let slots: Vec<Slot> =
            queues.iter().flat_map(|queue| (0..depth).map(|_| Slot::new(*queue, payload_bytes))).collect();
        let ring = Self {
            readable: Readiness::new(uring.as_raw_fd(), libc::POLLIN, false),
            uring: RefCell::new(uring),
            device,
            slots: RefCell::new(slots),
            arrived: RefCell::default(),
            waiting: RefCell::default(),
            live: Cell::new(0),
            payload_bytes,
            room,
            suspended: RefCell::default(),
        };
        ring.register()?;
        Ok(ring)
    }

    /// Puts the entries that register the slots into the ring.
    fn register(&self) -> io::Result<()> {
        for (key, slot) in self.slots.borrow().iter().enumerate() {
            self.push(&slot.registration(&self.device, key as u64))?;
            self.live.set(self.live.get() + 1);
        }
        Ok(())
    }

    /// Puts an entry into the ring, which has room for one of each slot.
    fn push(&self, entry: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: what an entry points to is memory of a slot, which outlives the ring unless the slot is dead.
        let pushed = unsafe { self.uring.borrow_mut().submission().push(entry) };
        pushed.map_err(|_| io::Error::other("a ring has fewer entries than slots"))
    }

    /// Submits so many entries at most, and lets the kernel post what is there.
    fn enter(&self, most: u32) -> io::Result<()> {
        let mut uring = self.uring.borrow_mut();
        let count = most.min(uring.submission().len() as u32);
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
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<io::Result<u32>> {
        let polled = poll_call(&self.readable, cx, || self.try_next());
        if polled.is_pending() {
            match &mut *self.waiting.borrow_mut() {
                Some(waker) => waker.clone_from(cx.waker()),
                empty => *empty = Some(cx.waker().clone()),
            }
            self.retry();
        }
        polled
    }

    /// Has the waiting task try again at the next turn, if the kernel did not take all entries: nothing else would.
    fn retry(&self) {
        if self.uring.borrow_mut().submission().is_empty() {
            return;
        }
        if let Some(waker) = &*self.waiting.borrow() {
            waker.wake_by_ref();
        }
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
            self.enter(u32::MAX)?;
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

    /// The request in a slot waits for later ones. `false`: there are as many of those as there may be, and nothing is done.
    pub fn suspend(&self, slot: u32) -> bool {
        let queue = self.slots.borrow()[slot as usize].queue;
        let (waiting, more) = self.suspended.borrow().get(&queue).copied().unwrap_or_default();
        let is_more_needed = waiting == more;
        if is_more_needed && (more == MOST_MORE || !self.add(queue)) {
            return false;
        }
        self.suspended.borrow_mut().insert(queue, (waiting + 1, more + usize::from(is_more_needed)));
        true
    }

    /// A request that was suspended waits no longer.
    pub fn resume(&self, slot: u32) {
        let queue = self.slots.borrow()[slot as usize].queue;
        if let Some((waiting, _)) = self.suspended.borrow_mut().get_mut(&queue) {
            *waiting -= 1;
        }
    }

    /// Registers another slot of a queue, if there is room.
    fn add(&self, queue: u16) -> bool {
        let key = self.slots.borrow().len();
        if key == self.room {
            return false;
        }
        let slot = Slot::new(queue, self.payload_bytes);
        let entry = slot.registration(&self.device, key as u64);
        // The kernel may look at the slot from now on, so it is kept whatever follows.
        self.slots.borrow_mut().push(slot);
        self.live.set(self.live.get() + 1);
        let is_registered = self.push(&entry).and_then(|()| self.enter(u32::MAX)).is_ok();
        self.retry();
        is_registered
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
        self.stage(slot, header, parts)?;
        self.enter(u32::MAX)?;
        self.retry();
        Ok(())
    }

    /// Puts an answer into its slot, and the entry that hands it over into the ring.
    fn stage<'a>(&self, slot: u32, header: &[u8; 16], parts: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
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
        self.push(&entry)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::reactor::{ReactorSettings, block_on};

    /// Where the address stands in an entry.
    const ENTRY_ADDR_AT: usize = 16;
    const DEPTH: usize = 4;

    #[derive(Default)]
    struct Counted(AtomicU32);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A ring over `/dev/null`, which answers each command with success. Nothing has entered it.
    fn ring() -> FuseRing {
        let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").expect("it is there");
        FuseRing::prepared(device.into(), &[0, 1], DEPTH, 8192).expect("a ring")
    }

    fn runs(test: impl FnOnce()) {
        let settings = ReactorSettings { name: "test".into(), ..ReactorSettings::default() };
        block_on(settings, async { test() }).expect("a reactor");
    }

    #[test]
    fn what_the_kernel_is_told_of_is_memory_of_its_slot() {
        let ring = ring();
        for (key, slot) in ring.slots.borrow().iter().enumerate() {
            let entry = slot.registration(&ring.device, key as u64);
            // SAFETY: an entry is 128 bytes, and the address stands there.
            let addr = unsafe { (&raw const entry).cast::<u8>().add(ENTRY_ADDR_AT).cast::<u64>().read_unaligned() };
            assert_eq!(addr, slot.parts.as_ptr() as u64, "the vectors are the slot's own");
            assert_eq!(slot.parts[0].iov_base.cast_const().cast(), slot.headers.as_ptr());
            assert_eq!(slot.parts[1].iov_base.cast_const().cast(), slot.payload.as_ptr());
            assert_eq!((slot.parts[0].iov_len, slot.parts[1].iov_len), (slot.headers.len(), slot.payload.len()));
        }
    }

    #[test]
    fn entries_that_the_kernel_did_not_take_are_submitted_at_the_next_turn() {
        runs(|| {
            let ring = ring();
            ring.enter(3).expect("it takes some");
            assert_eq!(ring.uring.borrow_mut().submission().len(), 2 * DEPTH - 3);
            let mut found: Vec<u32> = (0..2 * DEPTH).map(|_| ring.try_next().expect("a slot")).collect();
            found.sort_unstable();
            assert_eq!(found, (0..2 * DEPTH as u32).collect::<Vec<_>>());
            assert_eq!(ring.try_next().expect_err("no more").kind(), io::ErrorKind::WouldBlock);
        });
    }

    #[test]
    fn an_answer_that_the_kernel_did_not_take_wakes_who_waits() {
        runs(|| {
            let ring = ring();
            ring.enter(u32::MAX).expect("it takes all");
            let slots: Vec<u32> = (0..2 * DEPTH).map(|_| ring.try_next().expect("a slot")).collect();
            let counted = Arc::new(Counted::default());
            let waker = Waker::from(counted.clone());
            let mut cx = Context::from_waker(&waker);
            assert!(ring.poll_next(&mut cx).is_pending());
            ring.retry();
            assert_eq!(counted.0.load(Ordering::Relaxed), 0, "all is with the kernel");
            ring.stage(slots[0], &[0; 16], std::iter::empty()).expect("there is room");
            ring.enter(0).expect("it takes none");
            ring.retry();
            assert_eq!(counted.0.load(Ordering::Relaxed), 1);
            assert!(matches!(ring.poll_next(&mut cx), Poll::Ready(Ok(slot)) if slot == slots[0]));
        });
    }

    #[test]
    fn a_request_that_waits_is_made_up_for_by_another_slot() {
        runs(|| {
            let ring = ring();
            ring.enter(u32::MAX).expect("it takes all");
            let slots: Vec<u32> = (0..2 * DEPTH).map(|_| ring.try_next().expect("a slot")).collect();
            let of_first: Vec<u32> =
                slots.into_iter().filter(|slot| ring.slots.borrow()[*slot as usize].queue == 0).collect();
            assert!(ring.suspend(of_first[0]) && ring.suspend(of_first[1]));
            let mut found = [ring.try_next().expect("a new slot"), ring.try_next().expect("another one")];
            found.sort_unstable();
            assert_eq!(found, [2 * DEPTH as u32, 2 * DEPTH as u32 + 1]);
            assert!(found.iter().all(|slot| ring.slots.borrow()[*slot as usize].queue == 0));
            ring.resume(of_first[0]);
            assert!(ring.suspend(of_first[2]));
            assert_eq!(ring.try_next().expect_err("there are enough").kind(), io::ErrorKind::WouldBlock);
            let more = (0..2 * MOST_MORE).take_while(|_| ring.suspend(of_first[3])).count();
            assert_eq!((more, ring.slots.borrow().len()), (MOST_MORE - 2, 2 * DEPTH + MOST_MORE));
            assert!(ring.room >= 2 * (DEPTH + MOST_MORE), "an entry for each slot");
        });
    }
}
