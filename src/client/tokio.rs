//! Async waits on tokio, through the session's eventfd: no helper thread.
//!
//! The daemon writes the eventfd when it publishes results for a session that is armed so; the
//! runtime's reactor sees that, and a small task takes the results and wakes the tasks that wait.
//! The same task sees the socket's end, so that a daemon that dies ends every wait.

use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use ::tokio::task::{AbortHandle, spawn_blocking};
use rustix::io::{ReadWriteFlags, preadv2};

use crate::core::error::Result;
use crate::host::polled_fd::PolledFd;

use super::connect::SessionBuilder;
use super::session::{Session, duplicate};
use super::shared::Shared;
use super::wire;

/// preadv2's -1: as read does.
const CURRENT_POSITION: u64 = u64::MAX;

/// A session whose async waits are driven by the runtime on which it was made: everything that a
/// [`Session`] can do, and any handle of the session may be awaited on any runtime. When the last
/// of a session's `AsyncSession`s goes, its async waits are served by the helper thread again.
#[derive(Debug)]
pub struct AsyncSession {
    session: Session,
    turns: AbortHandle,
}

impl AsyncSession {
    /// Connects as [`SessionBuilder::connect_to`] does, without blocking the runtime.
    ///
    /// # Errors
    /// As [`SessionBuilder::connect_to`], `SystemFailed`.
    ///
    /// # Panics
    /// Outside a tokio runtime with its I/O enabled, as tokio does.
    pub async fn connect_to(builder: SessionBuilder, path: PathBuf) -> Result<AsyncSession> {
        let connected = spawn_blocking(move || builder.connect_to(&path)).await;
        AsyncSession::new(connected.map_err(|error| wire::system("spawn_blocking", error))??)
    }

    /// Drives the async waits of `session` on the current runtime.
    ///
    /// # Errors
    /// `SystemFailed` where the fds cannot be polled; `Forked`; the session's end.
    ///
    /// # Panics
    /// Outside a tokio runtime with its I/O enabled, as tokio does.
    pub fn new(session: Session) -> Result<AsyncSession> {
        let failed = |error| wire::system("epoll_ctl", error);
        let events = duplicate(&session.shared().fds().events)?;
        let events = PolledFd::readable(events).map_err(failed)?;
        let socket = PolledFd::hang_up(duplicate(session.shared())?).map_err(failed)?;
        session.shared().attach_driver()?;
        let driver = Attached { session: Arc::downgrade(session.shared()), events, socket };
        let turns = ::tokio::spawn(driver.run()).abort_handle();
        Ok(AsyncSession { session, turns })
    }
}

impl Deref for AsyncSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Drop for AsyncSession {
    fn drop(&mut self) {
        self.turns.abort();
    }
}

/// The task's state. Dropped with it, also by a runtime that shuts down.
struct Attached {
    session: Weak<Shared>,
    events: PolledFd,
    socket: PolledFd,
}

impl Attached {
    async fn run(self) {
        loop {
            // An error says that the runtime shuts down.
            let news = poll_fn(|context| self.poll_news(context)).await;
            let Ok(hung_up) = news else { return };
            let Some(session) = self.session.upgrade() else { return };
            if hung_up && let Some(error) = session.wire().hung_up() {
                if let Ok(mut at) = session.open() {
                    at.collect();
                    at.end(error);
                }
                return;
            }
            if session.eventfd_turn().is_err() {
                return;
            }
        }
    }

    /// Ready when results may be there (false), or the socket may have ended (true).
    fn poll_news(&self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if let Poll::Ready(ended) = self.socket.poll(context, |_| {}) {
            return Poll::Ready(ended.map(|()| true));
        }
        // The count says nothing; what it stands for is looked up after it is taken.
        self.events.poll(context, take_count).map_ok(|()| false)
    }
}

fn take_count(events: BorrowedFd<'_>) {
    let mut count = [0; 8];
    let mut parts = [IoSliceMut::new(&mut count)];
    // NOWAIT: another driver may have taken it, and the file's flags are the daemon's too.
    let _ = preadv2(events, &mut parts, CURRENT_POSITION, ReadWriteFlags::NOWAIT);
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            session.detach_driver();
        }
    }
}

#[cfg(test)]
#[path = "tokio_tests.rs"]
mod tests;
