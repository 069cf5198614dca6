//! How long each run is measured, so that all of them take no longer than they may.

use std::time::Duration;

use parkd::core::time::{DurNs, MonoNs};

use super::workload::{Cell, Times};

const MS: u64 = 1_000_000;

/// A window at least and at most.
const WINDOW_NS: std::ops::RangeInclusive<u64> = 12 * MS..=2000 * MS;

/// From the word to start until the first job starts.
const LEAD_NS: u64 = 3 * MS;

/// CPU is counted from so much before the window on.
const COUNT_NS: u64 = 5 * MS;

/// A run's costs beside its times: connecting, telling, reporting.
const TELL_NS: u64 = 12 * MS;

/// Before the window an estimator gets to know its point.
fn warm_ns(cell: &Cell) -> u64 {
    (24 * cell.workload.work_us * 1000).max(20 * MS)
}

/// After it the last waiters see that it is over.
fn tail_ns(cell: &Cell) -> u64 {
    3 * cell.workload.longest_ns()
}

/// See the file's head.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub rounds: u32,
    /// A window's length for a weight of 1, in nanoseconds.
    unit_ns: f64,
}

/// Rarer completions, and fewer waiters for them, take longer to count.
fn weight(cell: &Cell) -> f64 {
    (cell.workload.work_us as f64).sqrt() / if cell.shape.waiters > 1 { 2.0 } else { 1.0 }
}

impl Plan {
    /// For these cells, each with how many contenders it has.
    pub fn new(rounds: u32, cells: &[(Cell, usize)], time: Duration) -> Plan {
        let runs = |of: &dyn Fn(&Cell) -> f64| -> f64 {
            cells.iter().map(|(cell, runs)| of(cell) * *runs as f64).sum::<f64>()
        };
        let fixed = runs(&|cell| (warm_ns(cell) + tail_ns(cell) + LEAD_NS + TELL_NS) as f64);
        let time = time.as_nanos() as f64;
        // What cannot be had in time is had once.
        let rounds = if fixed * f64::from(rounds) < time { rounds } else { 1 };
        let left = (time / f64::from(rounds) - fixed).max(0.0);
        Plan { rounds, unit_ns: left / runs(&weight).max(1.0) }
    }

    /// How long a run in this cell is measured.
    pub fn window_ns(&self, cell: &Cell) -> u64 {
        let window = (self.unit_ns * weight(cell)) as u64;
        window.clamp(*WINDOW_NS.start(), *WINDOW_NS.end())
    }

    /// The times of a run in this cell that is told to start at `now`.
    pub fn times(&self, cell: &Cell, now: MonoNs) -> Times {
        Plan::times_of(cell, now, self.window_ns(cell))
    }

    /// As [`Plan::times`], with a window of this length.
    pub fn times_of(cell: &Cell, now: MonoNs, window_ns: u64) -> Times {
        let start = now + DurNs(LEAD_NS);
        let begin = start + DurNs(warm_ns(cell));
        let end = begin + DurNs(window_ns);
        let stop = end + DurNs(tail_ns(cell));
        Times { start, count: MonoNs(begin.0 - COUNT_NS), begin, end, stop }
    }
}
