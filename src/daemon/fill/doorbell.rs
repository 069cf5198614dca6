//! What wakes a session's task: its doorbell moved, or it leaves.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// One session's. FILL rings, the session's task listens.
#[derive(Default)]
pub struct Doorbell {
    rung: Cell<bool>,
    gone: Cell<bool>,
    listener: RefCell<Option<Waker>>,
}

impl Doorbell {
    /// There are submissions to take.
    pub fn ring(&self) {
        self.rung.set(true);
        self.wake();
    }

    /// The session has left: its task is to end.
    pub fn leave(&self) {
        self.gone.set(true);
        self.wake();
    }

    /// Waits until it has rung since the last time; `false` when the session has left.
    pub async fn rung(&self) -> bool {
        poll_fn(|context| {
            if self.gone.get() || self.rung.replace(false) {
                return Poll::Ready(!self.gone.get());
            }
            let mut listener = self.listener.borrow_mut();
            match &mut *listener {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            Poll::Pending
        })
        .await
    }

    fn wake(&self) {
        if let Some(waker) = &*self.listener.borrow() {
            waker.wake_by_ref();
        }
    }
}
