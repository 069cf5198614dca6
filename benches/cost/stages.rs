//! The stages of a ticket's way. Each is a function of its own, which nothing else calls, so that
//! callgrind can count inside it alone.

use std::process::ExitCode;

use parkd::core::time::DurNs;
use parkd::proto::entry::EntryWords;

use crate::bench::{Bench, DEPTH};

/// Times that a stage is run. What is done once, at the first, vanishes among the others.
const ROUNDS: u64 = 64;

/// Tickets that wait while others are served, or nothing happens.
const WAITING: u32 = 10_000;

/// A stage.
pub struct Stage {
    pub name: &'static str,
    /// The function that is counted.
    pub function: &'static str,
    /// What one count is of.
    pub of: &'static str,
    /// Runs it, and answers how often it was done.
    run: fn() -> u64,
}

const fn stage(
    name: &'static str,
    function: &'static str,
    of: &'static str,
    run: fn() -> u64,
) -> Stage {
    Stage { name, function, of, run }
}

/// All of them.
pub const STAGES: [Stage; 8] = [
    stage("submit", "submit", "a ticket that the client puts into the ring", run_submit),
    stage("record", "record", "a ticket that is taken and waits", run_record),
    stage("complete", "complete", "a ticket that a look finds done", run_complete),
    stage("landed", "landed", "a ticket whose number had been stored", run_landed),
    stage("collect", "collect", "a result that the client takes", run_collect),
    stage("lone_turn", "turn", "a turn beside one waiting ticket", run_lone_turn),
    stage("idle_turn", "turn", "a turn beside 10,000 waiting tickets", run_idle_turn),
    stage("served_turn", "served_turn", "a ticket's whole way, beside them", run_served),
];

/// Runs the stage of this name, and says how often it was done.
pub fn run(name: &str) -> ExitCode {
    let Some(stage) = STAGES.iter().find(|stage| stage.name == name) else {
        eprintln!("cost: {name}: no such stage");
        return ExitCode::from(2);
    };
    println!("{}", (stage.run)());
    ExitCode::SUCCESS
}

#[inline(never)]
fn submit(bench: &mut Bench, tickets: &[EntryWords]) {
    bench.push(tickets);
}

#[inline(never)]
fn record(bench: &mut Bench) {
    bench.drain();
}

#[inline(never)]
fn complete(bench: &mut Bench) {
    bench.engine.look(0, None, bench.now);
    bench.publish();
}

#[inline(never)]
fn landed(bench: &mut Bench) {
    bench.drain();
    bench.publish();
}

#[inline(never)]
fn collect(bench: &mut Bench) -> u64 {
    bench.collect()
}

#[inline(never)]
fn turn(bench: &mut Bench) {
    bench.turn();
}

#[inline(never)]
fn served_turn(bench: &mut Bench, ticket: EntryWords) {
    bench.push(&[ticket]);
    bench.drain();
    bench.lanes.store(0, bench.number);
    bench.engine.look(0, Some(0), bench.now);
    bench.publish();
    bench.collect();
}

/// One round: a batch goes all the way. `landed` says whether its numbers are stored first.
fn round(bench: &mut Bench, stored_first: bool) {
    let tickets = bench.batch();
    if stored_first {
        bench.lanes.store(0, bench.number);
    }
    submit(bench, &tickets);
    if stored_first {
        landed(bench);
    } else {
        record(bench);
        bench.lanes.store(0, bench.number);
        complete(bench);
    }
    assert_eq!(collect(bench), DEPTH, "a result each");
    bench.pass(100);
}

fn rounds(stored_first: bool) -> u64 {
    let mut bench = Bench::new(64);
    (0..ROUNDS).for_each(|_| round(&mut bench, stored_first));
    ROUNDS * DEPTH
}

fn run_submit() -> u64 {
    rounds(false)
}

fn run_record() -> u64 {
    rounds(false)
}

fn run_complete() -> u64 {
    rounds(false)
}

fn run_collect() -> u64 {
    rounds(false)
}

fn run_landed() -> u64 {
    rounds(true)
}

/// A session with so many tickets on one lane, of which none is near.
fn waiting(count: u32) -> Bench {
    let mut bench = Bench::new(64);
    let tickets: Vec<_> = (0..count).map(|_| bench.ticket(1)).collect();
    bench.push(&tickets);
    bench.drain();
    assert_eq!(bench.engine.outstanding(), count);
    bench
}

fn turns(beside: u32) -> u64 {
    let mut bench = waiting(beside);
    for _ in 0..ROUNDS {
        // Less than a park: nothing is due.
        bench.now = bench.now + DurNs(100);
        turn(&mut bench);
    }
    ROUNDS
}

fn run_lone_turn() -> u64 {
    turns(1)
}

fn run_idle_turn() -> u64 {
    turns(WAITING)
}

fn run_served() -> u64 {
    let mut bench = waiting(WAITING);
    for _ in 0..ROUNDS {
        let ticket = bench.ticket(0);
        served_turn(&mut bench, ticket);
    }
    ROUNDS
}
