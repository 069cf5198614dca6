//! Who watches the ring for tasks, which cannot sleep on a futex themselves.
//!
//! By default a helper thread of the session, started for the first task that waits: while tasks
//! wait it leads or follows as any thread does ([`super::leader`]), else it parks. Where an
//! *eventfd driver* is attached (a task of a runtime that polls the session's eventfd), the daemon
//! is asked to write that, and no thread is needed.
//!
//! The invariant, whenever the ledger's lock is free: if tasks wait, then the helper serves, or
//! the session is armed for its eventfd since the last turn of an attached driver.

use std::sync::{Arc, Weak};
use std::thread::{self, Thread};

use crate::core::error::Result;
use crate::proto::layout::armed;

use super::leader::Goal;
use super::ledger::Ledger;
use super::shared::{Access, Shared};
use super::waiter::Waiter;
use super::wire;

/// Tasks that wait, and who watches for them.
#[derive(Debug, Default)]
pub(super) struct Driver {
    /// Tasks that are to be called.
    pub(super) tasks: usize,
    /// Eventfd drivers attached.
    pub(super) attached: usize,
    pub(super) helper: Option<Thread>,
    /// The helper was called and has not gone to park since.
    serving: bool,
}

impl Driver {
    /// Ends the helper, for the session is gone.
    pub(super) fn stop(&mut self) {
        if let Some(helper) = self.helper.take() {
            helper.unpark();
        }
    }
}

/// The helper's goal: nothing more to do.
struct NoTasks;

impl Goal for NoTasks {
    type Out = ();

    fn ready(&mut self, ledger: &mut Ledger) -> Option<()> {
        let idle = ledger.driver.tasks == 0 || ledger.driver.attached > 0;
        ledger.driver.serving = !idle;
        idle.then_some(())
    }

    // As a follower it has nothing to do: the leader calls the tasks.
}

impl Shared {
    /// Sees to it that somebody watches for the tasks now registered. False where a result came in
    /// meanwhile: look again.
    ///
    /// # Errors
    /// `SystemFailed` where the helper cannot be started.
    pub(super) fn watch_for_tasks(self: &Arc<Self>, at: &mut Access<'_>) -> Result<bool> {
        if at.driver.attached > 0 {
            return Ok(at.is_armed(armed::NOTIFY) || at.arm(armed::NOTIFY).is_some());
        }
        if !at.driver.serving {
            let helper = match &at.driver.helper {
                Some(helper) => helper.clone(),
                None => start_helper(Arc::downgrade(self))?,
            };
            at.driver.helper = Some(helper.clone());
            at.driver.serving = true;
            at.calls.wake.push(Waiter::Thread(helper));
        }
        Ok(true)
    }

    /// The turn of an eventfd driver: its eventfd was written, and read since.
    pub(super) fn driver_turn(&self) -> Result<()> {
        let mut at = self.open()?;
        loop {
            at.collect();
            if at.driver.tasks == 0 {
                at.disarm(armed::NOTIFY);
                return Ok(());
            }
            if at.arm(armed::NOTIFY).is_some() {
                return Ok(());
            }
        }
    }

    /// An eventfd driver goes to work.
    pub(super) fn attach_driver(&self) -> Result<()> {
        self.open()?.driver.attached += 1;
        // Tasks that wait already are its to watch for.
        self.driver_turn()
    }

    /// An eventfd driver stops, whether or not it has seen its last write.
    pub(super) fn detach_driver(self: &Arc<Self>) {
        let Ok(mut at) = self.open() else { return };
        at.driver.attached -= 1;
        if at.driver.attached == 0 {
            at.disarm(armed::NOTIFY);
            if at.driver.tasks > 0
                && let Err(error) = self.watch_for_tasks(&mut at)
            {
                at.end(error);
            }
        } else {
            drop(at);
            let _ = self.driver_turn();
        }
    }
}

fn start_helper(session: Weak<Shared>) -> Result<Thread> {
    let helper = move || {
        while let Some(shared) = session.upgrade() {
            if shared.block(&mut NoTasks, None).is_err() {
                return;
            }
            drop(shared);
            thread::park();
        }
    };
    let started = thread::Builder::new().name("parkd-waiter".to_owned()).spawn(helper);
    Ok(started.map_err(|error| wire::system("thread", error))?.thread().clone())
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
