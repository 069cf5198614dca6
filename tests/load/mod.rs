//! A load: client processes and a device, on a daemon that somebody kills.
//!
//! A test program that makes one is started again to be each of its clients. What such a program is
//! asked for stands in its first argument; without one of these words it is a test program like the
//! others: see [`program`].

pub mod client;
pub mod clients;
pub mod counts;
pub mod figures;
pub mod keeper;
pub mod kills;
pub mod probe;

use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use libtest_mimic::{Arguments, Trial};

use parkd::soft::work::split_mix;

/// A seeded sequence of numbers.
#[derive(Clone, Debug)]
pub struct Dice {
    seed: u64,
    thrown: u64,
}

impl Dice {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice { seed, thrown: 0 }
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.thrown += 1;
        split_mix(self.seed, self.thrown) % bound
    }
}

/// Does nothing for a while.
pub fn idle(time: Duration) {
    let (_silent, nothing) = channel::<()>();
    let _ = nothing.recv_timeout(time);
}

/// The last lines of a log.
pub fn tail(log: &str) -> String {
    const LINES: usize = 60;
    let lines: Vec<&str> = log.lines().collect();
    let from = lines.len().saturating_sub(LINES);
    format!("--- the daemon's log, from line {}\n{}\n---", from + 1, lines[from..].join("\n"))
}

/// What a program of a load does where it is not run as a test.
#[derive(Parser)]
struct Program<R: Args> {
    #[command(subcommand)]
    part: Part<R>,
}

#[derive(Subcommand)]
enum Part<R: Args> {
    /// Runs the load, and counts.
    Run(R),
    /// Is one of its clients.
    Client(client::ClientArgs),
}

/// The main of a program with a load: `run` it by these orders, be a client of it, or test.
pub fn program<R: Args>(
    run: impl FnOnce(&R) -> ExitCode,
    tests: Vec<(&'static str, fn())>,
) -> ExitCode {
    let first = std::env::args().nth(1);
    if first.is_some_and(|part| part == "run" || part == "client") {
        match Program::<R>::parse().part {
            Part::Run(orders) => return run(&orders),
            Part::Client(client) => client.run(),
        }
        return ExitCode::SUCCESS;
    }
    let tests = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    // One at a time: each wants the machine.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, tests.collect()).exit_code()
}
