use proptest::prelude::*;

use super::*;
use crate::core::time::DurNs;

const PREDICT: Predict = Predict {
    margin_us: 0,
    min_sleep_us: 0,
    max_sleep_us: 1_000_000,
    window: 1,
    wake_early: false,
};

fn learn(table: &mut PointTable, point: u64, us: u64) {
    table.record(point, &PREDICT, Sample::Exact(DurNs::from_us(us)), Begun::default());
}

fn sleep_of(table: &mut PointTable, point: u64, predict: &Predict) -> Option<DurNs> {
    table.foresee(point, predict, Begun::default()).map(|foreseen| foreseen.sleep)
}

fn known(table: &mut PointTable, point: u64) -> Option<u64> {
    sleep_of(table, point, &PREDICT).map(DurNs::as_us)
}

#[test]
fn each_point_has_its_own_estimator() {
    let mut table = PointTable::new(EstimatorKind::Min, 1, 4);
    assert!(table.is_empty());
    assert_eq!(known(&mut table, 7), None);
    assert!(table.is_empty(), "asking admits nothing");
    learn(&mut table, 7, 100);
    learn(&mut table, u64::MAX, 200);
    assert_eq!((known(&mut table, 7), known(&mut table, u64::MAX)), (Some(100), Some(200)));
    assert_eq!(table.len(), 2);
}

#[test]
fn the_point_used_longest_ago_makes_room_and_comes_back_cold() {
    let mut table = PointTable::new(EstimatorKind::Min, 1, 2);
    learn(&mut table, 1, 100);
    learn(&mut table, 2, 200);
    assert_eq!(known(&mut table, 1), Some(100), "a look counts as a use");
    learn(&mut table, 3, 300);
    assert_eq!(known(&mut table, 2), None, "evicted");
    assert_eq!((known(&mut table, 1), known(&mut table, 3)), (Some(100), Some(300)));
    let wide = Predict { window: 8, ..PREDICT };
    assert_eq!(
        sleep_of(&mut table, 3, &wide),
        Some(DurNs::from_us(300)),
        "nothing is left of point 2"
    );
    learn(&mut table, 2, 500);
    assert_eq!(sleep_of(&mut table, 2, &wide), Some(DurNs::from_us(500)), "nor does it come back");
    assert_eq!(table.len(), 2);
}

#[test]
fn a_capacity_is_held_within_its_bounds() {
    for (asked, kept) in [(0, 1), (1, 1), (usize::MAX, MAX_POINTS)] {
        let mut table = PointTable::new(EstimatorKind::Min, 1, asked);
        for point in 0..=MAX_POINTS as u64 {
            learn(&mut table, point, 1);
        }
        assert_eq!(table.len(), kept);
    }
}

proptest! {
    #[test]
    fn it_is_an_lru_that_never_allocates_again(
        capacity in 1..6usize,
        uses in prop::collection::vec((0..9u64, 1..500u64, any::<bool>()), 0..80),
    ) {
        let mut table = PointTable::new(EstimatorKind::Min, 1, capacity);
        let room = (table.index.capacity(), table.rows.capacity(), table.used.capacity());
        // The model: used longest ago first.
        let mut model: alloc::vec::Vec<(u64, u64)> = alloc::vec::Vec::new();
        for (point, us, look) in uses {
            let at = model.iter().position(|&(known, _)| known == point);
            let entry = at.map(|at| model.remove(at));
            if look {
                prop_assert_eq!(known(&mut table, point), entry.map(|(_, us)| us));
                model.extend(entry);
            } else {
                learn(&mut table, point, us);
                if entry.is_none() && model.len() == capacity {
                    model.remove(0);
                }
                model.push((point, us));
            }
            prop_assert_eq!(table.len(), model.len());
        }
        let now = (table.index.capacity(), table.rows.capacity(), table.used.capacity());
        prop_assert_eq!(room, now);
    }
}
