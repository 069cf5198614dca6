//! Traces: how long one wait after the other takes, in nanoseconds.
//!
//! A recorded one is a text in `benches/traces`: lines that begin with `#` say what it is and how
//! it was recorded, every other one is a number. A synthetic one is a function of its seed.

use parkd::soft::work::{Work, split_mix};

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Trace {
    pub name: String,
    pub ns: Vec<u64>,
}

const WAITS: u64 = 2000;
const MS: u64 = 1_000_000;
const SEED: u64 = 0x7472_6163_6573;

const RECORDED: [(&str, &str); 2] = [
    ("PoCL kernel loop", include_str!("../traces/pocl.txt")),
    ("BLAS, three layers", include_str!("../traces/blas.txt")),
];

/// All of them.
///
/// # Errors
/// Where a recorded one is no trace.
pub fn all() -> Result<Vec<Trace>, String> {
    let mut all = synthetic();
    for (name, text) in RECORDED {
        all.push(Trace { name: name.into(), ns: parse(text).ok_or(format!("{name}: no trace"))? });
    }
    Ok(all)
}

/// The numbers of a recorded trace; none where a line is not one, or there is none.
pub fn parse(text: &str) -> Option<Vec<u64>> {
    let numbers = text.lines().filter(|line| !line.starts_with('#'));
    let numbers = numbers.map(|line| line.trim().parse().ok()).collect::<Option<Vec<u64>>>()?;
    (!numbers.is_empty()).then_some(numbers)
}

fn synthetic() -> Vec<Trace> {
    let jitter = |jitter_permille| {
        let work = Work { seed: SEED, work_ns: MS, jitter_permille };
        (0..WAITS).map(|job| work.duration(job).0).collect::<Vec<u64>>()
    };
    let trace = |name: &str, ns| Trace { name: name.into(), ns };
    let step = jitter(10).into_iter().zip(0..);
    let step = step.map(|(ns, job)| if job < WAITS / 2 { ns } else { 2 * ns }).collect();
    // One in five takes three times as long.
    let long = |job: u64| split_mix(SEED + 1, job).is_multiple_of(5);
    let bimodal = jitter(10).into_iter().zip(0..);
    let bimodal = bimodal.map(|(ns, job)| if long(job) { 3 * ns } else { ns }).collect();
    vec![
        trace("steady 1 ms", jitter(0)),
        trace("1 ms, 5 % jitter", jitter(50)),
        trace("1 ms, 50 % jitter", jitter(500)),
        trace("1 ms, then 2 ms, 1 % jitter", step),
        trace("1 ms, one in five 3 ms, 1 % jitter", bimodal),
    ]
}
