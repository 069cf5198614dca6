use alloc::format;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::core::plan::Park;
use crate::core::plan::tests::any_plan;

const FLAG: &str = "flag:park_us=50,backstop_us=2000";

fn refusal(text: &str) -> String {
    Bands::parse(text).expect_err(text).detail
}

#[test]
fn the_plan_of_the_highest_edge_reached_holds() {
    let bands = Bands::parse(&format!("poll;rows>=100:{FLAG};rows>=4294967295:block")).unwrap();
    for (rows, park) in [
        (0, Park::Poll),
        (99, Park::Poll),
        (100, Park::Flag { park_us: 50, backstop_us: 2000 }),
        (u32::MAX - 1, Park::Flag { park_us: 50, backstop_us: 2000 }),
        (u32::MAX, Park::Block),
    ] {
        assert_eq!(bands.plan_for(rows).park, park, "{rows} rows");
    }
    assert!(bands.iter().map(|(from, _)| from).eq([0, 100, u32::MAX]));
}

#[test]
fn one_plan_is_bands_for_all_rows() {
    let bands = Bands::parse("block").unwrap();
    assert_eq!(bands, Bands::from(Plan::parse("block").unwrap()));
    assert_eq!(bands.plan_for(u32::MAX).park, Park::Block);
}

#[test]
fn refusals_count_columns_over_the_whole_text() {
    for (text, said) in [
        ("poll;", "rows = : must be rows>=<n>:<plan> (column 6)"),
        ("poll;rows>=5", "rows = rows>=5: must be rows>=<n>:<plan> (column 6)"),
        ("poll;rows>5:poll", "rows = rows>5:poll: must be rows>=<n>:<plan> (column 6)"),
        ("poll;rows>=0:poll", "rows = 0: must be 1..=4294967295, in plain digits (column 12)"),
        (
            "poll;rows>=7:poll;rows>=7:poll",
            "rows = 7: must be 8..=4294967295, in plain digits (column 25)",
        ),
        (
            "poll;rows>=4294967295:poll;rows>=4294967295:poll",
            "rows = 4294967295: must rise, and the edge before is the last (column 34)",
        ),
        (
            "poll;rows>=1:poll;rows>=2:poll;rows>=3:poll;rows>=4:poll",
            "bands = rows>=4:poll: must be at most 4 plans (column 45)",
        ),
        (
            "poll;rows>=1:flag:park_us=0,backstop_us=1",
            "park_us = 0: must be 1..=10000, in plain digits (column 27)",
        ),
    ] {
        assert_eq!(refusal(text), format!("plan: {said}"));
    }
    assert!(refusal("").starts_with("plan: park = : "));
    assert!(refusal("rows>=1:poll").starts_with("plan: park = rows>=1:poll: "));
}

proptest! {
    #[test]
    fn a_label_is_read_back_and_edges_hold(
        plans in prop::collection::vec(any_plan(), 1..=MAX_BANDS),
        mut edges in prop::collection::btree_set(1u32.., MAX_BANDS - 1), rows: u32,
    ) {
        let edges: Vec<u32> = core::iter::once(0).chain(core::mem::take(&mut edges)).collect();
        let text: Vec<String> = edges.iter().zip(&plans).map(|(&edge, plan)| match edge {
            0 => plan.label(),
            edge => format!("rows>={edge}:{plan}"),
        }).collect();
        let text = text.join(";");
        let bands = Bands::parse(&text).unwrap();
        prop_assert_eq!(bands.label(), text);
        prop_assert_eq!(Bands::parse(&bands.label()), Ok(bands));
        let mut held = edges.iter().zip(&plans).filter(|&(&edge, _)| edge <= rows);
        prop_assert_eq!(Some(&bands.plan_for(rows)), held.next_back().map(|(_, plan)| plan));
    }

    #[test]
    fn no_text_is_too_strange(text in "(poll|block|;|:|rows>=[0-9]{1,11}|.){0,20}") {
        if let Ok(bands) = Bands::parse(&text) {
            prop_assert_eq!(bands.label(), text);
        }
    }
}
