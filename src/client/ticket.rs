//! Tickets: "tell me when this completes".
//!
//! A [`Ticket`] ends exactly once, with a [`Completion`], and can be waited for by blocking, by
//! polling, or as a future on any runtime. What always holds: dropping a ticket cancels it, and
//! its result, whenever that comes, is nobody else's. A lane is looked at before anything is
//! waited for: what has landed needs no daemon.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::Thread;
use std::time::Duration;

use crate::core::error::{ErrorCode, Result};
use crate::core::time::MonoNs;
use crate::host::clock;
use crate::proto::entry::{Op, SubmitEntry, TicketKind};

use super::completion::Completion;
use super::lane::Lane;
use super::leader::Goal;
use super::ledger::{Ledger, Outgoing};
use super::session::{PlanId, Session, from_now};
use super::slots::SlotId;
use super::waiter::Waiter;
use super::wire;

/// A ticket on a lane before it goes out.
#[derive(Clone, Debug)]
#[must_use = "a ticket goes out with submit"]
pub struct TicketBuilder<'a> {
    lane: &'a Lane,
    entry: SubmitEntry,
}

impl<'a> TicketBuilder<'a> {
    pub(super) fn new(lane: &'a Lane, target: u64) -> TicketBuilder<'a> {
        let entry = SubmitEntry {
            op: Op::Ticket as u8,
            kind: TicketKind::Word as u8,
            source: lane.index(),
            target,
            ..SubmitEntry::default()
        };
        TicketBuilder { lane, entry }
    }

    /// How to wait. Unset: by the plan of the lane's device.
    pub fn plan(mut self, plan: PlanId) -> TicketBuilder<'a> {
        self.entry.plan = plan.number();
        self
    }

    /// The place in the program that waits: waits of one point are predicted from one another.
    /// Unset: 0.
    pub fn point(mut self, point: u64) -> TicketBuilder<'a> {
        self.entry.point = point;
        self
    }

    /// Rows of the work, which choose among the bands of a plan that has some. Unset: 0.
    pub fn rows(mut self, rows: u32) -> TicketBuilder<'a> {
        self.entry.rows = rows;
        self
    }

    /// Ends the wait with `DeadlineExpired` at this instant of CLOCK_MONOTONIC. Unset: never.
    pub fn deadline(mut self, at: MonoNs) -> TicketBuilder<'a> {
        // On the wire 0 is "never".
        self.entry.deadline_ns = at.0.max(1);
        self
    }

    /// As [`TicketBuilder::deadline`], `after` from now.
    pub fn deadline_in(self, after: Duration) -> TicketBuilder<'a> {
        self.deadline(from_now(after))
    }

    /// Sends it off, without a system call while the daemon is awake. A lane that has reached the
    /// target already ends it here and now.
    ///
    /// # Errors
    /// `CreditExceeded` where too many tickets are outstanding or unread (see
    /// [`Session::wait_for_room`]), `Forked`, the session's end.
    pub fn submit(self) -> Result<Ticket> {
        if let Some(completion) = self.landed()? {
            return Ok(self.ended(completion));
        }
        let id = self.lane.session().shared().open()?.submit(&self.outgoing(None))?;
        Ok(self.waiting(id))
    }

    /// As [`TicketBuilder::submit`], waiting for room where there is none.
    ///
    /// # Errors
    /// `Forked`, the session's end.
    pub fn submit_blocking(self) -> Result<Ticket> {
        loop {
            match self.clone().submit() {
                Err(error) if error.code == ErrorCode::CreditExceeded => {
                    self.lane.session().wait_for_room(1, None)?;
                }
                done => return done,
            }
        }
    }

    /// Sends it off without an owner: its result comes with `tag` from
    /// [`Session::next_completion`] or [`Session::completions`]. Costs no allocation.
    ///
    /// # Errors
    /// As [`TicketBuilder::submit`].
    pub fn submit_tagged(self, tag: u64) -> Result<()> {
        let landed = self.landed()?;
        let mut at = self.lane.session().shared().open()?;
        at.live()?;
        if let Some(completion) = landed
            && at.land_tagged(tag, completion)
        {
            return Ok(());
        }
        at.submit(&self.outgoing(Some(tag))).map(drop)
    }

    /// The completion, where the lane has reached the target.
    pub(super) fn landed(&self) -> Result<Option<Completion>> {
        self.lane.session().shared().at_home()?;
        Ok(look(self.lane, self.entry.target))
    }

    pub(super) fn is_of(&self, session: &Session) -> bool {
        Arc::ptr_eq(self.lane.session().shared(), session.shared())
    }

    pub(super) fn lane_index(&self) -> u32 {
        self.lane.index()
    }

    pub(super) fn outgoing(&self, tag: Option<u64>) -> Outgoing {
        Outgoing { entry: self.entry, tag }
    }

    pub(super) fn ended(&self, completion: Completion) -> Ticket {
        self.ticket(State::Ended(completion))
    }

    pub(super) fn waiting(&self, id: SlotId) -> Ticket {
        self.ticket(State::Waiting(id))
    }

    fn ticket(&self, state: State) -> Ticket {
        Ticket { source: Source::Lane(self.lane.clone(), self.entry.target), state }
    }
}

