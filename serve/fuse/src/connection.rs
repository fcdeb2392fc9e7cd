//! What all reactors that serve a mount share, and the loop of each.
//!
//! ```text
//!   /dev/fuse ── read ──▶ header + payload ──▶ a task each ──▶ service ──▶ answer ── write ──▶ /dev/fuse
//!        ▲                     │
//!        └── room for one more ┘ FORGET, at once
//! ```
//!
//! Each reactor reads a clone of the device. A request is served and answered where it was read.
//!
//! Invariants: a reactor has no more requests under way than its limit, but for those that waited for others. When a connection has ended, every open file is
//! closed and all that was answered is durable.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Poll, Waker};

use futures_util::future::{Either, select};
use holdfast_device::reactor::clock;
use holdfast_device::reactor::message_device::MessageDevice;
use holdfast_device::reactor::{spawn_local, yield_now};
use holdfast_device::{Clock, IoSlice, Signal};
use holdfast_volume::service::{FileId, FileService};
use smallvec::SmallVec;

use crate::answer::{Answer, Body, Errno, Way, send};
use crate::counters::Counters;
use crate::handles::Handles;
use crate::interrupts::Interrupts;
use crate::leaving::Leaving;
use crate::mapped::Mapped;
use crate::nodes::Nodes;
use crate::open_file::OpenFile;
use crate::opens::{Client, Opens};
use crate::payload::Arena;
use crate::protocol::constants::*;
use crate::protocol::init::{Init, Wanted};
use crate::protocol::reply::Timeouts;
use crate::protocol::request::{self, Header, Operation, WRITE_HEAD_BYTES};
use crate::settings::MountSettings;

/// A request without the payload of a write.
pub(crate) type Message = SmallVec<[u8; 160]>;

/// Shared by all reactors of a mount.
pub(crate) struct Connection<S: FileService> {
    pub(crate) service: Arc<S>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) handles: Handles<Arc<OpenFile<S::Handle>>>,
    /// Directories whose listings need what they are of to stay.
    pub(crate) directories: Handles<S::Handle>,
    pub(crate) mapped: Mapped,
    /// What it is in the table of opens.
    pub(crate) client: Client,
    pub(crate) interrupts: Interrupts,
    pub(crate) leaving: Leaving,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timeouts: Timeouts,
    pub(crate) wanted: Wanted,
    pub(crate) life: Arc<Life>,
    requests: u32,
    /// Requests over io_uring for each processor.
    pub(crate) slots: usize,
}

/// Where a connection is in its life.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// The kernel and this server agreed on how to speak.
    pub(crate) begun: Arc<Signal>,
    /// No more requests are taken.
    pub(crate) stop: Arc<Signal>,
    /// Nothing is under way and nothing is open.
    pub(crate) ended: Arc<Signal>,
    /// The version of a kernel that is too old.
    pub(crate) refused: OnceLock<(u32, u32)>,
    /// Capabilities that were agreed on, and the minor version.
    agreed: OnceLock<(u64, u32)>,
    /// For notifications, as long as the connection lives.
    pub(crate) notify: Mutex<Option<Arc<OwnedFd>>>,
    /// Reactors that serve.
    serving: AtomicUsize,
}

impl Life {
    pub(crate) fn new(notify: OwnedFd, serving: usize) -> Self {
        Self { notify: Mutex::new(Some(Arc::new(notify))), serving: AtomicUsize::new(serving), ..Self::default() }
    }

    /// Whether requests come over io_uring.
    pub(crate) fn is_over_ring(&self) -> bool {
        self.has_agreed(INIT_OVER_IO_URING)
    }

    /// Whether both sides agreed on a capability.
    pub(crate) fn has_agreed(&self, capability: u64) -> bool {
        self.agreed.get().is_some_and(|(flags, _)| flags & capability != 0)
    }

    /// The version of the protocol that both sides speak.
    pub(crate) fn minor(&self) -> u32 {
        self.agreed.get().map_or(0, |(_, minor)| *minor)
    }
}

