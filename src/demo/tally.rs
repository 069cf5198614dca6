//! What a client knows by itself of the tickets on one lane: which are in flight, how each ended,
//! and how long after its number's store the client ran.
//!
//! Every number gets one ticket, in order, at most a *depth* of them in flight. What always holds:
//! a ticket counts exactly once as completed, failed or lost, and what counts as *early* or
//! *duplicated* is told from the lane's word, the schedule and the client's own clock, never from
//! what the daemon says.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::core::error::{Error, ErrorCode, Result};
use crate::core::line::Width;
use crate::core::time::MonoNs;
use crate::soft::work::Schedule;

/// The longest latency that a histogram tells apart: one minute, in nanoseconds.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// How the tickets of one or more lanes ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Tickets submitted.
    pub tickets: u64,
    /// Tickets whose one result said Done.
    pub completed: u64,
    /// Tickets whose result said anything else.
    pub failed: u64,
    /// Tickets without a result.
    pub lost: u64,
    /// Results beyond a ticket's first.
    pub duplicated: u64,
    /// Results that said Done before the number was there, or before it could honestly be.
    pub early: u64,
}

impl Counts {
    /// Counts `other` in.
    pub fn add(&mut self, other: &Counts) {
        self.tickets += other.tickets;
        self.completed += other.completed;
        self.failed += other.failed;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.early += other.early;
    }

    /// Whether every ticket got exactly one result, Done, at no wrong time.
    pub fn is_clean(&self) -> bool {
        self.completed == self.tickets && self.duplicated == 0 && self.early == 0
    }
}

/// Wake latencies in nanoseconds, to three digits.
pub type Latencies = Histogram<u64>;

/// A histogram without a value.
///
/// # Errors
/// `SystemFailed` where memory is short.
pub fn latencies() -> Result<Latencies> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
        .map_err(|error| Error::new(ErrorCode::SystemFailed, format!("histogram: {error}")))
}

/// What the client sees as it runs for a result.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// The lane's word.
    pub word: u64,
    /// The clock.
    pub now: MonoNs,
    /// When the device stored the number, if that can still be told.
    pub stored: Option<MonoNs>,
}

#[derive(Debug)]
struct Flight {
    number: u64,
    ideal: MonoNs,
    landed: bool,
}

/// One lane's tickets. See the file's head.
#[derive(Debug)]
pub struct Tally {
    first: u64,
    jobs: u64,
    submitted: u64,
    depth: usize,
    schedule: Schedule,
    flights: VecDeque<Flight>,
    counts: Counts,
}

impl Tally {
    /// The tickets for `jobs` jobs of a stream whose job 0 stores `first`.
    pub fn new(schedule: Schedule, first: u64, jobs: u64, depth: usize) -> Tally {
        let flights = VecDeque::with_capacity(depth);
        let counts = Counts::default();
        Tally { first, jobs, submitted: 0, depth, schedule, flights, counts }
    }

    /// The next number to get a ticket, which counts as submitted; none while as many are in
    /// flight as may be, or all were. `word` is the lane's word, looked at just before.
    pub fn submit(&mut self, word: u64) -> Option<u64> {
        if self.flights.len() >= self.depth || self.submitted == self.jobs {
            return None;
        }
        let ideal = self.schedule.next()?;
        let number = self.first.wrapping_add(self.submitted);
        self.submitted += 1;
        self.counts.tickets += 1;
        let landed = Width::W64.reached(word, number);
        self.flights.push_back(Flight { number, ideal, landed });
        Some(number)
    }

    /// The oldest number in flight.
    pub fn oldest(&self) -> Option<u64> {
        self.flights.front().map(|flight| flight.number)
    }

    /// A result said Done for `number`. Its latency goes into `latencies`, unless the number had
    /// landed when its ticket was submitted.
    pub fn done(&mut self, number: u64, sight: Sight, latencies: &mut Latencies) {
        let Some(flight) = self.take(number) else { return };
        self.counts.completed += 1;
        if !Width::W64.reached(sight.word, number) || sight.now < flight.ideal {
            self.counts.early += 1;
        } else if !flight.landed {
            // A stamp that was overwritten is that of a very late wake: its job's ideal time stands
            // in, at which the device cannot have stored yet, so that the sample is no shorter.
            let stored = sight.stored.unwrap_or(flight.ideal);
            latencies.saturating_record(sight.now.since(stored).0);
        }
    }

    /// A result said something else for `number`.
    pub fn failed(&mut self, number: u64) {
        if self.take(number).is_some() {
            self.counts.failed += 1;
        }
    }

    fn take(&mut self, number: u64) -> Option<Flight> {
        let at = self.flights.iter().position(|flight| flight.number == number);
        let flight = at.and_then(|at| self.flights.remove(at));
        if flight.is_none() {
            self.counts.duplicated += 1;
        }
        flight
    }

    /// Whether every number had its ticket and every ticket its result.
    pub fn is_over(&self) -> bool {
        self.submitted == self.jobs && self.flights.is_empty()
    }

    /// What was counted; tickets still in flight are lost.
    pub fn finish(mut self) -> Counts {
        self.counts.lost += self.flights.len() as u64;
        self.counts
    }
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
