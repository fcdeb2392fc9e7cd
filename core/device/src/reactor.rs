//! A thread-per-core executor over io_uring: tasks, sockets, timers and storage operations of one thread.
//!
//! A reactor is one thread with one ring. Its tasks never leave it, so they need neither locks nor `Send`. What another
//! thread wants of it comes in through one queue.
//!
//! ```text
//!   other threads ── call / spawn / wakers ──▶ queue ─┐
//!                                                     ▼
//!     ┌──▶ run ready tasks ─▶ submit in one batch ─▶ reap ─▶ timers ──┐
//!     │                                                               │ nothing to do
//!     └── retry waiting sockets, yield the core  ◀── spin ────────────┤ while work is likely
//!     └── one io_uring_enter with a timeout      ◀── sleep ───────────┘ otherwise
//! ```
//!
//! Sockets are read and written by plain nonblocking system calls. A socket that has nothing waits: while the reactor
//! spins its task simply tries again, and only a reactor that goes to sleep arms a poll for it in the ring. Spinning
//! costs the time of a core, so it is limited by [`ReactorSettings::spin`], and stops by itself when recent waits did
//! not end within that limit. An idle reactor sleeps. While it spins, clients sleep: [`CpuLatency`] has the kernel wake
//! them quickly.
//!
//! Invariant: the buffer of an operation in flight is owned by the reactor until its completion arrives, whoever drops
//! what in the meantime.

mod clock;
mod core;
mod cpu_latency;
pub mod fuse_node;
pub mod fuse_ring;
pub mod message_device;
pub mod net;
mod operation;
mod patience;
mod ring;
mod shared;
#[cfg(test)]
mod tests;
mod waits;

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;

pub use clock::clock;
pub(crate) use core::with_core;
use core::{Core, Entered};
pub use cpu_latency::CpuLatency;
pub(crate) use operation::{Action, OperationHandle, Owner};
use shared::MainWaker;
pub(crate) use shared::{Injected, Shared};

/// How a reactor is set up.
#[derive(Clone, Debug)]
pub struct ReactorSettings {
    /// Name of its thread, shown by `top -H` and in messages.
    pub name: String,
    /// For how long it polls while work is likely before it sleeps. Zero never polls: each wait then costs a sleep and
    /// a wake-up, which on many machines takes longer than the I/O.
    pub spin: Duration,
    /// Storage operations in flight at once, at most; more wait in order.
    pub ring_entries: u32,
    /// The core that its thread is bound to, if any.
    pub core: Option<usize>,
    /// What keeps processors from deep sleep while its waits are short, shared by all reactors of the process.
    pub cpu_latency: Option<Arc<CpuLatency>>,
}

impl Default for ReactorSettings {
    fn default() -> Self {
        Self {
            name: "reactor".into(),
            spin: Duration::from_micros(200),
            ring_entries: 256,
            core: None,
            cpu_latency: None,
        }
    }
}

/// What a reactor did since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReactorStats {
    /// Turns of its loop.
    pub loops: u64,
    /// Times it slept.
    pub sleeps: u64,
    /// Turns in which it polled and found nothing.
    pub spins: u64,
    /// Entries given to the ring: storage operations and polls of sockets.
    pub submitted: u64,
    /// Completions taken from the ring.
    pub completed: u64,
}

/// The reactor that was called is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reactor has stopped")]
pub struct ReactorGone;

/// A way to reach a reactor from any thread. The reactor runs until [`stop`](Self::stop), also where every handle is
/// dropped.
#[derive(Clone)]
pub struct ReactorHandle {
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<std::thread::JoinHandle<()>>>>,
}

/// Starts a reactor on a thread of its own. A panic in one of its tasks ends the process.
///
/// # Errors
/// When the kernel gives no thread or no ring.
pub fn start(settings: ReactorSettings) -> io::Result<ReactorHandle> {
    let (started, ready) = mpsc::channel();
    let name = settings.name.clone();
    let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
        let core = match Core::new(&settings) {
            Ok(core) => core,
            Err(error) => {
                let _ = started.send(Err(error));
                return;
            }
        };
        let _ = started.send(Ok(core.shared().clone()));
        let _entered = Entered::new(&core);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| core.run(|| core.shared().is_stopping())));
        if let Err(panic) = ran {
            abort(&settings.name, &*panic);
        }
    })?;
    match ready.recv() {
        Ok(Ok(shared)) => Ok(ReactorHandle { shared, thread: Arc::new(Mutex::new(Some(thread))) }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other(format!("thread {name} ended before its reactor ran"))),
    }
}

