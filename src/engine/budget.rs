//! How much of FILL's time a session may spend on hot looking: a token bucket of nanoseconds.
//!
//! All sessions whose lanes have tickets share `spin_budget_percent` of one core evenly: each
//! bucket fills at its share and is charged for the hot time that its lanes take part in, so that
//! the sum of what is spent stays within the percentage. What a session does not use in
//! [`CAPACITY_NS`] is lost, not saved up.

use crate::core::time::{DurNs, MonoNs};

/// Wall time whose share a bucket holds at most, in nanoseconds.
pub const CAPACITY_NS: u64 = 20_000_000;

/// What a bucket must hold for its session to begin looking hot, in nanoseconds: less would buy a
/// few looks at the price of going from hot to asleep and back.
pub const QUANTUM_NS: i64 = 20_000;

/// A session's bucket.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    tokens_ns: i64,
    filled: MonoNs,
}

impl Budget {
    /// A full bucket.
    pub fn new(percent: u32) -> Budget {
        Budget { tokens_ns: share(CAPACITY_NS, percent, 1), filled: MonoNs(0) }
    }

    /// Fills the bucket up to `now` and tells whether there is enough in it: a quantum to begin,
    /// anything to go on. `sharers` is the number of sessions that share the percentage.
    pub fn may_spend(&mut self, now: MonoNs, percent: u32, sharers: u32, go_on: bool) -> bool {
        let elapsed = now.since(self.filled).0.min(CAPACITY_NS);
        self.filled = now;
        let full = share(CAPACITY_NS, percent, 1);
        self.tokens_ns = (self.tokens_ns + share(elapsed, percent, sharers)).min(full);
        self.tokens_ns >= if go_on { 1 } else { QUANTUM_NS }
    }

    /// Takes what was spent.
    pub fn charge(&mut self, spent: DurNs) {
        self.tokens_ns -= spent.0.min(CAPACITY_NS) as i64;
    }

    /// Whether the bucket was empty after the last charge.
    pub fn is_empty(&self) -> bool {
        self.tokens_ns <= 0
    }
}

fn share(ns: u64, percent: u32, sharers: u32) -> i64 {
    (ns * u64::from(percent) / 100 / u64::from(sharers.max(1))) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharers_together_spend_no_more_than_the_percentage() {
        let mut buckets = [Budget::new(30); 3];
        let mut spent = 0;
        let step = DurNs(10_000);
        let end = 2_000_000_000;
        for now in (0..end).step_by(step.0 as usize) {
            for bucket in &mut buckets {
                if bucket.may_spend(MonoNs(now), 30, 3, true) {
                    bucket.charge(DurNs(step.0 / 3));
                    spent += step.0 / 3;
                }
            }
        }
        let percent = spent * 100 / end;
        assert!((28..=31).contains(&percent), "{percent}");
    }

    #[test]
    fn nothing_is_spent_at_zero_percent() {
        let mut bucket = Budget::new(0);
        assert!(!bucket.may_spend(MonoNs(1_000_000_000), 0, 1, true));
    }
}
