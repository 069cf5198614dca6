//! Async waits on tokio, through the session's eventfd: no helper thread.
//!
//! A small task of the runtime polls the fds of an [`EventDriver`] and takes its turns; with the
//! task goes the driver, also when the runtime shuts down.

use std::future::poll_fn;
use std::io;
use std::ops::Deref;
use std::path::PathBuf;
use std::task::{Context, Poll};

use ::tokio::task::{AbortHandle, spawn_blocking};

use crate::core::error::Result;
use crate::host::polled_fd::PolledFd;

use super::connect::SessionBuilder;
use super::event_driver::EventDriver;
use super::session::{Session, duplicate};
use super::wire;

/// A session whose async waits are driven by the runtime on which it was made: everything that a
/// [`Session`] can do, and any handle of the session may be awaited on any runtime.
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
        let driver = session.event_driver()?;
        let turns = Turns {
            events: PolledFd::readable(duplicate(driver.events())?).map_err(failed)?,
            hang_up: PolledFd::readable(duplicate(driver.hang_up())?).map_err(failed)?,
            driver,
        };
        let turns = ::tokio::spawn(turns.run()).abort_handle();
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

/// What the fds have to say.
#[derive(Clone, Copy, Debug)]
enum News {
    Results,
    HangUp,
}

/// The task's state.
struct Turns {
    driver: EventDriver,
    events: PolledFd,
    hang_up: PolledFd,
}

impl Turns {
    async fn run(self) {
        loop {
            let done = match poll_fn(|context| self.poll_news(context)).await {
                Ok(News::Results) => self.driver.turn(),
                Ok(News::HangUp) => self.driver.check(),
                // The runtime shuts down.
                Err(_) => return,
            };
            if done.is_err() {
                return;
            }
        }
    }

    fn poll_news(&self, context: &mut Context<'_>) -> Poll<io::Result<News>> {
        match self.hang_up.poll(context) {
            Poll::Ready(ended) => Poll::Ready(ended.map(|()| News::HangUp)),
            Poll::Pending => self.events.poll(context).map_ok(|()| News::Results),
        }
    }
}

#[cfg(test)]
#[path = "tokio_tests.rs"]
mod tests;
