//! System calls of a client that submits while FILL is awake, and that waits for what has landed.
//!
//! This program is started again under strace to be the client.

use std::path::Path;

use parkd::client::Session;
use parkd::shm::area::open_status;
use parkd::shm::status::StatusReader;

use crate::support::{Daemon, Executor, Folder, raw, skipped, until};
use crate::traced::{can_trace, strace, total};

crate::for_each_executor! { submitting_to_a_daemon_that_is_awake_makes_no_system_call }

const SOCKET: &str = "PARKD_TEST_COSTS_SOCKET";

/// Tickets, first of a kind that waits, then of one that has landed.
const TICKETS: u64 = 10_000;

/// A tenth of what one system call for each would be.
const CALLS_MAX: u64 = 2 * TICKETS / 10;

fn submitting_to_a_daemon_that_is_awake_makes_no_system_call(executor: &Executor) {
    if let Err(why) = can_trace() {
        return skipped(&why);
    }
    let awake = "spin_us = 10000\nspin_budget_percent = 100\n";
    let daemon = Daemon::start(executor, &format!("[park]\n{awake}"));
    let folder = Folder::new();
    let summary = folder.file("summary");
    let mut client = strace(&summary);
    client.arg(std::env::current_exe().expect("this program"));
    client.args(["--exact", "submitting::a_process_of_its_own", "--nocapture"]);
    let ran = client.env(SOCKET, daemon.socket()).output().expect("strace");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let calls = total(&summary);
    println!("{}: {calls} calls of a client for {} tickets", executor.name, 2 * TICKETS);
    assert!(calls < CALLS_MAX, "{calls} calls");
    let status = raw::control(&daemon.socket()).status();
    // One keeps the daemon awake; what has landed has never come here.
    assert!(status["counters"]["tickets"].as_u64() <= Some(TICKETS + 1), "{status}");
}

#[test]
fn a_process_of_its_own() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let builder = Session::builder().submit_entries(16_384).result_entries(16_384);
    let session = builder.connect_to(Path::new(&socket)).unwrap();
    let status = open_status(session.status_fd().unwrap()).unwrap();
    let daemon = StatusReader::new(status).unwrap();
    let (lane, other) = (session.lane().unwrap(), session.lane().unwrap());
    let poll = session.plan("poll").unwrap();
    let keeps_awake = other.ticket(1).plan(poll).submit().unwrap();
    until("the daemon is awake", || (!daemon.parked()).then_some(()));
    let tickets = (1..=TICKETS).map(|number| lane.ticket(number).submit().unwrap());
    let mut tickets: Vec<_> = tickets.collect();
    lane.store_and_ring(TICKETS);
    for ticket in &mut tickets {
        while ticket.try_wait().unwrap().is_none() {}
    }
    for number in 1..=TICKETS {
        assert!(lane.ticket(number).submit().unwrap().wait().unwrap().is_done());
    }
    drop(keeps_awake);
}
