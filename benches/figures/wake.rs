//! How long a client takes to run after a silent store, beside the best that could be had: a
//! producer that cooperates and wakes the client's futex itself. One client, jobs of 1 ms with 5 %
//! jitter, so that the daemon's estimate is warm; both ways in turn, several times in one run.

use std::path::Path;

use indicatif::ProgressBar;
use parkd::demo::phase::{self, Setting};
use parkd::demo::workload::Workload;
use parkd::demo::{Folder, Way};
use parkd::host::signals::Signals;

use crate::Figure;

const ROUNDS: usize = 5;
const SECONDS: u64 = 2;
const RATIO_MAX: f64 = 1.5;

pub fn run() -> Result<Vec<Figure>, String> {
    let mut signals = Signals::block(&[]).map_err(|error| error.to_string())?;
    let folder = Folder::new().map_err(|error| error.to_string())?;
    let bar = ProgressBar::hidden();
    let mut p50 = |way| {
        let setting = Setting {
            executable: Path::new(env!("CARGO_BIN_EXE_parkd")),
            way,
            executor: None,
            workload: Workload::Steady,
            clients: 1,
            seconds: SECONDS,
            folder: folder.path(),
            bar: &bar,
        };
        let (phase, _) = phase::run(&setting, &mut signals).map_err(|error| error.to_string())?;
        if !phase.counts.is_clean() {
            return Err(format!("{}: {:?}", way.name(), phase.counts));
        }
        Ok(phase.wake_ns.p50)
    };
    let (mut parkd, mut futex) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        parkd.push(p50(Way::Parkd)?);
        futex.push(p50(Way::Futex)?);
    }
    let ratio = median(&mut parkd) as f64 / median(&mut futex).max(1) as f64;
    Ok(vec![Figure {
        name: "wake: parkd / futex",
        value: ratio,
        unit: "x",
        target: RATIO_MAX,
        met: ratio <= RATIO_MAX,
        detail: format!("p50 ns, {ROUNDS} rounds: parkd {parkd:?}, futex {futex:?}"),
    }])
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}
