//! A plan's text: what is read is written and read back the same; what is not is refused with its
//! column, and plan by plan as bands do.

use parkd::core::bands::Bands;
use parkd::core::error::{Error, ErrorCode};
use parkd::core::plan::Plan;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Bands::parse(text) {
        Ok(bands) => {
            assert_eq!(Bands::parse(&bands.label()).as_ref(), Ok(&bands));
            let edges: Vec<(u32, Plan)> = bands.iter().collect();
            assert!((1..=4).contains(&edges.len()) && edges[0].0 == 0, "{text}");
            assert!(edges.windows(2).all(|pair| pair[0].0 < pair[1].0), "{text}");
            for (from_rows, plan) in edges {
                assert_eq!(bands.plan_for(from_rows), plan, "{text}");
                assert_eq!(Plan::parse(&plan.label()), Ok(plan));
            }
        }
        Err(error) => refused(text, &error),
    }
    match Plan::parse(text) {
        Ok(plan) => assert_eq!(Bands::parse(text), Ok(Bands::from(plan))),
        Err(error) => refused(text, &error),
    }
}

fn refused(text: &str, error: &Error) {
    assert_eq!(error.code, ErrorCode::InvalidPlan, "{text}: {error}");
    assert!(!error.detail.is_empty(), "{text}");
}
