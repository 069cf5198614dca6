//! A seeded simulator: the engine, the rings and the recovery of the daemon in virtual time, among
//! clients, devices, wakes and kills that do whatever their seed says.
//!
//! `cargo test --test sim` runs 2,000 seeds, `PARKD_SIM_SEEDS=N` as many as it says.
//! `PARKD_SIM_SEED=S` with `-- --nocapture` runs seed S alone and prints its every step.

mod book;
mod client;
mod daemon;
mod device;
mod hostile;
mod judge;
mod lane_book;
mod plans;
mod rates;
mod recover;
mod request;
mod rng;
mod seat;
mod serve;
mod sharing;
mod tally;
mod words;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use tally::{Count, Tally};
use world::World;

const SEEDS: u64 = 2000;
/// Steps of a seed, at least.
const STEPS: u64 = 500;
/// Enough of them for every count to be met.
const TELLING: u64 = 1000;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Runs a seed; `false` when it failed, which was said.
fn run(seed: u64, trace: bool, sum: &Tally) -> bool {
    let world = World::new(seed, trace);
    let good = catch_unwind(AssertUnwindSafe(|| world.run())).is_ok();
    sum.merge(&world.tally);
    assert!(!good || world.tally.of(Count::Steps) >= STEPS, "seed {seed} is too short");
    if !good {
        eprintln!("seed {seed} failed; step by step:");
        eprintln!("  PARKD_SIM_SEED={seed} cargo test --test sim -- --nocapture");
    }
    good
}

#[test]
fn nothing_is_lost_and_nothing_early() {
    if let Some(seed) = number("PARKD_SIM_SEED") {
        let sum = Tally::new();
        let good = run(seed, true, &sum);
        println!("{sum}");
        assert!(good, "seed {seed}");
        return;
    }
    let seeds = number("PARKD_SIM_SEEDS").unwrap_or(SEEDS);
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let ran = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let total = Mutex::new(Tally::new());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let sum = Tally::new();
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    let good = run(seed, false, &sum);
                    ran.fetch_add(1, Ordering::Relaxed);
                    if !good {
                        failed.store(true, Ordering::Relaxed);
                    }
                }
                total.lock().unwrap().merge(&sum);
            });
        }
    });
    let total = total.into_inner().unwrap();
    let seconds = began.elapsed().as_secs_f64();
    println!("{total}");
    let ran = ran.into_inner();
    println!("{ran} seeds in {seconds:.1} s, {:.0} a second", ran as f64 / seconds);
    assert!(!failed.into_inner(), "a seed failed, see above");
    if seeds >= TELLING {
        assert_eq!(total.never(), Vec::<&str>::new(), "never met in {seeds} seeds");
    }
}
