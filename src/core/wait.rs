//! `wait()`: one wait by a plan, in process. It drives the step machine over a port, a clock and a
//! timer, and decides nothing itself.

use core::ops::{Deref, DerefMut};

use super::error::{Error, ErrorCode, Result};
use super::plan::Plan;
use super::port::CompletionPort;
use super::step::{Action, Event, Outcome, Wait};
use super::time::{Clock, DurNs, MonoNs, Timer};

/// Waits until the port's work is done, by `plan`.
///
/// `estimate` is how long the estimator lets this wait sleep; the outcome's sample is for that
/// estimator. Dropping the future ends the wait and leaves nothing registered.
///
/// # Errors
/// `DeadlineExpired` where `deadline` came first; else the port's error, as it is.
pub async fn wait<P: CompletionPort>(
    port: &mut P,
    clock: &impl Clock,
    timer: &impl Timer,
    plan: &Plan,
    estimate: Option<DurNs>,
    deadline: Option<MonoNs>,
) -> Result<Outcome> {
    let mut wait = Wait::new(plan, clock.now(), estimate, deadline);
    let mut port = Disarming { port, armed: false };
    let mut event = Event::Begin;
    loop {
        event = match wait.step(clock.now(), event) {
            Action::Query => Event::Queried(port.query().await?),
            Action::Block { until } => Event::Blocked(port.block(until).await?),
            Action::Arm => {
                // Before the call: one that is dropped or fails half-way may have armed.
                port.armed = true;
                port.arm().await?;
                Event::Armed
            }
            Action::SleepUntil(at) => {
                timer.sleep_until(at).await;
                Event::Woke
            }
            Action::ParkUntil(until) => match port.park(until).await? {
                true => Event::Flagged,
                false => Event::Parked,
            },
            Action::Poll { until } => Event::Polled(port.poll(until).await?),
            Action::Finish(outcome) => return Ok(outcome),
            Action::Expire => {
                return Err(Error::new(ErrorCode::DeadlineExpired, "the deadline passed first"));
            }
        };
    }
}

/// A port that is disarmed, if it was armed, when its wait ends or is dropped.
struct Disarming<'p, P: CompletionPort> {
    port: &'p mut P,
    armed: bool,
}

impl<P: CompletionPort> Deref for Disarming<'_, P> {
    type Target = P;

    fn deref(&self) -> &P {
        self.port
    }
}

impl<P: CompletionPort> DerefMut for Disarming<'_, P> {
    fn deref_mut(&mut self) -> &mut P {
        self.port
    }
}

impl<P: CompletionPort> Drop for Disarming<'_, P> {
    fn drop(&mut self) {
        if self.armed {
            self.port.disarm();
        }
    }
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
