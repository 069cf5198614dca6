//! The futex trial, as the desk has it: begun when the daemon is ready, heard of when it is over.

use super::Desk;
use super::poller::Source;
use crate::daemon::command::Command;
use crate::daemon::log;
use crate::daemon::trial::{Due, Trial};
use crate::host::uring::trial;
use crate::proto::layout::BellKind;

impl Desk {
    /// Has futex wakes tried beside what goes on.
    pub(super) fn try_futexes(&mut self, due: Due) {
        let started = Trial::start(due, trial::run)
            .and_then(|trial| self.poller.watch(Source::Trial, &trial).map(|()| trial));
        match started {
            Ok(trial) => self.trial = Some(trial),
            Err(error) => log::warning(&error),
        }
    }

    /// The trial is over. Where futexes are in doubt, sessions get eventfds from now on; those that
    /// are there keep what WELCOME told them, and FILL looks at it by itself.
    pub(super) fn tried(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        self.poller.forget(&trial);
        if let Some(warning) = trial.outcome() {
            log::warning(&warning);
            self.setup.warnings.push(warning);
            self.setup.bell = BellKind::Eventfd;
            self.command(Command::Doubt);
        }
    }
}
