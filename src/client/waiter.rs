//! Whom to call when something ended: a thread that parks, or a task of some executor.

use std::task::Waker;
use std::thread::Thread;

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

/// What is to be done with waiters once no lock is held: a waker's drop may run anything too.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// To be called.
    pub(super) wake: Vec<Waiter>,
    /// To be dropped.
    pub(super) drop: Vec<Waiter>,
}

impl Calls {
    /// Does it.
    pub(super) fn make(&mut self) {
        for waiter in self.wake.drain(..) {
            waiter.wake();
        }
        self.drop.clear();
    }
}
