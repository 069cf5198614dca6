//! Instructions per ticket, stage by stage, counted by callgrind and compared with a baseline.
//!
//! `cargo bench --bench cost [-- [--check] [--write]]` prints what each stage of a ticket's way
//! costs. `--check` ends with status 1 where one is more than 5 percent off `baseline.toml` beside
//! this file, in either direction; `--write` makes that file anew, which needs a reason in
//! CHANGELOG.md. The stages run on the engine, the rings and the table that the daemon has, in this
//! process and on one thread, so that a count is the same each time. Counts are the compiler's too:
//! a baseline of another one is not compared with.

mod bench;
mod count;
mod stages;

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use count::Count;
use stages::STAGES;

/// How far off a count may be.
const PERCENT: f64 = 5.0;

const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/cost/baseline.toml");

/// The file of what was counted when somebody last looked.
#[derive(Debug, Deserialize, Serialize)]
struct Baseline {
    /// What `rustc --version` said.
    rustc: String,
    /// By stage: instructions for one of what it does.
    instructions: BTreeMap<String, f64>,
}

fn main() -> ExitCode {
    // cargo adds --bench.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [flag, stage] = &args[..]
        && flag == count::RUN
    {
        return stages::run(stage);
    }
    let known = ["--check", "--write"];
    if let Some(odd) = args.iter().find(|arg| !known.contains(&arg.as_str())) {
        eprintln!("cost: {odd}: none of {}", known.join(", "));
        return ExitCode::from(2);
    }
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let counts = match count::all() {
        Ok(Ok(counts)) => counts,
        Ok(Err(why)) => {
            println!("skipped: {why}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("cost: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = match (has("--write"), has("--check")) {
        (true, _) => write(&counts),
        (false, check) => compare(&counts, check),
    };
    done.unwrap_or_else(|error| {
        eprintln!("cost: {BASELINE}: {error}");
        ExitCode::FAILURE
    })
}

fn write(counts: &[Count]) -> Result<ExitCode, String> {
    let rounded = |count: &Count| (count.each() * 10.0).round() / 10.0;
    let by_stage = counts.iter().map(|count| (count.stage.to_owned(), rounded(count)));
    let baseline = Baseline { rustc: rustc()?, instructions: by_stage.collect() };
    let head = "# Instructions for one of what each stage does: see benches/cost/main.rs. Whoever\n\
                # changes this file says why in CHANGELOG.md.\n";
    let text = toml::to_string(&baseline).map_err(|error| error.to_string())?;
    std::fs::write(BASELINE, format!("{head}{text}")).map_err(|error| error.to_string())?;
    print(counts, &baseline);
    Ok(ExitCode::SUCCESS)
}

fn compare(counts: &[Count], check: bool) -> Result<ExitCode, String> {
    let text = std::fs::read_to_string(BASELINE).map_err(|error| error.to_string())?;
    let baseline: Baseline = toml::from_str(&text).map_err(|error| error.to_string())?;
    let off = print(counts, &baseline);
    let here = rustc()?;
    if here != baseline.rustc {
        println!("skipped: the baseline is of {}, this is {here}", baseline.rustc);
        return Ok(ExitCode::SUCCESS);
    }
    if check && (!off.is_empty() || baseline.instructions.len() != STAGES.len()) {
        println!("more than {PERCENT} % off: {}", off.join(", "));
        println!("where that is meant: --write, and the reason in CHANGELOG.md");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the table; answers the stages that are off.
fn print(counts: &[Count], baseline: &Baseline) -> Vec<String> {
    let mut off = Vec::new();
    println!("{:<22} {:>10} {:>10} {:>8}  of", "stage", "now", "baseline", "");
    for count in counts {
        let stage = STAGES.iter().find(|stage| stage.name == count.stage);
        let of = stage.map_or("", |stage| stage.of);
        let was = baseline.instructions.get(count.stage).copied();
        let percent = was.map_or(f64::INFINITY, |was| 100.0 * (count.each() - was) / was);
        let was = was.map_or("none".to_owned(), |was| format!("{was:.1}"));
        println!("{:<22} {:>10.1} {was:>10} {percent:>+7.1}%  {of}", count.stage, count.each());
        if percent.abs() > PERCENT {
            off.push(count.stage.to_owned());
        }
    }
    off
}

fn rustc() -> Result<String, String> {
    let said = std::process::Command::new("rustc").arg("--version").output();
    let said = said.map_err(|error| format!("rustc: {error}"))?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
