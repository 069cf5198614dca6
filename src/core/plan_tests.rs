use alloc::format;

use proptest::prelude::*;

use super::*;
use crate::core::error::ErrorCode;

const FLAG: &str = "flag:park_us=50,backstop_us=2000";
const FIELDS: &str = "margin_us=150,min_sleep_us=20,max_sleep_us=50000,window=8";

fn refusal(text: &str) -> String {
    let error = Plan::parse(text).expect_err(text);
    assert_eq!(error.code, ErrorCode::InvalidPlan, "{text}");
    error.detail
}

#[test]
fn every_form_of_the_grammar_is_read() {
    let flag = Park::Flag { park_us: 50, backstop_us: 2000 };
    let predict = Predict {
        margin_us: 150,
        min_sleep_us: 20,
        max_sleep_us: 50_000,
        window: 8,
        wake_early: false,
    };
    let early = Predict { wake_early: true, ..predict };
    for (text, park, predict) in [
        ("block", Park::Block, None),
        ("poll", Park::Poll, None),
        (FLAG, flag, None),
        (&format!("poll+predict:{FIELDS}"), Park::Poll, Some(predict)),
        (&format!("{FLAG}+predict:{FIELDS}"), flag, Some(predict)),
        (&format!("{FLAG}+predict:{FIELDS},wake=early"), flag, Some(early)),
    ] {
        let plan = Plan { park, predict };
        assert_eq!(Plan::parse(text), Ok(plan));
        assert_eq!(plan.label(), text);
    }
}

#[test]
fn the_keys_of_a_group_may_come_in_any_order() {
    let text = "flag:backstop_us=2000,park_us=50+predict:window=8,max_sleep_us=50000,\
                margin_us=150,min_sleep_us=20,wake=early";
    let label = Plan::parse(text).unwrap().label();
    assert_eq!(label, format!("{FLAG}+predict:{FIELDS},wake=early"));
}

#[test]
fn every_bound_is_held_at_both_ends() {
    let plan = |key: &str, value: u32| {
        let of = |name: &str, usual: u32| if name == key { value } else { usual };
        format!(
            "flag:park_us={},backstop_us={}+predict:margin_us={},min_sleep_us={},\
             max_sleep_us={},window={}",
            of("park_us", 1),
            of("backstop_us", 1_000_000),
            of("margin_us", 0),
            of("min_sleep_us", 0),
            of("max_sleep_us", 60_000_000),
            of("window", 1),
        )
    };
    for (key, bound) in [
        ("park_us", PARK_US),
        ("backstop_us", BACKSTOP_US),
        ("margin_us", MARGIN_US),
        ("min_sleep_us", MIN_SLEEP_US),
        ("max_sleep_us", MAX_SLEEP_US),
        ("window", WINDOW),
    ] {
        for inside in [*bound.start(), *bound.end()] {
            assert!(Plan::parse(&plan(key, inside)).is_ok(), "{key}={inside}");
        }
        let below = bound.start().checked_sub(1);
        for outside in below.into_iter().chain([bound.end() + 1, u32::MAX]) {
            let said = refusal(&plan(key, outside));
            let (least, most) = bound.clone().into_inner();
            let named = format!("plan: {key} = {outside}: must be {least}..={most}, ");
            assert!(said.starts_with(&named), "{said}");
        }
    }
}

#[test]
fn a_refusal_names_key_value_bound_and_column() {
    let forms = "must be block, poll or flag:park_us=<n>,backstop_us=<n>, then nothing or \
                 +predict:<fields> (column 1)";
    for text in ["", "spin", " poll", "poll ", "poll+", "poll+prediction:", "POLL", "block:"] {
        assert_eq!(refusal(text), format!("plan: park = {text}: {forms}"));
    }
    let digits = "must be 1..=10000, in plain digits";
    for (text, said) in [
        ("block+predict:x", "predict = x: block takes no prediction (column 15)"),
        ("flag:", "key = : must be one of park_us, backstop_us (column 6)"),
        ("flag:park_us", "park_us = park_us: must be <key>=<number> (column 6)"),
        ("flag:park_us=9", "backstop_us = : must be given, 1..=1000000 (column 15)"),
        ("flag:park_us=9,park_us=9", "park_us = 9: must be given once (column 24)"),
        (
            "flag:park_us=9,backstop_us=8",
            "backstop_us = 8: must be at least park_us, 9 (column 28)",
        ),
        (
            "flag:backstop_us=8,park_us=9",
            "backstop_us = 8: must be at least park_us, 9 (column 18)",
        ),
        (
            "flag:park_us=9,backstop_us=9,",
            "key = : must be one of park_us, backstop_us (column 30)",
        ),
    ] {
        assert_eq!(refusal(text), format!("plan: {said}"));
    }
    for value in ["", "+9", "-9", " 9", "9 ", "09", "0x9", "9.0", "9_0", "9us", "٩", "4294967305"]
    {
        let said = refusal(&format!("flag:park_us={value},backstop_us=9"));
        assert_eq!(said, format!("plan: park_us = {value}: {digits} (column 14)"));
    }
}

