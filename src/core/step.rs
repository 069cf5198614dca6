//! One wait, as a step machine without I/O: the only place that knows the order of its steps.
//!
//! A *driver* does what an [`Action`] asks and comes back with the [`Event`] that it led to. The
//! order:
//!
//! 1. `block`: the blocking wait, and nothing else.
//! 2. Else one query; done is [`Waited::Immediate`].
//! 3. `flag`: arm the word's write.
//! 4. With a prediction and an estimate: sleep to `start + sleep`, query; done is [`Waited::Late`].
//! 5. `flag`: bounded parks, a query once the backstop's time has passed since the last one; a
//!    word seen reached is polled to done. `poll`: polls to done. Done is [`Waited::Parked`].
//!
//! What always holds: a wait finishes only on an event that says done; no sleep ends after
//! `start + sleep`; nothing is waited for beyond the deadline, at which one last look decides
//! between done and [`Action::Expire`]; a step costs O(1) and does not allocate.

use super::estimator::Sample;
use super::plan::{Park, Plan};
use super::time::{DurNs, MonoNs};

/// The state of one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    start: MonoNs,
    // MAX: none.
    deadline: MonoNs,
    // Where the predicted sleep ends; MAX: no sleep.
    wake_at: MonoNs,
    // The last query's answer came at this time; once over, the time of its end.
    asked_at: MonoNs,
    park: Park,
    phase: Phase,
}

const _: () = assert!(size_of::<Wait>() <= 64, "rows of many waits are kept");

/// What a wait waits for next: each phase has one action, and one kind of event that ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    Block,
    FirstQuery,
    Arm,
    Sleep,
    LateQuery,
    Park,
    BackstopQuery,
    Poll,
    Finished(Waited),
    Expired,
}

/// What a driver reports. An event that does not belong to the action asked for last is no news:
/// the step answers with that action again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The wait begins.
    Begin,
    /// The query's answer: whether the work is done.
    Queried(bool),
    /// The word's write is armed, or there is none to arm.
    Armed,
    /// The time of [`Action::SleepUntil`] has come.
    Woke,
    /// A bounded park ended and the word was not seen reached. The driver has looked at the word:
    /// a park includes that look, and a driver for which the word is all there is to query reports
    /// [`Event::Seen`] in its place where the word has reached its target.
    Parked,
    /// A bounded park ended with the word reached, where the port must still say done.
    Flagged,
    /// The blocking wait returned: whether the work is done, or a bounded piece of it ended.
    Blocked(bool),
    /// Polling returned: whether the work is done, or its bound ended.
    Polled(bool),
    /// The work was seen done between steps, by a look that was not this wait's own: a bell, or a
    /// look at a neighbour. It is a query that said done.
    Seen,
}

/// What the driver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The blocking wait, to `until` at most. Answer: [`Event::Blocked`].
    Block {
        /// The deadline, if there is one.
        until: Option<MonoNs>,
    },
    /// One status query. Answer: [`Event::Queried`].
    Query,
    /// Arm the write of the word behind the work. Answer: [`Event::Armed`].
    Arm,
    /// Sleep. Answer: [`Event::Woke`].
    SleepUntil(MonoNs),
    /// Park on the word, bounded. Answer: [`Event::Parked`], [`Event::Flagged`] or
    /// [`Event::Seen`].
    ParkUntil(MonoNs),
    /// Query again and again, to `until` at most. Answer: [`Event::Polled`].
    Poll {
        /// The deadline, if there is one.
        until: Option<MonoNs>,
    },
    /// The work is done and the wait is over.
    Finish(Outcome),
    /// The deadline passed first and the wait is over.
    Expire,
}

/// How a wait came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Waited {
    /// Done at the first query.
    Immediate = 1,
    /// Done on waking from the predicted sleep.
    Late = 2,
    /// Done while it was parked or polled for.
    Parked = 3,
    /// Done in the blocking wait.
    Blocked = 4,
}

/// The end of a wait whose work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it came.
    pub waited: Waited,
    /// What it tells the estimator; none for [`Waited::Blocked`].
    pub sample: Option<Sample>,
    /// From the wait's start to here.
    pub residual: DurNs,
}

impl Outcome {
    /// How a wait ends whose work is done when it begins: by its blocking wait or its first query.
    pub fn at_once(park: Park) -> Outcome {
        let (waited, sample) = match park {
            Park::Block => (Waited::Blocked, None),
            Park::Poll | Park::Flag { .. } => {
                (Waited::Immediate, Some(Sample::Immediate(DurNs::ZERO)))
            }
        };
        Outcome { waited, sample, residual: DurNs::ZERO }
    }
}

impl Wait {
    /// A wait by `plan` that started at `start`. `sleep` is the estimator's for the point, used
    /// where the plan predicts. At `deadline` the wait ends, done or not.
    pub fn new(plan: &Plan, start: MonoNs, sleep: Option<DurNs>, deadline: Option<MonoNs>) -> Wait {
        let sleep = sleep.filter(|_| plan.predict.is_some());
        Wait {
            start,
            deadline: deadline.unwrap_or(MonoNs::MAX),
            wake_at: sleep.map_or(MonoNs::MAX, |sleep| start + sleep),
            asked_at: start,
            park: plan.park,
            phase: Phase::New,
        }
    }

