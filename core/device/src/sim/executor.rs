//! Tasks of the simulated world, on one thread.
//!
//! Invariant: a task is polled only after it was woken, once for each time that it stood in the ready list; who
//! drops or cancels a task does so outside every borrow, so a task's destructor may spawn, wake and ask for I/O.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Tasks that were woken and wait to be polled.
#[derive(Default)]
struct Ready {
    tasks: Mutex<Vec<Arc<Wakeup>>>,
}

impl Ready {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Wakeup>>> {
        self.tasks.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

struct Wakeup {
    ready: Arc<Ready>,
    id: TaskId,
    queued: AtomicBool,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.lock().push(self.clone());
        }
    }
}

/// Names one task, also after its slot went to another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    task: Option<(LocalFuture, Waker)>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// Ends the task of `id` where it still lives; its future comes back for dropping, unless it is being polled.
    fn end(&mut self, id: TaskId) -> Option<(LocalFuture, Waker)> {
        let slot = self.slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation)?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        slot.task.take()
    }
}

/// All tasks.
#[derive(Default)]
pub(super) struct Executor {
    slots: RefCell<Slots>,
    ready: Arc<Ready>,
}

impl Executor {
    pub(super) fn ready_tasks(&self) -> usize {
        self.ready.lock().len()
    }

    pub(super) fn spawn(&self, future: LocalFuture) -> TaskId {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.slots.push(Slot::default());
            (slots.slots.len() - 1) as u32
        });
        let entry = &mut slots.slots[slot as usize];
        let id = TaskId { slot, generation: entry.generation };
        let wakeup = Arc::new(Wakeup { ready: self.ready.clone(), id, queued: AtomicBool::new(false) });
        entry.task = Some((future, Waker::from(wakeup.clone())));
        wakeup.wake();
        id
    }

    /// Polls the ready task at `index` of the ready list.
    pub(super) fn poll_ready(&self, index: usize) -> TaskId {
        let wakeup = self.ready.lock().swap_remove(index);
        wakeup.queued.store(false, Ordering::Release);
        let id = wakeup.id;
        let task = {
            let mut slots = self.slots.borrow_mut();
            slots
                .slots
                .get_mut(id.slot as usize)
                .filter(|slot| slot.generation == id.generation)
                .and_then(|slot| slot.task.take())
        };
        let Some((mut future, waker)) = task else { return id };
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots.slots[id.slot as usize];
        if polled.is_pending() && slot.generation == id.generation {
            slot.task = Some((future, waker));
        } else {
            slots.end(id);
            drop(slots);
            drop(future);
        }
        id
    }

    pub(super) fn cancel(&self, id: TaskId) {
        let task = self.slots.borrow_mut().end(id);
        drop(task);
    }

    /// Drops every task; the caller sees to it that none is spawned meanwhile.
    pub(super) fn clear(&self) {
        let tasks: Vec<_> = {
            let mut slots = self.slots.borrow_mut();
            let living: Vec<TaskId> = (slots.slots.iter().enumerate())
                .filter(|(_, slot)| slot.task.is_some())
                .map(|(index, slot)| TaskId { slot: index as u32, generation: slot.generation })
                .collect();
            living.into_iter().map(|id| slots.end(id)).collect()
        };
        drop(tasks);
        let woken = std::mem::take(&mut *self.ready.lock());
        drop(woken);
    }
}

struct Outcome<R> {
    result: Option<R>,
    finished: bool,
    waiting: Option<Waker>,
}

/// A task that can be awaited for its result. Dropping this leaves the task running.
pub struct SimTask<R> {
    outcome: Rc<RefCell<Outcome<R>>>,
    executor: Weak<Executor>,
    id: Option<TaskId>,
}

impl<R: 'static> SimTask<R> {
    /// Spawns `future` unless `accepting` says that the world takes no new tasks; then it is dropped unpolled.
    pub(super) fn spawn(executor: &Rc<Executor>, accepting: bool, future: impl Future<Output = R> + 'static) -> Self {
        let outcome = Rc::new(RefCell::new(Outcome { result: None, finished: false, waiting: None }));
        let mut task = Self { outcome: outcome.clone(), executor: Rc::downgrade(executor), id: None };
        if accepting {
            task.id = Some(executor.spawn(Box::pin(async move {
                let result = future.await;
                let waiting = {
                    let mut outcome = outcome.borrow_mut();
                    outcome.result = Some(result);
                    outcome.finished = true;
                    outcome.waiting.take()
                };
                if let Some(waker) = waiting {
                    waker.wake();
                }
            })));
        }
        task
    }

    /// Takes the result where the task has ended and nobody took it before.
    pub fn try_take(&self) -> Option<R> {
        self.outcome.borrow_mut().result.take()
    }

    /// Whether the task ran to its end.
    pub fn is_finished(&self) -> bool {
        self.outcome.borrow().finished
    }

    /// Drops the task where it has not ended yet. I/O that it started goes on.
    pub fn cancel(self) {
        if let (Some(executor), Some(id)) = (self.executor.upgrade(), self.id) {
            executor.cancel(id);
        }
    }
}

impl<R> Future for SimTask<R> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let mut outcome = self.outcome.borrow_mut();
        match outcome.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                assert!(!outcome.finished, "the result of a simulated task is taken once");
                outcome.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
