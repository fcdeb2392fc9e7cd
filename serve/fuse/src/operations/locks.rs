//! Locks of programs: `fcntl(2)` by owner, `flock(2)` by open file.
//!
//! `F_OFD_SETLK` comes like `F_SETLK`, with the number of the open file as its owner, so both are locks of an owner here.
//!
//! Invariant: a lock is answered once: as granted if it was, also when a signal came meanwhile.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use holdfast_opens::{ByteRange, Error, LockBy, LockInfo, LockOwner, LockRequest, Owner, Waiting};
use holdfast_volume::service::FileService;

use crate::answer::{Answer, Answered, Errno, Way};
use crate::connection::Channel;
use crate::leaving::RELEASE_GRACE;
use crate::open_file::OpenFile;
use crate::protocol::constants::*;
use crate::protocol::reply;
use crate::protocol::request::{Header, Lock};
use crate::waits::first;

/// The last byte that a lock of POSIX may have.
const LAST_BYTE: u64 = i64::MAX as u64;

/// What is asked of the table.
fn request(lock: &Lock) -> Result<LockRequest, Errno> {
    if lock.kind > F_UNLCK {
        return Err(Errno(EINVAL));
    }
    Ok(LockRequest {
        by: if lock.is_flock { LockBy::Flock } else { LockBy::Posix(lock.owner.into()) },
        range: ByteRange::inclusive(lock.start, lock.end)?,
        exclusive: lock.kind == F_WRLCK,
    })
}

impl<S: FileService> Channel<S> {
    fn holder(&self, owner: u64) -> LockOwner {
        LockOwner::Posix(Owner { client: self.connection.client.id, key: owner.into() })
    }

    /// What is in the way of a lock (`F_GETLK`).
    pub(super) async fn get_lock(&self, header: &Header, lock: &Lock) -> Answered {
        let file = self.open_file(lock.handle)?;
        let found = self.table().test_lock(&file.seat, &request(lock)?)?;
        Ok(Answer::of(|writer| match found {
            Some(held) => {
                let (start, last) =
                    (held.range.start(), held.range.start().saturating_add(held.range.len().max(1) - 1));
                let kind = if held.exclusive { F_WRLCK } else { F_RDLCK };
                reply::lock(writer, (start, last.min(LAST_BYTE)), kind, self.process(header, &held));
            }
            None => reply::lock(writer, (lock.start, lock.end), F_UNLCK, 0),
        }))
    }

    /// The process of a lock of this mount; 0 for those of others.
    fn process(&self, header: &Header, held: &LockInfo) -> u32 {
        match held.owner {
            LockOwner::Posix(Owner { client, key }) if client == self.connection.client.id => {
                let owner = u64::try_from(key).unwrap_or_default();
                self.connection.nodes.process(header.node, owner).unwrap_or_default()
            }
            _ => 0,
        }
    }

    /// Locks or unlocks, and waits for that if `waits`.
    pub(super) async fn set_lock(&self, header: &Header, way: &Way, lock: &Lock, waits: bool) -> Answered {
        let (file, request) = (self.open_file(lock.handle)?, request(lock)?);
        if lock.kind == F_UNLCK {
            self.table().unlock(&file.seat, request.by, request.range, self.now())?;
            if lock.is_flock {
                file.set_flock(false);
            }
            return Ok(Answer::nothing());
        }
        if lock.is_flock {
            file.set_flock(true);
        } else {
            file.note_owner(lock.owner);
            self.connection.nodes.note_owner(header.node, lock.owner, lock.process);
        }
        let (mut waiting, waker) = first();
        let answer = match self.table().poll_lock(&file.seat, &request, waits, &mut waiting, self.now(), waker) {
            Poll::Ready(answer) => answer,
            Poll::Pending => self.lock_later(header, way, &file, &request, (waits, waiting)).await?,
        };
        match answer {
            Err(Error::Locked { held, .. }) if !waits && self.connection.leaving.has(held.owner) => {
                self.lock_after(header, way, &file, &request, held.owner).await?;
            }
            answer => answer?,
        }
        Ok(Answer::nothing())
    }

    async fn lock_later(
        &self,
        header: &Header,
        way: &Way,
        file: &OpenFile<S::Handle>,
        request: &LockRequest,
        (waits, mut waiting): (bool, Waiting),
    ) -> Result<Result<(), Error>, Errno> {
        let (table, seat) = (self.table(), &file.seat);
        let ask = |now, waker: &_| table.poll_lock(seat, request, waits, &mut waiting, now, waker);
        let ended = self.wait_for_lock(header.unique, way, ask).await;
        ended.or_else(|ended| table.cancel(seat, &mut waiting, self.now()).ok_or(ended.into()))
    }

    /// A lock that is not to be waited for, and whose holder's last descriptor may be closed.
    async fn lock_after(
        &self,
        header: &Header,
        way: &Way,
        file: &OpenFile<S::Handle>,
        request: &LockRequest,
        holder: LockOwner,
    ) -> Result<(), Errno> {
        let (table, seat, mut waiting) = (self.table(), &file.seat, Waiting::new());
        let mut sleep = self.counters.clock.sleep(RELEASE_GRACE);
        let ask = |now, waker: &Waker| match table.poll_lock(seat, request, true, &mut waiting, now, waker) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => sleep.as_mut().poll(&mut Context::from_waker(waker)).map(|()| None),
        };
        match self.wait_for_lock(header.unique, way, ask).await {
            Ok(Some(answer)) => Ok(answer?),
            early => {
                if let Some(answer) = table.cancel(seat, &mut waiting, self.now()) {
                    return Ok(answer?);
                }
                // It has another descriptor.
                self.connection.leaving.forget(holder);
                early?;
                Err(Errno(EAGAIN))
            }
        }
    }

    /// A program closes a descriptor, and its locks of the file with it (POSIX.1 `close`).
    pub(super) async fn flush(&self, header: &Header, handle: u64, owner: u64) -> Answered {
        if self.is_own_open(handle) {
            return Ok(Answer::nothing());
        }
        let file = self.open_file(handle)?;
        // It asks for none through this descriptor any more, whether it has any now or not.
        let has_asked = file.forget_owner(owner);
        if has_asked || file.seat.is_locked() {
            // Who was closed by order has no locks any more.
            let _ = self.table().unlock_owner(&file.seat, owner.into(), self.now());
            self.connection.nodes.forget_owner(header.node, owner);
            self.holders(&file).for_each(|holder| self.connection.leaving.note(holder));
        }
        Ok(Answer::nothing())
    }

    /// Whose locks an open file takes along.
    fn holders<'a>(&'a self, file: &'a OpenFile<S::Handle>) -> impl Iterator<Item = LockOwner> + 'a {
        let own = file.has_flock().then(|| LockOwner::Open(file.seat.open()));
        file.left().into_iter().map(|owner| self.holder(owner)).chain(own)
    }

    /// The last descriptor of an open file is closed: what belongs to it is unlocked.
    pub(crate) fn unlock_all(&self, node: u64, file: &Arc<OpenFile<S::Handle>>) {
        for owner in file.left() {
            let _ = self.table().unlock_owner(&file.seat, owner.into(), self.now());
            self.connection.nodes.forget_owner(node, owner);
        }
        self.holders(file).for_each(|holder| self.connection.leaving.forget(holder));
    }
}
