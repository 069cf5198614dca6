//! One thread with many tagged tickets in flight: every result is the daemon's own.

use std::collections::HashMap;

use parkd::client::{Lane, Session};
use parkd::core::error::{ErrorCode, Result};
use parkd::soft::SoftDevice;

use super::super::counts::Counts;
use super::streams::{Stream, jobs};
use super::{ClientArgs, connect};
use crate::support::PATIENCE;

/// Streams of the client.
const STREAMS: u32 = 2;
/// Tickets in flight.
const DEPTH: usize = 48;
/// Tickets that go out together.
const BATCH: usize = 8;
/// Entries of the rings.
const ENTRIES: u32 = 64;

/// The tickets that are in flight: stream and number by tag.
struct Flying {
    tickets: HashMap<u64, (usize, u64)>,
    next_tag: u64,
}

/// Takes results as they come.
pub fn work(args: &ClientArgs, counts: &mut Counts) -> Result<()> {
    let session = connect(&args.socket, ENTRIES, 64)?;
    let device = SoftDevice::connect(&args.device)?;
    let mut streams = Vec::new();
    for index in 0..STREAMS {
        let lane = session.lane()?;
        let (work, fd) = (jobs(args, index, 1_500_000), session.lanes_fd()?);
        let stream = Stream::start(fd, &device, lane.index(), work)?;
        streams.push((lane, stream));
    }
    let stop = args.ready();
    let mut flying = Flying { tickets: HashMap::new(), next_tag: 0 };
    while !(stop.is() && flying.tickets.is_empty()) {
        while !stop.is() && flying.tickets.len() + BATCH <= DEPTH {
            flying.submit(&session, &mut streams, counts)?;
        }
        let Some((tag, done)) = session.next_completion(Some(PATIENCE))? else { break };
        match flying.tickets.remove(&tag) {
            Some((stream, number)) => {
                streams[stream].1.ended(number, done.status, done.seen, counts);
            }
            None => counts.again(format_args!("tag {tag}")),
        }
    }
    flying.tickets.values().for_each(|(_, number)| counts.never(format_args!("number {number}")));
    (0..session.strays()).for_each(|_| counts.again("a result that names no ticket"));
    Ok(())
}

impl Flying {
    /// Sends a batch off, in turns over the streams.
    fn submit(
        &mut self,
        session: &Session,
        streams: &mut [(Lane, Stream)],
        counts: &mut Counts,
    ) -> Result<()> {
        let mut batch = Vec::new();
        for _ in 0..BATCH {
            let tag = self.next_tag;
            self.next_tag += 1;
            let index = tag as usize % streams.len();
            let number = streams[index].1.next();
            batch.push((index, number, tag));
        }
        loop {
            let tickets = batch.iter().map(|(index, number, tag)| {
                let lane = &streams[*index].0;
                (lane.ticket(*number), *tag)
            });
            match session.submit_all_tagged(tickets) {
                // The submission ring fills while nobody drains it.
                Err(error) if error.code == ErrorCode::CreditExceeded => {
                    session.wait_for_room(BATCH as u32, Some(PATIENCE))?;
                }
                done => break done?,
            }
        }
        counts.tickets += batch.len() as u64;
        self.tickets.extend(batch.into_iter().map(|(index, number, tag)| (tag, (index, number))));
        Ok(())
    }
}