/// The completion, where `lane` has reached `target`.
fn look(lane: &Lane, target: u64) -> Option<Completion> {
    let seen = lane.seen()?;
    lane.width().reached(seen, target).then(|| Completion::landed(seen, clock::now()))
}

/// A wait for one completion. See the file's head.
#[must_use = "dropping a ticket cancels it"]
pub struct Ticket {
    source: Source,
    state: State,
}

enum Source {
    /// A lane, and the number it is to reach.
    Lane(Lane, u64),
    /// An fd, which the daemon holds.
    Fd(Session),
}

#[derive(Clone, Copy, Debug)]
enum State {
    Waiting(SlotId),
    Ended(Completion),
}

impl Source {
    fn session(&self) -> &Session {
        match self {
            Source::Lane(lane, _) => lane.session(),
            Source::Fd(session) => session,
        }
    }

    /// The ticket's completion, if there is one: its result, or what its own lane shows.
    fn settle(&self, ledger: &mut Ledger, id: SlotId) -> Result<Option<Completion>> {
        match self.ended(ledger, id) {
            Some(completion) => Ok(Some(completion)),
            None => ledger.live().map(|()| None),
        }
    }

    fn ended(&self, ledger: &mut Ledger, id: SlotId) -> Option<Completion> {
        ledger.take(id).or_else(|| {
            let completion = self.look()?;
            // The daemon's result, still to come, is dropped.
            ledger.abandon(id);
            Some(completion)
        })
    }

    /// Whether its own lane shows that it has ended.
    fn reached(&self) -> bool {
        match self {
            Source::Lane(lane, target) => {
                lane.seen().is_some_and(|seen| lane.width().reached(seen, *target))
            }
            Source::Fd(_) => false,
        }
    }

    /// The completion that its own lane shows.
    fn look(&self) -> Option<Completion> {
        match self {
            Source::Lane(lane, target) => look(lane, *target),
            Source::Fd(_) => None,
        }
    }
}

impl Ticket {
    pub(super) fn on_fd(session: &Session, id: SlotId) -> Ticket {
        Ticket { source: Source::Fd(session.clone()), state: State::Waiting(id) }
    }

    /// The session it is of.
    pub fn session(&self) -> &Session {
        self.source.session()
    }

    /// Blocks until it ends.
    ///
    /// # Errors
    /// `Forked`; `Disconnected` where the session ended first. How the ticket ended is in the
    /// completion: see [`Completion::into_result`].
    pub fn wait(mut self) -> Result<Completion> {
        match self.wait_until(None)? {
            Some(completion) => Ok(completion),
            // Without a bound only its end or the session's ends a wait.
            None => Err(wire::closed(None)),
        }
    }

    /// Blocks until it ends, for at most `timeout`; none when that passed. The ticket stays
    /// outstanding then. Once it has ended, every call answers the same completion.
    ///
    /// # Errors
    /// As [`Ticket::wait`].
    pub fn wait_for(&mut self, timeout: Duration) -> Result<Option<Completion>> {
        self.wait_until(Some(from_now(timeout)))
    }

