//! Tasks on one runtime, each awaiting a stream's numbers one after another.

use parkd::client::Lane;
use parkd::client::tokio::AsyncSession;
use parkd::core::error::{Error, ErrorCode, Result};
use parkd::soft::SoftDevice;
use tokio::task::JoinSet;

use super::super::counts::Counts;
use super::streams::{Stream, jobs};
use super::{ClientArgs, Stop, connect, patience, settle};

/// Tasks of the client.
const TASKS: u32 = 3;
/// Entries of the rings.
const ENTRIES: u32 = 64;

/// Tasks that share a session, each with a stream of its own.
pub fn work(args: &ClientArgs, counts: &mut Counts) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Error::new(ErrorCode::SystemFailed, error.to_string()))?;
    let session = connect(&args.socket, ENTRIES, 64)?;
    let device = SoftDevice::connect(&args.device)?;
    let mut streams = Vec::new();
    for index in 0..TASKS {
        let lane = session.lane()?;
        let (work, fd) = (jobs(args, index, 2_500_000), session.lanes_fd()?);
        let stream = Stream::start(fd, &device, lane.index(), work)?;
        streams.push((lane, stream));
    }
    let stop = args.ready();
    runtime.block_on(async {
        let driven = AsyncSession::new(session.clone())?;
        let mut tasks = JoinSet::new();
        for (lane, stream) in streams {
            tasks.spawn(task(lane, stream, stop.clone()));
        }
        while let Some(ended) = tasks.join_next().await {
            counts.add(ended.expect("a task of the client"));
        }
        drop(driven);
        Result::Ok(())
    })?;
    settle(&session, ENTRIES, counts)
}

async fn task(lane: Lane, mut stream: Stream, stop: Stop) -> Counts {
    let mut counts = Counts::default();
    while !stop.is() {
        let number = stream.next();
        let ticket = match lane.ticket(number).submit() {
            Ok(ticket) => ticket,
            Err(error) => {
                counts.error(format_args!("a task's submit: {error}"));
                break;
            }
        };
        counts.tickets += 1;
        match tokio::time::timeout(patience(&counts), ticket).await {
            Ok(Ok(done)) => stream.ended(number, done.status, done.seen, &mut counts),
            Ok(Err(error)) => {
                counts.error(format_args!("a task's wait: {error}"));
                counts.never("the ticket of a wait that failed");
                break;
            }
            Err(_) => counts.never(format_args!("lane {} number {number}", lane.index())),
        }
    }
    counts
}