impl<S: FileService> Connection<S> {
    pub(crate) fn new(
        service: Arc<S>,
        opens: Opens,
        directory: &Path,
        settings: &MountSettings,
        life: Arc<Life>,
    ) -> Self {
        let nodes = Arc::new(Nodes::new(service.root()));
        let known: Weak<Nodes> = Arc::downgrade(&nodes);
        service.remember(known);
        Self {
            nodes,
            service,
            handles: Handles::default(),
            directories: Handles::default(),
            mapped: Mapped::new(directory),
            client: Client::new(opens, settings.honours_denials),
            interrupts: Interrupts::default(),
            leaving: Leaving::default(),
            clock: clock(),
            timeouts: Timeouts { entry: settings.entry_timeout, attributes: settings.attribute_timeout },
            wanted: Wanted {
                writeback_cache: settings.writeback_cache,
                invalidate_on_change: settings.invalidate_on_change,
                locks: settings.shared_locks,
                over_io_uring: settings.over_io_uring,
                background: settings.requests.clamp(12, 1024) as u16,
            },
            life,
            requests: settings.requests.max(1),
            slots: settings.slots.max(1),
        }
    }

    /// The answer to INIT.
    pub(crate) fn begin(&self, init: &Init) -> Result<Vec<u8>, Errno> {
        if init.is_newer() {
            return Ok(crate::protocol::init::encode_version());
        }
        let Some(agreed) = init.agree(self.wanted) else {
            let _ = self.life.refused.set(init.version);
            self.life.stop.raise();
            return Err(Errno(EPROTO));
        };
        let _ = self.life.agreed.set((agreed.flags, agreed.minor));
        Ok(agreed.encode())
    }

    /// The kernel knows a file no more. One without a name may go then.
    pub(crate) async fn forgotten(&self, id: FileId) {
        if self.service.is_left(id)
            && let Err(error) = self.service.forgotten(id).await
        {
            tracing::warn!("file {} lost its last name and cannot be removed yet: {error}", id.number);
        }
    }

    /// The last reactor that served closes what is open.
    async fn end(&self) {
        for file in self.handles.drain() {
            if let Ok(Some(deletion)) = self.client.opens.table().close(&file.seat, self.clock.now()) {
                self.carry_out(deletion).await;
            }
            let handle = OpenFile::into_handle(file);
            if let Err(error) = self.service.close(handle).await {
                tracing::warn!("a file that was open when its mount ended could not be closed: {error}");
            }
        }
        for directory in self.directories.drain() {
            if let Err(error) = self.service.close(directory).await {
                tracing::warn!("a directory that was open when its mount ended could not be closed: {error}");
            }
        }
        for id in self.nodes.drain() {
            self.forgotten(id).await;
        }
        if let Err(error) = self.service.sync().await {
            tracing::warn!("a volume could not be made durable when its mount ended: {error}");
        }
        self.life.ended.raise();
    }
}

/// One reactor's part of a mount.
pub(crate) struct Channel<S: FileService> {
    pub(crate) connection: Arc<Connection<S>>,
    pub(crate) device: MessageDevice,
    pub(crate) counters: Arc<Counters>,
    under_way: Cell<u32>,
    /// Requests that wait for others, which are not among those.
    aside: Cell<u32>,
    waiting: Cell<Option<Waker>>,
}

