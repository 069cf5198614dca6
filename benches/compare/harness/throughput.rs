//! How many tickets that have landed go through one daemon in a second.

use parkd::core::time::{DurNs, MonoNs};
use parkd::host::clock;

use super::arithmetic::median;
use super::cell::Bench;
use super::daemon::Daemon;
use super::load::{LoadOrder, Loaded, Path};
use super::member::{Member, PATIENCE};
use super::orders::{Answer, Order};
use super::producer::sleep_until;
use super::record::Throughput;
use super::settings::UNLIMITED;
use super::syscalls::Count;
use super::workload::Times;
use super::{Doing, Result};

const MS: u64 = 1_000_000;
const CLIENTS: [u32; 2] = [1, 8];

/// How it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub rounds: u32,
    pub window_ms: u64,
}

/// A measurement.
struct Pass {
    completions: u64,
    window_ns: u64,
    syscalls: u64,
    /// Those of the daemon's threads beside FILL for each completion, where they were counted.
    beside: Option<f64>,
}

/// Both paths, with one client and with several.
pub fn measure(bench: &mut Bench, span: Span) -> Result<Vec<Throughput>> {
    let mut rows = Vec::new();
    for (name, path) in [("ring", Path::Ring), ("socket", Path::Socket)] {
        for clients in CLIENTS {
            let row = of(bench, path, clients, span);
            let (tickets_per_s, syscalls_per_completion) =
                row.doing(&format!("throughput, {name}, {clients}"))?;
            let path = name.to_owned();
            rows.push(Throughput { path, clients, tickets_per_s, syscalls_per_completion });
        }
    }
    Ok(rows)
}

fn of(bench: &mut Bench, path: Path, clients: u32, span: Span) -> Result<(f64, Option<f64>)> {
    let (mut rates, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..span.rounds {
        let pass = pass(bench, path, clients, span.window_ms, false)?;
        rates.push(pass.completions as f64 * 1e9 / pass.window_ns as f64);
        calls.push(pass.syscalls as f64 / pass.completions.max(1) as f64);
    }
    let calls = median(calls);
    // The desk is idle while tickets go through the ring. Else it is watched, in a pass whose
    // speed does not count.
    let calls = match path {
        Path::Ring => Some(calls),
        Path::Socket => {
            let pass = pass(bench, path, clients, span.window_ms, true)?;
            pass.beside.map(|beside| calls + beside)
        }
    };
    Ok((median(rates), calls))
}

fn pass(bench: &mut Bench, path: Path, clients: u32, ms: u64, strace: bool) -> Result<Pass> {
    let folder = bench.folder.clone();
    let daemon = bench.daemons.with(UNLIMITED)?;
    let cpu = daemon.cpu()?;
    let order = LoadOrder { path, daemon: daemon.socket().to_owned(), avoid: cpu };
    let members = &bench.pool.waiters[..clients as usize];
    for member in members {
        member.tell(&Order::Load(order.clone()), &[])?;
    }
    for member in members {
        member.ready()?;
    }
    let count = if strace { Count::start(daemon.pid(), &folder)? } else { None };
    let start = clock::now() + DurNs(3 * MS);
    let begin = start + DurNs(20 * MS);
    let end = begin + DurNs(ms * MS);
    let times = Times { start, count: begin, begin, end, stop: end };
    for member in members {
        member.tell(&Order::Start(times), &[])?;
    }
    let fill = fill_calls(daemon, begin, end)?;
    let beside = count.map(Count::end).transpose()?;
    let mut sum = Loaded::default();
    for member in members {
        let loaded = loaded(member)?;
        sum.completions += loaded.completions;
        sum.syscalls += loaded.syscalls;
        sum.all += loaded.all;
    }
    let syscalls = sum.syscalls + fill;
    let beside = beside.map(|calls| calls as f64 / sum.all.max(1) as f64);
    Ok(Pass { completions: sum.completions, window_ns: times.window_ns(), syscalls, beside })
}

/// FILL's system calls between two times, by its own count.
fn fill_calls(daemon: &Daemon, begin: MonoNs, end: MonoNs) -> Result<u64> {
    let calls = || daemon.count("/fill/syscalls");
    sleep_until(begin);
    let before = calls()?;
    sleep_until(end);
    Ok(calls()?.unwrap_or(0).saturating_sub(before.unwrap_or(0)))
}

fn loaded(member: &Member) -> Result<Loaded> {
    match member.hear(PATIENCE)?.0 {
        Answer::Loaded(loaded) => Ok(loaded),
        odd => Err(format!("a client said {odd:?}")),
    }
}
