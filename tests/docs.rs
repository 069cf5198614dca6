//! The committed documents say what the code says.

use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use parkd::core::bands::Bands;
use parkd::core::{error, plan};

fn document(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)
}

/// What stands in the document's blocks of this kind, line by line.
fn block_lines(text: &str, kind: &str) -> Vec<String> {
    let opening = format!("```{kind}");
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        match (inside, line) {
            (false, line) => inside = line == opening,
            (true, "```") => inside = false,
            (true, line) => lines.push(line.to_string()),
        }
    }
    lines
}

#[test]
fn errors_md_is_generated_from_the_registry() {
    let path = document("ERRORS.md");
    let page = error::docs_page();
    if std::env::var_os("PARKD_REGENERATE").is_some_and(|value| value == "1") {
        fs::write(&path, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == page,
        "docs/ERRORS.md differs from the registry; write it again with\n    \
         PARKD_REGENERATE=1 cargo test --test docs"
    );
}

#[test]
fn the_examples_of_plans_md_are_read_and_refused_as_it_says() {
    let text = fs::read_to_string(document("PLANS.md")).unwrap();
    let plans = block_lines(&text, "plans");
    assert!(plans.len() > 5);
    for plan in plans {
        assert_eq!(Bands::parse(&plan).map(|bands| bands.label()), Ok(plan));
    }
    let refused = block_lines(&text, "refused");
    assert!(refused.len() > 5 && refused.len().is_multiple_of(2));
    for pair in refused.chunks(2) {
        let error = Bands::parse(&pair[0]).expect_err(&pair[0]);
        assert_eq!((error.code, error.detail), (error::ErrorCode::InvalidPlan, pair[1].clone()));
    }
}

#[test]
fn the_bounds_of_plans_md_are_those_of_the_code() {
    let text = fs::read_to_string(document("PLANS.md")).unwrap();
    let check = |key: &str, bound: RangeInclusive<u32>| {
        let row = format!("| `{key}` | {}..={}", bound.start(), bound.end());
        assert!(text.contains(&row), "docs/PLANS.md lacks {row}");
    };
    check("park_us", plan::PARK_US);
    check("backstop_us", plan::BACKSTOP_US);
    check("margin_us", plan::MARGIN_US);
    check("min_sleep_us", plan::MIN_SLEEP_US);
    check("max_sleep_us", plan::MAX_SLEEP_US);
    check("window", plan::WINDOW);
}

#[test]
fn the_readme_shows_a_run_of_the_demo() {
    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("<!-- demo:begin -->").expect("a begin");
    let (block, _) = rest.split_once("<!-- demo:end -->").expect("an end");
    for way in ["parkd", "spin", "poll"] {
        assert!(block.contains(way), "no row for {way}: run tools/readme_demo.py");
    }
}
