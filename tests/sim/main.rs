//! A seeded simulator: the engine, the rings and the recovery of the daemon in virtual time, among
//! clients, devices, wakes and kills that do whatever their seed says.
//!
//! `cargo test --test sim` runs 2,000 seeds, `PARKD_SIM_SEEDS=N` as many as it says; for many,
//! `cargo test --release --test sim` is the command. `PARKD_SIM_SEED=S` with `-- --nocapture` runs
//! seed S alone and prints its every step. In a stretch of some seeds the daemon is also killed at
//! one moment after another, each in a run of its own.

mod book;
mod client;
mod daemon;
mod device;
mod hostile;
mod judge;
mod kill;
mod lane_book;
mod plans;
mod rates;
mod recover;
mod request;
mod rng;
mod seat;
mod serve;
mod settle;
mod sharing;
mod tally;
mod words;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use kill::Kill;
use tally::{Count, Tally};
use world::World;

const SEEDS: u64 = 2000;
/// The test that replays a seed.
const TEST: &str = "nothing_is_lost";
/// Seeds, and the steps from which on the daemon is killed at every moment.
const STRETCHES: [(u64, u64); 3] = [(3, 40), (11, 150), (20, 300)];
/// How many moments one after another.
const MOMENTS: u32 = 150;
/// Steps of a seed, at least.
const STEPS: u64 = 500;
/// Enough of them for every count to be met.
const TELLING: u64 = 1000;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Runs a seed; `false` when it failed, which was said.
fn run(seed: u64, kill: Option<Kill>, trace: bool, sum: &Tally) -> bool {
    let world = World::new(seed, kill, trace);
    let good = catch_unwind(AssertUnwindSafe(|| world.run())).is_ok();
    sum.merge(&world.tally);
    let steps = world.tally.of(Count::Steps);
    assert!(!good || steps >= STEPS, "seed {seed} has {steps} steps");
    assert!(!good || !world.to_die.get(), "seed {seed}: not killed at {kill:?}");
    if !good {
        let kill = kill.map_or_else(String::new, |kill| format!("PARKD_SIM_KILL={kill} "));
        eprintln!("seed {seed} failed; step by step:");
        eprintln!("  PARKD_SIM_SEED={seed} {kill}cargo test --test sim {TEST} -- --nocapture");
    }
    good
}

/// Replays the seed that the environment names, if it names one.
fn replay() -> Option<()> {
    let seed = number("PARKD_SIM_SEED")?;
    let kill = std::env::var("PARKD_SIM_KILL").ok().map(|text| text.parse().unwrap());
    let sum = Tally::new();
    let good = run(seed, kill, true, &sum);
    println!("{sum}");
    assert!(good, "seed {seed}");
    Some(())
}

#[test]
fn nothing_is_lost_and_nothing_early() {
    if replay().is_some() {
        return;
    }
    let seeds = number("PARKD_SIM_SEEDS").unwrap_or(SEEDS);
    if cfg!(debug_assertions) && seeds > SEEDS {
        eprintln!("a release build is 15 times as fast: cargo test --release --test sim");
    }
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
                    let good = run(seed, None, false, &sum);
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

#[test]
fn the_daemon_may_die_at_any_moment() {
    if std::env::var_os("PARKD_SIM_SEED").is_some() {
        return;
    }
    let sum = Tally::new();
    for (seed, step) in STRETCHES {
        for moment in 1..=MOMENTS {
            let kill = Kill { step, moment };
            assert!(run(seed, Some(kill), false, &sum), "seed {seed}, killed at {kill}");
        }
    }
}
