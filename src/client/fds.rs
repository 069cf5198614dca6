//! The fds of tickets on their way to the daemon, and to the next one.
//!
//! A daemon's copy of an fd goes with its process. So the session keeps one of every fd ticket that
//! is outstanding, with the life of the daemon that has it. What always holds: a SUBMIT is sent
//! again to lives that have not had it, and to no other, since a second copy is not answered; a
//! life has had what was answered after its RESUMED.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::ledger::Ledger;
use super::remembered::KeptFd;
use super::renewal::Link;
use super::shared::Shared;
use super::slots::SlotId;
use super::wire::{Fault, Turn};
use crate::core::error::Result;
use crate::core::time::DurNs;
use crate::host::clock;
use crate::proto::entry::SubmitEntry;
use crate::proto::limits::SUBMIT_FDS_MAX;

/// How long to read on for the RESUMED of a life that serves the rings, before others have a turn:
/// it may have ended before it said so, and the next one be long in coming.
const RESUMED_TIMEOUT: DurNs = DurNs(500_000_000);

/// A ticket on an fd, and the fd.
pub(super) type FdTicket = (SlotId, Arc<OwnedFd>);

type Done<T> = core::result::Result<T, Fault>;

impl Shared {
    /// Sends the ticket of a slot and its fd; once it is there, whichever daemon had to be told.
    ///
    /// # Errors
    /// The daemon's refusal, the session's end.
    pub(super) fn submit_fd(&self, ticket: FdTicket) -> Result<()> {
        loop {
            let mut turn = self.turn()?;
            let done = self.submit_batch(&mut turn, std::slice::from_ref(&ticket));
            drop(turn);
            if self.noticed(done)?.is_some() {
                return Ok(());
            }
        }
    }

    /// Submits what no daemon has: true when that is all done. A ticket that is refused ends so.
    pub(super) fn submit_fds(&self) -> bool {
        loop {
            let due = self.reopen().remembered.fds_of_nobody(SUBMIT_FDS_MAX as usize);
            if due.is_empty() {
                return true;
            }
            let done = self.submit_batch(&mut self.wire().turn(), &due);
            // All of them were taken, or none: a refusal says nothing of the others.
            let each = if matches!(done, Err(Fault::Error(_))) { due.as_slice() } else { &[] };
            let gone = |done| match done {
                Err(Fault::Gone(gone)) => Some(gone),
                _ => None,
            };
            let mut lost = gone(done);
            for ticket in each {
                let done = self.submit_batch(&mut self.wire().turn(), std::slice::from_ref(ticket));
                match done {
                    Err(Fault::Error(error)) => self.reopen().refuse(ticket.0, error.code),
                    done => lost = lost.or(gone(done)),
                }
            }
            if let Some(gone) = lost {
                self.lost(&gone);
                return false;
            }
        }
    }

    /// Sends those of the tickets that have no result in one SUBMIT.
    fn submit_batch(&self, turn: &mut Turn, tickets: &[FdTicket]) -> Done<()> {
        let (tickets, entries) = self.reopen().to_come(tickets);
        if tickets.is_empty() {
            return Ok(());
        }
        let cookie = turn.submit(&entries, &borrowed(&tickets))?;
        self.reopen().keep_fds(tickets, cookie, turn.life());
        Ok(())
    }

    /// Sends the tickets on fds again that `life` of the daemon goes on with, once it has said so.
    pub(super) fn resume_fds(&self, life: u32) -> Done<()> {
        let mut turn = self.wire().turn();
        if !turn.catch_up(life, clock::now() + RESUMED_TIMEOUT)? {
            return Ok(());
        }
        loop {
            // Another life may have come in the middle, without what the one before it was given.
            let due = self.reopen().remembered.fds_before(turn.life());
            if due.is_empty() {
                break;
            }
            for (cookie, tickets) in due {
                for batch in tickets.chunks(SUBMIT_FDS_MAX as usize) {
                    self.resume_batch(&mut turn, cookie, batch)?;
                }
            }
        }
        self.reopen().resumed(turn.life());
        Ok(())
    }

    fn resume_batch(&self, turn: &mut Turn, cookie: u64, tickets: &[FdTicket]) -> Done<()> {
        let (tickets, entries) = self.reopen().to_come(tickets);
        if tickets.is_empty() {
            return Ok(());
        }
        match turn.submit_again(cookie, &entries, &borrowed(&tickets)) {
            Err(Fault::Gone(gone)) => return Err(Fault::Gone(gone)),
            // Without its fd a ticket would be waited for in vain.
            Err(Fault::Error(_)) => {
                tickets.iter().for_each(|(id, _)| self.reopen().cancel(*id));
            }
            Ok(()) => {}
        }
        self.reopen().keep_fds(tickets, cookie, turn.life());
        Ok(())
    }
}

fn borrowed(tickets: &[FdTicket]) -> Vec<BorrowedFd<'_>> {
    tickets.iter().map(|(_, fd)| fd.as_fd()).collect()
}

impl Ledger {
    /// Those of the tickets that have no result, and their entries as one SUBMIT has them.
    fn to_come(&self, tickets: &[FdTicket]) -> (Vec<FdTicket>, Vec<SubmitEntry>) {
        let mut some = (Vec::new(), Vec::new());
        for (id, fd) in tickets {
            if let Some(entry) = self.slots.entry(*id) {
                let source = some.0.len() as u32;
                some.0.push((*id, Arc::clone(fd)));
                some.1.push(SubmitEntry { source, ..self.outgoing(*id, entry) });
            }
        }
        some
    }

    /// Keeps the fds of accepted tickets, but of those whose result is here.
    fn keep_fds(&mut self, tickets: Vec<FdTicket>, cookie: u64, life: u32) {
        self.resuming |= life < self.life;
        for (id, fd) in tickets {
            if self.slots.outstanding(id) {
                self.remembered.fds.insert(id, KeptFd { fd, cookie, life: Some(life) });
            } else {
                self.calls.close.push(fd);
            }
        }
    }

    /// The fds of all tickets are with this life of the daemon.
    fn resumed(&mut self, life: u32) {
        self.resuming = life < self.life;
    }

    /// The new daemon has the tickets on fds.
    pub(super) fn fds_are_submitted(&mut self) {
        if self.link == Link::Submitting {
            self.link = Link::CatchingUp;
        }
    }
}

#[cfg(test)]
#[path = "fds_tests.rs"]
mod tests;
