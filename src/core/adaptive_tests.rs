use super::*;

const PREDICT: Predict =
    Predict { margin_us: 60, min_sleep_us: 20, max_sleep_us: 50_000, window: 8, wake_early: false };

/// A program that waits: what its waits took, by this seed and rule.
struct Trace {
    seed: u64,
    late: u32,
    waits: u32,
    /// Nanoseconds that were watched.
    watched: u64,
}

impl Trace {
    fn new(seed: u64) -> Trace {
        Trace { seed, late: 0, waits: 0, watched: 0 }
    }

    /// -1000..=1000, evenly.
    fn chance(&mut self) -> i64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed % 2001) as i64 - 1000
    }

    /// Waits that take `level_ns`, give or take `jitter_percent`, evenly.
    fn run(&mut self, rule: &mut AdaptiveEstimator, waits: u32, level_ns: i64, jitter: i64) {
        for _ in 0..waits {
            let took = (level_ns + level_ns * jitter / 100 * self.chance() / 1000) as u64;
            self.waits += 1;
            let sample = match rule.sleep(&PREDICT) {
                Some(sleep) if sleep.0 > took => {
                    self.late += 1;
                    Sample::Late { woke_after: sleep }
                }
                sleep => {
                    self.watched += took - sleep.map_or(0, |sleep| sleep.0);
                    Sample::Exact(DurNs(took))
                }
            };
            rule.record(&PREDICT, sample);
        }
    }

    fn late_percent(&self) -> f64 {
        f64::from(self.late) * 100.0 / f64::from(self.waits)
    }

    fn watched_percent(&self, level_ns: u64) -> f64 {
        self.watched as f64 * 100.0 / (f64::from(self.waits) * level_ns as f64)
    }
}

const MS: i64 = 1_000_000;

#[test]
fn steady_work_is_slept_through_almost_whole() {
    let (mut rule, mut trace) = (AdaptiveEstimator::new(1), Trace::new(1));
    trace.run(&mut rule, 10, MS, 0);
    assert_eq!(trace.late, 0);
    let sleep = rule.sleep(&PREDICT).unwrap();
    assert!((990_000..1_000_000).contains(&sleep.0), "{sleep:?}");
}

#[test]
fn about_one_wait_in_a_hundred_is_late_whatever_the_jitter() {
    for (seed, jitter, watched) in [(2, 5, 9.0), (3, 50, 75.0)] {
        let (mut rule, mut trace) = (AdaptiveEstimator::new(1), Trace::new(seed));
        trace.run(&mut rule, 20_000, MS, jitter);
        let late = trace.late_percent();
        assert!((0.5..1.5).contains(&late), "{jitter} %: {late} % late");
        let share = trace.watched_percent(MS as u64);
        assert!(share < watched, "{jitter} %: {share} % watched");
    }
}

#[test]
fn the_target_is_the_plans_not_a_constant() {
    let (mut rule, mut trace) = (AdaptiveEstimator::new(10), Trace::new(4));
    trace.run(&mut rule, 20_000, MS, 5);
    let late = trace.late_percent();
    assert!((7.0..10.0).contains(&late), "{late} % late");
}

#[test]
fn a_shift_is_followed_within_a_few_waits() {
    for (from, to) in [(MS, 2 * MS), (2 * MS, MS), (MS, MS / 4), (MS, 10 * MS)] {
        let mut rule = AdaptiveEstimator::new(1);
        Trace::new(5).run(&mut rule, 100, from, 1);
        let mut after = Trace::new(6);
        after.run(&mut rule, 6, to, 1);
        assert!(after.late <= 2, "{from} -> {to}: {} late", after.late);
        let sleep = rule.sleep(&PREDICT).map_or(0, |sleep| sleep.0);
        let level = to as u64;
        assert!(sleep < level && sleep > level - level / 3, "{from} -> {to}: {sleep}");
    }
}

#[test]
fn an_immediate_wait_teaches_nothing() {
    let mut rule = AdaptiveEstimator::new(1);
    Trace::new(7).run(&mut rule, 20, MS, 1);
    let before = rule;
    rule.record(&PREDICT, Sample::Immediate(DurNs(300)));
    assert_eq!(rule, before);
}

#[test]
fn one_late_wait_does_not_stop_sleeping() {
    let mut rule = AdaptiveEstimator::new(1);
    Trace::new(8).run(&mut rule, 20, MS, 1);
    let sleep = rule.sleep(&PREDICT).unwrap();
    rule.record(&PREDICT, Sample::Late { woke_after: sleep });
    let after = rule.sleep(&PREDICT).unwrap();
    assert!(after < sleep && after.0 > sleep.0 * 9 / 10, "{sleep:?} {after:?}");
    rule.record(&PREDICT, Sample::Late { woke_after: after });
    assert_eq!(rule.sleep(&PREDICT), None, "two are a shift");
}

#[test]
fn bounds_and_extremes() {
    let mut rule = AdaptiveEstimator::new(0);
    assert_eq!(rule.sleep(&PREDICT), None, "cold");
    rule.record(&PREDICT, Sample::Late { woke_after: DurNs::MAX });
    assert_eq!(rule.sleep(&PREDICT), None, "still cold");
    rule.record(&PREDICT, Sample::Exact(DurNs::from_us(70)));
    assert_eq!(rule.sleep(&PREDICT), None, "10 us are below min_sleep_us");
    for _ in 0..20 {
        rule.record(&PREDICT, Sample::Exact(DurNs::MAX));
    }
    assert_eq!(rule.sleep(&PREDICT), Some(DurNs::from_us(50_000)));
    for _ in 0..20 {
        rule.record(&PREDICT, Sample::Exact(DurNs(0)));
    }
    assert_eq!(rule.sleep(&PREDICT), None);
}
