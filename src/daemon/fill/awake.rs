//! Keeping CPUs awake around foreseen completions (`[park] pm_qos`), and how long before.
//!
//! A CPU that has gone idle takes tens of microseconds to come back, and costs its waker seven to
//! ten. A request made *ahead* of the completion has every CPU up in time, so that the wake itself
//! is short. It is taken back once the wakes of the turn in which the completion was told have
//! left. The same time ahead is that at which `wake=early` wakes a client.

use std::sync::{Arc, OnceLock};

use super::lead::Lead;
use crate::core::time::{DurNs, MonoNs};
use crate::daemon::config::PmQos as When;
use crate::engine::Ahead;
use crate::host::pm_qos::PmQos;
use crate::host::wake_lead::{Requests, WakeLead};

/// What was measured of this machine's wakes, once it was.
pub type Measured = Arc<OnceLock<WakeLead>>;

/// The request, and when it is made.
pub struct Awake {
    request: Option<PmQos>,
    when: When,
    held: bool,
    measured: Measured,
    lead: Lead,
}

impl Awake {
    /// Makes requests `when` the configuration says, where there is a file to make them with.
    pub fn new(request: Option<PmQos>, when: When, measured: Measured, now: MonoNs) -> Awake {
        let mut awake = Awake { request, when, held: false, measured, lead: Lead::default() };
        if when == When::Always {
            awake.request(true, now);
        }
        awake
    }

    /// What is done ahead of a foreseen completion.
    pub fn ahead(&mut self) -> Ahead {
        if let Some(measured) = self.measured.get() {
            self.lead.measured(measured);
            if measured.requests == Requests::Useless && !self.held {
                self.request = None;
            }
        }
        let keeps_awake = self.when == When::Hot && self.request.is_some();
        Ahead { by: self.lead.ahead(), keeps_awake }
    }

    /// Whether CPUs are kept awake for a completion.
    pub fn holds(&self) -> bool {
        self.when == When::Hot && self.held
    }

    /// A wake inside the time for which CPUs were kept awake has cost so much.
    pub fn woke(&mut self, cost: DurNs) {
        self.lead.woke(cost);
    }

    /// A completion is imminent, or is not any more.
    pub fn hold(&mut self, imminent: bool, now: MonoNs) {
        if self.when == When::Hot {
            self.request(imminent, now);
        }
    }

    fn request(&mut self, held: bool, now: MonoNs) {
        self.held = held && self.request.is_some();
        if let Some(request) = &mut self.request
            && request.hold(held, now).is_err()
        {
            // It was open and is not ours any more: nothing that follows would go better.
            self.request = None;
        }
    }

    /// Nanoseconds for which CPUs were kept awake, and writes made for it.
    pub fn counters(&self, now: MonoNs) -> (u64, u64) {
        self.request.as_ref().map_or((0, 0), |request| (request.held_ns(now), request.writes()))
    }
}
