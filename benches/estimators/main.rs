//! The estimators on traces: how often they are late, by how much, and what they burn.
//!
//! `cargo bench --bench estimators [-- --json]` replays synthetic traces and those recorded in
//! `benches/traces` through every rule, with the numbers of the shipped configuration, and beside
//! them a client that spins and one that sleeps between looks. Nothing is measured here: each wait
//! is computed ([`model`]), so the figures are the same on every machine.

mod model;
mod traces;

use std::process::ExitCode;

use parkd::core::estimator::EstimatorKind;
use serde_json::json;

use self::model::{Looks, Rule, Totals};
use self::traces::Trace;

const SHIPPED: &str = include_str!("../../config/parkd.toml");

fn main() -> ExitCode {
    let json = std::env::args().any(|arg| arg == "--json");
    match table(json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("estimators: {error}");
            ExitCode::FAILURE
        }
    }
}

fn table(json: bool) -> Result<(), String> {
    let looks = Looks::shipped(SHIPPED)?;
    let mut records = Vec::new();
    for trace in traces::all()? {
        if !json {
            println!("{} ({} waits)", trace.name, trace.ns.len());
        }
        let rules = EstimatorKind::ALL.iter().map(|kind| Rule::Estimated(*kind));
        for rule in rules.chain([Rule::Spin, Rule::SleepPoll]) {
            let totals = looks.replay(rule, trace.work());
            match json {
                true => records.push(record(&trace, rule, &totals)),
                false => print(rule, &totals),
            }
        }
    }
    if json {
        println!("{}", json!({ "estimators": records }));
    }
    Ok(())
}

fn record(trace: &Trace, rule: Rule, totals: &Totals) -> serde_json::Value {
    json!({
        "trace": trace.name,
        "rule": rule.name(),
        "late_percent": totals.late_percent(),
        "added_ns": { "mean": totals.mean_added_ns(), "p99": totals.added_ns(0.99) },
        "watched_percent": totals.watched_percent(),
    })
}

fn print(rule: Rule, totals: &Totals) {
    println!(
        "  {:<12} late {:>6.2} %   added: mean {:>7.1} us, p99 {:>7.1} us   watched {:>6.2} %",
        rule.name(),
        totals.late_percent(),
        totals.mean_added_ns() / 1000.0,
        totals.added_ns(0.99) as f64 / 1000.0,
        totals.watched_percent(),
    );
}
