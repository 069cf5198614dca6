//! Lanes of others, with another daemon: it knows nothing of them, so they are redeemed again.
//!
//! The owner has to find that daemon too, and to share the lane there, under the same capability,
//! before it can be redeemed. Until then a lane is *missed*: its tickets wait in their slots, and
//! go out once the daemon has an index for it. What is missed for too long ends as Refused.

use std::time::Duration;

use super::capability::Capability;
use super::ledger::Ledger;
use super::remembered::is_redeemed;
use super::renewal::{Link, Owed, without_daemon};
use super::shared::Shared;
use super::slots::SlotId;
use super::wire::Fault;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;
use crate::proto::entry::{Status, SubmitEntry, TicketKind};
use crate::proto::message::{Opcode, Redeem, Redeemed, encode};

/// The first and the longest pause between two attempts. Wrong capabilities have a rate, of which
/// every session of a user takes its part.
const PAUSES: (DurNs, DurNs) = (DurNs(20_000_000), DurNs(500_000_000));

/// Attempts to redeem what is missed.
pub(super) struct Attempts {
    until: MonoNs,
    pause: DurNs,
}

/// The lane that a ticket waits for.
pub(super) fn lane_of(entry: &SubmitEntry) -> Option<u32> {
    (entry.kind == TicketKind::Word as u8).then_some(entry.source)
}

/// The refusal of what is on a lane that is no more.
fn gone() -> Error {
    let text = "the redeemed lane went with a daemon that is gone";
    Error::new(ErrorCode::NoSuchCapability, text)
}

impl Ledger {
    /// Whether a ticket has to wait for its lane to be redeemed again.
    ///
    /// # Errors
    /// `NoSuchCapability` where it never will be.
    pub(super) fn waits_for_its_lane(&self, entry: &SubmitEntry) -> Result<bool> {
        match lane_of(entry).filter(|lane| is_redeemed(*lane)) {
            None => Ok(false),
            Some(lane) => {
                let kept = self.remembered.redeemed.get(&lane).ok_or_else(gone)?;
                Ok(kept.wire.is_none())
            }
        }
    }

    /// Another daemon is there: all redeemed lanes are missed.
    pub(super) fn miss_redeemed(&mut self) {
        self.remembered.redeemed.values_mut().for_each(|kept| kept.wire = None);
        let waits = |entry: &SubmitEntry| self.waits_for_its_lane(entry) == Ok(true);
        let tickets = self.slots.to_come();
        let cancelled = tickets.filter(|ticket| ticket.cancelled && waits(&ticket.entry));
        let cancelled: Vec<_> = cancelled.map(|ticket| ticket.id).collect();
        cancelled.into_iter().for_each(|id| self.end_at_home(id, Status::Cancelled, 0));
    }

    /// Ends a ticket that was cancelled, where no daemon has it; false where one may have.
    pub(super) fn cancel_at_home(&mut self, id: SlotId) -> bool {
        let entry = self.slots.entry(id);
        let waits = entry.is_some_and(|entry| self.waits_for_its_lane(entry) == Ok(true));
        if waits {
            self.end_at_home(id, Status::Cancelled, 0);
        }
        waits
    }

    /// The daemon has an index for a lane that was missed: its tickets go out.
    fn found(&mut self, lane: u32, wire: u32) {
        if let Some(kept) = self.remembered.redeemed.get_mut(&lane) {
            kept.wire = Some(wire);
            for id in self.tickets_on(lane) {
                self.owe(Owed::Ticket(id));
            }
            if self.link == Link::Up {
                // What the ring has no room for is handed over by the thread that asked.
                self.link = Link::CatchingUp;
            }
            self.pay_owed();
        }
    }

    /// A redeemed lane is no more. Its tickets that no daemon has end like this.
    pub(super) fn forget_redeemed(&mut self, lane: u32, status: Status, code: u32) {
        let Some(kept) = self.remembered.redeemed.remove(&lane) else { return };
        if kept.wire.is_none() {
            for id in self.tickets_on(lane) {
                self.end_at_home(id, status, code);
            }
        }
    }

    fn tickets_on(&self, lane: u32) -> Vec<SlotId> {
        let tickets = self.slots.to_come();
        tickets.filter(|ticket| lane_of(&ticket.entry) == Some(lane)).map(|t| t.id).collect()
    }

    fn end_at_home(&mut self, id: SlotId, status: Status, code: u32) {
        self.file(id.user_data(), without_daemon(status, code));
    }

    /// The daemon's index of a lane, to ask something of it.
    ///
    /// # Errors
    /// `NoSuchCapability` for one that is missed, or is no more.
    pub(super) fn index_at_daemon(&self, lane: u32) -> Result<u32> {
        self.remembered.wire_lane(lane).ok_or_else(gone)
    }
}

impl Shared {
    /// Asks the daemon for the lanes that are missed; answers how long to wait before the next
    /// attempt. Those that it has not been asked for in vain for too long are given up.
    pub(super) fn redeem_again(&self, attempts: &mut Option<Attempts>) -> Option<Duration> {
        let patience = self.way().patience();
        let fresh = || Attempts { until: clock::now() + patience, pause: PAUSES.0 };
        let state = attempts.get_or_insert_with(fresh);
        loop {
            let missed = self.reopen().remembered.to_redeem();
            let Some((lane, capability)) = missed else {
                *attempts = None;
                return None;
            };
            let Err(error) = self.redeem_one(lane, capability) else { continue };
            {
                let at = self.reopen();
                if at.live().is_err() || at.link != Link::Up {
                    // Its tickets end with the session, or the next daemon is asked.
                    return None;
                }
            }
            let now = clock::now();
            let passing = [ErrorCode::NoSuchCapability, ErrorCode::RateExceeded];
            if !passing.contains(&error.code) || now >= state.until {
                let (refused, code) = (Status::Refused, error.code.number().into());
                self.reopen().forget_redeemed(lane, refused, code);
                continue;
            }
            let pause = DurNs(state.pause.0 + now.0 % (state.pause.0 / 2 + 1));
            state.pause = DurNs(state.pause.0 * 2).min(PAUSES.1);
            return Some(Duration::from_nanos(pause.0));
        }
    }

    /// One attempt. It never waits for another daemon: this thread is the one that finds it.
    fn redeem_one(&self, lane: u32, capability: Capability) -> Result<()> {
        let mut turn = self.wire().turn();
        let missed = {
            let at = self.reopen();
            let kept = at.remembered.redeemed.get(&lane);
            at.link == Link::Up && kept.is_some_and(|kept| kept.wire.is_none())
        };
        if !missed {
            return Err(gone());
        }
        let body = Redeem { capability: capability.to_bytes() };
        let request = encode(Opcode::Redeem as u16, 0, &body, &[]);
        let answer = match turn.request(Opcode::Redeem, request, &[], None) {
            Err(Fault::Gone(connection)) => {
                drop(turn);
                self.lost(&connection);
                return Err(gone());
            }
            answer => answer.map_err(Fault::into_error)?.whole::<Redeemed>()?,
        };
        self.reopen().found(lane, answer.lane);
        Ok(())
    }
}

#[cfg(test)]
#[path = "redeeming_tests.rs"]
mod tests;
