//! The thread that sees to a session's link when its daemon is started anew.
//!
//! It is started when there is something to do and ends when it is done, so that no caller ever
//! waits for it but those whose calls need an answer of the daemon. It does not keep the session.

use std::os::fd::OwnedFd;
use std::sync::Weak;
use std::thread;
use std::time::Duration;

use super::renewal::{Duty, Link, not_back};
use super::session::duplicate;
use super::shared::Shared;
use super::socket_watch::SocketWatch;
use super::wire::{self, Fault, Gone};
use crate::core::error::Result;
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;

/// The first and the longest pause between two attempts to find a daemon.
const PAUSES: (DurNs, DurNs) = (DurNs(1_000_000), DurNs(200_000_000));

/// The pause between two looks whether the ring has room for what is owed.
const RING_PAUSE: Duration = Duration::from_micros(200);

/// Attempts to find a daemon.
struct Attempts {
    until: MonoNs,
    pause: DurNs,
}

/// Starts the thread; the session ends where it cannot be had.
pub(super) fn start(shared: &Shared, session: Option<&Weak<Shared>>) {
    let session = session.cloned().unwrap_or_default();
    let started = thread::Builder::new().name("parkd-tender".to_owned()).spawn(|| tend(session));
    if let Err(error) = started {
        shared.reopen().end(wire::system("thread", error));
    }
}

fn tend(session: Weak<Shared>) {
    let (mut attempts, mut redeeming) = (None, None);
    while let Some(shared) = session.upgrade() {
        let pause = match next_duty(&shared) {
            None => return,
            Some(Duty::Renew) => {
                redeeming = None;
                attempt(&shared, &mut attempts)
            }
            Some(Duty::CatchUp) => {
                attempts = None;
                shared.catch_up()
            }
            Some(Duty::Resume(life)) => shared.resume(life),
            Some(Duty::Redeem) => shared.redeem_again(&mut redeeming),
        };
        drop(shared);
        if let Some(pause) = pause {
            thread::sleep(pause);
        }
    }
}

fn next_duty(shared: &Shared) -> Option<Duty> {
    let mut at = shared.reopen();
    let duty = at.duty();
    at.tended = duty.is_some();
    duty
}

/// One attempt to find another daemon; answers how long to wait before the next.
fn attempt(shared: &Shared, attempts: &mut Option<Attempts>) -> Option<Duration> {
    let patience = shared.way().patience();
    let state = attempts
        .get_or_insert_with(|| Attempts { until: clock::now() + patience, pause: PAUSES.0 });
    let error = match shared.renew(state.until) {
        Ok(()) => return None,
        Err(error) => error,
    };
    let now = clock::now();
    if !super::reconnect::may_pass(&error) || now >= state.until {
        shared.reopen().end(not_back(patience, &error));
        return None;
    }
    // Sessions that lost the same daemon do not come back in step.
    let pause = DurNs(state.pause.0 + now.0 % (state.pause.0 / 2 + 1));
    state.pause = DurNs(state.pause.0 * 2).min(PAUSES.1);
    Some(Duration::from_nanos(pause.min(state.until.since(now)).0))
}

impl Shared {
    /// An fd for event loops that is readable when the connection has hung up.
    ///
    /// # Errors
    /// `SystemFailed`, the session's end.
    pub(super) fn hang_up_fd(&self) -> Result<OwnedFd> {
        let mut at = self.open()?;
        let at = &mut *at;
        let watch = match &mut at.socket_watch {
            Some(watch) => watch,
            none => {
                let watch = none.insert(SocketWatch::new()?);
                if at.link != Link::Down {
                    watch.watch(self.wire().socket().1)?;
                }
                watch
            }
        };
        duplicate(watch)
    }

    /// The connection is gone: see [`super::ledger::Ledger::lose`].
    pub(super) fn lost(&self, gone: &Gone) {
        self.reopen().lose(gone);
    }

    /// Looks whether the daemon has hung up.
    pub(super) fn look_at_socket_now(&self) {
        if let Some(gone) = self.wire().hung_up() {
            self.lost(&gone);
        }
    }

    /// A turn's work, with the session's reaction to its failing.
    ///
    /// # Errors
    /// What was refused; none where the connection was lost.
    pub(super) fn noticed<T>(&self, done: core::result::Result<T, Fault>) -> Result<Option<T>> {
        match done {
            Ok(out) => Ok(Some(out)),
            Err(Fault::Gone(gone)) => {
                self.lost(&gone);
                Ok(None)
            }
            Err(Fault::Error(error)) => Err(error),
        }
    }

    /// Hands another daemon what is owed to it, tickets on fds first; answers how long to wait
    /// before going on.
    fn catch_up(&self) -> Option<Duration> {
        if self.submit_fds() {
            let mut at = self.reopen();
            at.fds_are_submitted();
            at.pay_owed();
        }
        Some(RING_PAUSE)
    }

    /// Gives fds of tickets to this life of the daemon.
    fn resume(&self, life: u32) -> Option<Duration> {
        let done = self.resume_fds(life);
        if let Err(error) = self.noticed(done) {
            self.reopen().end(error);
        }
        None
    }
}
