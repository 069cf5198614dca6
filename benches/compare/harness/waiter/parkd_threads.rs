//! Threads that wait for tickets of the daemon: asleep, or looking for the result.

use std::time::Duration;

use parkd::client::{Completion, Lane, Ticket, Waited};
use parkd::core::time::MonoNs;
use parkd::host::clock;

use super::super::{Doing, Result};
use super::Wait;
use super::place::Place;
use super::watch::{Found, Watch};

/// Looks between two at the clock.
const LOOKS: u32 = 1024;

/// What a completion says of how it was found.
pub fn found(completion: &Completion) -> Result<Found> {
    if !completion.is_done() {
        return Err(format!("a ticket ended as {:?}", completion.status));
    }
    Ok(Found { late: completion.waited == Some(Waited::Late), detected: None })
}

fn submit(lane: &Lane, number: u64) -> Result<Ticket> {
    lane.ticket(number).point(u64::from(lane.index()) + 1).submit().doing("submit")
}

/// `Ticket::wait`.
pub struct Sleeping(Lane);

impl Sleeping {
    /// For a waiter of a place.
    pub fn new(place: &Place, waiter: u32) -> Result<Sleeping> {
        Ok(Sleeping(place.lane(waiter)?.clone()))
    }
}

impl Wait for Sleeping {
    fn wait(&mut self, _: &Watch, number: u64, until: MonoNs) -> Result<Found> {
        let mut ticket = submit(&self.0, number)?;
        let left = Duration::from_nanos(until.since(clock::now()).0);
        let completion = ticket.wait_for(left).doing("wait")?;
        completion.map_or(Ok(Found::default()), |completion| found(&completion))
    }
}

/// `Ticket::try_wait`, without a pause.
pub struct Looking(Lane);

impl Looking {
    /// For a waiter of a place.
    pub fn new(place: &Place, waiter: u32) -> Result<Looking> {
        Ok(Looking(place.lane(waiter)?.clone()))
    }
}

impl Wait for Looking {
    fn wait(&mut self, _: &Watch, number: u64, until: MonoNs) -> Result<Found> {
        let mut ticket = submit(&self.0, number)?;
        loop {
            for _ in 0..LOOKS {
                if let Some(completion) = ticket.try_wait().doing("try_wait")? {
                    return found(&completion);
                }
                std::hint::spin_loop();
            }
            if clock::now() >= until {
                return Ok(Found::default());
            }
        }
    }
}
