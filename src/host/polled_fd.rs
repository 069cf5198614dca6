//! Fds that a tokio runtime polls.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// An fd in the reactor of the runtime on which it was made. One task polls it.
#[derive(Debug)]
pub struct PolledFd {
    // Private, and lent out by shared reference alone: the reactor relies on the fd staying.
    fd: AsyncFd<OwnedFd>,
}

impl PolledFd {
    /// An fd that is ready when it can be read, or its peer is gone.
    ///
    /// # Errors
    /// Those of epoll_ctl(2): EPERM for files that cannot be polled, ENOSPC, ENOMEM.
    ///
    /// # Panics
    /// Outside a tokio runtime with its I/O enabled, as tokio does.
    pub fn readable(fd: OwnedFd) -> io::Result<PolledFd> {
        PolledFd::register(fd, Interest::READABLE)
    }

    /// A socket that is ready when its peer is gone, whatever there is to read.
    ///
    /// # Errors
    /// As [`PolledFd::readable`].
    ///
    /// # Panics
    /// As [`PolledFd::readable`].
    pub fn hang_up(fd: OwnedFd) -> io::Result<PolledFd> {
        // The kernel reports a hang-up whatever was asked for; sockets here have no urgent data.
        PolledFd::register(fd, Interest::PRIORITY)
    }

    fn register(fd: OwnedFd, interest: Interest) -> io::Result<PolledFd> {
        // SAFETY: an OwnedFd is open; it is moved in, answers one number, and nothing in this file
        // lends it out mutably, so it stays open and the same until the AsyncFd is dropped.
        let fd =
            unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(io::Error::from)?;
        Ok(PolledFd { fd })
    }

    /// Ready when the fd may be. What made it so is to be taken after that; the next call waits
    /// for news from here on.
    ///
    /// # Errors
    /// That the runtime shuts down.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The reactor is edge-triggered: forgotten first, what comes meanwhile is news again.
        ready!(self.fd.poll_read_ready(context))?.clear_ready();
        Poll::Ready(Ok(()))
    }
}
