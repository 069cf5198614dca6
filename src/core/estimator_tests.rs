use proptest::prelude::*;

use super::*;

const PREDICT: Predict = Predict {
    margin_us: 150,
    min_sleep_us: 20,
    max_sleep_us: 50_000,
    window: 8,
    wake_early: false,
};

fn sleep_after(residuals_us: &[u64]) -> Option<u64> {
    let mut estimator = MinEstimator::new();
    for &us in residuals_us {
        estimator.record(&PREDICT, Sample::Exact(DurNs::from_us(us)));
    }
    estimator.sleep(&PREDICT).map(|sleep| sleep.0)
}

#[test]
fn the_worked_cases_hold() {
    assert_eq!(sleep_after(&[]), None, "cold");
    assert_eq!(sleep_after(&[1000, 900, 1100]), Some(750_000));
    let mut level_shift = [2000; 11];
    level_shift[..3].copy_from_slice(&[1000, 900, 1100]);
    assert_eq!(sleep_after(&level_shift[..10]), Some(950_000), "1.1 ms is still in the window");
    assert_eq!(sleep_after(&level_shift), Some(1_850_000));
    assert_eq!(sleep_after(&[160]), None, "10 us are below min_sleep_us");
    assert_eq!(sleep_after(&[100]), None, "less than the margin");
    assert_eq!(sleep_after(&[u64::MAX]), Some(50_000_000));
    assert_eq!(sleep_after(&[170]), Some(20_000), "min_sleep_us itself is slept");
}

#[test]
fn a_late_wait_records_half_of_what_was_too_long() {
    let mut estimator = MinEstimator::new();
    estimator.record(&PREDICT, Sample::Exact(DurNs::from_us(1000)));
    estimator.record(&PREDICT, Sample::Late { woke_after: DurNs::from_us(850) });
    assert_eq!(estimator.prediction(8), Some(DurNs::from_us(425)), "the wake, halved");
    estimator.record(&PREDICT, Sample::Late { woke_after: DurNs::from_us(5000) });
    assert_eq!(estimator.prediction(1), Some(DurNs(212_500)));

    let mut cold = MinEstimator::new();
    cold.record(&PREDICT, Sample::Late { woke_after: DurNs::from_us(300) });
    assert_eq!(cold.prediction(8), Some(DurNs::from_us(150)));
}

#[test]
fn an_immediate_residual_stops_sleeping_for_a_window() {
    let mut estimator = MinEstimator::new();
    estimator.record(&PREDICT, Sample::Immediate(DurNs(300)));
    for waits in 1..=8 {
        assert_eq!(estimator.sleep(&PREDICT), None, "{waits} waits in the window");
        estimator.record(&PREDICT, Sample::Exact(DurNs::from_us(1000)));
    }
    assert_eq!(estimator.sleep(&PREDICT), Some(DurNs::from_us(850)));
}

#[test]
fn without_a_bound_below_a_zero_sleep_is_none() {
    let eager = Predict { margin_us: 10, min_sleep_us: 0, ..PREDICT };
    let mut estimator = MinEstimator::new();
    estimator.record(&eager, Sample::Exact(DurNs::from_us(10)));
    assert_eq!(estimator.sleep(&eager), None);
}

#[test]
fn kinds_are_known_by_their_labels() {
    for &kind in EstimatorKind::ALL {
        assert_eq!(EstimatorKind::parse(kind.label()), Some(kind));
    }
    assert_eq!(EstimatorKind::parse("Min"), None);
    let mut estimator = EstimatorKind::Min.cold(1);
    let begun = Begun::default();
    assert_eq!(estimator.foresee(&PREDICT, begun), None);
    estimator.record(&PREDICT, Sample::Exact(DurNs::from_us(1000)), begun);
    let sleep = DurNs::from_us(850);
    let foreseen = Foreseen { sleep, expected: sleep };
    assert_eq!(estimator.foresee(&PREDICT, begun), Some(foreseen));
}

fn sample() -> impl Strategy<Value = Sample> {
    let ns = prop_oneof![0..100_000_000u64, Just(u64::MAX)];
    (0..4, ns.prop_map(DurNs)).prop_map(|(which, length)| match which {
        0 => Sample::Exact(length),
        1 => Sample::Immediate(length),
        2 => Sample::Between { from: DurNs(length.0 / 2), to: length },
        _ => Sample::Late { woke_after: length },
    })
}

proptest! {
    #[test]
    fn a_sleep_is_within_its_bounds_and_a_margin_short_of_the_least(
        samples in prop::collection::vec(sample(), 0..40),
        window in 1..=16u8, margin_us in 0..2000u32, min_sleep_us in 0..100u32,
        more_us in 0..100_000u32,
    ) {
        let max_sleep_us = min_sleep_us + more_us.max(1);
        let predict = Predict { margin_us, min_sleep_us, max_sleep_us, window, wake_early: false };
        let mut estimator = MinEstimator::new();
        let mut residuals = alloc::vec::Vec::new();
        let least = |residuals: &[u64]| residuals.iter().rev().take(window.into()).min().copied();
        for sample in samples {
            residuals.push(match sample {
                Sample::Exact(length) | Sample::Immediate(length) => length.0,
                Sample::Between { to, .. } => to.0,
                Sample::Late { woke_after } => {
                    least(&residuals).unwrap_or(u64::MAX).min(woke_after.0) / 2
                }
            });
            estimator.record(&predict, sample);
        }
        prop_assert_eq!(estimator.prediction(window), least(&residuals).map(DurNs));
        let allowed = least(&residuals).map(|ns| ns.saturating_sub(u64::from(margin_us) * 1000));
        match estimator.sleep(&predict) {
            Some(sleep) => {
                prop_assert!(sleep.0 > 0 && sleep.0 >= u64::from(min_sleep_us) * 1000);
                prop_assert!(sleep.0 <= u64::from(max_sleep_us) * 1000);
                prop_assert!(Some(sleep.0) <= allowed);
            }
            None => prop_assert!(
                allowed.is_none_or(|ns| ns == 0 || ns < u64::from(min_sleep_us) * 1000)
            ),
        }
    }
}
