//! One fd that says that the session's socket hung up, whichever socket that is.
//!
//! Event loops poll fds and do not like them to change. So they get an epoll set, which holds the
//! present socket: it is readable when that has hung up, and no more once the session has noticed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::shared::Shared;
use super::{socket, wire};
use crate::core::error::Result;

/// See the file's head.
#[derive(Debug)]
pub(super) struct SocketWatch {
    set: OwnedFd,
    watched: Option<Arc<OwnedFd>>,
}

impl SocketWatch {
    /// A watch of no socket.
    ///
    /// # Errors
    /// `SystemFailed`.
    pub(super) fn new() -> Result<SocketWatch> {
        let set = epoll::create(CreateFlags::CLOEXEC);
        let set = set.map_err(|errno| wire::system("epoll_create", errno))?;
        Ok(SocketWatch { set, watched: None })
    }

    /// Watches this socket, and no other.
    ///
    /// # Errors
    /// `SystemFailed`.
    pub(super) fn watch(&mut self, socket: Arc<OwnedFd>) -> Result<()> {
        self.forget();
        epoll::add(&self.set, &*socket, EventData::new_u64(0), EventFlags::RDHUP)
            .map_err(|errno| wire::system("epoll_ctl", errno))?;
        self.watched = Some(socket);
        Ok(())
    }

    /// Watches none.
    pub(super) fn forget(&mut self) {
        if let Some(socket) = self.watched.take() {
            // It is in the set, and goes.
            let _ = epoll::delete(&self.set, &*socket);
        }
    }
}

impl AsFd for SocketWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

/// Between two looks, where the session has not come to terms with the end of its connection.
const PAUSE: Duration = Duration::from_millis(5);

impl Shared {
    /// Has a thread see the connection's end. For a session on whose lanes others wait: it may
    /// never wait itself, and would find no other daemon.
    ///
    /// # Errors
    /// `SystemFailed` where the thread cannot be had.
    pub(super) fn watch_socket(&self, session: Weak<Shared>) -> Result<()> {
        if !self.way().leads_on() || std::mem::replace(&mut self.reopen().watched, true) {
            return Ok(());
        }
        let watcher = thread::Builder::new().name("parkd-watcher".to_owned());
        let started = watcher.spawn(|| watch(session));
        started.map(drop).map_err(|error| {
            self.reopen().watched = false;
            wire::system("thread", error)
        })
    }
}

/// Until the session's end, which ends its connection too. It does not keep the session.
fn watch(session: Weak<Shared>) {
    loop {
        let Some((epoch, socket)) = session.upgrade().map(|shared| shared.wire().socket()) else {
            return;
        };
        socket::await_hang_up(&*socket);
        let Some(shared) = session.upgrade() else { return };
        if shared.reopen().live().is_err() {
            return;
        }
        shared.look_at_socket_now();
        if shared.wire().socket().0 == epoch {
            drop(shared);
            thread::sleep(PAUSE);
        }
    }
}
