//! System calls of a daemon that serves a full ring.

use std::fs;
use std::path::Path;
use std::process::Command;

use parkd::proto::entry::Status;
use parkd::proto::message::Hello;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::raw::{Session, control, hello, word};
use crate::support::{Daemon, Executor, Folder, IO_URING, skipped};

crate::for_each_executor! { a_full_ring_is_served_without_system_calls }

/// Tickets in the ring at once.
const DEPTH: u64 = 256;

const BATCHES: u64 = 256;

/// At most so many for a ticket: the figure that is kept to.
const CALLS_PER_TICKET: f64 = 0.1;

/// The same without io_uring: there each turn may ask the kernel, and a turn of a daemon that is
/// not optimised has time for a batch of four.
const CALLS_WITHOUT: f64 = 0.5;

fn a_full_ring_is_served_without_system_calls(executor: &Executor) {
    let (calls, most) = if executor.name == IO_URING.name {
        match can_trace() {
            Ok(()) => (traced_calls(executor), CALLS_PER_TICKET),
            Err(why) => return skipped(&why),
        }
    } else {
        // These ask the kernel every so often as time goes: traced it goes ten times as slowly.
        (own_count(executor), CALLS_WITHOUT)
    };
    let per_ticket = calls as f64 / (BATCHES * DEPTH) as f64;
    println!("{}: {calls} calls, {per_ticket:.4} a ticket", executor.name);
    assert!(calls > 0 && per_ticket <= most, "{per_ticket} calls a ticket");
}

/// Those of the daemon's whole life, counted by strace.
fn traced_calls(executor: &Executor) -> u64 {
    let folder = Folder::new();
    let summary = folder.file("summary");
    let mut program = strace(&summary);
    program.arg(env!("CARGO_BIN_EXE_parkd"));
    let config = format!("executor = {:?}\nstrict = true\n", executor.name);
    let mut daemon = Daemon::launch_as(program, &folder, &config);
    daemon.listening();
    serve(&daemon);
    // strace goes on to its sums when what it traces has ended.
    kill_process(traced(daemon.pid()), Signal::TERM).unwrap();
    daemon.ended();
    total(&summary)
}

/// Those of FILL, counted by itself.
fn own_count(executor: &Executor) -> u64 {
    let daemon = Daemon::start(executor, "");
    let count = || control(&daemon.socket()).status()["fill"]["syscalls"].as_u64().unwrap();
    let before = count();
    serve(&daemon);
    count() - before
}

fn serve(daemon: &Daemon) {
    let entries = DEPTH as u32;
    let hello = Hello { submit_entries: entries, result_entries: entries, ..hello() };
    let mut session = Session::open_with(&daemon.socket(), &hello);
    let lane = session.lane(64);
    for batch in 0..BATCHES {
        let numbers = batch * DEPTH + 1..=(batch + 1) * DEPTH;
        session.store(lane.lane, *numbers.end());
        let tickets: Vec<_> = numbers.clone().map(|n| word(lane.lane, n, n)).collect();
        session.push(&tickets);
        numbers.for_each(|n| assert_eq!(session.outcome(), (n, Status::Done)));
    }
}

/// strace of a program and all its threads, which writes its sums into a file.
pub fn strace(summary: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-o"]).arg(summary);
    strace
}

/// Whether strace is there and may trace; else why not.
pub fn can_trace() -> Result<(), String> {
    match strace(Path::new("/dev/null")).arg("/bin/true").output() {
        Err(error) => Err(format!("strace: {error}")),
        Ok(output) if !output.status.success() => {
            Err(format!("strace: {}", String::from_utf8_lossy(&output.stderr)))
        }
        Ok(_) => Ok(()),
    }
}

/// The process that strace has started.
fn traced(strace: u32) -> Pid {
    let children = fs::read_to_string(format!("/proc/{strace}/task/{strace}/children")).unwrap();
    let pid = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
    pid.and_then(Pid::from_raw).expect("strace has a child")
}

/// The sum of a summary: the fourth column of its last line, where errors are the fifth.
pub fn total(summary: &Path) -> u64 {
    let text = fs::read_to_string(summary).unwrap();
    let line = text.lines().rev().find(|line| line.ends_with(" total")).expect("a sum");
    line.split_whitespace().nth(3).and_then(|calls| calls.parse().ok()).expect("a number")
}