impl<S: FileService> Channel<S> {
    /// Serves until the kernel or this side ends the mount.
    pub(crate) async fn run(
        connection: Arc<Connection<S>>,
        device: OwnedFd,
        counters: Arc<Counters>,
        queues: Vec<u16>,
    ) {
        let again = device.try_clone();
        let channel = Rc::new(Self {
            connection: connection.clone(),
            device: MessageDevice::new(device),
            counters,
            under_way: Cell::new(0),
            aside: Cell::new(0),
            waiting: Cell::new(None),
        });
        let over_ring = spawn_local(channel.clone().read_ring(again, queues));
        channel.clone().read().await;
        // However it came: what waits for others is answered by nobody any more.
        connection.life.stop.raise();
        over_ring.await;
        channel.until(|channel| channel.under_way.get() + channel.aside.get() == 0).await;
        drop(channel);
        // The ring holds the device until its poll is cancelled, which takes a turn.
        yield_now().await;
        let serving = connection.life.serving.fetch_sub(1, Ordering::AcqRel);
        if serving == 1 {
            connection.life.notify.lock().unwrap_or_else(PoisonError::into_inner).take();
            connection.end().await;
        }
    }

    async fn read(self: Rc<Self>) {
        let mut stop = self.connection.life.stop.wait();
        let mut arena = Arena::new();
        let mut head = [0; WRITE_HEAD_BYTES];
        loop {
            let taken = async {
                self.until(|channel| channel.under_way.get() < self.connection.requests).await;
                let parts = &mut [IoSliceMut::new(&mut head), IoSliceMut::new(arena.room())];
                self.device.read_vectored(parts).await
            };
            let taken = match select(&mut stop, pin!(taken)).await {
                Either::Left(_) => return,
                Either::Right((taken, _)) => taken,
            };
            match taken {
                Ok(len) => self.dispatch(&head, len, &mut arena),
                Err(error) => match error.raw_os_error() {
                    // The request was given up while it was read.
                    Some(ENOENT) => {}
                    Some(ENODEV) => return,
                    _ => {
                        tracing::error!("a mount ends, as its requests cannot be read: {error}");
                        self.connection.life.stop.raise();
                        return;
                    }
                },
            }
        }
    }

    /// Begins what a request asks for.
    fn dispatch(self: &Rc<Self>, head: &[u8; WRITE_HEAD_BYTES], len: usize, arena: &mut Arena) {
        let Ok(header) = Header::parse(&head[..len.min(WRITE_HEAD_BYTES)]) else {
            tracing::warn!("the kernel sent {len} bytes that are no request");
            return;
        };
        self.counters.count(header.opcode);
        let behind = len.saturating_sub(WRITE_HEAD_BYTES);
        let mut message = Message::from_slice(&head[..len.min(WRITE_HEAD_BYTES)]);
        let payload = if header.opcode == WRITE && behind > 0 {
            Some(arena.take(behind))
        } else {
            message.extend_from_slice(&arena.room()[..behind]);
            None
        };
        if matches!(header.opcode, FORGET | BATCH_FORGET) {
            self.forget(&message);
            return;
        }
        self.begin(header, message, payload, Way::Device);
    }

    /// Begins what a request asks for.
    pub(crate) fn begin(self: &Rc<Self>, header: Header, message: Message, payload: Option<IoSlice>, way: Way) {
        self.under_way.set(self.under_way.get() + 1);
        spawn_local(self.clone().attend(header, message, payload, way));
    }

    /// The kernel forgets a file.
    fn forget_node(self: &Rc<Self>, node: u64, lookups: u64) {
        let gone = self.connection.nodes.forget(node, lookups);
        let Some(id) = gone.filter(|id| self.connection.service.is_left(*id)) else { return };
        self.under_way.set(self.under_way.get() + 1);
        let channel = self.clone();
        spawn_local(async move {
            channel.connection.forgotten(id).await;
            channel.leave();
        });
    }

    async fn attend(self: Rc<Self>, header: Header, message: Message, payload: Option<IoSlice>, way: Way) {
        self.serve(&header, &message, payload, way).await;
        self.leave();
    }

    fn forget(self: &Rc<Self>, message: &[u8]) {
        match request::parse(message) {
            Ok((header, Operation::Forget { lookups })) => self.forget_node(header.node, lookups),
            Ok((_, Operation::BatchForget(forgets))) => {
                forgets.for_each(|(node, lookups)| self.forget_node(node, lookups));
            }
            _ => tracing::warn!("the kernel forgets files in a way that this server does not know"),
        }
    }

