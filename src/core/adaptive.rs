//! The adaptive rule: sleeps as long as the spread of a point's residuals allows, so that about one
//! wait in a hundred is found late.
//!
//! The *level* is the mean of the last residuals (of one that lies between two looks the middle),
//! the *spread* their mean distance from it, both with weights that fall off. The *margin* is the
//! spread times the *reach*, which is learned: a late wait raises it by a step, and every other
//! lowers it by so much less that both balance a little below the *target*, the share of waits that
//! may be late. (A quantile by stochastic approximation: Robbins and Monro, 1951.) A residual is
//! *far* when it is several margins off. What always holds:
//! - an immediate wait teaches nothing: nothing would have been slept;
//! - one far residual teaches nothing, two in a row on the same side are a *shift*, and so are two
//!   late waits in a row: what was known is forgotten;
//! - until [`SETTLED`] residuals are known the margin is at least the plan's `margin_us`, and a
//!   sixteenth of the level.

use super::estimator::Sample;
use super::plan::Predict;
use super::time::DurNs;

/// Residuals from which a spread is known.
pub const SETTLED: u32 = 4;

/// How many times the window weighs in.
const MEMORY: u32 = 4;

/// One in the reach's fixed point.
const ONE: u32 = 1024;

/// The reach to start with: a normal spread has one in a hundred beyond 2.9 mean deviations.
const REACH: u32 = 3 * ONE;

/// Bounds of the reach.
const REACH_LEAST: u32 = ONE;
const REACH_MOST: u32 = 24 * ONE;

/// What a late wait adds to the reach.
const STEP: u32 = ONE;

/// What is aimed at, in percent of the target: a shift, and what comes before anything is known,
/// take the rest.
const AIM: u32 = 80;

/// The least spread, in nanoseconds: of a sleep's end and a look.
const SPREAD_LEAST_NS: u64 = 2_000;

/// How many margins off a residual is far.
const FAR: u64 = 4;

/// Predicts from level and spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveEstimator {
    level: u64,
    spread: u64,
    // Residuals that level and spread stand on, up to a few times the window.
    known: u32,
    // Late waits in a row.
    late: bool,
    // The newest residual, where it was far.
    far: Option<u64>,
    // In 1/ONE.
    reach: u32,
    // What a wait that is not late takes off the reach.
    relax: u32,
}

impl AdaptiveEstimator {
    /// An estimator that knows nothing yet. `late_percent` is the target, 1..=50; others are taken
    /// as the nearest of these.
    pub fn new(late_percent: u32) -> AdaptiveEstimator {
        let late = late_percent.clamp(1, 50);
        AdaptiveEstimator {
            level: 0,
            spread: 0,
            known: 0,
            late: false,
            far: None,
            reach: REACH,
            relax: STEP * late * AIM / (100 * (100 - late)),
        }
    }

    /// How long the next wait sleeps: none when cold, or below `min_sleep_us`, and never above
    /// `max_sleep_us`.
    pub fn sleep(&self, predict: &Predict) -> Option<DurNs> {
        self.sleep_after(predict, DurNs::ZERO)
    }

    /// As [`AdaptiveEstimator::sleep`], where `after` of the time has passed already.
    pub fn sleep_after(&self, predict: &Predict, after: DurNs) -> Option<DurNs> {
        let least = DurNs::from_us(predict.min_sleep_us.into()).max(DurNs(1));
        let most = DurNs::from_us(predict.max_sleep_us.into());
        let sleep = self.level.saturating_sub(self.margin_ns(predict)).saturating_sub(after.0);
        (self.known > 0 && sleep >= least.0).then(|| DurNs(sleep).min(most))
    }

    /// The mean of the last residuals; none when cold.
    pub fn expected(&self) -> Option<DurNs> {
        (self.known > 0).then_some(DurNs(self.level))
    }

    /// Learns from one wait that slept by this rule.
    pub fn record(&mut self, predict: &Predict, sample: Sample) {
        match sample {
            Sample::Immediate(_) => {}
            Sample::Late { .. } => {
                self.reach = (self.reach + STEP).min(REACH_MOST);
                if core::mem::replace(&mut self.late, true) {
                    self.forget();
                }
            }
            Sample::Exact(_) | Sample::Between { .. } => {
                self.reach = self.reach.saturating_sub(self.relax).max(REACH_LEAST);
                self.observe(predict, sample);
            }
        }
    }

    /// Learns from one wait that did not sleep by this rule: how long the work took, and nothing of
    /// the reach.
    pub fn observe(&mut self, predict: &Predict, sample: Sample) {
        let (residual, blur) = match sample {
            Sample::Exact(residual) => (residual.0, 0),
            // Its end lies anywhere between two looks.
            Sample::Between { from, to } => {
                let half = to.saturating_sub(from).0 / 2;
                (from.0 + half, half)
            }
            Sample::Immediate(_) | Sample::Late { .. } => return,
        };
        self.late = false;
        self.learn(predict, residual, blur);
    }

    /// The mean distance of the last residuals from their mean; none where too few are known.
    pub fn spread(&self) -> Option<DurNs> {
        (self.known >= SETTLED).then_some(DurNs(self.spread))
    }

    fn learn(&mut self, predict: &Predict, residual: u64, blur: u64) {
        if self.is_far(predict, residual) {
            let Some(before) = self.far.replace(residual) else { return };
            if (before > self.level) == (residual > self.level) {
                self.forget();
                self.weigh(predict, before, blur);
                self.weigh(predict, residual, blur);
            }
        } else {
            self.far = None;
            self.weigh(predict, residual, blur);
        }
    }

    /// Moves level and spread towards a residual: by the mean's share at first, later by as much
    /// as lets a few times the window weigh in.
    fn weigh(&mut self, predict: &Predict, residual: u64, blur: u64) {
        self.known = (self.known + 1).min(u32::from(predict.window) * MEMORY);
        let share = u64::from(self.known);
        let off = residual.abs_diff(self.level);
        if self.known == 1 {
            self.level = residual;
        } else if residual > self.level {
            self.level += off / share;
        } else {
            self.level -= off / share;
        }
        // A blurred residual is half of its blur off, on the mean.
        let off = off.max(blur / 2);
        match share {
            1 => self.spread = blur / 2,
            share if off > self.spread => self.spread += (off - self.spread) / share,
            share => self.spread -= (self.spread - off) / share,
        }
    }

    fn is_far(&self, predict: &Predict, residual: u64) -> bool {
        let far = self.margin_ns(predict).saturating_mul(FAR).max(self.level / 8);
        self.known >= SETTLED && residual.abs_diff(self.level) > far
    }

    fn forget(&mut self) {
        (self.known, self.late, self.far) = (0, false, None);
    }

    fn margin_ns(&self, predict: &Predict) -> u64 {
        let spread = self.spread.max(SPREAD_LEAST_NS);
        let reached = u128::from(spread) * u128::from(self.reach) / u128::from(ONE);
        let reached = u64::try_from(reached).unwrap_or(u64::MAX);
        if self.known >= SETTLED {
            return reached;
        }
        // Two or three residuals say little of the spread.
        reached.max(DurNs::from_us(predict.margin_us.into()).0).max(self.level / 16)
    }
}

#[cfg(test)]
#[path = "adaptive_tests.rs"]
mod tests;
