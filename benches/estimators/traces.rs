//! Traces: how long one wait after the other takes, in nanoseconds.
//!
//! A recorded one is a text in `benches/traces`: lines that begin with `#` say what it is and how
//! it was recorded, every other one is a number. A synthetic one is a function of its seed.

use parkd::soft::work::{Work, split_mix};

use crate::model::Work as Waited;

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Trace {
    pub name: String,
    pub ns: Vec<u64>,
    pub back_to_back: bool,
}

impl Trace {
    pub fn work(&self) -> Waited<'_> {
        Waited { ns: &self.ns, back_to_back: self.back_to_back }
    }
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
        let ns = parse(text).ok_or(format!("{name}: no trace"))?;
        all.push(Trace { name: name.into(), ns, back_to_back: false });
    }
    Ok(all)
}

/// The numbers of a recorded trace; none where a line is not one, or there is none.
pub fn parse(text: &str) -> Option<Vec<u64>> {
    let numbers = text.lines().filter(|line| !line.starts_with('#'));
    let numbers = numbers.map(|line| line.trim().parse().ok()).collect::<Option<Vec<u64>>>()?;
    (!numbers.is_empty()).then_some(numbers)
}

/// Some jobs end later than they would: each twentieth by up to 400 us, which the next makes up
/// for. The others by up to 20 us.
fn disturbed(mut ns: Vec<u64>) -> Vec<u64> {
    let late = |job: u64| match split_mix(SEED + 2, job).is_multiple_of(20) {
        true => split_mix(SEED + 3, job) % 400_000,
        false => split_mix(SEED + 4, job) % 20_000,
    };
    for (job, ns) in (1..).zip(ns.iter_mut()) {
        *ns = *ns + late(job) - late(job - 1);
    }
    ns
}

fn synthetic() -> Vec<Trace> {
    let of = |work_ns, jitter_permille| {
        let work = Work { seed: SEED, work_ns, jitter_permille };
        (0..WAITS).map(|job| work.duration(job).0).collect::<Vec<u64>>()
    };
    let jitter = |jitter_permille| of(MS, jitter_permille);
    let trace = |name: &str, ns| Trace { name: name.into(), ns, back_to_back: false };
    let stream = |name: &str, ns| Trace { name: name.into(), ns, back_to_back: true };
    let step = jitter(10).into_iter().zip(0..);
    let step = step.map(|(ns, job)| if job < WAITS / 2 { ns } else { 2 * ns }).collect();
    // One in five takes three times as long.
    let long = |job: u64| split_mix(SEED + 1, job).is_multiple_of(5);
    let bimodal = jitter(10).into_iter().zip(0..);
    let bimodal = bimodal.map(|(ns, job)| if long(job) { 3 * ns } else { ns }).collect();
    vec![
        trace("steady 1 ms", jitter(0)),
        trace("1 ms, 5 % jitter", jitter(50)),
        stream("steady 1 ms, back to back", jitter(0)),
        stream("1 ms, 5 % jitter, back to back", jitter(50)),
        stream("steady 200 us, back to back", of(MS / 5, 0)),
        stream("1 ms, disturbed, back to back", disturbed(jitter(0))),
        stream("1 ms, 5 % jitter, disturbed, back to back", disturbed(jitter(50))),
        stream("200 us, 5 % jitter, back to back", of(MS / 5, 50)),
        trace("200 us, 5 % jitter", of(MS / 5, 50)),
        stream("50 us, 5 % jitter, back to back", of(MS / 20, 50)),
        trace("1 ms, 50 % jitter", jitter(500)),
        trace("1 ms, then 2 ms, 1 % jitter", step),
        trace("1 ms, one in five 3 ms, 1 % jitter", bimodal),
    ]
}
