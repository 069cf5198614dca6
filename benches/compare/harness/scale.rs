//! Whether what merely waits costs those that complete: the daemon's look at a foreseen completion,
//! with nobody else there and with 100,000 tickets that wait.

use super::arithmetic::{median, quantile};
use super::cell::Bench;
use super::contender::{self, Contender};
use super::crowd::{self, Crowd};
use super::plan::Plan;
use super::record::Scale;
use super::workload::{Cell, ONE, Pattern, Workload};
use super::{Doing, Result};

/// Tickets outstanding.
const OUTSTANDING: [u64; 2] = [1, 100_000];

/// The one that completes.
const CELL: Cell =
    Cell { workload: Workload { pattern: Pattern::Steady, work_us: 1000 }, shape: ONE };

/// Measures in so many rounds of so long.
pub fn measure(bench: &mut Bench, rounds: u32, window_ns: u64) -> Result<Vec<Scale>> {
    let contender = &contender::detection();
    let mut found = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    for round in 0..rounds {
        for at in [0, 1] {
            // The order turns from round to round.
            let at = (at + round as usize) % OUTSTANDING.len();
            let (detect, bytes) = of(bench, contender, OUTSTANDING[at], round, window_ns)
                .doing(&format!("{} outstanding", OUTSTANDING[at]))?;
            found[at].0.push(detect);
            found[at].1.push(bytes);
        }
    }
    let row = |(outstanding, (detect, bytes))| Scale {
        outstanding,
        detect_ns_p50: median(detect).round() as u64,
        daemon_bytes_per_ticket: median(bytes),
    };
    Ok(OUTSTANDING.into_iter().zip(found).map(row).collect())
}

/// Detection and memory with so many tickets outstanding, the one that completes among them.
fn of(
    bench: &mut Bench,
    contender: &Contender,
    outstanding: u64,
    round: u32,
    window_ns: u64,
) -> Result<(f64, f64)> {
    // A daemon that has had no session yet: what was given back to its heap hides growth.
    bench.daemons.end(contender.changes);
    let daemon = bench.daemons.with(contender.changes)?;
    let (pid, socket) = (daemon.pid(), daemon.socket().to_owned());
    crowd::wait_for(daemon, 0)?;
    let before = crowd::memory_of(pid)?;
    // Memory is read while all wait: alone, that is the one.
    let waiting = if outstanding > 1 { outstanding - 1 } else { 1 };
    let crowd = Crowd::gather(&socket, waiting)?;
    crowd::wait_for(bench.daemons.with(contender.changes)?, waiting)?;
    let growth = crowd::memory_of(pid)?.saturating_sub(before);
    let crowd = if outstanding > 1 { Some(crowd) } else { None };
    let times = |now| Plan::times_of(&CELL, now, window_ns);
    let mut detected = bench.run(contender, &CELL, round.into(), times)?.detected;
    drop(crowd);
    detected.sort_unstable();
    if detected.is_empty() {
        return Err("the daemon found nothing".into());
    }
    Ok((quantile(&detected, 0.5) as f64, growth as f64 / waiting as f64))
}
