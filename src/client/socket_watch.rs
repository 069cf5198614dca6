//! One fd that says that the session's socket hung up, whichever socket that is.
//!
//! Event loops poll fds and do not like them to change. So they get an epoll set, which holds the
//! present socket: it is readable when that has hung up, and no more once the session has noticed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::wire;
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
