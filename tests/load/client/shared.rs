//! Tickets on lanes of another session: their owner stores, and never waits itself.

use std::time::Duration;

use parkd::client::{Lane, RedeemedLane, Status};
use parkd::core::error::Result;

use super::super::counts::Counts;
use super::super::idle;
use super::{ClientArgs, connect, patience, settle};

/// Lanes that are shared.
const LANES: usize = 4;
/// Tickets on each at a time.
const TICKETS: u64 = 4;
/// Entries of the rings.
const ENTRIES: u32 = 64;
/// For how long numbers are held back, at most.
const HELD_BACK_US: u64 = 2000;

/// Has numbers stored that others wait for, until the end.
pub fn work(args: &ClientArgs, counts: &mut Counts) -> Result<()> {
    let owner = connect(&args.socket, ENTRIES, 64)?;
    let waiter = connect(&args.socket, ENTRIES, 64)?;
    let lanes = (0..LANES).map(|_| {
        let lane = owner.lane()?;
        let redeemed = waiter.redeem(&lane.share()?)?;
        Ok((lane, redeemed))
    });
    let lanes = lanes.collect::<Result<Vec<_>>>()?;
    let mut dice = super::super::Dice::new(args.seed);
    let stop = args.ready();
    while !stop.is() {
        let held_back = Duration::from_micros(dice.below(HELD_BACK_US));
        for (lane, redeemed) in &lanes {
            round(lane, redeemed, held_back, counts)?;
        }
    }
    settle(&waiter, ENTRIES, counts)?;
    settle(&owner, ENTRIES, counts)
}

/// Tickets on the next numbers of a lane, each stored after a while.
fn round(
    lane: &Lane,
    redeemed: &RedeemedLane,
    held_back: Duration,
    counts: &mut Counts,
) -> Result<()> {
    let first = lane.value() + 1;
    let submit = |number| redeemed.ticket(number).submit();
    let tickets = (first..first + TICKETS).map(submit).collect::<Result<Vec<_>>>()?;
    counts.tickets += TICKETS;
    idle(held_back);
    for (mut ticket, number) in tickets.into_iter().zip(first..) {
        if let Some(completion) = ticket.try_wait()? {
            counts.results += 1;
            counts.too_early(format_args!("{number} of another's lane: {completion:?}"));
            lane.store(number);
            continue;
        }
        lane.store(number);
        match ticket.wait_for(patience(counts))? {
            Some(completion) if completion.status == Status::Done => counts.results += 1,
            Some(completion) => {
                counts.results += 1;
                counts.error(format_args!("{number} of another's lane: {completion:?}"));
            }
            None => counts.never(format_args!("{number} of another's lane")),
        }
    }
    Ok(())
}
