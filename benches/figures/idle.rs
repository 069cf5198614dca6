//! How often the kernel switches a thread of the daemon in or out while nobody waits: without a
//! session, and with some that have waited and will again.

use std::time::{Duration, Instant};

use parkd::client::Session;

use crate::Figure;
use crate::proc;
use crate::support::{Daemon, IO_URING};

const SESSIONS: usize = 4;
const IDLE: Duration = Duration::from_secs(10);
/// How long the daemon may take to come to rest.
const SETTLE: Duration = Duration::from_secs(10);
const STILL: Duration = Duration::from_millis(500);

pub fn run() -> Result<Vec<Figure>, String> {
    let daemon = Daemon::start(&IO_URING, "");
    let pid = daemon.pid().to_string();
    let mut figures = vec![figure("idle: no session", &pid)?];
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(waited(&daemon).map_err(|error| error.to_string())?);
    }
    figures.push(figure("idle: 4 sessions", &pid)?);
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

fn figure(name: &'static str, pid: &str) -> Result<Figure, String> {
    let switches = || proc::switches(pid).map_err(|error| format!("the daemon: {error}"));
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
