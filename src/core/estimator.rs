//! The estimator of one point: how long the next wait there may sleep before it looks.
//!
//! A *residual* is the time from a wait's start until its work was known done. A *sample* is what
//! one wait tells: its residual, exact where the end was watched for, censored where it came while
//! nobody looked. The prediction is when the end is expected, the *sleep* what is slept of it: a
//! margin less, and never above the plan's `max_sleep_us`.

use super::anchored::{AnchoredEstimator, Begun};
use super::plan::{Predict, WINDOW};
use super::time::DurNs;

/// What one wait tells about its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// The end was watched for and came this long after the start.
    Exact(DurNs),
    /// The end came between two looks, this long after the start.
    Between {
        /// The last look that did not find it.
        from: DurNs,
        /// The look that did.
        to: DurNs,
    },
    /// The work was found done by the first query, this long after the start.
    Immediate(DurNs),
    /// The work was found done on waking from the sleep: its end lies somewhere before.
    Late {
        /// How long after the start the sleeper woke.
        woke_after: DurNs,
    },
}

/// What is foreseen of the next wait, from its start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// How long it may sleep.
    pub sleep: DurNs,
    /// When looking is worth most: no earlier than the sleep's end. Half of what is looked lies
    /// before it, where that fits; all after it where it is the sleep's end.
    pub expected: DurNs,
}

/// Which rule predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EstimatorKind {
    /// The least of the last residuals: [`MinEstimator`].
    Min,
    /// Level, spread and a learned margin: [`AnchoredEstimator`].
    Adaptive,
}

impl EstimatorKind {
    /// Every kind.
    pub const ALL: &'static [EstimatorKind] = &[EstimatorKind::Min, EstimatorKind::Adaptive];

    /// The kind of this name, if there is one.
    pub fn parse(name: &str) -> Option<EstimatorKind> {
        EstimatorKind::ALL.iter().copied().find(|kind| kind.label() == name)
    }

    /// The kind's name.
    pub const fn label(self) -> &'static str {
        match self {
            EstimatorKind::Min => "min",
            EstimatorKind::Adaptive => "adaptive",
        }
    }

    /// An estimator of this kind that knows nothing yet. `late_percent` is the share of waits that
    /// may be found late, 1..=50, for a kind that can aim at one.
    pub fn cold(self, late_percent: u32) -> Estimator {
        match self {
            EstimatorKind::Min => Estimator::Min(MinEstimator::new()),
            EstimatorKind::Adaptive => Estimator::Adaptive(AnchoredEstimator::new(late_percent)),
        }
    }
}

/// The estimator of one point, of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// See [`MinEstimator`].
    Min(MinEstimator),
    /// See [`AnchoredEstimator`].
    Adaptive(AnchoredEstimator),
}

impl Estimator {
    /// What is foreseen of the next wait: nothing when cold or where the sleep would be too short.
    /// The sleep is never above `max_sleep_us`.
    pub fn foresee(&self, predict: &Predict, begun: Begun) -> Option<Foreseen> {
        match self {
            Estimator::Min(min) => {
                min.sleep(predict).map(|sleep| Foreseen { sleep, expected: sleep })
            }
            Estimator::Adaptive(adaptive) => adaptive.foresee(predict, begun),
        }
    }

    /// Learns from one wait.
    pub fn record(&mut self, predict: &Predict, sample: Sample, begun: Begun) {
        match self {
            Estimator::Min(min) => min.record(predict, sample),
            Estimator::Adaptive(adaptive) => adaptive.record(predict, sample, begun),
        }
    }
}

/// Residuals that are kept: the widest window.
const KEPT: usize = *WINDOW.end() as usize;

/// Predicts the least of the last `window` residuals. An immediate residual counts as it is; of a
/// late wait half the time counts that was certainly too long, so that the next one looks earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinEstimator {
    residuals: [u64; KEPT],
    // Where the next residual goes; the newest stands just before it.
    next: u8,
    len: u8,
}

impl MinEstimator {
    /// An estimator that knows nothing yet.
    pub const fn new() -> MinEstimator {
        MinEstimator { residuals: [0; KEPT], next: 0, len: 0 }
    }

    /// The least of the last `window` residuals; none when cold.
    pub fn prediction(&self, window: u8) -> Option<DurNs> {
        let known = window.min(self.len);
        let newest_first = (1..=usize::from(known))
            .map(|back| self.residuals[(usize::from(self.next) + KEPT - back) % KEPT]);
        newest_first.min().map(DurNs)
    }

    /// The prediction less the margin: none when cold, zero or below `min_sleep_us`, and never
    /// above `max_sleep_us`.
    pub fn sleep(&self, predict: &Predict) -> Option<DurNs> {
        let margin = DurNs::from_us(predict.margin_us.into());
        let least = DurNs::from_us(predict.min_sleep_us.into()).max(DurNs(1));
        let most = DurNs::from_us(predict.max_sleep_us.into());
        let sleep = self.prediction(predict.window)?.saturating_sub(margin);
        (sleep >= least).then(|| sleep.min(most))
    }

    /// Learns from one wait.
    pub fn record(&mut self, predict: &Predict, sample: Sample) {
        let residual = match sample {
            Sample::Exact(residual) | Sample::Immediate(residual) => residual,
            Sample::Between { to, .. } => to,
            Sample::Late { woke_after } => {
                let predicted = self.prediction(predict.window).unwrap_or(DurNs::MAX);
                DurNs(woke_after.min(predicted).0 / 2)
            }
        };
        self.residuals[usize::from(self.next)] = residual.0;
        self.next = (self.next + 1) % KEPT as u8;
        self.len = (self.len + 1).min(KEPT as u8);
    }
}

impl Default for MinEstimator {
    fn default() -> MinEstimator {
        MinEstimator::new()
    }
}

#[cfg(test)]
#[path = "estimator_tests.rs"]
mod tests;
