//! DRAIN: no new tickets; those outstanding finish, or are ended when the time is over.
//!
//! Every ticket that was outstanding when DRAIN came is counted once in its answer: *finished*,
//! however it ended or because its client left, or *ended* here, with `ShuttingDown`. FILL goes on
//! afterwards, and refuses what comes.

use super::Fill;
use crate::core::time::MonoNs;
use crate::daemon::command::{Answer, Asked, Reply, Seat};
use crate::host::fill::FillHost;
use crate::proto::entry::Status;

/// Those who asked, and until when the tickets have time.
pub struct Draining {
    until: MonoNs,
    askers: Vec<Asker>,
}

struct Asker {
    seat: Seat,
    asked: Asked,
    /// Tickets that were outstanding when it asked.
    outstanding: u32,
}

impl Default for Draining {
    fn default() -> Draining {
        Draining { until: MonoNs::MAX, askers: Vec::new() }
    }
}

impl Draining {
    /// When tickets are to be ended; `MAX` where nobody waits for it.
    pub fn until(&self) -> MonoNs {
        self.until
    }
}

impl<H: FillHost> Fill<H> {
    /// Takes what was submitted, and nothing from here on. Of several times the earliest holds.
    pub(super) fn begin_drain(&mut self, seat: Seat, asked: Asked, until: MonoNs) {
        self.take_submissions();
        for at in 0..self.seats.taken().len() {
            self.engine.set_draining(self.seats.taken()[at], self.now);
        }
        let outstanding = self.engine.outstanding();
        self.draining.askers.push(Asker { seat, asked, outstanding });
        self.draining.until = self.draining.until.min(until);
    }

    /// Ends what is left when the time is over. Answers the replies to be sent once all results
    /// are published.
    pub(super) fn end_drain(&mut self) -> Vec<Reply> {
        let over = self.now >= self.draining.until || self.engine.outstanding() == 0;
        if self.draining.askers.is_empty() || !over {
            return Vec::new();
        }
        let before = self.shut_down_so_far();
        for at in 0..self.seats.taken().len() {
            self.engine.shut_down(self.seats.taken()[at], self.now);
        }
        let ended = (self.shut_down_so_far() - before) as u32;
        let Draining { askers, .. } = std::mem::take(&mut self.draining);
        let reply = |Asker { seat, asked, outstanding }| {
            let answer = Answer::Drained(outstanding.saturating_sub(ended), ended);
            Reply::Answer(seat, asked, answer, Vec::new())
        };
        askers.into_iter().map(reply).collect()
    }

    fn shut_down_so_far(&self) -> u64 {
        self.engine.stats().results[Status::ShuttingDown as usize]
    }
}