/// Ends the process: half of a storage daemon must not go on. Goes round the standard library's output capture.
fn abort(name: &str, panic: &(dyn std::any::Any + Send)) -> ! {
    use std::io::Write;
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("without a message");
    let _ = writeln!(io::stderr(), "a task on reactor {name} panicked: {text}; the process ends");
    std::process::abort()
}

/// Runs a reactor on this thread until `future` ends, and hands its output back. A panic in a task unwinds through
/// here.
///
/// # Errors
/// When the kernel gives no ring.
///
/// # Panics
/// If this thread runs a reactor already.
pub fn block_on<F: Future>(settings: ReactorSettings, future: F) -> io::Result<F::Output> {
    let core = Core::new(&settings)?;
    let _entered = Entered::new(&core);
    let mut future = pin!(future);
    let main = Arc::new(MainWaker::new(core.shared().clone()));
    let waker = main.clone().into();
    let mut output = None;
    core.run(|| {
        if main.take() {
            core.refill_budget();
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                output = Some(value);
            }
        }
        output.is_some()
    });
    Ok(output.expect("the loop ends when the future has ended"))
}

impl ReactorHandle {
    /// Runs the future that `make` makes on the reactor, and brings its output back. `make` runs there too, so the
    /// future need not be `Send`. It goes on when the answer is dropped.
    pub fn call<F, Fut, R>(&self, make: F) -> Call<R>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = R> + 'static,
        R: Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        self.spawn(move || {
            let future = make();
            async move {
                let _ = sender.send(future.await);
            }
        });
        Call { receiver }
    }

    /// Runs the future that `make` makes on the reactor. Nothing happens if the reactor is stopped.
    pub fn spawn<F, Fut>(&self, make: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future + 'static,
    {
        let start: Box<dyn FnOnce() + Send> = Box::new(move || {
            let future = make();
            spawn_local(async move {
                future.await;
            });
        });
        self.shared.inject(Injected::Start(start));
    }

    /// What it did so far.
    pub fn stats(&self) -> ReactorStats {
        self.shared.stats()
    }

    /// Runs the tasks that are ready, waits for the storage operations in flight, drops the tasks that still wait, and
    /// ends the thread. Does not wait for the end when called on the reactor itself.
    pub fn stop(self) {
        self.shared.stop();
        let thread = self.thread.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for ReactorHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReactorHandle({})", self.shared.name())
    }
}

/// The answer of [`ReactorHandle::call`].
pub struct Call<R> {
    receiver: oneshot::Receiver<R>,
}

impl<R> Call<R> {
    /// Waits for the answer on a thread that runs neither a reactor nor tokio.
    ///
    /// # Errors
    /// When the reactor stopped before the answer.
    pub fn wait(self) -> Result<R, ReactorGone> {
        self.receiver.blocking_recv().map_err(|_| ReactorGone)
    }
}

impl<R> Future for Call<R> {
    type Output = Result<R, ReactorGone>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(cx).map_err(|_| ReactorGone)
    }
}

/// A task on this reactor. Dropping it leaves the task to itself.
pub struct JoinHandle<R> {
    task: Option<async_task::Task<R>>,
}

impl<R> JoinHandle<R> {
    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(async_task::Task::is_finished)
    }

    /// Drops the task's future, unless it has ended.
    pub fn abort(mut self) {
        drop(self.task.take());
    }
}

impl<R> Future for JoinHandle<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        Pin::new(self.task.as_mut().expect("a task is joined once")).poll(cx)
    }
}

impl<R> Drop for JoinHandle<R> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

/// Runs a task on this thread's reactor. It is polled once at once, so a task that needs not wait never sees a queue.
///
/// # Panics
/// If this thread runs no reactor.
pub fn spawn_local<R: 'static>(future: impl Future<Output = R> + 'static) -> JoinHandle<R> {
    let shared = with_core(|core| core.shared().clone()).expect("tasks are spawned on a reactor's thread");
    let (runnable, task) = async_task::spawn_local(future, move |runnable| shared.schedule(runnable));
    runnable.run();
    JoinHandle { task: Some(task) }
}

/// The number of this thread's reactor, which no other has; `None` on a thread that runs none.
pub fn current() -> Option<u64> {
    with_core(core::Core::serial)
}

/// Lets every other task that is ready run first.
pub fn yield_now() -> impl Future<Output = ()> {
    let mut yielded = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}
