//! How much later than asked for FILL wakes: the median of what it sees.
//!
//! A timer ends late by what the CPU needs to leave its idle state, and that differs by a factor of
//! ten between a CPU that has just worked and one that has not. The median is followed by one step
//! up or down a wake: half of all wakes lie on each side of where that comes to rest.

use crate::core::time::{DurNs, MonoNs};

/// One step, in nanoseconds.
const STEP_NS: u64 = 500;

/// The most that is made up for, in nanoseconds.
const MAX_NS: u64 = 100_000;

/// The median overshoot so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overshoot {
    median_ns: u64,
}

impl Overshoot {
    /// FILL slept to `until` at most and woke at `now`. Answers the median.
    pub fn woke(&mut self, until: MonoNs, now: MonoNs) -> DurNs {
        // Woken by an event before its time: that tells nothing.
        if now >= until {
            let up = now.since(until).0 > self.median_ns;
            let next =
                if up { self.median_ns + STEP_NS } else { self.median_ns.saturating_sub(STEP_NS) };
            self.median_ns = next.min(MAX_NS);
        }
        DurNs(self.median_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_to_rest_at_the_median_and_follows_it() {
        let mut overshoot = Overshoot::default();
        let mut settle = |around: u64| {
            let mut last = DurNs::ZERO;
            for n in 0..2000u64 {
                let late = around + n * 7919 % 21 * 1000 - 10_000;
                last = overshoot.woke(MonoNs(1_000_000), MonoNs(1_000_000 + late));
            }
            last.0
        };
        assert!((35_000..=49_000).contains(&settle(42_000)));
        assert!((5_000..=19_000).contains(&settle(12_000)));
        let before = overshoot.woke(MonoNs(10), MonoNs(9));
        assert_eq!(overshoot.woke(MonoNs::MAX, MonoNs(9)), before, "woken by an event");
    }
}
