//! Tickets whose number never comes: they expire, or are cancelled, and not before.

use std::time::Duration;

use parkd::client::{Lane, Status};
use parkd::core::error::Result;
use parkd::core::time::DurNs;
use parkd::host::clock;

use super::super::Dice;
use super::super::counts::Counts;
use super::{ClientArgs, connect, patience, settle};

/// The longest time to a deadline.
const DEADLINE_US: u64 = 20_000;
/// Entries of the rings.
const ENTRIES: u32 = 64;

/// Has one expire, and one cancelled, in turns.
pub fn work(args: &ClientArgs, counts: &mut Counts) -> Result<()> {
    let session = connect(&args.socket, ENTRIES, 64)?;
    let lane = session.lane()?;
    let stop = args.ready();
    let mut dice = Dice::new(args.seed);
    while !stop.is() {
        expire(&lane, Duration::from_micros(dice.below(DEADLINE_US)), counts)?;
        cancel(&lane, counts)?;
    }
    settle(&session, ENTRIES, counts)
}

fn expire(lane: &Lane, after: Duration, counts: &mut Counts) -> Result<()> {
    let deadline = clock::now() + DurNs(after.as_nanos() as u64);
    let ticket = lane.ticket(lane.value() + 1).deadline(deadline);
    let mut ticket = ticket.submit_blocking()?;
    counts.tickets += 1;
    let Some(completion) = ticket.wait_for(patience(counts))? else {
        counts.never("a ticket with a deadline");
        return Ok(());
    };
    counts.results += 1;
    if completion.status != Status::DeadlineExpired {
        counts.error(format_args!("a ticket with a deadline: {completion:?}"));
    } else if completion.detected < deadline {
        counts.too_early(format_args!("{deadline:?} expired at {:?}", completion.detected));
    }
    Ok(())
}

fn cancel(lane: &Lane, counts: &mut Counts) -> Result<()> {
    let mut ticket = lane.ticket(lane.value() + 1).submit_blocking()?;
    counts.tickets += 1;
    ticket.cancel()?;
    match ticket.wait_for(patience(counts))? {
        Some(completion) => {
            counts.results += 1;
            if completion.status != Status::Cancelled {
                counts.error(format_args!("a ticket that was cancelled: {completion:?}"));
            }
        }
        None => counts.never("a ticket that was cancelled"),
    }
    Ok(())
}
