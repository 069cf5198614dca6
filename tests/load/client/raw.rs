//! A client without the library: SUBMIT over the socket, sent again when it was not answered.

use std::collections::HashSet;

use parkd::client::Status;
use parkd::core::error::Result;
use parkd::proto::layout::armed;
use parkd::proto::message::{self, Opcode, RESUMED, mark_again};
use parkd::proto::request;
use parkd::soft::SoftDevice;

use super::super::counts::Counts;
use super::ClientArgs;
use super::streams::{Stream, jobs};
use crate::support::raw::{Reply, Session, word};

/// Tickets of a message.
const BATCH: usize = 4;
/// Tickets in flight.
const DEPTH: usize = 16;

/// Submits by message, and sleeps on the eventfd for results.
pub fn work(args: &ClientArgs, counts: &mut Counts) -> Result<()> {
    let mut session = Session::open(&args.socket);
    let lane = session.lane(64).lane;
    let device = SoftDevice::connect(&args.device)?;
    let mut stream = Stream::start(&session.lanes_fd, &device, lane, jobs(args, 0, 2_000_000))?;
    let stop = args.ready();
    let mut flying = HashSet::new();
    while !(stop.is() && flying.is_empty()) {
        while !stop.is() && flying.len() + BATCH <= DEPTH {
            let numbers: Vec<u64> = (0..BATCH).map(|_| stream.next()).collect();
            submit(&mut session, lane, &numbers, counts);
            flying.extend(numbers);
        }
        let result = session.told(armed::NOTIFY);
        match (flying.remove(&result.user_data), Status::from_number(result.status)) {
            (true, Some(status)) => stream.ended(result.user_data, status, result.seen, counts),
            (true, None) => counts.error(format_args!("{result:?}")),
            (false, _) => counts.again(format_args!("{result:?}")),
        }
    }
    Ok(())
}

/// Submits tickets under the next cookie, again and again until they are accepted.
fn submit(session: &mut Session, lane: u32, numbers: &[u64], counts: &mut Counts) {
    let entries: Vec<_> = numbers.iter().map(|number| word(lane, *number, *number)).collect();
    let body = message::Submit { tickets: entries.len() as u32, fds: 0 };
    let tail = request::submit_tail(&entries);
    let mut record = message::encode(Opcode::Submit as u16, session.cookie, &body, tail);
    session.wire.send(&record);
    counts.tickets += numbers.len() as u64;
    loop {
        let Reply { opcode, cookie, body, .. } = session.wire.receive().expect("an answer");
        if opcode == RESUMED {
            // Whether the life that died had accepted it is the next one's to know.
            mark_again(&mut record);
            session.wire.send(&record);
            continue;
        }
        if cookie != session.cookie || body.is_err() {
            counts.error(format_args!("SUBMIT {}: {cookie}: {body:?}", session.cookie));
        }
        break;
    }
    session.cookie += 1;
}