#[test]
fn a_refused_prediction_is_named_too() {
    let keys = "margin_us, min_sleep_us, max_sleep_us, window, with wake=early at the end";
    for (fields, said) in [
        ("wake=early", format!("key = wake: must be one of {keys} (column 14)")),
        (&format!("{FIELDS},wake=late"), "wake = late: must be early (column 77)".into()),
        (
            &format!("{FIELDS},wake=early,wake=early"),
            format!("key = wake: must be one of {keys} (column 72)"),
        ),
        (
            "margin_us=1,min_sleep_us=3,max_sleep_us=2,window=1",
            "max_sleep_us = 2: must be at least min_sleep_us, 3 (column 54)".into(),
        ),
        (
            "margin_us=1,min_sleep_us=3,max_sleep_us=4",
            "window = : must be given, 1..=16 (column 55)".into(),
        ),
    ] {
        assert_eq!(refusal(&format!("poll+predict:{fields}")), format!("plan: {said}"));
    }
}

#[test]
fn a_refusal_repeats_little_and_nothing_unprintable() {
    let said = refusal(&format!("{}\n", "é".repeat(5000)));
    assert!(said.chars().count() < 200 && said.contains("ééé..."), "{said}");
    assert!(refusal("po\x1b[2Jll").contains(r"po\u{1b}[2Jll"));
    assert!(
        refusal("poll+predict:é=1,wake=late").ends_with("(column 23)"),
        "columns count characters"
    );
}

pub(crate) fn any_plan() -> impl Strategy<Value = Plan> {
    let flag = PARK_US.prop_flat_map(|park_us| {
        (park_us..=*BACKSTOP_US.end())
            .prop_map(move |backstop_us| Park::Flag { park_us, backstop_us })
    });
    let predict = (MARGIN_US, MAX_SLEEP_US, WINDOW, any::<bool>()).prop_flat_map(
        |(margin_us, max_sleep_us, window, wake_early)| {
            let window = window as u8;
            (0..=max_sleep_us).prop_map(move |min_sleep_us| Predict {
                margin_us,
                min_sleep_us,
                max_sleep_us,
                window,
                wake_early,
            })
        },
    );
    let park = prop_oneof![Just(Park::Block), Just(Park::Poll), flag];
    (park, prop::option::of(predict))
        .prop_map(|(park, predict)| Plan { park, predict: predict.filter(|_| park != Park::Block) })
}

proptest! {
    #[test]
    fn a_label_is_read_back(plan in any_plan()) {
        prop_assert_eq!(Plan::parse(&plan.label()), Ok(plan));
        prop_assert_eq!(plan.label().parse(), Ok(plan));
    }

    #[test]
    fn what_is_read_has_one_label(plan in any_plan(), at: prop::sample::Index, to in "[ -~é]") {
        let mut text: alloc::vec::Vec<_> = plan.label().chars().collect();
        let at = at.index(text.len());
        text[at] = to.chars().next().unwrap();
        let text: String = text.into_iter().collect();
        match Plan::parse(&text) {
            Ok(plan) => prop_assert_eq!(plan.label(), text),
            Err(error) => prop_assert_eq!(error.code, ErrorCode::InvalidPlan),
        }
    }

    #[test]
    fn no_text_is_too_strange(text in ".{0,80}") {
        let _ = Plan::parse(&text);
    }
}
