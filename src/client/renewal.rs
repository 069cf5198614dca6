//! How a ledger stands with its daemon, and what it does when another one takes its place.
//!
//! A daemon that is started anew with its fd store goes on with the same rings: only its *life* is
//! another, and it has to be given the fds of fd tickets again. Without one the connection ends.
//! The ledger is *down* then: tickets go into their slots. A new daemon brings new rings
//! ([`Ledger::renew`]): the results in the old ones are taken first, and every ticket without one
//! goes out again under its own name. So each ticket has one result: the old rings are never looked
//! at again, and no ticket is in the new ones that has its result.

use super::completion::Completion;
use super::ledger::{Ledger, Telling, fail_entry};
use super::redeeming::lane_of;
use super::slots::SlotId;
use super::wire::{self, Gone};
use crate::core::error::{Blame, Error, ErrorCode, Result};
use crate::core::time::DurNs;
use crate::host::clock;
use crate::proto::entry::{Op, Status, SubmitEntry};
use crate::proto::layout::{SessionState, armed};
use crate::shm::control::ControlReader;
use crate::shm::region::{ReadWrite, Region};
use crate::shm::result_ring::ResultConsumer;
use crate::shm::submit_ring::SubmitProducer;

/// Looks that find nothing before the clock is asked whether the socket is due for one.
const LOOKS: u32 = 16;

/// Time between looks at the socket for the sake of those that never sleep.
const LOOK_AT_SOCKET: DurNs = DurNs(100_000_000);

/// How a session stands with its daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// It is served.
    Up,
    /// It has no daemon.
    Down,
    /// It has another daemon, which gets the fd tickets first.
    Submitting,
    /// What is owed goes into the new ring.
    CatchingUp,
}

/// What is to go into the submission ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owed {
    /// A ticket.
    Ticket(SlotId),
    /// A CANCEL of one.
    Cancel(SlotId),
    /// A FAIL: lane and code.
    Fail(u32, u32),
}

/// What a thread of the library has to do for the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Find another daemon.
    Renew,
    /// Get what is owed into the ring.
    CatchUp,
    /// Give fds of tickets to this life of the daemon.
    Resume(u32),
    /// Ask another daemon for lanes of others.
    Redeem,
}

impl Ledger {
    /// What there is to do for the link.
    pub(super) fn duty(&self) -> Option<Duty> {
        match self.link {
            _ if self.ended.is_some() => None,
            Link::Down => Some(Duty::Renew),
            Link::Submitting | Link::CatchingUp => Some(Duty::CatchUp),
            Link::Up if self.resuming => Some(Duty::Resume(self.life)),
            Link::Up => self.remembered.to_redeem().map(|_| Duty::Redeem),
        }
    }

    /// Notes what the daemon says of itself in the rings: that it closed the session, or that it
    /// is another life of it.
    pub(super) fn look_at_daemon(&mut self) {
        if self.ended.is_some() {
            return;
        }
        if self.control.state() == Some(SessionState::Closed) {
            // The daemon publishes the last results, then closes: look once more.
            while self.take_results() > 0 {}
            return self.lose(&Gone::of(self.epoch));
        }
        let life = self.control.generation();
        if life != self.life {
            self.life = life;
            self.resuming |= !self.remembered.fds.is_empty();
            self.calls.listen = true;
        }
        self.looks += 1;
        if self.looks >= LOOKS {
            self.looks = 0;
            let now = clock::now();
            if now.since(self.looked_at_socket) >= LOOK_AT_SOCKET {
                self.looked_at_socket = now;
                self.calls.look_at_socket = true;
            }
        }
    }

    /// The connection is gone: the session waits for another daemon, or is over where there is to
    /// be none, and where the daemon closed it for what the client did.
    pub(super) fn lose(&mut self, gone: &Gone) {
        if self.ended.is_some() || self.link == Link::Down || gone.epoch() != self.epoch {
            return;
        }
        let closed = self.control.state() == Some(SessionState::Closed);
        let code = if closed { self.control.close_code() } else { None };
        let said = match gone.farewell() {
            Some(refusal) => Some(refusal.code),
            None => closed.then_some(code),
        };
        // A code that this build does not know may say anything: it is taken for a reason to go.
        let deliberate = said.is_some_and(|code| code.is_none_or(|code| !is_passing(code)));
        if let Some(watch) = &mut self.socket_watch {
            watch.forget();
        }
        if self.renewable && !deliberate {
            self.link = Link::Down;
            return;
        }
        let reason = code.map(|code| code.to_string());
        match (gone.farewell(), reason) {
            (None, Some(reason)) => self.end(wire::closed(Some(&reason))),
            _ => self.end(gone.error()),
        }
    }

