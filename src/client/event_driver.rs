//! Async waits driven by an event loop that can poll an fd: tokio here, asyncio or libuv elsewhere.
//!
//! While a driver is attached, the daemon writes the session's eventfd when results come for tasks
//! that wait, and the driver's turn takes them and wakes those tasks: no helper thread. When the
//! last driver of a session goes, also with its runtime, the helper thread takes over.

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
    socket: OwnedFd,
}

impl Session {
    /// A driver for an event loop of your own: poll [`EventDriver::events`] and
    /// [`EventDriver::socket`].
    ///
    /// # Errors
    /// `SystemFailed` where no fd is free; `Forked`; the session's end.
    pub fn event_driver(&self) -> Result<EventDriver> {
        let shared = self.shared();
        let (events, socket) = (duplicate(&shared.fds().events)?, duplicate(shared)?);
        shared.attach_driver()?;
        Ok(EventDriver { session: Arc::downgrade(shared), events, socket })
    }
}

impl EventDriver {
    /// Readable when results came: take a [`EventDriver::turn`] then. Do not read it yourself.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Hangs up when the daemon is gone: [`EventDriver::check`] then. Nothing else of it is yours.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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

    /// Ends the session's waits where the daemon is gone.
    ///
    /// # Errors
    /// As [`EventDriver::turn`].
    pub fn check(&self) -> Result<()> {
        let session = self.session()?;
        if let Some(error) = session.wire().hung_up() {
            let mut at = session.open()?;
            at.collect();
            at.end(error);
        }
        let at = session.open()?;
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
