//! The model of `benches/estimators`, on work whose outcome can be told by hand.

use parkd::core::estimator::EstimatorKind;

use crate::model::{Looks, Rule, Totals};

pub const TESTS: &[(&str, fn())] = &[
    ("spinning_adds_nothing_and_watches_all_the_time", spinning),
    ("polling_adds_what_is_left_of_its_pause", polling),
    ("estimates_sleep_through_steady_work_and_are_late_once_it_is_shorter", estimated),
    ("work_past_the_window_is_found_by_the_next_look", parked),
];

fn looks() -> Looks {
    let looks = Looks::shipped(include_str!("../../config/parkd.toml"));
    Looks { spin_ns: 300_000, park_ns: 150_000, ..looks.expect("the shipped configuration") }
}

fn replay(rule: Rule, work: &[u64]) -> Totals {
    looks().replay(rule, work)
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
        let steady = replay(rule, &[1_000_000; 200]);
        assert_eq!(steady.late_percent(), 0.0, "{}", rule.name());
        assert!(steady.watched_percent() < 25.0, "{}: {}", rule.name(), steady.watched_percent());
        assert!(steady.mean_added_ns() < 5000.0, "{}: {}", rule.name(), steady.mean_added_ns());
        // One wait of half the length, in the midst of steady ones, comes while it sleeps.
        let mut work = vec![1_000_000; 200];
        work[100] = 500_000;
        let once = replay(rule, &work);
        assert_eq!(once.late_percent(), 0.5, "{}", rule.name());
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
