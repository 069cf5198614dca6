//! Streams of a device that stores silently, and threads that wait for every number of them.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use parkd::client::{Lane, Session, Status, Ticket};
use parkd::core::error::Result;
use parkd::core::line::Width;
use parkd::core::time::MonoNs;
use parkd::shm::area::open_lanes;
use parkd::shm::lanes::LanesView;
use parkd::shm::region::{ReadOnly, Region};
use parkd::soft::SoftDevice;
use parkd::soft::protocol::Stream as Start;
use parkd::soft::work::Work;

use super::super::counts::Counts;
use super::{ClientArgs, Stop, connect, patience, settle};

/// Streams of a client.
const STREAMS: u32 = 3;
/// Tickets in flight on each.
const DEPTH: usize = 4;
/// Lanes of a session.
const LANES: u32 = 64;
/// Entries of the rings.
const ENTRIES: u32 = 64;

/// One stream of the device, from the client's side.
pub struct Stream {
    lane: u32,
    view: LanesView<Region<ReadOnly>>,
    /// The number that no ticket was submitted for yet.
    next: u64,
}

impl Stream {
    /// Starts the stream of a session's `lane`.
    pub fn start(
        lanes_fd: impl AsFd,
        device: &SoftDevice,
        lane: u32,
        work: Work,
    ) -> Result<Stream> {
        let (region, lanes) = open_lanes::<ReadOnly>(&lanes_fd)?;
        let view = LanesView::new(region, lanes)?;
        let first = view.load(lane) + 1;
        let start = Start {
            lane,
            work,
            jobs: u64::MAX,
            first,
            stamps: None,
            bell: None,
            cpu: false,
            fault_after: None,
            start: MonoNs(0),
        };
        device.start(&start, &[lanes_fd.as_fd()])?;
        Ok(Stream { lane, view, next: first })
    }

    /// The number of the next ticket.
    pub fn next(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Counts the result of the ticket for `number`, as it came.
    pub fn ended(&self, number: u64, status: Status, seen: u64, counts: &mut Counts) {
        counts.results += 1;
        let (lane, word) = (self.lane, self.view.load(self.lane));
        if status != Status::Done {
            counts.error(format_args!("lane {lane}: {number}: {status:?}"));
        } else if !Width::W64.reached(word, number) || !Width::W64.reached(seen, number) {
            let text = format_args!("lane {lane}: {number} Done, {seen} seen, the word is {word}");
            counts.too_early(text);
        }
    }
}

/// The work of stream number `index`.
pub fn jobs(args: &ClientArgs, index: u32, work_ns: u64) -> Work {
    let seed = args.seed.wrapping_add(index.into());
    Work { seed, work_ns, jitter_permille: 500 }
}

/// Threads that share a session, each with a stream of its own.
pub fn work(args: &ClientArgs, counts: &mut Counts) -> Result<()> {
    let session = connect(&args.socket, ENTRIES, LANES)?;
    let device = SoftDevice::connect(&args.device)?;
    let mut streams = Vec::new();
    for index in 0..STREAMS {
        let lane = session.lane()?;
        let (work, fd) = (jobs(args, index, 2_000_000), session.lanes_fd()?);
        let stream = Stream::start(fd, &device, lane.index(), work)?;
        streams.push((lane, stream));
    }
    let stop = args.ready();
    std::thread::scope(|scope| {
        let spawn = |(lane, stream)| {
            let (session, stop) = (&session, &stop);
            scope.spawn(move || thread(session, lane, stream, stop))
        };
        let threads: Vec<_> = streams.into_iter().map(spawn).collect();
        for thread in threads {
            counts.add(thread.join().expect("a thread of the client"));
        }
    });
    settle(&session, ENTRIES, counts)
}

fn thread(session: &Session, lane: Lane, mut stream: Stream, stop: &Stop) -> Counts {
    let mut counts = Counts::default();
    let mut flying: VecDeque<(u64, Ticket)> = VecDeque::new();
    while !(stop.is() && flying.is_empty()) {
        if flying.len() < DEPTH && !stop.is() {
            let number = stream.next();
            match lane.ticket(number).submit_blocking() {
                Ok(ticket) => {
                    counts.tickets += 1;
                    flying.push_back((number, ticket));
                    continue;
                }
                Err(error) => {
                    counts.error(format_args!("session {}: submit: {error}", session.number()));
                    break;
                }
            }
        }
        let Some((number, mut ticket)) = flying.pop_front() else { continue };
        match ticket.wait_for(patience(&counts)) {
            Ok(Some(done)) => stream.ended(number, done.status, done.seen, &mut counts),
            Ok(None) => counts.never(format_args!("lane {} number {number}", lane.index())),
            Err(error) => {
                counts.error(format_args!("session {}: wait: {error}", session.number()));
                counts.never("the ticket of a wait that failed");
                break;
            }
        }
    }
    flying.iter().for_each(|_| counts.never("a ticket behind one whose wait failed"));
    counts
}
