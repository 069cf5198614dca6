//! A futex as the kernel makes it: the word is compared and the waiter queued under one lock.
//!
//! A wake that comes before the wait is queued is lost, as it is in the kernel; the checker
//! reports a thread that then sleeps for ever as a deadlock.

use loom::sync::{Condvar, Mutex};

use crate::shm::words::ReadWords;

/// The queue of one futex word.
#[derive(Debug)]
pub struct Futex {
    queue: Mutex<()>,
    woken: Condvar,
}

impl Default for Futex {
    fn default() -> Futex {
        Futex { queue: Mutex::new(()), woken: Condvar::new() }
    }
}

impl Futex {
    /// FUTEX_WAIT: sleeps while the word at `offset` holds `expected`, until a wake.
    pub fn wait(&self, memory: &impl ReadWords, offset: usize, expected: u32) {
        let queue = self.queue.lock().expect("no model panics in the kernel");
        if memory.load32(offset) == expected {
            drop(self.woken.wait(queue));
        }
    }

    /// FUTEX_WAKE of one waiter.
    pub fn wake(&self) {
        drop(self.queue.lock().expect("no model panics in the kernel"));
        self.woken.notify_one();
    }
}
