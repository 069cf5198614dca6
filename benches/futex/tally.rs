//! How late the wakes of one waiter were, and whose doing that was.
//!
//! A wake's *latency* runs from the raise to the moment when the waiter runs behind its wait. Of a
//! late one the scheduler explains a part: it knows how long the waker, between the raise and the
//! end of its wake call, and the waiter were ready and did not run. What is left is *unexplained*:
//! a wake that came late, or a machine that stood still (a hypervisor's pause, which meets both
//! waiters alike).

use hdrhistogram::Histogram;
use parkd::core::time::DurNs;
use serde::{Deserialize, Serialize};

const MS: u64 = 1_000_000;
const HIGHEST_NS: u64 = 100_000_000_000;

/// Counts of late wakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Late {
    pub over_1ms: u64,
    pub over_10ms: u64,
}

impl Late {
    fn add(&mut self, ns: u64) {
        self.over_1ms += u64::from(ns > MS);
        self.over_10ms += u64::from(ns > 10 * MS);
    }
}

/// The wakes of one waiter.
#[derive(Debug, Serialize, Deserialize)]
pub struct Tally {
    /// (latency, how often).
    latencies: Vec<(u64, u64)>,
    pub late: Late,
    pub unexplained: Late,
    #[serde(skip, default = "histogram")]
    recorded: Histogram<u64>,
}

fn histogram() -> Histogram<u64> {
    // Two digits; the bounds are constants that it takes.
    Histogram::new_with_bounds(1, HIGHEST_NS, 2).expect("the bounds of a histogram")
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            latencies: Vec::new(),
            late: Late::default(),
            unexplained: Late::default(),
            recorded: histogram(),
        }
    }
}

/// What is said of a waiter in the end.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    pub wakes: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    pub late: Late,
    pub unexplained: Late,
}

impl Tally {
    pub fn add(&mut self, latency: DurNs, held: DurNs) {
        self.recorded.saturating_record(latency.0);
        self.late.add(latency.0);
        self.unexplained.add(latency.saturating_sub(held).0);
    }

    /// Made fit to be sent to another process.
    pub fn packed(mut self) -> Tally {
        let recorded = self.recorded.iter_recorded();
        self.latencies = recorded.map(|at| (at.value_iterated_to(), at.count_at_value())).collect();
        self
    }

    /// Takes another waker's wakes in.
    pub fn merge(&mut self, other: &Tally) {
        for &(ns, times) in &other.latencies {
            self.recorded.saturating_record_n(ns, times);
        }
        for (own, more) in
            [(&mut self.late, other.late), (&mut self.unexplained, other.unexplained)]
        {
            own.over_1ms += more.over_1ms;
            own.over_10ms += more.over_10ms;
        }
    }

    pub fn figures(&self) -> Figures {
        let us = |ns: u64| ns as f64 / 1000.0;
        Figures {
            wakes: self.recorded.len(),
            p50_us: us(self.recorded.value_at_quantile(0.5)),
            p99_us: us(self.recorded.value_at_quantile(0.99)),
            max_us: us(self.recorded.max()),
            late: self.late,
            unexplained: self.unexplained,
        }
    }
}
