//! Tagged tickets: for programs that handle thousands with one thread.
//!
//! A tagged ticket has no handle. Its result queues in its session, in the order in which results
//! arrive, with the tag that it was submitted with, until somebody takes it; until then it counts
//! against the session's credit. There is one queue a session: every result goes to exactly one
//! taker.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::thread::Thread;
use std::time::Duration;

use crate::core::error::{Error, ErrorCode, Result};

use super::completion::Completion;
use super::leader::Goal;
use super::ledger::Ledger;
use super::session::{Session, from_now};
use super::ticket::{Ticket, TicketBuilder};
use super::waiter::Waiter;

impl Session {
    /// Sends tickets off, all or none, with one ring of the bell for all of them.
    ///
    /// # Errors
    /// As [`TicketBuilder::submit`]; `NoSuchLane` for a lane of another session.
    pub fn submit_all<'a>(
        &self,
        tickets: impl IntoIterator<Item = TicketBuilder<'a>>,
    ) -> Result<Vec<Ticket>> {
        let builders: Vec<_> = tickets.into_iter().collect();
        let mut landed = Vec::with_capacity(builders.len());
        let mut outgoing = Vec::with_capacity(builders.len());
        for builder in &builders {
            let completion = self.landed(builder)?;
            if completion.is_none() {
                outgoing.push(builder.outgoing(None));
            }
            landed.push(completion);
        }
        let mut slots = Vec::with_capacity(outgoing.len());
        if !outgoing.is_empty() {
            self.shared().open()?.submit_all(&outgoing, |id| slots.push(id))?;
        }
        let mut slots = slots.into_iter();
        let tickets = builders.iter().zip(landed).filter_map(|(builder, landed)| match landed {
            Some(completion) => Some(builder.ended(completion)),
            None => slots.next().map(|id| builder.waiting(id)),
        });
        Ok(tickets.collect())
    }

    /// Sends tagged tickets off, all or none, with one ring of the bell for all of them.
    ///
    /// # Errors
    /// As [`Session::submit_all`].
    pub fn submit_all_tagged<'a>(
        &self,
        tickets: impl IntoIterator<Item = (TicketBuilder<'a>, u64)>,
    ) -> Result<()> {
        let mut outgoing = Vec::new();
        for (builder, tag) in tickets {
            self.owns(&builder)?;
            outgoing.push(builder.outgoing(Some(tag)));
        }
        // A lane that has landed is the daemon's to see here: one path, and the queue's order.
        if outgoing.is_empty() {
            return Ok(());
        }
        self.shared().open()?.submit_all(&outgoing, |_| {})
    }

    fn landed(&self, builder: &TicketBuilder<'_>) -> Result<Option<Completion>> {
        self.owns(builder)?;
        builder.landed()
    }

    fn owns(&self, builder: &TicketBuilder<'_>) -> Result<()> {
        if builder.is_of(self) {
            return Ok(());
        }
        let text = format!("lane {} is not open: it is another session's", builder.lane_index());
        Err(Error::new(ErrorCode::NoSuchLane, text))
    }

    /// The next tagged result, with its tag; blocks for at most `timeout` (none when that passed).
    ///
    /// # Errors
    /// `Forked`; `Disconnected` where the session has ended and its results are taken.
    pub fn next_completion(&self, timeout: Option<Duration>) -> Result<Option<(u64, Completion)>> {
        let until = timeout.map(from_now);
        Ok(self.shared().block(&mut NextTagged { or_none: false }, until)?.flatten())
    }

    /// The tagged results: an iterator that ends when no tagged ticket is outstanding or unread,
    /// and goes on when there are some again; or, by [`Completions::next_async`], for tasks.
    pub fn completions(&self) -> Completions {
        let key = self.shared().open().map_or(0, |mut at| at.key());
        Completions { session: self.clone(), key, over: false }
    }
}

/// The tagged results of a session. See [`Session::completions`].
pub struct Completions {
    session: Session,
    key: u64,
    /// An error was answered: there is nothing after it.
    over: bool,
}

impl Completions {
    /// The next tagged result for a task: none when no tagged ticket is outstanding or unread.
    ///
    /// # Errors
    /// As [`Session::next_completion`].
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<(u64, Completion)>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let next = self.poll_queue(context);
        self.over = matches!(next, Poll::Ready(Some(Err(_))));
        next
    }

    fn poll_queue(&self, context: &mut Context<'_>) -> Poll<Option<Result<(u64, Completion)>>> {
        let shared = self.session.shared();
        let mut at = shared.open()?;
        loop {
            at.collect();
            if let Some(next) = (NextTagged { or_none: true }).ready(&mut at) {
                return Poll::Ready(next.map(Ok));
            }
            at.live()?;
            at.watch_tags(self.key, Waiter::Task(context.waker().clone()));
            if shared.watch_for_tasks(&mut at)? {
                return Poll::Pending;
            }
        }
    }

    /// As [`Completions::poll_next`], as a future. Dropping it loses nothing.
    pub async fn next_async(&mut self) -> Option<Result<(u64, Completion)>> {
        poll_fn(|context| self.poll_next(context)).await
    }
}

impl Iterator for Completions {
    type Item = Result<(u64, Completion)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.session.shared().block(&mut NextTagged { or_none: true }, None);
        self.over = next.is_err();
        next.map(Option::flatten).transpose()
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        if let Ok(mut at) = self.session.shared().open() {
            at.unwatch_tags(self.key);
        }
    }
}

impl fmt::Debug for Completions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completions").field("session", &self.session).finish_non_exhaustive()
    }
}

/// The next tagged result; with `or_none`, that there is none to come counts too.
struct NextTagged {
    or_none: bool,
}

impl Goal for NextTagged {
    type Out = Option<(u64, Completion)>;

    fn ready(&mut self, ledger: &mut Ledger) -> Option<Self::Out> {
        match ledger.take_tagged() {
            Some(next) => Some(Some(next)),
            None => (self.or_none && ledger.tagged() == 0).then_some(None),
        }
    }

    fn watch(&self, ledger: &mut Ledger, key: u64, me: &Thread) {
        ledger.watch_tags(key, Waiter::Thread(me.clone()));
    }

    fn unwatch(&self, ledger: &mut Ledger, key: u64) {
        ledger.unwatch_tags(key);
    }

    fn is_tagged(&self) -> bool {
        true
    }
}
