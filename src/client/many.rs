//! Waiting for one of several tickets, or for all of them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::MonoNs;
use crate::host::clock;

use super::completion::Completion;
use super::leader::Goal;
use super::ledger::Ledger;
use super::session::from_now;
use super::slots::SlotId;
use super::ticket::Ticket;
use super::waiter::Waiter;

/// Blocks until one of the tickets has ended, and answers which: the first of them, where several
/// have. Its completion is in [`Ticket::completion`]. Looks at every ticket on each wake: thousands
/// are better waited for as tagged ones.
///
/// # Errors
/// `Stalled` for no tickets; otherwise as [`Ticket::wait`].
pub fn wait_any(tickets: &mut [Ticket]) -> Result<usize> {
    match any_until(tickets, None)? {
        Some(index) => Ok(index),
        // Without a bound only an end, or an error, ends a wait.
        None => Err(super::wire::closed(None)),
    }
}

/// As [`wait_any`], for at most `timeout`; none when that passed.
///
/// # Errors
/// As [`wait_any`].
pub fn wait_any_for(tickets: &mut [Ticket], timeout: Duration) -> Result<Option<usize>> {
    any_until(tickets, Some(from_now(timeout)))
}

/// Blocks until all tickets have ended; their completions, in their order.
///
/// # Errors
/// As [`Ticket::wait`]; the tickets left are cancelled then.
pub fn wait_all(tickets: impl IntoIterator<Item = Ticket>) -> Result<Vec<Completion>> {
    // Whoever waits files the results of all, so the order costs nothing.
    tickets.into_iter().map(Ticket::wait).collect()
}

fn any_until(tickets: &mut [Ticket], until: Option<MonoNs>) -> Result<Option<usize>> {
    let Some(first) = tickets.first() else {
        return Err(Error::new(ErrorCode::Stalled, "wait_any: no tickets, nothing could end"));
    };
    let shared = Arc::clone(first.session().shared());
    loop {
        for (index, ticket) in tickets.iter_mut().enumerate() {
            if ticket.try_wait()?.is_some() {
                return Ok(Some(index));
            }
        }
        let one_session = tickets.iter().all(|t| Arc::ptr_eq(t.session().shared(), &shared));
        let ended = if one_session {
            shared.block(&mut AnyTicket(tickets), until)?.is_some()
        } else {
            park_on_all(tickets, until)?
        };
        if !ended {
            return Ok(None);
        }
    }
}

/// Any of these tickets' ends, not taken yet.
struct AnyTicket<'a>(&'a [Ticket]);

impl AnyTicket<'_> {
    fn slots(&self) -> impl Iterator<Item = SlotId> {
        self.0.iter().filter_map(Ticket::slot)
    }
}

impl Goal for AnyTicket<'_> {
    type Out = ();

    fn ready(&mut self, ledger: &mut Ledger) -> Option<()> {
        (self.landed() || self.slots().any(|id| ledger.has_ended(id))).then_some(())
    }

    fn watch(&self, ledger: &mut Ledger, _: u64, me: &Thread) {
        for id in self.slots() {
            ledger.watch(id, Waiter::Thread(me.clone()));
        }
    }

    fn landed(&self) -> bool {
        self.0.iter().any(Ticket::has_landed)
    }

    fn unwatch(&self, ledger: &mut Ledger, _: u64) {
        for id in self.slots() {
            ledger.unwatch(id);
        }
    }
}

/// Tickets of several sessions: no thread can lead in two, so this one waits as a task does.
fn park_on_all(tickets: &mut [Ticket], until: Option<MonoNs>) -> Result<bool> {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        for ticket in tickets.iter_mut() {
            if Pin::new(ticket).poll(&mut context).is_ready() {
                // An error too is found again by the caller's look.
                unwatch_all(tickets);
                return Ok(true);
            }
        }
        match until.map(|until| until.since(clock::now())) {
            None => thread::park(),
            Some(left) if left.0 > 0 => thread::park_timeout(Duration::from_nanos(left.0)),
            Some(_) => {
                unwatch_all(tickets);
                return Ok(false);
            }
        }
    }
}

fn unwatch_all(tickets: &[Ticket]) {
    for ticket in tickets {
        if let Some(id) = ticket.slot()
            && let Ok(mut at) = ticket.session().shared().open()
        {
            at.unwatch(id);
        }
    }
}
