//! Very many tickets of real clients, several processes of every way to wait, and each ticket with
//! its one result, in time.
//!
//! Run by `cargo test` this is a test program like the others, with a short form on each executor.
//! Run by `tests/million/run` it goes on until there were as many tickets as it is told.

#[path = "../load/mod.rs"]
pub mod load;
#[path = "../supervisor/mod.rs"]
pub mod supervisor;
#[path = "../support/mod.rs"]
pub mod support;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use load::client::Way;
use load::clients::{Client, Device};
use load::counts::Counts;
use load::idle;
use serde::Serialize;
use serde_json::Value;
use support::{Daemon, EXECUTORS, Executor, GPU_REACTOR, IO_URING, NAIVE, raw, skipped};

/// Tickets of the short form, which every change has to pass on every executor.
const SHORT: u64 = 10_000;

/// The clients, each a process.
const CLIENTS: [Way; 9] = [
    Way::Threads,
    Way::Threads,
    Way::Tasks,
    Way::Tagged,
    Way::Tagged,
    Way::Fds,
    Way::Ends,
    Way::Raw,
    Way::Hold,
];

/// Between two looks at how many there were.
const LOOK: Duration = Duration::from_millis(20);

/// A daemon that gets no further for so long is stuck.
const STUCK: Duration = Duration::from_secs(60);

/// What a run is told.
#[derive(Args, Clone, Debug)]
struct Run {
    /// Tickets at least.
    #[arg(long, default_value_t = 1_000_000)]
    tickets: u64,
    /// The daemon's executor.
    #[arg(long, default_value = "io-uring")]
    executor: String,
    /// Print the counts as JSON.
    #[arg(long)]
    json: bool,
}

/// What a run comes to.
#[derive(Debug, Serialize)]
struct Outcome {
    executor: &'static str,
    clients: usize,
    seconds: f64,
    #[serde(flatten)]
    counts: Counts,
    /// Tickets that the daemon has taken, and ended, by its own count.
    daemon_tickets: u64,
    daemon_results: u64,
}

fn main() -> ExitCode {
    let tests: Vec<(&'static str, fn())> = vec![
        ("every_ticket_has_one_result_by_io_uring", || pass(&IO_URING)),
        ("every_ticket_has_one_result_by_gpu_reactor", || pass(&GPU_REACTOR)),
        ("every_ticket_has_one_result_by_naive", || pass(&NAIVE)),
    ];
    load::program(run, tests)
}

fn run(run: &Run) -> ExitCode {
    let Some(executor) = EXECUTORS.iter().find(|executor| executor.name == run.executor) else {
        eprintln!("{}: no executor", run.executor);
        return ExitCode::from(2);
    };
    let outcome = of(executor, run.tickets);
    if run.json {
        println!("{}", serde_json::to_string(&outcome).expect("JSON"));
    } else {
        println!("{outcome:#?}");
    }
    if outcome.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn pass(executor: &'static Executor) {
    match parkd::host::kinds::resolve(executor.name, true) {
        Ok(_) => {
            let outcome = of(executor, SHORT);
            assert!(outcome.is_clean(), "{outcome:#?}");
        }
        Err(why) => skipped(&why.to_string()),
    }
}

/// Has clients hand in tickets until there were so many, and counts what became of them.
fn of(executor: &'static Executor, tickets: u64) -> Outcome {
    let daemon = Daemon::start(executor, "");
    let observer = raw::control(&daemon.socket());
    let device = Device::start();
    let start = Instant::now();
    let started = |(seed, way): (u64, &Way)| Client::start(*way, &daemon.socket(), &device, seed);
    let mut clients: Vec<Client> = (1..).zip(&CLIENTS).map(started).collect();
    if clients.iter_mut().all(Client::ready) {
        wait(|| taken(&observer.status()), tickets);
    }
    clients.iter_mut().for_each(Client::stop);
    let mut counts = Counts::default();
    clients.into_iter().for_each(|client| counts.add(client.report()));
    let seconds = start.elapsed().as_secs_f64();
    let status = observer.status();
    Outcome {
        executor: executor.name,
        clients: CLIENTS.len(),
        seconds,
        counts,
        daemon_tickets: taken(&status),
        daemon_results: ended(&status),
    }
}

/// Waits until there were so many, or there are no more.
fn wait(taken: impl Fn() -> u64, tickets: u64) {
    let (mut most, mut since) = (0, Instant::now());
    while most < tickets && since.elapsed() < STUCK {
        idle(LOOK);
        let now = taken();
        if now > most {
            (most, since) = (now, Instant::now());
        }
    }
}

fn taken(status: &Value) -> u64 {
    status["counters"]["tickets"].as_u64().expect("a count")
}

fn ended(status: &Value) -> u64 {
    let results = status["counters"]["results"].as_object().expect("counts by status");
    results.values().filter_map(Value::as_u64).sum()
}

impl Outcome {
    /// Every ticket has its one result, in time, also by the daemon's count. What a client finds
    /// reached as it submits never gets there.
    fn is_clean(&self) -> bool {
        let taken = self.daemon_tickets;
        self.counts.is_clean() && taken == self.daemon_results && taken <= self.counts.tickets
    }
}
