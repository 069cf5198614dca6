//! Whom to call when something ended: a thread that parks, or a task of some executor.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;
use std::thread::Thread;

use crate::host::futex::{self, FutexAddr};
use crate::proto::layout::rings::RESULT_TAIL;
use crate::shm::region::{ReadWrite, Region};
use crate::shm::words::{ReadWords, WriteWords};

/// A thread or a task that waits.
#[derive(Clone, Debug)]
pub(super) enum Waiter {
    /// A thread that parks.
    Thread(Thread),
    /// A task of some executor.
    Task(Waker),
}

impl Waiter {
    /// Calls it. A waker may run anything: hold no lock.
    pub(super) fn wake(self) {
        match self {
            Waiter::Thread(thread) => thread.unpark(),
            Waiter::Task(waker) => waker.wake(),
        }
    }

    /// Whether it is a task, which somebody else has to watch the ring for.
    pub(super) fn is_task(&self) -> bool {
        matches!(self, Waiter::Task(_))
    }
}

/// What is to be done once no lock is held: a waker, and its drop too, may run anything.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// To be called.
    pub(super) wake: Vec<Waiter>,
    /// To be dropped.
    pub(super) drop: Vec<Waiter>,
    /// Fds of tickets that have ended.
    pub(super) close: Vec<Arc<OwnedFd>>,
    /// Rings whose tail nobody is to sleep on any more.
    pub(super) rouse: Option<Region<ReadWrite>>,
    /// The daemon may have said something of its own accord.
    pub(super) listen: bool,
    /// The socket has not been looked at for a while.
    pub(super) look_at_socket: bool,
}

impl Calls {
    /// Calls, drops, closes and rouses.
    pub(super) fn make(&mut self) {
        self.close.clear();
        if let Some(rings) = self.rouse.take() {
            rouse(&rings);
        }
        for waiter in self.wake.drain(..) {
            waiter.wake();
        }
        self.drop.clear();
    }
}

/// Wakes whoever sleeps on the tail of rings that nobody serves any more, or is about to: the tail
/// moves first.
fn rouse(rings: &Region<ReadWrite>) {
    rings.fetch_add32(RESULT_TAIL, 1);
    while matches!(futex::wake_one(FutexAddr::new(rings.address(RESULT_TAIL))), Ok(true)) {}
}
