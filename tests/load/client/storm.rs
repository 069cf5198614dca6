//! Storms: a session is made, its rings are filled at once, all of it ends at once, and it goes.

use std::collections::HashSet;

use parkd::client::{Session, Status};
use parkd::core::error::Result;

use super::super::counts::Counts;
use super::{ClientArgs, connect, patience};

/// Entries of the rings, all of which are used.
const ENTRIES: u32 = 2048;
/// Connections that are made beside the session, and dropped.
const CALLERS: u32 = 8;

/// One storm after another.
pub fn work(args: &ClientArgs, counts: &mut Counts) -> Result<()> {
    let stop = args.ready();
    while !stop.is() {
        let session = connect(&args.socket, ENTRIES, 64)?;
        for _ in 0..CALLERS {
            drop(connect(&args.socket, 64, 64)?);
        }
        burst(&session, counts)?;
    }
    Ok(())
}

fn burst(session: &Session, counts: &mut Counts) -> Result<()> {
    let lane = session.lane()?;
    let base = lane.value();
    let mut flying: HashSet<u64> = (1..=u64::from(ENTRIES)).collect();
    let tickets = (1..=u64::from(ENTRIES)).map(|n| (lane.ticket(base + n), n));
    session.submit_all_tagged(tickets)?;
    counts.tickets += u64::from(ENTRIES);
    lane.store(base + u64::from(ENTRIES));
    while !flying.is_empty() {
        let Some((tag, done)) = session.next_completion(Some(patience(counts)))? else { break };
        match (flying.remove(&tag), done.status) {
            (true, Status::Done) => counts.results += 1,
            (true, status) => {
                counts.results += 1;
                counts.error(format_args!("storm {tag}: {status:?}"));
            }
            (false, _) => counts.again(format_args!("storm {tag}")),
        }
    }
    flying.iter().for_each(|tag| counts.never(format_args!("storm {tag}")));
    (0..session.strays()).for_each(|_| counts.again("a result that names no ticket"));
    Ok(())
}
