//! What programs wrote to memory that is mapped to files of a mounted volume, handed over before a snapshot has them.
//!
//! ```text
//!   the mount is to write back all that it keeps (syncfs)      it does not wait for us to take all of that
//!       ─▶ each file that is open to be written: the kernel drops what it keeps of it, written and waited for before
//!       ─▶ syncfs again                                        it tells what of that was not taken
//! ```
//!
//! Invariants: a snapshot has what mapped memory had when it was asked for, or it is told why not all of it; where the
//! kernel does not answer, none is made. What a program wrote that the volume does not take, as one beyond its quota, is
//! lost to that program alone, and keeps nobody from having snapshots. A kernel that does not answer holds one thread for
//! each volume, and nobody for longer than [`TIMEOUT`].

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{ApiError, Code, Condition};
use holdfast_model::Uuid;
use holdfast_opens::Access;
use holdfast_volume::service::FileId;
use tokio::sync::Mutex;

use crate::engine::OpenPool;
use crate::error::ApiResult;

/// How long the kernel may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What file systems like ours are told by (Linux `FUSE_SUPER_MAGIC`).
const FUSE: u64 = 0x6573_5546;

/// Has one at a time wait for the kernel.
#[derive(Clone, Default)]
pub(super) struct Asking(Arc<Mutex<()>>);

impl Asking {
    /// Does work that waits for the kernel, on a thread of its own; why it is not done.
    async fn within(
        &self,
        limit: Duration,
        work: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Result<(), (Code, String)> {
        let asked = async {
            let turn = self.0.clone().lock_owned().await;
            let done = tokio::task::spawn_blocking(move || {
                let done = work();
                drop(turn);
                done
            });
            done.await.unwrap_or_else(|error| Err(error.to_string()))
        };
        match tokio::time::timeout(limit, asked).await {
            Ok(done) => done.map_err(|why| (Code::Failed, why)),
            Err(_) => Err((Code::Timeout, format!("the kernel did not answer within {} s", limit.as_secs()))),
        }
    }
}

/// The directory of a mount, if that is still there.
fn opened(directory: &Path) -> Option<File> {
    let open = File::open(directory).ok()?;
    let is_ours = rustix::fs::fstatfs(&open).is_ok_and(|facts| facts.f_type as u64 == FUSE);
    is_ours.then_some(open)
}

/// Has a mount write back all that it keeps. What could not be written since it was opened, or asked last, is told.
fn write_back(mount: Option<&File>) -> Result<(), String> {
    mount.map_or(Ok(()), |open| rustix::fs::syncfs(open).map_err(|error| error.to_string()))
}

/// What a hand-over means for the snapshot of `object` that is to follow: why it lacks something.
fn judged(object: &str, done: Result<(), (Code, String)>) -> ApiResult<Option<Condition>> {
    let Err((code, why)) = done else { return Ok(None) };
    if code == Code::Timeout {
        let message = format!("what programs wrote to mapped memory could not be had for the snapshot: {why}");
        let next = "see whether its mount answers; end the programs that use it or unmount it, and repeat";
        return Err(ApiError::new(code, object, message, next));
    }
    let cause = format!("not all that programs wrote to mapped memory is in it, as the volume did not take it: {why}");
    let next = "see the quotas, the room and the health of the volume; end the program that writes beyond them";
    Ok(Some(Condition::new(cause, next)))
}

impl OpenPool {
    /// Has the kernel hand over what programs wrote to memory that is mapped to files of a volume, where that is mounted.
    /// Answers why a snapshot that is made now lacks some of it, if that is so.
    ///
    /// # Errors
    /// It did not in time.
    pub(crate) async fn hand_over_mapped(&self, id: Uuid) -> ApiResult<Option<Condition>> {
        let found = {
            let volumes = self.volumes();
            let live = volumes.values().find(|live| live.known.id == id);
            let opened = live.and_then(|live| Some((live.open.as_ref()?, self.volume_object(&live.known))));
            opened.and_then(|(opened, object)| {
                let mounted = opened.mounted.as_ref()?;
                let place = mounted.is_there().then(|| mounted.directory().to_owned());
                Some((mounted.notifier(), place, opened.opens.clone(), opened.asking.clone(), object))
            })
        };
        let Some((notifier, place, opens, asking, object)) = found else { return Ok(None) };
        let work = move || {
            let mount = place.and_then(|place| opened(&place));
            let written = write_back(mount.as_ref());
            for file in opens.files(usize::MAX) {
                let is_written = opens.opens_of(file, usize::MAX).iter().any(|one| one.access.has(Access::WRITE));
                if is_written {
                    // It writes back what it drops, and waits for that.
                    notifier.file_changed(FileId { number: file.number, generation: file.generation });
                }
            }
            // Whether all of that was taken is told to whoever asks once more.
            let dropped = write_back(mount.as_ref());
            written.and(dropped)
        };
        judged(&object.to_string(), asking.within(TIMEOUT, work).await)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use holdfast_harness::LIMIT;

    use super::*;

    #[test]
    fn what_is_not_taken_hinders_no_snapshot_and_is_told() {
        let object = "volume tank/files";
        assert_eq!(judged(object, Ok(())), Ok(None));
        for error in [rustix::io::Errno::DQUOT, rustix::io::Errno::NOSPC, rustix::io::Errno::IO] {
            let lacks =
                judged(object, Err((Code::Failed, error.to_string()))).expect("it is made").expect("it is told");
            assert!(lacks.cause.contains(&error.to_string()) && !lacks.next_action.is_empty(), "{lacks:?}");
        }
        let refused = judged(object, Err((Code::Timeout, "no answer".into()))).expect_err("it is not made");
        assert!(refused.code == Code::Timeout && refused.object == object, "{refused}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_kernel_that_does_not_answer_holds_nobody_and_one_thread() {
        let (asking, limit) = (Asking::default(), Duration::from_millis(100));
        let (answer, answers) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let ask = |answers: mpsc::Receiver<()>, begun: mpsc::Sender<()>| {
            move || {
                begun.send(()).expect("it is counted");
                answers.recv().map_err(|_| "gone".to_owned())
            }
        };
        let refused = asking.within(limit, ask(answers, begun.clone())).await.expect_err("no answer");
        assert_eq!(refused, (Code::Timeout, "the kernel did not answer within 0 s".into()));
        begins.recv().expect("the first began");
        let (_never, none) = mpsc::channel();
        let refused = asking.within(limit, ask(none, begun.clone())).await.expect_err("it still waits");
        assert_eq!(refused.0, Code::Timeout);
        assert_eq!(begins.try_iter().count(), 0, "the second did not begin");
        answer.send(()).expect("it waits");
        asking.within(LIMIT, || Ok(())).await.expect("it answers again");
        let refused = asking.within(LIMIT, || Err("not taken".into())).await.expect_err("why");
        assert_eq!(refused, (Code::Failed, "not taken".into()));
    }
}
