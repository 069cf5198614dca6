//! A thousand tickets that stay outstanding: what a restart has to carry over.

use std::collections::HashSet;

use parkd::client::Status;
use parkd::core::error::Result;

use super::super::counts::Counts;
use super::{ClientArgs, connect};
use crate::support::PATIENCE;

/// Tickets that are held.
const TICKETS: u64 = 1000;
/// Lanes that they wait on.
const LANES: u64 = 8;
/// Entries of the rings.
const ENTRIES: u32 = 1024;

/// Holds them until the end, has every lane reach the last of its numbers, and takes the results.
pub fn work(args: &ClientArgs, counts: &mut Counts) -> Result<()> {
    let session = connect(&args.socket, ENTRIES, 64)?;
    let lanes = (0..LANES).map(|_| session.lane()).collect::<Result<Vec<_>>>()?;
    let lane = |tag: u64| &lanes[(tag % LANES) as usize];
    // A lane's numbers go on from what it holds.
    let base: Vec<u64> = lanes.iter().map(|lane| lane.value()).collect();
    let number = |tag: u64| base[(tag % LANES) as usize] + 1 + tag / LANES;
    session.submit_all_tagged((0..TICKETS).map(|tag| (lane(tag).ticket(number(tag)), tag)))?;
    counts.tickets += TICKETS;
    let mut held: HashSet<u64> = (0..TICKETS).collect();
    let stop = args.ready();
    let look = std::time::Duration::from_millis(20);
    while !stop.is() {
        if let Some((tag, completion)) = session.next_completion(Some(look))? {
            held.remove(&tag);
            counts.results += 1;
            counts.too_early(format_args!("held ticket {tag}: {completion:?}"));
        }
    }
    (0..LANES).for_each(|of| lane(of).store_and_ring(number(of) + TICKETS / LANES));
    while !held.is_empty() {
        let Some((tag, completion)) = session.next_completion(Some(PATIENCE))? else { break };
        match (held.remove(&tag), completion.status) {
            (true, Status::Done) => counts.results += 1,
            (true, status) => {
                counts.results += 1;
                counts.error(format_args!("held ticket {tag}: {status:?}"));
            }
            (false, _) => counts.again(format_args!("held ticket {tag}")),
        }
    }
    held.iter().for_each(|tag| counts.never(format_args!("held ticket {tag}")));
    (0..session.strays()).for_each(|_| counts.again("a result that names no ticket"));
    Ok(())
}