    /// Its completion, if it has ended. Never blocks.
    ///
    /// # Errors
    /// As [`Ticket::wait`].
    pub fn try_wait(&mut self) -> Result<Option<Completion>> {
        let State::Waiting(id) = self.state else { return Ok(self.completion().copied()) };
        let mut at = self.source.session().shared().open()?;
        at.collect();
        let ended = self.source.settle(&mut at, id)?;
        drop(at);
        Ok(self.note(ended))
    }

    /// Blocks until it ends, or until `until`.
    ///
    /// # Errors
    /// As [`Ticket::wait`].
    pub fn wait_until(&mut self, until: Option<MonoNs>) -> Result<Option<Completion>> {
        if let Some(completion) = self.try_wait()? {
            return Ok(Some(completion));
        }
        let State::Waiting(id) = self.state else { return Ok(self.completion().copied()) };
        let ended =
            self.source.session().shared().block(&mut OneTicket(&self.source, id), until)?;
        Ok(self.note(ended))
    }

    fn note(&mut self, ended: Option<Completion>) -> Option<Completion> {
        if let Some(completion) = ended {
            self.state = State::Ended(completion);
        }
        ended
    }

    /// The completion that a wait, a poll or a look has found; none before.
    pub fn completion(&self) -> Option<&Completion> {
        match &self.state {
            State::Waiting(_) => None,
            State::Ended(completion) => Some(completion),
        }
    }

    /// Asks the daemon to end it with `Cancelled`. It still ends once, maybe otherwise: its work
    /// may complete first.
    ///
    /// # Errors
    /// `Forked`, the session's end.
    pub fn cancel(&self) -> Result<()> {
        let mut at = self.session().shared().open()?;
        at.live()?;
        if let State::Waiting(id) = self.state {
            at.cancel(id);
        }
        Ok(())
    }

    /// Whether its own lane shows that it has ended.
    pub(super) fn has_landed(&self) -> bool {
        self.slot().is_some() && self.source.reached()
    }

    /// The slot of a ticket that is outstanding.
    pub(super) fn slot(&self) -> Option<SlotId> {
        match self.state {
            State::Waiting(id) => Some(id),
            State::Ended(_) => None,
        }
    }
}

impl Future for Ticket {
    type Output = Result<Completion>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = &mut *self;
        let id = match ticket.state {
            State::Waiting(id) => id,
            State::Ended(completion) => return Poll::Ready(Ok(completion)),
        };
        let shared = ticket.source.session().shared();
        let mut at = shared.open()?;
        let ended = loop {
            at.collect();
            if let Some(completion) = ticket.source.settle(&mut at, id)? {
                break completion;
            }
            at.watch(id, Waiter::Task(context.waker().clone()));
            if shared.watch_for_tasks(&mut at)? {
                return Poll::Pending;
            }
        };
        drop(at);
        ticket.state = State::Ended(ended);
        Poll::Ready(Ok(ended))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let State::Waiting(id) = self.state else { return };
        // In a forked child the slot is the parent's.
        if let Ok(mut at) = self.session().shared().open()
            && at.abandon(id)
        {
            at.cancel(id);
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ticket = f.debug_struct("Ticket");
        if let Source::Lane(lane, target) = &self.source {
            ticket.field("lane", &lane.index()).field("target", target);
        }
        ticket.field("completion", &self.completion()).finish_non_exhaustive()
    }
}

/// One ticket's end.
struct OneTicket<'a>(&'a Source, SlotId);

impl Goal for OneTicket<'_> {
    type Out = Completion;

    fn ready(&mut self, ledger: &mut Ledger) -> Option<Completion> {
        self.0.ended(ledger, self.1)
    }

    fn watch(&self, ledger: &mut Ledger, _: u64, me: &Thread) {
        ledger.watch(self.1, Waiter::Thread(me.clone()));
    }

    fn unwatch(&self, ledger: &mut Ledger, _: u64) {
        ledger.unwatch(self.1);
    }

    fn landed(&self) -> bool {
        self.0.reached()
    }
}

#[cfg(test)]
#[path = "ticket_tests.rs"]
mod tests;
