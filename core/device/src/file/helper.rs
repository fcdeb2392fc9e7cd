//! One thread for the few calls that can only block: discards of block devices.
//!
//! Invariant: what is handed over is run, in order, whether or not its answer is awaited.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Runs `job` on the helper thread. The answer is `None` where there is no such thread.
pub(super) fn run<R: Send + 'static>(job: impl FnOnce() -> R + Send + 'static) -> impl Future<Output = Option<R>> {
    static HELPER: OnceLock<Sender<Job>> = OnceLock::new();
    let helper = HELPER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        let thread = std::thread::Builder::new().name("discard".into());
        if let Err(error) = thread.spawn(move || jobs.into_iter().for_each(|job| job())) {
            tracing::error!(%error, "no thread for discards of block devices; they will fail");
        }
        sender
    });
    let (answer, receiver) = oneshot::channel();
    let _ = helper.send(Box::new(move || {
        let _ = answer.send(job());
    }));
    async move { receiver.await.ok() }
}
