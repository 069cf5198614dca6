//! Whether futex wakes through io_uring get lost or come late, on this machine.
//!
//! `cargo bench --bench futex [-- [--seconds N] [--json]]` races wakes against the arming of waits,
//! between processes, on words of memfds, in the daemon's own io_uring host; a waiter in futex(2)
//! beside it is woken in turn, so that what the machine does to both shows. It ends with status 1
//! where a wake was lost, or where more of the ring's than of the plain waiter's came 10 ms late
//! with nobody to account for it. Run it on a machine that does nothing else.

mod pit;
mod run;
mod scenario;
mod tally;
mod waiter;
mod waker;

use std::process::ExitCode;

use parkd::host::kinds;
use serde_json::json;

use self::run::Outcome;
use self::scenario::SCENARIOS;

const SECONDS: u64 = 40;

fn main() -> ExitCode {
    // cargo adds --bench.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let done = match args.first().map(String::as_str) {
        Some(role) if run::ROLES.contains(&role) => run::child(&args).map(|()| true),
        _ => whole(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("futex: {error}");
            ExitCode::from(2)
        }
    }
}

/// All scenarios in turn; false where wakes were lost or late.
fn whole(args: &[String]) -> Result<bool, String> {
    let (mut seconds, mut json) = (SECONDS, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => json = true,
            "--seconds" => {
                let number = args.next().and_then(|number| number.parse().ok());
                seconds = number.ok_or("--seconds: a number is missing")?;
            }
            odd => return Err(format!("{odd}: none of --seconds N, --json")),
        }
    }
    if let Err(error) = kinds::io_uring() {
        eprintln!("skipped: {error}");
        return Ok(true);
    }
    let share = std::time::Duration::from_secs(seconds) / SCENARIOS.len() as u32;
    let mut outcomes = Vec::new();
    for scenario in SCENARIOS {
        let outcome = run::scenario(scenario, share)?;
        if !json {
            print(&outcome);
        }
        outcomes.push(outcome);
    }
    let good = outcomes.iter().all(Outcome::is_good);
    if json {
        let kernel = rustix::system::uname();
        let kernel = kernel.release().to_string_lossy().into_owned();
        let cpus = std::thread::available_parallelism().map_or(0, usize::from);
        let record = json!({
            "kernel": kernel, "cpus": cpus, "seconds": seconds, "good": good,
            "scenarios": outcomes,
        });
        println!("{record}");
    }
    Ok(good)
}

fn print(outcome: &Outcome) {
    println!("{}", outcome.name);
    for (who, figures, waited) in [
        ("ring", outcome.ring, outcome.ring_waited),
        ("futex", outcome.plain, outcome.plain_waited),
    ] {
        println!(
            "  {who:<6}{:>9} wakes {:>4} lost {:>4} failed {:>8} stale   p50 {:>7.1} p99 {:>8.1} \
             max {:>9.1} us   over 1 ms {}, 10 ms {}; unexplained {}, {}",
            figures.wakes,
            waited.lost,
            waited.failed,
            waited.stale,
            figures.p50_us,
            figures.p99_us,
            figures.max_us,
            figures.late.over_1ms,
            figures.late.over_10ms,
            figures.unexplained.over_1ms,
            figures.unexplained.over_10ms,
        );
    }
}
