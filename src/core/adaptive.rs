//! The adaptive rule: sleeps until a learned margin before the short ones of the last residuals, so
//! that about one wait in a hundred is found late.
//!
//! The *short* residual is the least but one of those that are kept, so that one odd wait says
//! nothing; the *spread* is how far their middle lies above it. The *margin* is the spread times
//! the *reach*, which is learned: a late wait raises it by a step, and every other lowers it by so
//! much less that both balance at the *target*, the share of waits that may be late. (A quantile by
//! stochastic approximation: Robbins and Monro, 1951.) What always holds:
//! - an immediate wait teaches nothing: nothing would have been slept;
//! - after a late wait the next looks earlier by a quarter: it may be shorter by as much as the
//!   late one was late. After two in a row what was known is forgotten: work has become shorter;
//! - four residuals in a row that lie above all before are a shift: those before are forgotten;
//! - until [`SETTLED`] residuals are known the margin is at least the plan's `margin_us`, and a
//!   sixteenth of the short residual; then it is at most an eighth of it, or the spread where that
//!   is more. A longer one would not pay: whoever watches that long is out of budget when the end
//!   comes.

use super::estimator::Sample;
use super::plan::Predict;
use super::time::DurNs;

/// Residuals from which a spread is known.
pub const SETTLED: usize = 4;

/// Residuals above all before that are a shift.
const SHIFTED: usize = 4;

/// Residuals that are kept at most; of a plan, twice its window.
const KEPT: usize = 16;

/// Residuals from which one odd one is left out.
const MANY: usize = 8;

/// One in the reach's fixed point.
const ONE: u32 = 1024;

/// The reach to start with, the most it may be, and what a late wait adds.
const REACH: u32 = ONE;
const REACH_MOST: u32 = 24 * ONE;
const STEP: u32 = ONE / 4;

/// The least spread: of a clock's reading and a sleep's end, in nanoseconds.
const SPREAD_LEAST_NS: u64 = 4_000;

/// Predicts from the last residuals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveEstimator {
    /// The oldest first.
    residuals: [u64; KEPT],
    known: usize,
    /// The last wait was late.
    late: bool,
    /// In 1/ONE.
    reach: u32,
    /// What a wait that is not late takes off the reach.
    relax: u32,
}

impl AdaptiveEstimator {
    /// An estimator that knows nothing yet. `late_percent` is the target, 1..=50; others are taken
    /// as the nearest of these.
    pub fn new(late_percent: u32) -> AdaptiveEstimator {
        let late = late_percent.clamp(1, 50);
        AdaptiveEstimator {
            residuals: [0; KEPT],
            known: 0,
            late: false,
            reach: REACH,
            relax: STEP * late / (100 - late),
        }
    }

    /// How long the next wait sleeps: none when cold, or below `min_sleep_us`, and never above
    /// `max_sleep_us`.
    pub fn sleep(&self, predict: &Predict) -> Option<DurNs> {
        let (short, middle) = self.short_and_middle()?;
        let least = DurNs::from_us(predict.min_sleep_us.into()).max(DurNs(1));
        let most = DurNs::from_us(predict.max_sleep_us.into());
        let caution = if self.late { short / 4 } else { 0 };
        let margin = self.margin(predict, short, middle).max(caution);
        let sleep = DurNs(short.saturating_sub(margin));
        (sleep >= least).then(|| sleep.min(most))
    }

    /// Whether the end is foreseen so near that no sleep pays: then it is watched for at once.
    pub fn is_near(&self, predict: &Predict) -> bool {
        self.known > 0 && self.sleep(predict).is_none()
    }

    /// Learns from one wait.
    pub fn record(&mut self, predict: &Predict, sample: Sample) {
        match sample {
            Sample::Immediate(_) => {}
            Sample::Late { woke_after } => {
                self.reach = (self.reach + STEP).min(REACH_MOST);
                if core::mem::replace(&mut self.late, true) {
                    (self.known, self.late) = (0, false);
                } else if self.known > 0 {
                    self.keep(predict, woke_after.0);
                }
            }
            Sample::Exact(residual) => self.found(predict, residual.0),
            Sample::Between { from, to } => {
                let between = from.0.midpoint(to.0);
                // Where the end is known no better than it was foreseen, both count.
                let foreseen = self.short_and_middle().map_or(between, |(_, middle)| middle);
                self.found(predict, foreseen.clamp(from.0, to.0).midpoint(between));
            }
        }
    }

    fn found(&mut self, predict: &Predict, residual: u64) {
        self.late = false;
        self.reach = self.reach.saturating_sub(self.relax);
        self.keep(predict, residual);
        let (before, last) = self.known().split_at(self.known.saturating_sub(SHIFTED));
        let most = before.iter().max().copied().unwrap_or(u64::MAX);
        if before.len() >= SETTLED && last.iter().all(|later| *later > most) {
            self.forget(before.len());
        }
    }

    fn keep(&mut self, predict: &Predict, residual: u64) {
        let kept = usize::from(predict.window.max(2)) * 2;
        while self.known >= kept.min(KEPT) {
            self.forget(1);
        }
        self.residuals[self.known] = residual;
        self.known += 1;
    }

    fn known(&self) -> &[u64] {
        &self.residuals[..self.known]
    }

    /// Forgets so many of the oldest.
    fn forget(&mut self, count: usize) {
        self.residuals.copy_within(count..self.known, 0);
        self.known -= count;
    }

    fn short_and_middle(&self) -> Option<(u64, u64)> {
        let mut sorted = self.residuals;
        let sorted = &mut sorted[..self.known];
        sorted.sort_unstable();
        let short = *sorted.get(usize::from(self.known >= MANY))?;
        Some((short, sorted[self.known / 2]))
    }

    fn margin(&self, predict: &Predict, short: u64, middle: u64) -> u64 {
        let spread = (middle - short).max(SPREAD_LEAST_NS);
        let reached = u128::from(spread) * u128::from(self.reach) / u128::from(ONE);
        let reached = u64::try_from(reached).unwrap_or(u64::MAX);
        if self.known >= SETTLED {
            return reached.min((short / 8).max(spread));
        }
        // Two or three residuals say little of the spread.
        reached.max(DurNs::from_us(predict.margin_us.into()).0).max(short / 16)
    }
}

#[cfg(test)]
#[path = "adaptive_tests.rs"]
mod tests;