    /// Serves one request to its end.
    async fn serve(&self, header: &Header, message: &[u8], payload: Option<IoSlice>, way: Way) {
        let answered = match request::parse(message) {
            Ok((_, operation)) => Box::pin(self.operate(header, &operation, payload, &way)).await,
            Err(error) => {
                tracing::warn!("request {} of the kernel cannot be read: {error}", header.opcode);
                Err(Errno(EINVAL))
            }
        };
        match answered {
            Ok(answer) => {
                if !send(&self.device, &way, header.unique, 0, &answer.body) {
                    Box::pin(self.take_back(&answer)).await;
                }
                if header.opcode == INIT && self.connection.life.agreed.get().is_some() {
                    self.connection.life.begun.raise();
                }
            }
            Err(Errno(number)) => {
                self.counters.errors.fetch_add(1, Ordering::Relaxed);
                send(&self.device, &way, header.unique, -number, &Body::Nothing);
            }
        }
    }

    /// Nobody knows what an answer named.
    async fn take_back(&self, answer: &Answer) {
        if let Some((node, number)) = answer.handle {
            let _ = self.close(node, number).await;
        }
        if let Some(number) = answer.directory {
            let _ = self.let_directory_go(number).await;
        }
        self.take_back_nodes(&answer.nodes).await;
    }

    /// The kernel does not learn of nodes that were counted for it.
    pub(crate) async fn take_back_nodes(&self, nodes: &[u64]) {
        for node in nodes {
            if let Some(id) = self.connection.nodes.forget(*node, 1) {
                self.connection.forgotten(id).await;
            }
        }
    }

    /// Closes the open file of a number.
    pub(crate) async fn close(&self, node: u64, number: u64) -> Result<(), Errno> {
        let file = self.connection.handles.remove(number).ok_or(Errno(EBADF))?;
        if Handles::<Arc<OpenFile<S::Handle>>>::is_direct(number) {
            self.connection.nodes.close_direct(node);
        }
        if file.may_hide {
            self.connection.nodes.close_hiding(node);
        }
        self.unlock_all(node, &file);
        self.unseat(&file.seat).await;
        Ok(self.connection.service.close(OpenFile::into_handle(file)).await?)
    }

    fn leave(&self) {
        self.under_way.set(self.under_way.get() - 1);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }

    /// Requests that wait for others.
    pub(crate) fn standing_aside(&self) -> u32 {
        self.aside.get()
    }

    /// A request waits for others.
    pub(crate) fn go_aside(&self) {
        self.aside.set(self.aside.get() + 1);
        self.leave();
    }

    /// It is under way again.
    pub(crate) fn come_back(&self) {
        self.under_way.set(self.under_way.get() + 1);
        self.aside.set(self.aside.get() - 1);
    }

    /// Ends when something holds of the requests that are under way and aside.
    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        poll_fn(|cx| {
            if holds(self) {
                return Poll::Ready(());
            }
            self.waiting.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use holdfast_volume::Volume;

    use super::*;

    /// The allocator of glibc keeps freed pieces of up to so many bytes at hand; larger ones it looks for each time.
    const MOST_BYTES: usize = 1032;
    /// What comes before a task.
    const TASK_BYTES: usize = 72;

    fn size<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_request_takes_little_memory() {
        type Asked = (&'static Channel<Volume>, &'static Header, &'static Operation<'static>);
        let operation =
            size(|(channel, header, operation): Asked| channel.operate(header, operation, None, &Way::Device));
        type Come = (Rc<Channel<Volume>>, Header, Message);
        let task = size(|(channel, header, message): Come| channel.attend(header, message, None, Way::Device));
        assert!(operation <= MOST_BYTES, "an operation takes {operation} bytes");
        assert!(task + TASK_BYTES <= MOST_BYTES, "the task of a request takes {task} bytes");
    }
}
