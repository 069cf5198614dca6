use super::*;
use crate::soft::work::Work;

/// Ten jobs of 100 ns from 1000 ns on, two in flight.
fn tally() -> Tally {
    let work = Work { seed: 0, work_ns: 100, jitter_permille: 0 };
    Tally::new(work.schedule(MonoNs(1000)), 1, 10, 2)
}

fn sight(word: u64, now: u64, stored: u64) -> Sight {
    Sight { word, now: MonoNs(now), stored: Some(MonoNs(stored)) }
}

#[test]
fn an_orderly_lane_is_clean() {
    let (mut tally, mut latencies) = (tally(), latencies().unwrap());
    assert_eq!((tally.submit(0), tally.submit(0), tally.submit(0)), (Some(1), Some(2), None));
    for number in 1..=10 {
        assert!(!tally.is_over());
        let stored = 1000 + number * 100;
        tally.done(number, sight(number, stored + 30, stored), &mut latencies);
        tally.submit(number);
    }
    assert!(tally.is_over());
    let counts = tally.finish();
    assert_eq!(counts, Counts { tickets: 10, completed: 10, ..Counts::default() });
    assert!(counts.is_clean());
    assert_eq!((latencies.len(), latencies.max(), latencies.min()), (10, 30, 30));
}

#[test]
fn what_had_landed_is_no_sample() {
    let (mut tally, mut latencies) = (tally(), latencies().unwrap());
    tally.submit(1);
    tally.submit(1);
    tally.done(1, sight(2, 5000, 1100), &mut latencies);
    assert_eq!(latencies.len(), 0);
    tally.done(2, sight(2, 5000, 4000), &mut latencies);
    assert_eq!((latencies.len(), latencies.max()), (1, 1000));
    assert!(tally.finish().is_clean());
}

#[test]
fn an_overwritten_stamp_makes_no_sample_shorter() {
    let (mut tally, mut latencies) = (tally(), latencies().unwrap());
    tally.submit(0);
    tally.done(1, Sight { stored: None, ..sight(9, 1600, 0) }, &mut latencies);
    assert_eq!(latencies.max(), 500);
}

#[test]
fn early_is_told_from_the_word_and_from_the_clock() {
    let (mut tally, mut latencies) = (tally(), latencies().unwrap());
    tally.submit(0);
    tally.submit(0);
    tally.done(1, sight(0, 5000, 1100), &mut latencies);
    tally.done(2, sight(2, 1199, 1150), &mut latencies);
    assert_eq!((tally.counts.early, tally.counts.completed, latencies.len()), (2, 2, 0));
}

#[test]
fn lost_failed_and_duplicated_are_counted() {
    let (mut tally, mut latencies) = (tally(), latencies().unwrap());
    tally.submit(0);
    tally.submit(0);
    tally.done(1, sight(1, 1100, 1100), &mut latencies);
    tally.done(1, sight(1, 1100, 1100), &mut latencies);
    tally.submit(0);
    tally.failed(3);
    tally.failed(3);
    // Never submitted at all.
    tally.done(9, sight(9, 9000, 1100), &mut latencies);
    let counts = tally.finish();
    let expected = Counts { tickets: 3, completed: 1, failed: 1, lost: 1, duplicated: 3, early: 0 };
    assert_eq!(counts, expected);
    let mut twice = counts;
    twice.add(&counts);
    assert_eq!(twice.tickets, 6);
}
