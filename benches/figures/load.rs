//! As many tickets outstanding at once as a busy machine would have, and every one answered once.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use parkd::client::{Control, Lane, Session};
use parkd::core::error::Result;
use parkd::core::line::Width;
use parkd::demo::Folder;
use parkd::proto::entry::Status;
use parkd::soft::SoftDevice;
use parkd::soft::protocol::Stream;
use parkd::soft::work::Work;

use crate::Figure;
use crate::support::device::Device;
use crate::support::{Daemon, IO_URING, PATIENCE};

const CLIENTS: usize = 4;
const TICKETS: u64 = 25_000;
const RING_ENTRIES: u32 = 32_768;
const BATCH: usize = 256;
const WORK_NS: u64 = 100_000;

pub fn run() -> std::result::Result<Vec<Figure>, String> {
    let folder = Folder::new().map_err(|error| error.to_string())?;
    let device = folder.path().join("device");
    let _process = Device::start(&device);
    let daemon = Daemon::start(&IO_URING, "");
    measure(&daemon, &device).map_err(|error| error.to_string())
}

fn measure(daemon: &Daemon, device: &Path) -> Result<Vec<Figure>> {
    let start = Instant::now();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(submitted(&daemon.socket())?);
    }
    let submitted = start.elapsed();
    let outstanding = outstanding(daemon)?;
    let start = Instant::now();
    let mut streams = Vec::new();
    for (session, lane) in &clients {
        let stream = SoftDevice::connect(device)?;
        stream.start(&work(lane), &[session.lanes_fd()?.as_fd()])?;
        streams.push(stream);
    }
    let answered: Result<Vec<u64>> = std::thread::scope(|scope| {
        let running: Vec<_> =
            clients.iter().map(|(session, _)| scope.spawn(|| answered(session))).collect();
        running.into_iter().map(|client| client.join().unwrap_or(Ok(0))).collect()
    });
    let (answered, took): (u64, _) = (answered?.iter().sum(), start.elapsed());
    let all = CLIENTS as f64 * TICKETS as f64;
    let figure = |name, value: f64, detail| Figure {
        name,
        value,
        unit: "tickets",
        target: all,
        met: value == all,
        detail,
    };
    Ok(vec![
        figure("load: outstanding", outstanding as f64, format!("submitted in {submitted:?}")),
        figure("load: answered once", answered as f64, format!("{CLIENTS} clients, in {took:?}")),
    ])
}

/// A session with all its tickets submitted, on one lane.
fn submitted(socket: &Path) -> Result<(Session, Lane)> {
    let rings = Session::builder().submit_entries(RING_ENTRIES).result_entries(RING_ENTRIES);
    let session = rings.connect_to(socket)?;
    let lane = session.lane_on_device("default", Width::W64)?;
    let targets: Vec<u64> = (1..=TICKETS).collect();
    for batch in targets.chunks(BATCH) {
        session.submit_all_tagged(batch.iter().map(|target| (lane.ticket(*target), *target)))?;
    }
    Ok((session, lane))
}

/// Tickets that the daemon has, once they are all of them or it takes too long.
fn outstanding(daemon: &Daemon) -> Result<u64> {
    let control = Control::connect_to(&daemon.socket())?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status: serde_json::Value =
            serde_json::from_str(&control.status()?).unwrap_or_default();
        let tickets = status["tickets"].as_u64().unwrap_or(0);
        if tickets == CLIENTS as u64 * TICKETS || Instant::now() > deadline {
            return Ok(tickets);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn work(lane: &Lane) -> Stream {
    let seed = lane.session().number().into();
    Stream::silent(lane.index(), Work { seed, work_ns: WORK_NS, jitter_permille: 50 }, TICKETS, 1)
}

/// Tickets of the session that got exactly one answer, Done, for their own number.
fn answered(session: &Session) -> Result<u64> {
    let mut results = vec![0_u32; TICKETS as usize + 1];
    for _ in 0..TICKETS {
        let Some((tag, completion)) = session.next_completion(Some(PATIENCE))? else { break };
        if completion.status == Status::Done && completion.seen >= tag {
            results[tag as usize] += 1;
        }
    }
    let more = session.next_completion(Some(Duration::from_millis(100)))?;
    let once = results.iter().filter(|count| **count == 1).count() as u64;
    Ok(if more.is_none() { once } else { 0 })
}
