//! The figures that parkd is held to, measured on this machine.
//!
//! `cargo bench --bench figures [-- [--json] [wake] [idle] [load]]` prints for each figure what was
//! measured beside its target, and ends with status 1 where one was missed. Everything runs in real
//! processes: the daemon, the software device, the clients. Run it on a machine that does nothing
//! else.

#[path = "../common/proc.rs"]
pub mod proc;
#[path = "../../tests/support/mod.rs"]
pub mod support;

mod idle;
mod load;
mod wake;

use std::process::ExitCode;

use serde::Serialize;

/// One figure: what was measured, and whether it is within its target.
#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
    /// At most this, for all but `answered`, which must be it.
    target: f64,
    met: bool,
    /// What the figure was made of.
    detail: String,
}

type Bench = fn() -> Result<Vec<Figure>, String>;

const BENCHES: [(&str, Bench); 3] = [("wake", wake::run), ("idle", idle::run), ("load", load::run)];

fn main() -> ExitCode {
    // cargo adds --bench.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let json = args.iter().any(|arg| arg == "--json");
    let chosen: Vec<&String> = args.iter().filter(|arg| *arg != "--json").collect();
    if let Some(odd) = chosen.iter().find(|arg| BENCHES.iter().all(|(name, _)| name != **arg)) {
        eprintln!("figures: {odd}: none of wake, idle, load, --json");
        return ExitCode::from(2);
    }
    let mut figures = Vec::new();
    for (name, bench) in BENCHES {
        if !chosen.is_empty() && !chosen.iter().any(|arg| *arg == name) {
            continue;
        }
        match bench() {
            Ok(found) => figures.extend(found),
            Err(error) => {
                eprintln!("figures: {name}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    print(&figures, json);
    if figures.iter().all(|figure| figure.met) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(figures: &[Figure], json: bool) {
    if json {
        println!("{}", serde_json::json!({ "figures": figures }));
        return;
    }
    for Figure { name, value, unit, target, met, detail } in figures {
        let met = if *met { "met" } else { "MISSED" };
        println!("{name:<24}{value:>12.2} {unit:<9} target {target:>9} {met:<7} {detail}");
    }
}
