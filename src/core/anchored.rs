//! Two adaptive estimators of one point, of which the steadier predicts.
//!
//! Work may begin with the wait for it: then it takes as long from the wait's start. Or it goes on
//! by itself (a stream of kernels that was queued before, a producer with a beat of its own): then
//! it takes as long from the completion before on the same lane, and when the client came to wait
//! says nothing. Nobody tells which. So both are learned, and the one whose residuals have less
//! spread is gone by. Of two that are about the same it is the second: where completions are found
//! late both are spread by that alone, and what is foreseen from the wait's start moves when they
//! are found in time. What always holds: only the one that was gone by is blamed for a late wait.

use super::adaptive::AdaptiveEstimator;
use super::estimator::{Foreseen, Sample};
use super::plan::Predict;
use super::time::DurNs;

/// Where a wait began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// How long after the completion before on the same lane; none where there was none.
    pub after: Option<DurNs>,
    /// How much earlier than that the residual of a [`Sample::Between`] begins: of the completion
    /// before only the time between two looks may be known.
    pub slack: DurNs,
}

/// See the file's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnchoredEstimator {
    by_start: AdaptiveEstimator,
    by_last: AdaptiveEstimator,
}

impl AnchoredEstimator {
    /// An estimator that knows nothing yet; `late_percent` as at [`AdaptiveEstimator::new`].
    pub fn new(late_percent: u32) -> AnchoredEstimator {
        let cold = AdaptiveEstimator::new(late_percent);
        AnchoredEstimator { by_start: cold, by_last: cold }
    }

    /// What is foreseen of the next wait: nothing when cold, or where its time is long over. The
    /// sleep is never above `max_sleep_us`; it is zero where it would be below `min_sleep_us`: then
    /// looking may begin at once.
    pub fn foresee(&self, predict: &Predict, begun: Begun) -> Option<Foreseen> {
        let (rule, after) = match self.last_leads(begun) {
            Some(after) => (&self.by_last, after),
            None => (&self.by_start, DurNs::ZERO),
        };
        let expected = rule.expected()?;
        if after > expected + rule.spread().unwrap_or(expected) {
            // It should have come; whatever holds it up, it is not foreseen.
            return None;
        }
        let sleep = rule.sleep_after(predict, after).unwrap_or(DurNs::ZERO);
        Some(Foreseen { sleep, expected: expected.saturating_sub(after).max(sleep) })
    }

    /// Learns from one wait.
    pub fn record(&mut self, predict: &Predict, sample: Sample, begun: Begun) {
        let by_start = match sample {
            Sample::Between { .. } => shifted(sample, |from| from.saturating_sub(begun.slack)),
            other => other,
        };
        match (self.last_leads(begun), begun.after) {
            (Some(after), _) => {
                self.by_start.observe(predict, by_start);
                self.by_last.record(predict, shifted(by_start, |residual| residual + after));
            }
            (None, Some(after)) => {
                self.by_start.record(predict, by_start);
                self.by_last.observe(predict, shifted(by_start, |residual| residual + after));
            }
            (None, None) => self.by_start.record(predict, by_start),
        }
    }

    /// How long after the completion before the wait began, where that is gone by.
    fn last_leads(&self, begun: Begun) -> Option<DurNs> {
        let steadier = match (self.by_last.spread(), self.by_start.spread()) {
            (Some(last), Some(start)) => last.0 * 4 <= start.0 * 5,
            (Some(_), None) => true,
            (None, _) => false,
        };
        begun.after.filter(|_| steadier)
    }
}

/// The sample with other residuals.
fn shifted(sample: Sample, by: impl Fn(DurNs) -> DurNs) -> Sample {
    match sample {
        Sample::Exact(residual) => Sample::Exact(by(residual)),
        Sample::Between { from, to } => Sample::Between { from: by(from), to: by(to) },
        Sample::Immediate(residual) => Sample::Immediate(by(residual)),
        Sample::Late { woke_after } => Sample::Late { woke_after: by(woke_after) },
    }
}

#[cfg(test)]
#[path = "anchored_tests.rs"]
mod tests;
