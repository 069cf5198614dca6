//! A client of the demo: a process of one thread that waits for its streams and counts.
//!
//! It makes ready, says so, reads from its stdin the time at which the streams start, waits for
//! every number of every stream, and reports. What always holds: what it reports was seen with its
//! own eyes (the lanes, its clock), whoever told it to look.

use std::io::{self, BufRead, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::error::DemoError;
use super::report::{ClientReport, ClientSays, pairs};
use super::tally::{Counts, Latencies, Tally, latencies};
use super::waiting::{self, BELL, Watched, Way};
use super::workload::{self, DEPTH, STAMPS, Workload};
use crate::client::{Lane, Session};
use crate::core::line::Width;
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;
use crate::shm::area::{Area, open_lanes};
use crate::shm::bells::BellsView;
use crate::shm::lanes::LanesView;
use crate::shm::region::{ReadOnly, ReadWrite, Region};
use crate::shm::status::StatusPage;
use crate::soft::SoftDevice;
use crate::soft::protocol::{Stamps, Stream};
use crate::soft::stamps::StampReader;
use crate::soft::work::Work;

/// The name of the software device in the demo's configuration.
pub(super) const DEVICE: &str = "soft";
/// How long tickets in flight are awaited after the last stream should have ended.
pub(super) const GRACE: DurNs = DurNs(10_000_000_000);
const NS_PER_S: u64 = 1_000_000_000;

/// What a client is told by its parent.
#[derive(Args, Clone, Debug)]
pub struct ClientArgs {
    /// How it waits.
    #[arg(long)]
    pub way: Way,
    /// What its streams are like.
    #[arg(long)]
    pub workload: Workload,
    /// Its place among the clients, from 0.
    #[arg(long)]
    pub client: u32,
    /// How many clients there are.
    #[arg(long)]
    pub clients: u32,
    /// How long its streams last.
    #[arg(long)]
    pub seconds: u64,
    /// The software device's socket.
    #[arg(long)]
    pub device: PathBuf,
    /// The daemon's socket, where it waits through the daemon.
    #[arg(long)]
    pub daemon: Option<PathBuf>,
}

impl ClientArgs {
    /// Is that client.
    ///
    /// # Errors
    /// Where its parent has gone. What else goes wrong it tells its parent.
    pub(super) fn run(&self) -> Result<(), DemoError> {
        let says = match self.work() {
            Ok(report) => ClientSays::Done(report),
            Err(error) => ClientSays::Failed(error.to_string()),
        };
        say(&says)
    }

    fn work(&self) -> Result<ClientReport, DemoError> {
        // Refused only for an argument that this is not; at worst pauses are 50 us longer.
        let _ = clock::set_timer_slack(std::num::NonZeroU64::MIN);
        let works = workload::streams(self.workload, self.client, self.clients);
        let memory = Memory::open(self.way, self.daemon.as_deref(), works.len() as u32)?;
        let device = SoftDevice::connect(&self.device)?;
        say(&ClientSays::Ready)?;
        let start = hear_start()?;
        let mut watched = Vec::new();
        for (slot, work) in (0..).zip(works) {
            watched.push(self.start(&memory, &device, slot, work, start)?);
        }
        std::thread::sleep(Duration::from_nanos(start.since(clock::now()).0));
        let mut seen = latencies()?;
        let (cpu, wall) = (clock::process_cpu(), clock::now());
        self.wait(&memory, &mut watched, &mut seen, start)?;
        let (cpu_ns, wall_ns) =
            (clock::process_cpu().saturating_sub(cpu).0, clock::now().since(wall).0);
        let mut counts = Counts::default();
        watched.into_iter().for_each(|lane| counts.add(&lane.tally.finish()));
        // What named no ticket at all never came up to the tally.
        counts.duplicated += memory.strays();
        Ok(ClientReport { counts, latencies: pairs(&seen), cpu_ns, wall_ns })
    }

    /// Starts the stream of one lane.
    fn start(
        &self,
        memory: &Memory,
        device: &SoftDevice,
        slot: u32,
        work: Work,
        start: MonoNs,
    ) -> Result<Watched, DemoError> {
        let lane = memory.lane(slot);
        let view = LanesView::new(memory.region.clone(), memory.count)?;
        let first = view.load(lane) + 1;
        let jobs = work.jobs_within(DurNs(self.seconds * NS_PER_S), u64::MAX);
        let stamps = Stamps { lane: memory.count - (slot + 1) * STAMPS, count: STAMPS };
        let stream = Stream {
            lane,
            work,
            jobs,
            first,
            stamps: Some(stamps),
            bell: memory.status.as_ref().map(|_| BELL),
            cpu: false,
            fault_after: None,
            start,
        };
        let fds: Vec<_> = std::iter::once(memory.fd.as_fd())
            .chain(memory.status.iter().map(AsFd::as_fd))
            .collect();
        let t0 = device.start(&stream, &fds)?;
        let stamps = StampReader::new(view, lane, stamps)?;
        Ok(Watched { stamps, tally: Tally::new(work.schedule(t0), first, jobs, DEPTH) })
    }

    fn wait(
        &self,
        memory: &Memory,
        watched: &mut [Watched],
        seen: &mut Latencies,
        start: MonoNs,
    ) -> Result<(), DemoError> {
        let until = start + DurNs(self.seconds * NS_PER_S) + GRACE;
        match (&memory.session, self.way) {
            (Some((session, lanes)), _) => {
                waiting::by_daemon(watched, seen, session, lanes, until)?;
            }
            (None, Way::Futex) => {
                let bells = BellsView::new(memory.region.clone())?;
                waiting::by_futex(watched, seen, &bells, until)?;
            }
            (None, way) => waiting::by_looking(watched, seen, way == Way::Spin, until),
        }
        Ok(())
    }
}

/// The lanes that the client waits on: of a session, or without a daemon its own.
struct Memory {
    fd: OwnedFd,
    region: Region<ReadOnly>,
    count: u32,
    session: Option<(Session, Vec<Lane>)>,
    /// A page that says that the bell's reader is parked: the device is to wake it.
    status: Option<Area>,
}

impl Memory {
    /// Room for so many streams and their stamps.
    fn open(way: Way, daemon: Option<&std::path::Path>, streams: u32) -> Result<Memory, DemoError> {
        let wanted = (streams * (1 + STAMPS)).next_power_of_two();
        let (fd, session) = match (way, daemon) {
            (Way::Parkd, Some(socket)) => {
                let session = Session::builder().lanes(wanted).connect_to(socket)?;
                let open = |_| session.lane_on_device(DEVICE, Width::W64);
                let lanes = (0..streams).map(open).collect::<Result<Vec<_>, _>>()?;
                (session.lanes_fd()?, Some((session, lanes)))
            }
            _ => (Area::lanes(wanted)?.into_fd(), None),
        };
        let (region, count) = open_lanes::<ReadOnly>(&fd)?;
        let status = match way {
            Way::Futex => Some(parked_page()?),
            _ => None,
        };
        Ok(Memory { fd, region, count, session, status })
    }

    fn lane(&self, slot: u32) -> u32 {
        let lanes = self.session.as_ref().map(|(_, lanes)| lanes);
        lanes.and_then(|lanes| lanes.get(slot as usize)).map_or(slot, Lane::index)
    }

    fn strays(&self) -> u64 {
        self.session.as_ref().map_or(0, |(session, _)| session.strays())
    }
}

fn parked_page() -> Result<Area, DemoError> {
    let area = Area::status()?;
    StatusPage::new(area.map::<ReadWrite>()?)?.park();
    Ok(area)
}

/// Tells the parent.
fn say(what: &ClientSays) -> Result<(), DemoError> {
    let failed = |error| DemoError::io("stdout", error);
    let mut line = serde_json::to_vec(what).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line).and_then(|()| stdout.flush()).map_err(failed)
}

/// The time at which the streams start, from the parent.
fn hear_start() -> Result<MonoNs, DemoError> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|error| DemoError::io("stdin", error))?;
    line.trim().parse().map(MonoNs).map_err(|_| {
        DemoError::io("stdin", io::Error::other(format!("no time to start: {line:?}")))
    })
}
