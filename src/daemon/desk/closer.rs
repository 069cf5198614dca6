//! Closing what strangers sent, which can take as long as they like.
//!
//! A *stranger* is a fd that no ticket waits for: its kind was refused, or it came with a message
//! that takes none, or it lies unread in the socket of a peer that has gone. Closing one can block:
//! a FUSE file's server is asked first, a TCP socket may linger. So threads of their own do it, as
//! many as are needed for one to be free, and the desk waits for none of them. Kinds that tickets
//! may wait for close at once, and never come here.
//!
//! What always holds: a user whose strangers keep too many of those threads is refused, by
//! [`Closer::check`], so that one user cannot use them all up.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::limits::{CLOSERS_MAX, CLOSING_PER_UID_MAX};

/// Threads that stay when there is nothing to close. They sleep without a time-out.
const IDLE: u32 = 4;

/// Bytes of a thread's stack: it makes one system call.
const STACK_BYTES: usize = 64 * 1024;

/// The threads, and what they are to close. Clones are the same.
#[derive(Clone, Default)]
pub struct Closer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(u32, Vec<OwnedFd>)>,
    /// Threads that are closing something, by the uid that it came from.
    closing: HashMap<u32, u32>,
    threads: u32,
    /// Of them, those that close nothing, or have just been started.
    idle: u32,
}

impl Closer {
    /// Has a user's fds closed.
    pub fn close(&self, uid: u32, fds: Vec<OwnedFd>) {
        if fds.is_empty() {
            return;
        }
        let mut queue = self.lock();
        queue.waiting.push_back((uid, fds));
        if queue.idle == 0 {
            self.start(&mut queue);
        }
        self.0.more.notify_one();
    }

    /// Refuses a user too much of whose is still being closed.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn check(&self, uid: u32) -> Result<()> {
        let closing = self.lock().closing.get(&uid).copied().unwrap_or(0);
        if closing < CLOSING_PER_UID_MAX {
            return Ok(());
        }
        let text = format!(
            "uid {uid}: closes under way {closing}, at most CLOSING_PER_UID_MAX, which is \
             {CLOSING_PER_UID_MAX} (send only eventfds, timerfds, pidfds and sync_files; these \
             files and sockets block as they are closed)"
        );
        Err(Error::new(ErrorCode::QuotaExceeded, text))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts one thread more, where there may be one.
    fn start(&self, queue: &mut Queue) {
        if queue.threads >= CLOSERS_MAX {
            return;
        }
        let closer = self.clone();
        let thread = std::thread::Builder::new().name("parkd-close".to_owned());
        // Where there is none to be had the next fd to close tries again.
        if thread.stack_size(STACK_BYTES).spawn(move || closer.serve()).is_ok() {
            queue.threads += 1;
            queue.idle += 1;
        }
    }

    /// A thread's life: it closes what there is, and sees to it that another one is free while it
    /// may be held up.
    fn serve(&self) {
        let mut queue = self.lock();
        loop {
            if let Some((uid, fds)) = queue.waiting.pop_front() {
                queue.idle -= 1;
                *queue.closing.entry(uid).or_default() += 1;
                if queue.idle == 0 {
                    self.start(&mut queue);
                }
                drop(queue);
                drop(fds);
                queue = self.lock();
                queue.closed(uid);
                if queue.idle >= IDLE {
                    queue.threads -= 1;
                    return;
                }
                queue.idle += 1;
            } else {
                queue = self.0.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Queue {
    fn closed(&mut self, uid: u32) {
        if let Some(closing) = self.closing.get_mut(&uid) {
            *closing -= 1;
            if *closing == 0 {
                self.closing.remove(&uid);
            }
        }
    }
}

/// The fds that came with a message, until somebody takes them.
pub struct Strangers {
    fds: Vec<OwnedFd>,
    uid: u32,
    closer: Closer,
}

impl Strangers {
    /// What a user sent.
    pub fn new(fds: Vec<OwnedFd>, uid: u32, closer: Closer) -> Strangers {
        Strangers { fds, uid, closer }
    }

    /// The fds, to look at.
    pub fn as_slice(&self) -> &[OwnedFd] {
        &self.fds
    }

    /// The fds, whose kinds are known to close at once.
    pub fn take(mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.fds)
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.closer.close(self.uid, std::mem::take(&mut self.fds));
    }
}

#[cfg(test)]
#[path = "closer_tests.rs"]
mod tests;
