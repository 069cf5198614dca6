//! Async waits driven by an event loop that can poll an fd: tokio here, asyncio or libuv elsewhere.
//!
//! While a driver is attached, the daemon writes the session's eventfd when results come for tasks
//! that wait, and the driver's turn takes them and wakes those tasks: no helper thread. When the
//! last driver of a session goes, also with its runtime, the helper thread takes over. Its fds stay
//! the same when the daemon is started anew.

use std::fmt;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::io::{ReadWriteFlags, preadv2};

use crate::core::error::Result;

use super::session::{Session, duplicate};
use super::shared::Shared;
use super::wire;

/// preadv2's -1: as read does.
const CURRENT_POSITION: u64 = u64::MAX;

/// Serves the async waits of a session from an event loop. It does not keep the session.
pub struct EventDriver {
    session: Weak<Shared>,
    events: OwnedFd,
    hang_up: OwnedFd,
}

impl Session {
    /// A driver for an event loop of your own: poll [`EventDriver::events`] and
    /// [`EventDriver::hang_up`].
    ///
    /// # Errors
    /// `SystemFailed` where no fd is free; `Forked`; the session's end.
    pub fn event_driver(&self) -> Result<EventDriver> {
        let shared = self.shared();
        let (events, hang_up) = (duplicate(&shared.fds().events)?, shared.hang_up_fd()?);
        shared.attach_driver()?;
        Ok(EventDriver { session: Arc::downgrade(shared), events, hang_up })
    }
}

impl EventDriver {
    /// Readable when results came: take a [`EventDriver::turn`] then. Do not read it yourself.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Readable when the daemon is gone: [`EventDriver::check`] then. It is not the socket, which
    /// is another one for another daemon.
    pub fn hang_up(&self) -> BorrowedFd<'_> {
        self.hang_up.as_fd()
    }

    /// Takes the results that came, wakes the tasks that they are for, and asks for the next.
    ///
    /// # Errors
    /// `Forked`; `Disconnected` where the session is gone: the driver has nothing left to do.
    pub fn turn(&self) -> Result<()> {
        // The count says nothing; what it stands for is looked up after it is taken. NOWAIT:
        // another driver may have taken it, and the file's flags are the daemon's too.
        let mut count = [0; 8];
        let mut parts = [IoSliceMut::new(&mut count)];
        let _ = preadv2(&self.events, &mut parts, CURRENT_POSITION, ReadWriteFlags::NOWAIT);
        self.session()?.driver_turn()
    }

    /// Notices that the daemon is gone: the session looks for another one meanwhile, and its waits
    /// go on; or it is over, and they end.
    ///
    /// # Errors
    /// As [`EventDriver::turn`].
    pub fn check(&self) -> Result<()> {
        let session = self.session()?;
        session.look_at_socket_now();
        let mut at = session.open()?;
        at.collect();
        at.live()
    }

    fn session(&self) -> Result<Arc<Shared>> {
        self.session.upgrade().ok_or_else(|| wire::closed(Some("its last handle is gone")))
    }
}

impl Drop for EventDriver {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            session.detach_driver();
        }
    }
}

impl fmt::Debug for EventDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventDriver").field("events", &self.events).finish_non_exhaustive()
    }
}
