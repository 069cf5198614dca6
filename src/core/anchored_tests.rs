use super::*;

const PREDICT: Predict =
    Predict { margin_us: 60, min_sleep_us: 20, max_sleep_us: 50_000, window: 8, wake_early: false };

/// -`most`..=`most` microseconds, the same each time.
fn chance(n: u64, most: i64) -> i64 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 17;
    (x % (2 * most as u64 + 1)) as i64 - most
}

fn us(us: i64) -> DurNs {
    DurNs::from_us(us as u64)
}

fn slept(rule: &AnchoredEstimator, begun: Begun) -> Option<DurNs> {
    rule.foresee(&PREDICT, begun).map(|foreseen| foreseen.sleep)
}

/// A client that comes back to wait `idle(n)` us after the completion before, for work that takes
/// `took(n)` us from there on. Answers late waits and microseconds watched, of the second half.
fn run(idle: impl Fn(u64) -> i64, took: impl Fn(u64) -> i64) -> (u32, i64) {
    let mut rule = AnchoredEstimator::new(1);
    let (mut late, mut watched) = (0, 0);
    for n in 0..4_000 {
        let begun = Begun { after: Some(us(idle(n))), slack: DurNs::ZERO };
        let residual = us(took(n));
        let sleep = slept(&rule, begun).unwrap_or(DurNs::ZERO);
        let sample = match sleep > residual {
            true => Sample::Late { woke_after: sleep },
            false => Sample::Exact(residual),
        };
        if n >= 2_000 {
            late += u32::from(sleep > residual);
            watched += residual.saturating_sub(sleep).as_us() as i64;
        }
        rule.record(&PREDICT, sample, begun);
    }
    (late, watched / 2_000)
}

#[test]
fn work_with_a_beat_of_its_own_is_foreseen_whenever_the_client_comes() {
    let idle = |n| 150 + chance(n, 140);
    let (late, watched) = run(idle, |n| 1_000 - idle(n) + chance(n + 77, 5));
    assert!((1..=60).contains(&late), "{late}");
    assert!(watched < 20, "{watched} us watched");
}

#[test]
fn work_that_begins_with_the_wait_is_foreseen_whatever_was_before() {
    let (late, watched) = run(|n| 5_000 + chance(n, 4_900), |n| 1_000 + chance(n + 77, 5));
    assert!((1..=60).contains(&late), "{late}");
    assert!(watched < 20, "{watched} us watched");
}

#[test]
fn who_comes_when_it_is_about_to_be_done_looks_at_once() {
    let mut rule = AnchoredEstimator::new(1);
    for n in 0..100 {
        let idle = 300 + chance(n, 250);
        let begun = Begun { after: Some(us(idle)), slack: DurNs::ZERO };
        rule.record(&PREDICT, Sample::Exact(us(1_000 - idle)), begun);
    }
    let sleep = |after| slept(&rule, Begun { after: Some(us(after)), ..Begun::default() });
    assert!((400..600).contains(&sleep(500).map_or(0, DurNs::as_us)), "{:?}", sleep(500));
    assert_eq!(sleep(999), Some(DurNs::ZERO));
    assert_eq!(sleep(2_000), None, "it should have come");
    let without = slept(&rule, Begun::default());
    assert!(without.is_some_and(|sleep| sleep < us(700)), "{without:?}");
}

#[test]
fn a_residual_that_begins_before_the_wait_is_learned_from_its_start() {
    let mut rule = AnchoredEstimator::new(1);
    for _ in 0..20 {
        let begun = Begun { after: None, slack: us(75) };
        let sample = Sample::Between { from: us(1_075), to: us(1_075) };
        rule.record(&PREDICT, sample, begun);
    }
    let sleep = slept(&rule, Begun::default()).map_or(0, DurNs::as_us);
    assert!((950..=1_000).contains(&sleep), "{sleep}");
}

#[test]
fn what_ends_before_a_sleep_would_pay_is_looked_at_at_once() {
    let mut rule = AnchoredEstimator::new(1);
    let foresee = |rule: &AnchoredEstimator| rule.foresee(&PREDICT, Begun::default());
    assert_eq!(foresee(&rule), None, "nothing is known");
    rule.record(&PREDICT, Sample::Exact(us(70)), Begun::default());
    assert_eq!(foresee(&rule), Some(Foreseen { sleep: DurNs::ZERO, expected: us(70) }));
}