    /// Another daemon serves the session, with these rings of the same sizes, and knows its plans
    /// by these ids.
    ///
    /// # Errors
    /// As the rings' own constructors.
    pub(super) fn renew(&mut self, rings: Region<ReadWrite>, plans: &[u16]) -> Result<()> {
        let submit = SubmitProducer::new(rings.clone(), self.sizes)?;
        let results = ResultConsumer::new(rings.clone(), self.sizes)?;
        let control = ControlReader::new(rings.clone())?;
        while self.take_results() > 0 {}
        self.calls.rouse = Some(std::mem::replace(&mut self.rings, rings));
        (self.submit, self.results) = (submit, results);
        self.life = control.generation();
        self.control = control;
        self.resuming = false;
        for (plan, wire) in self.remembered.plans.iter_mut().zip(plans) {
            plan.wire = *wire;
        }
        self.remembered.fds.values_mut().for_each(|kept| kept.life = None);
        self.miss_redeemed();
        self.owe_everything();
        self.link = Link::Submitting;
        if self.armed != armed::NOT {
            self.results.arm(self.armed);
        }
        Ok(())
    }

    /// Owes the daemon all tickets without a result (those on fds go over the socket, those on
    /// lanes of others once it knows these), then the failures posted on lanes, then the CANCELs.
    fn owe_everything(&mut self) {
        self.owed.clear();
        let to_come: Vec<_> = self.slots.to_come().collect();
        let (nobodys, somebodys): (Vec<_>, Vec<_>) =
            to_come.into_iter().partition(|ticket| ticket.abandoned);
        for ticket in nobodys {
            self.file(ticket.id.user_data(), without_daemon(Status::Cancelled, 0));
        }
        let waits = |entry: &SubmitEntry| self.waits_for_its_lane(entry) == Ok(true);
        let words = somebodys.iter().filter(|t| lane_of(&t.entry).is_some() && !waits(&t.entry));
        let words: Vec<_> = words.map(|ticket| Owed::Ticket(ticket.id)).collect();
        self.owed.extend(words);
        let lanes = self.remembered.lanes.iter();
        let failed = lanes.filter_map(|(lane, kept)| Some(Owed::Fail(*lane, kept.failed?)));
        self.owed.extend(failed);
        let cancelled = somebodys.iter().filter(|ticket| ticket.cancelled);
        self.owed.extend(cancelled.map(|ticket| Owed::Cancel(ticket.id)));
    }

    /// Ends a ticket that the daemon does not take, as refused.
    pub(super) fn refuse(&mut self, id: SlotId, code: ErrorCode) {
        if self.slots.outstanding(id) {
            let completion = without_daemon(Status::Refused, code.number().into());
            self.file(id.user_data(), completion);
        }
    }

    /// Owes the daemon something; while there is none, it is told everything in the end.
    pub(super) fn owe(&mut self, owed: Owed) {
        if self.link != Link::Down {
            self.owed.push_back(owed);
        }
    }

    /// Gets into the ring what is owed, as far as it has room.
    pub(super) fn pay_owed(&mut self) {
        if !matches!(self.link, Link::Up | Link::CatchingUp) || self.ended.is_some() {
            return;
        }
        let mut paid = false;
        while let Some(&owed) = self.owed.front() {
            if let Some(entry) = self.entry_of(owed) {
                if !matches!(self.push(entry), Ok(true)) {
                    break;
                }
                paid = true;
            }
            self.owed.pop_front();
        }
        if paid {
            self.publish(Telling::Wake);
        }
        if self.owed.is_empty() {
            self.link = Link::Up;
        }
    }

    /// What goes into the ring for it: none for tickets that have ended.
    fn entry_of(&self, owed: Owed) -> Option<SubmitEntry> {
        match owed {
            Owed::Ticket(id) => self.slots.entry(id).map(|entry| self.outgoing(id, entry)),
            Owed::Cancel(id) => self.slots.entry(id).map(|_| {
                let (op, user_data) = (Op::Cancel as u8, id.user_data());
                SubmitEntry { op, user_data, ..SubmitEntry::default() }
            }),
            Owed::Fail(lane, code) => Some(fail_entry(lane, code)),
        }
    }
}

/// Whether a daemon that closed a session with this code, or refused a connection with it, or one
/// that comes after it, may take the session later.
fn is_passing(code: ErrorCode) -> bool {
    code.blame() == Blame::Daemon || code == ErrorCode::Draining
}

/// How a ticket ended of which the daemon had nothing to say.
pub(super) fn without_daemon(status: Status, code: u32) -> Completion {
    let now = clock::now();
    let landed = Completion::landed(0, now);
    Completion { status, waited: None, code, ..landed }
}

/// The error of a session that found no other daemon in time.
pub(super) fn not_back(patience: DurNs, last: &Error) -> Error {
    let text = format!("it did not come back within {} ms: {last}", patience.0 / 1_000_000);
    wire::closed(Some(&text))
}

#[cfg(test)]
#[path = "renewal_tests.rs"]
mod tests;