    /// The next action after `event`, which happened at `now`. A wait that is over repeats its end,
    /// without a sample, so that nothing is learned twice.
    pub fn step(&mut self, now: MonoNs, event: Event) -> Action {
        match self.phase {
            Phase::Finished(waited) => return Action::Finish(self.outcome(waited, None)),
            Phase::Expired => return Action::Expire,
            _ => {}
        }
        let mut phase = self.phase_after(now, event);
        if matches!(event, Event::Queried(false)) {
            self.asked_at = now;
        }
        if now >= self.deadline {
            phase = phase_at_deadline(phase, event);
        }
        self.phase = phase;
        self.action(now)
    }

    /// The phase that `event` leads to, were there no deadline.
    fn phase_after(&self, now: MonoNs, event: Event) -> Phase {
        match (self.phase, event) {
            (_, Event::Seen) if self.park == Park::Block => Phase::Finished(Waited::Blocked),
            (_, Event::Seen) => Phase::Finished(Waited::Parked),
            (Phase::New, _) if self.park == Park::Block => Phase::Block,
            (Phase::New, _) => Phase::FirstQuery,
            (Phase::Block, Event::Blocked(true)) => Phase::Finished(Waited::Blocked),
            (Phase::FirstQuery, Event::Queried(true)) => Phase::Finished(Waited::Immediate),
            (Phase::FirstQuery, Event::Queried(false)) => match self.park {
                Park::Flag { .. } => Phase::Arm,
                Park::Poll | Park::Block => self.sleep_or_look(now),
            },
            (Phase::Arm, Event::Armed) => self.sleep_or_look(now),
            (Phase::Sleep, Event::Woke) if now >= self.wake_at => Phase::LateQuery,
            (Phase::LateQuery, Event::Queried(true)) => Phase::Finished(Waited::Late),
            (Phase::BackstopQuery, Event::Queried(true)) => Phase::Finished(Waited::Parked),
            (Phase::LateQuery | Phase::BackstopQuery, Event::Queried(false)) => self.look(),
            (Phase::Park, Event::Flagged) => Phase::Poll,
            (Phase::Park, Event::Parked) if self.backstop_due(now) => Phase::BackstopQuery,
            (Phase::Poll, Event::Polled(true)) => Phase::Finished(Waited::Parked),
            (phase, _) => phase,
        }
    }

    /// A sleep whose end has passed already (the first query took long) is left out: that query
    /// was the look that would follow it.
    fn sleep_or_look(&self, now: MonoNs) -> Phase {
        if self.wake_at != MonoNs::MAX && now < self.wake_at { Phase::Sleep } else { self.look() }
    }

    fn look(&self) -> Phase {
        match self.park {
            Park::Flag { .. } => Phase::Park,
            Park::Poll | Park::Block => Phase::Poll,
        }
    }

    fn backstop_due(&self, now: MonoNs) -> bool {
        match self.park {
            Park::Flag { backstop_us, .. } => {
                now.since(self.asked_at) >= DurNs::from_us(backstop_us.into())
            }
            Park::Poll | Park::Block => false,
        }
    }

    /// The action of the present phase; a phase that is an end keeps `now` as its time.
    fn action(&mut self, now: MonoNs) -> Action {
        let until = (self.deadline != MonoNs::MAX).then_some(self.deadline);
        match self.phase {
            Phase::Block => Action::Block { until },
            // A new wait is never left as one: its first event leads on.
            Phase::New | Phase::FirstQuery | Phase::LateQuery | Phase::BackstopQuery => {
                Action::Query
            }
            Phase::Arm => Action::Arm,
            Phase::Sleep => Action::SleepUntil(self.wake_at.min(self.deadline)),
            Phase::Park => Action::ParkUntil(self.park_end(now).min(self.deadline)),
            Phase::Poll => Action::Poll { until },
            Phase::Expired => Action::Expire,
            Phase::Finished(waited) => {
                self.asked_at = now;
                Action::Finish(self.outcome(waited, Some(now.since(self.start))))
            }
        }
    }

    fn park_end(&self, now: MonoNs) -> MonoNs {
        match self.park {
            Park::Flag { park_us, .. } => now + DurNs::from_us(park_us.into()),
            Park::Poll | Park::Block => now,
        }
    }

    fn outcome(&self, waited: Waited, learned: Option<DurNs>) -> Outcome {
        let sample = learned.and_then(|residual| match waited {
            Waited::Immediate => Some(Sample::Immediate(residual)),
            Waited::Late => Some(Sample::Late { woke_after: residual }),
            Waited::Parked => Some(Sample::Exact(residual)),
            Waited::Blocked => None,
        });
        Outcome { waited, sample, residual: self.asked_at.since(self.start) }
    }
}

/// The phase in place of `phase` once the deadline has come: over, where `event` just said "not
/// done"; else one last look, after which it is.
fn phase_at_deadline(phase: Phase, event: Event) -> Phase {
    let said_no =
        matches!(event, Event::Queried(false) | Event::Polled(false) | Event::Blocked(false));
    match phase {
        Phase::New | Phase::FirstQuery | Phase::LateQuery | Phase::BackstopQuery => phase,
        Phase::Finished(_) | Phase::Expired => phase,
        Phase::Block | Phase::Arm | Phase::Sleep | Phase::Park | Phase::Poll if said_no => {
            Phase::Expired
        }
        // The blocking wait, begun at or after its deadline, is its own last look.
        Phase::Block => phase,
        Phase::Sleep => Phase::LateQuery,
        Phase::Arm | Phase::Park | Phase::Poll => Phase::BackstopQuery,
    }
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
