//! A crowd: tickets that merely wait, for numbers that never come, and the memory that the daemon
//! spends on them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use parkd::client::{Lane, Session};
use parkd::proto::limits::{RING_ENTRIES_MAX, RING_ENTRIES_MIN};

use super::daemon::Daemon;
use super::{Doing, Result};

/// Lanes of each session: what a session has that asks for nothing.
const LANES: u64 = 64;

/// Tickets handed in at once.
const BATCH: u64 = 256;

/// A number that is never stored.
const NEVER: u64 = 1 << 40;

const PATIENCE: Duration = Duration::from_secs(20);

/// Sessions whose tickets wait, until its value goes.
pub struct Crowd {
    _sessions: Vec<(Session, Vec<Lane>)>,
}

impl Crowd {
    /// So many tickets, spread over the lanes of as few sessions as can have them, each with a
    /// result ring that they fill.
    pub fn gather(socket: &Path, tickets: u64) -> Result<Crowd> {
        let mut sessions = Vec::new();
        for entries in rings(tickets) {
            let least = RING_ENTRIES_MIN.into();
            let session = Session::builder().result_entries(u64::max(entries, least) as u32);
            let session = session.connect_to(socket).doing("crowd")?;
            let lanes = (0..LANES).map(|_| session.lane()).collect::<Vec<_>>();
            let lanes = lanes.into_iter().collect::<std::result::Result<Vec<_>, _>>();
            let lanes: Vec<Lane> = lanes.doing("crowd")?;
            submit(&session, &lanes, entries)?;
            sessions.push((session, lanes));
        }
        Ok(Crowd { _sessions: sessions })
    }
}

/// Sizes of result rings that are filled by so many tickets.
pub fn rings(tickets: u64) -> Vec<u64> {
    let (mut left, mut rings) = (tickets, Vec::new());
    while left > 0 {
        let most = left.min(RING_ENTRIES_MAX.into());
        let entries = if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 };
        // The last few share a ring of the least size.
        let entries = if left < u64::from(RING_ENTRIES_MIN) { left } else { entries };
        rings.push(entries);
        left -= entries;
    }
    rings
}

fn submit(session: &Session, lanes: &[Lane], tickets: u64) -> Result<()> {
    let numbers: Vec<u64> = (0..tickets).collect();
    for batch in numbers.chunks(BATCH as usize) {
        let room = session.wait_for_room(batch.len() as u32, Some(PATIENCE)).doing("crowd")?;
        if !room {
            return Err("crowd: the daemon takes no tickets".into());
        }
        let tickets = batch.iter().map(|number| {
            let lane = &lanes[(number % LANES) as usize];
            (lane.ticket(NEVER + number).point(number % LANES + 1), *number)
        });
        session.submit_all_tagged(tickets).doing("crowd")?;
    }
    Ok(())
}

/// Waits until the daemon has exactly so many outstanding tickets.
pub fn wait_for(daemon: &Daemon, tickets: u64) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let has = daemon.count("/tickets")?.unwrap_or(0);
        if has == tickets {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("the daemon has {has} tickets, not {tickets}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What a process holds in memory for its sessions: what is its alone, and the tables and rings
/// that it has mapped, in bytes.
pub fn memory_of(pid: u32) -> Result<u64> {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).doing("smaps")?;
    Ok(memory_in(&smaps))
}

/// The same of the text of smaps.
pub fn memory_in(smaps: &str) -> u64 {
    let (mut shared, mut kb) = (false, 0);
    for line in smaps.lines() {
        let Some((key, rest)) = line.split_once(':').filter(|(key, _)| is_field(key)) else {
            shared = line.contains("parkd-table") || line.contains("parkd-rings");
            continue;
        };
        let counts = match key {
            "Rss" => shared,
            "Private_Clean" | "Private_Dirty" => !shared,
            _ => false,
        };
        let value = rest.split_whitespace().next().and_then(|value| value.parse::<u64>().ok());
        kb += value.filter(|_| counts).unwrap_or(0);
    }
    kb * 1024
}

/// A mapping's own line begins with its addresses, and has a colon in its device.
fn is_field(key: &str) -> bool {
    key.starts_with(|first: char| first.is_ascii_uppercase()) && !key.contains(' ')
}
