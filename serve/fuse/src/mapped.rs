//! What programs wrote to memory that is mapped to files, written back before it is told where those have data.
//!
//! The kernel says neither that a file is mapped, nor which of its pages are newer than what the server has. So a file that
//! is open in a way in which it can be mapped to be written is opened by the server on its own mount, by its node, and the
//! kernel is asked to write back what it keeps of it.
//!
//! ```text
//!   LSEEK, COPY_FILE_RANGE ─▶ thread: OPEN ─▶ write back ─▶ WRITE … ─▶ answered ─▶ RELEASE
//! ```
//!
//! Where a file cannot be opened so, and with kernels that do not wait for what they write back, the kernel drops what it
//! keeps of the file, which it writes back before.
//!
//! Invariant: what the thread opens is no open file of the service, and stands in no table.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

use futures_util::future::select;
use holdfast_device::reactor::fuse_node;
use holdfast_volume::service::{FileId, FileService};
use tokio::sync::oneshot;

use crate::answer::{Answer, Errno, Way};
use crate::connection::Channel;
use crate::notify::Notifier;
use crate::protocol::constants::*;
use crate::protocol::reply::open;

/// The first version of the protocol whose kernels wait for the answers to what they write back: Linux 6.18.
const WAITS_FROM: u32 = 45;
/// The number of the open file of the thread.
const OWN_HANDLE: u64 = u64::MAX;

/// What the thread is asked for.
enum Asked {
    /// That the kernel writes back what it keeps of a file.
    WriteBack,
    /// That it drops it, too.
    Drop,
}

struct Job {
    file: FileId,
    node: u64,
    asked: Asked,
    notifier: Notifier,
    done: oneshot::Sender<()>,
}

/// The thread of a mount that asks the kernel, from when it is needed on.
#[derive(Debug)]
pub(crate) struct Mapped {
    directory: PathBuf,
    jobs: OnceLock<Option<mpsc::Sender<Job>>>,
    /// Its number; 0 while there is none.
    thread: Arc<AtomicU32>,
}

impl Mapped {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.into(), jobs: OnceLock::new(), thread: Arc::default() }
    }

    fn jobs(&self) -> Option<&mpsc::Sender<Job>> {
        let begin = || {
            let (sender, jobs) = mpsc::channel();
            let (directory, number) = (self.directory.clone(), self.thread.clone());
            let thread = std::thread::Builder::new().name("mapped".into());
            let begun = thread.spawn(move || {
                number.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Ordering::Release);
                jobs.into_iter().for_each(|job| work(&directory, job));
            });
            let refused = begun.inspect_err(|error| tracing::warn!("mapped memory is not written back: {error}"));
            refused.is_ok().then_some(sender)
        };
        self.jobs.get_or_init(begin).as_ref()
    }

    /// Whether a request is the thread's own.
    fn is_own(&self, thread: u32) -> bool {
        thread != 0 && self.thread.load(Ordering::Acquire) == thread
    }
}

/// Asks the kernel. It is told that this is done before the file is closed again, which may wait for who waits for this.
fn work(directory: &Path, job: Job) {
    let Job { file, node, asked, notifier, done } = job;
    let write_back = || {
        let own = File::open(directory).and_then(|top| fuse_node::open(top.as_fd(), node, file.generation))?;
        // What was not taken is lost to who wrote it, who is told of it.
        let _ = fuse_node::write_back(&own);
        std::io::Result::Ok(own)
    };
    let own = match asked {
        Asked::WriteBack => write_back().ok(),
        Asked::Drop => None,
    };
    if own.is_none() {
        notifier.file_changed(file);
    }
    let _ = done.send(());
}

impl<S: FileService> Channel<S> {
    async fn ask_kernel(&self, way: &Way, node: u64, asked: Asked) -> Result<(), Errno> {
        let connection = &self.connection;
        let (Some(file), Some(jobs)) = (connection.nodes.file(node), connection.mapped.jobs()) else { return Ok(()) };
        let (done, answered) = oneshot::channel();
        let notifier = Notifier::new(connection.nodes.clone(), &connection.life);
        if jobs.send(Job { file, node, asked, notifier, done }).is_err() {
            return Ok(());
        }
        // What the thread asks for is served meanwhile, or nothing is any more.
        let stopped = connection.life.stop.wait();
        self.outside(way, select(answered, stopped)).await?;
        Ok(())
    }

    /// Has the kernel write back what it keeps of a file, if it may keep what the service does not have.
    pub(crate) async fn write_back_mapped(&self, way: &Way, node: u64) -> Result<(), Errno> {
        if !self.connection.nodes.may_hide(node) {
            return Ok(());
        }
        let asked = if self.connection.life.minor() >= WAITS_FROM { Asked::WriteBack } else { Asked::Drop };
        Box::pin(self.ask_kernel(way, node, asked)).await
    }

    /// The same for all files of which it may.
    pub(crate) async fn write_back_all_mapped(&self, way: &Way) -> Result<(), Errno> {
        for node in self.connection.nodes.hiding() {
            self.write_back_mapped(way, node).await?;
        }
        Ok(())
    }

    /// Has the kernel drop what it keeps of a file, of which a request that failed may have changed some.
    pub(crate) async fn drop_pages(&self, way: &Way, node: u64) {
        let _ = Box::pin(self.ask_kernel(way, node, Asked::Drop)).await;
    }

    /// The answer to an OPEN of the thread's own.
    pub(crate) fn own_open(&self, thread: u32) -> Option<Answer> {
        let flags = FOPEN_DIRECT_IO | FOPEN_KEEP_CACHE | FOPEN_NOFLUSH;
        self.connection.mapped.is_own(thread).then(|| Answer::of(|writer| open(writer, OWN_HANDLE, flags)))
    }

    /// Whether an open file is the thread's.
    pub(crate) fn is_own_open(&self, number: u64) -> bool {
        number == OWN_HANDLE
    }
}
