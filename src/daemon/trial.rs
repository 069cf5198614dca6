//! The futex trial beside a daemon that serves.
//!
//! A ring that loses futex wakes, or has them late, would make clients wait for what is there: so
//! where bells are futexes in a ring, whether they can be is tried once a boot
//! ([`crate::host::uring::trial`]), after the daemon is ready, on a thread of its own. What was
//! found is [kept](super::boot), and a daemon that finds it kept tries nothing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use super::boot::{BootNote, Known};
use super::command::eventfd;
use crate::core::error::{Error, ErrorCode, Result};
use crate::host::kinds;
use crate::host::uring::trial::Verdict;
use crate::proto::layout::BellKind;

/// What a ring in doubt means for the bells.
fn in_doubt(what: &str) -> Error {
    let text = format!(
        "bell: futex is not available ({what}), eventfd is used; bells that are \
                        futexes already are read every park_us"
    );
    Error::new(ErrorCode::BellFallback, text)
}

/// A trial that is to be made.
#[derive(Debug)]
pub struct Due {
    /// Where the outcome is kept; none where this boot has no name.
    note: Option<BootNote>,
}

/// What is to be tried, where bells are futexes in a ring and this boot knows nothing of it yet.
/// Where it knows that they are in doubt, `bell` becomes an eventfd, with a warning.
pub fn due(
    running: &str,
    socket: &Path,
    bell: &mut BellKind,
    warnings: &mut Vec<Error>,
) -> Option<Due> {
    if running != kinds::IO_URING || *bell != BellKind::Futex {
        return None;
    }
    let note = BootNote::beside(socket).ok();
    match note.as_ref().and_then(BootNote::read) {
        Some(Known::Sound) => None,
        Some(Known::Doubtful(what)) => {
            warnings.push(in_doubt(&what));
            *bell = BellKind::Eventfd;
            None
        }
        None => Some(Due { note }),
    }
}

/// A trial that is being made.
#[derive(Debug)]
pub struct Trial {
    verdict: Receiver<Verdict>,
    /// Readable when it is over.
    over: Arc<OwnedFd>,
}

impl Trial {
    /// Makes a trial, `run`, on a thread of its own.
    ///
    /// # Errors
    /// `SystemFailed` where threads or fds are short.
    pub fn start(due: Due, run: fn() -> Verdict) -> Result<Trial> {
        let (tell, verdict) = sync_channel(1);
        let over = Arc::new(eventfd()?);
        let thread = std::thread::Builder::new().name("parkd-trial".to_owned());
        let bell = over.clone();
        let made = move || {
            let found = run();
            keep(due, &found);
            let _ = tell.send(found);
            let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
        };
        thread
            .spawn(made)
            .map_err(|e| Error::new(ErrorCode::SystemFailed, format!("thread: {e}")))?;
        Ok(Trial { verdict, over })
    }

    /// Once it is over: what it means for the bells, where it means something.
    pub fn outcome(&self) -> Option<Error> {
        match self.verdict.try_recv().ok()? {
            Verdict::Sound(races) => {
                tracing::info!(races, "futex wakes are neither lost nor late");
                None
            }
            Verdict::Unknown(why) => {
                tracing::info!(why, "whether futex wakes are lost or late cannot be tried");
                None
            }
            Verdict::Doubtful(what) => Some(in_doubt(&what)),
        }
    }
}

impl AsFd for Trial {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.over.as_fd()
    }
}

/// Keeps an outcome for this boot. What was not found out is not kept.
fn keep(due: Due, found: &Verdict) {
    let known = match found {
        Verdict::Sound(_) => Known::Sound,
        Verdict::Doubtful(what) => Known::Doubtful(what.clone()),
        Verdict::Unknown(_) => return,
    };
    if let Some(Err(error)) = due.note.map(|note| note.write(&known)) {
        tracing::debug!(%error, "the outcome of the futex trial is not kept");
    }
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
