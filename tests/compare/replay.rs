//! The model of `benches/estimators`, on work whose outcome can be told by hand.

use parkd::core::estimator::EstimatorKind;

use crate::model::{Looks, Rule, Totals, Work};

pub const TESTS: &[(&str, fn())] = &[
    ("spinning_adds_nothing_and_watches_all_the_time", spinning),
    ("polling_adds_what_is_left_of_its_pause", polling),
    ("estimates_sleep_through_steady_work_and_are_late_once_it_is_shorter", estimated),
    ("what_is_found_late_makes_the_next_wait_shorter_back_to_back", back_to_back),
    ("nobody_watches_for_longer_than_the_budget_lasts", budget),
    ("work_past_the_window_is_found_by_the_next_look", parked),
];

fn looks() -> Looks {
    let looks = Looks::shipped(include_str!("../../config/parkd.toml"));
    Looks { spin_ns: 300_000, park_ns: 150_000, ..looks.expect("the shipped configuration") }
}

fn replay(rule: Rule, work: &[u64]) -> Totals {
    looks().replay(rule, Work { ns: work, back_to_back: false })
}

fn spinning() {
    let totals = replay(Rule::Spin, &[1_000_000, 2_000_000]);
    assert_eq!((totals.late_percent(), totals.watched_percent()), (0.0, 100.0));
    assert_eq!((totals.mean_added_ns(), totals.added_ns(1.0)), (0.0, 0));
}

fn polling() {
    let totals = replay(Rule::SleepPoll, &[100_000, 130_000]);
    assert_eq!((totals.late_percent(), totals.watched_percent()), (100.0, 0.0));
    assert_eq!((totals.mean_added_ns(), totals.added_ns(0.5)), (35_000.0, 0));
    assert_eq!(totals.added_ns(0.99), 70_000);
}

fn estimated() {
    for &kind in EstimatorKind::ALL {
        let rule = Rule::Estimated(kind);
        let steady = replay(rule, &[1_000_000; 1000]);
        // The adaptive rule aims at one in a hundred.
        let most = if kind == EstimatorKind::Min { 0.0 } else { 1.5 };
        assert!(steady.late_percent() <= most, "{}: {}", rule.name(), steady.late_percent());
        assert!(steady.watched_percent() < 25.0, "{}: {}", rule.name(), steady.watched_percent());
        assert!(steady.mean_added_ns() < 5000.0, "{}: {}", rule.name(), steady.mean_added_ns());
        // One wait of half the length, in the midst of steady ones, comes while it sleeps.
        let mut work = vec![1_000_000; 200];
        work[100] = 500_000;
        let once = replay(rule, &work);
        assert!(once.late_percent() >= 0.5, "{}", rule.name());
        assert!(once.added_ns(1.0) > 300_000, "{}", rule.name());
    }
}

fn parked() {
    // Nothing is known: looks at 150, 300, ... us.
    let cold = replay(Rule::Estimated(EstimatorKind::Min), &[310_000]);
    assert_eq!(
        (cold.added_ns(1.0), cold.late_percent(), cold.watched_percent()),
        (140_000, 0.0, 0.0)
    );
    // Watched from about 1 ms on for 300 us, and then looked at every 150.
    let mut work = vec![1_000_000; 50];
    work.push(3_000_000);
    let totals = replay(Rule::Estimated(EstimatorKind::Min), &work);
    assert!(totals.added_ns(1.0) <= 150_000);
}

fn back_to_back() {
    // Found at 200 us, 50 us late; 10 us later 90 are left of the second.
    let work = Work { ns: &[150_001, 150_001], back_to_back: true };
    let totals = looks().replay(Rule::SleepPoll, work);
    assert_eq!((totals.added_ns(0.5), totals.added_ns(1.0)), (9_998, 49_999));
    let apart = replay(Rule::SleepPoll, work.ns);
    assert_eq!((apart.added_ns(0.5), apart.added_ns(1.0)), (49_999, 49_999));
}

fn budget() {
    // Every other job is 250 us longer: that much is watched of 1250 on average.
    let work: Vec<u64> = (0..1000).map(|job| 1_000_000 + job % 2 * 500_000).collect();
    let work = Work { ns: &work, back_to_back: false };
    for (budget_percent, least, most) in [(100, 10.0, 30.0), (5, 3.0, 6.5)] {
        let looks = Looks { budget_percent, ..looks() };
        let watched = looks.replay(Rule::Estimated(EstimatorKind::Min), work).watched_percent();
        assert!((least..most).contains(&watched), "{budget_percent}: {watched}");
    }
}
