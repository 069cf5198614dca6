//! How many tickets each user may still hand in, told in another way than the engine does: a store
//! of time that fills as time passes, and of which each ticket takes its part.

use std::cell::RefCell;
use std::collections::HashMap;

use parkd::core::error::ErrorCode;
use parkd::proto::limits::SUBMITS_PER_SECOND_MAX;

use super::rng::Rng;
use super::tally::{Count, Tally};

const SECOND_NS: u64 = 1_000_000_000;

/// A user of its own.
const STRANGER: u32 = 1002;

pub struct Rates {
    /// Tickets a second, and at once.
    most: u32,
    /// By user: nanoseconds in store, and since when. Who is not here has a full one.
    stores: RefCell<HashMap<u32, (u64, u64)>>,
}

impl Rates {
    pub fn new(most: u32) -> Rates {
        Rates { most, stores: RefCell::default() }
    }

    /// A daemon begins: it knows of nobody.
    pub fn begin(&self) {
        self.stores.borrow_mut().clear();
    }

    /// The user of a hostile client: where a rate is ever met, one of its own.
    pub fn stranger(&self, rng: &Rng) -> u32 {
        if self.most < SUBMITS_PER_SECOND_MAX { STRANGER } else { 1000 + rng.below(2) as u32 }
    }

    fn each(&self) -> u64 {
        SECOND_NS / u64::from(self.most)
    }

    fn store(&self, uid: u32, now: u64) -> u64 {
        let full = self.each() * u64::from(self.most);
        let stores = self.stores.borrow();
        stores.get(&uid).map_or(full, |(left, since)| full.min(left + (now - since)))
    }

    /// Nanoseconds until a user may hand in so many tickets.
    pub fn wait(&self, uid: u32, tickets: u32, now: u64) -> u64 {
        (self.each() * u64::from(tickets)).saturating_sub(self.store(uid, now))
    }

    /// Why a user may not hand in so many tickets, if it may not.
    pub fn refusal(&self, tally: &Tally, uid: u32, tickets: u32, now: u64) -> Option<ErrorCode> {
        let refused = self.wait(uid, tickets, now) > 0;
        tally.add_many(Count::RateHit, u64::from(refused));
        refused.then_some(ErrorCode::RateExceeded)
    }

    /// A user has handed in so many tickets.
    pub fn spend(&self, uid: u32, tickets: u32, now: u64) {
        let left = self.store(uid, now) - self.each() * u64::from(tickets);
        self.stores.borrow_mut().insert(uid, (left, now));
    }
}
