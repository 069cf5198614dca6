//! How often the kernel switches a thread of the daemon in or out while nobody waits: without a
//! session, and with some that have waited and will again.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use parkd::client::Session;

use crate::Figure;
use crate::support::{Daemon, IO_URING};

const SESSIONS: usize = 4;
const IDLE: Duration = Duration::from_secs(10);
/// How long the daemon may take to come to rest.
const SETTLE: Duration = Duration::from_secs(10);
const STILL: Duration = Duration::from_millis(500);

pub fn run() -> Result<Vec<Figure>, String> {
    let daemon = Daemon::start(&IO_URING, "");
    let tasks = daemon.proc("task");
    let mut figures = vec![figure("idle: no session", &tasks)?];
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(waited(&daemon).map_err(|error| error.to_string())?);
    }
    figures.push(figure("idle: 4 sessions", &tasks)?);
    Ok(figures)
}

/// A session that has had a ticket answered.
fn waited(daemon: &Daemon) -> parkd::core::error::Result<Session> {
    let session = Session::connect_to(&daemon.socket())?;
    let lane = session.lane()?;
    let ticket = lane.ticket(1).submit()?;
    lane.store_and_ring(1);
    ticket.wait()?.into_result()?;
    Ok(session)
}

fn figure(name: &'static str, tasks: &Path) -> Result<Figure, String> {
    let switches = || switches(tasks).map_err(|error| format!("{}: {error}", tasks.display()));
    // What was asked for before may still be going on.
    let deadline = Instant::now() + SETTLE;
    let mut before = switches()?;
    loop {
        std::thread::sleep(STILL);
        let now = switches()?;
        if now == before || Instant::now() > deadline {
            break;
        }
        before = now;
    }
    let before = switches()?;
    std::thread::sleep(IDLE);
    let value = (switches()? - before) as f64;
    let detail = format!("voluntary and not, all threads, in {} s", IDLE.as_secs());
    Ok(Figure { name, value, unit: "switches", target: 0.0, met: value == 0.0, detail })
}

/// Context switches of all threads so far.
fn switches(tasks: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(tasks)? {
        let status = fs::read_to_string(task?.path().join("status"))?;
        sum += status
            .lines()
            .filter_map(|line| line.split_once("voluntary_ctxt_switches:"))
            .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
            .sum::<u64>();
    }
    // A daemon that runs has been switched in: none counted means that nothing was read.
    if sum == 0 { Err(std::io::Error::other("no context switches to be read")) } else { Ok(sum) }
}
