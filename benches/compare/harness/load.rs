//! A client that hands in tickets for what has landed, as fast as their results come back.
//!
//! The library looks at a lane before it asks the daemon, so this client goes around it: by the
//! ring or by SUBMIT, with the crate's own ends of the rings. What always holds: at most [`DEPTH`]
//! tickets are outstanding or unread; every system call that the client makes is counted.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use parkd::core::time::DurNs;
use parkd::host::clock;
use parkd::host::futex::{self, FutexAddr};
use parkd::proto::entry::SubmitEntry;
use parkd::proto::layout::armed;
use parkd::proto::message::{self, Hello, Opcode, REPLY};
use parkd::proto::request;
use parkd::shm::bells::{Bell, Ring};
use parkd::shm::region::{ReadOnly, ReadWrite, Region};
use parkd::shm::result_ring::ResultConsumer;
use parkd::shm::ring::RingSizes;
use parkd::shm::submit_ring::SubmitProducer;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::member::Post;
use super::orders::{Answer, Order};
use super::workload::Times;
use super::{Doing, Result};
use crate::support::raw;

/// Tickets outstanding.
pub const DEPTH: u32 = 256;

/// Tickets in one SUBMIT.
const BATCH: u32 = 64;

/// The word's number, and what every ticket waits for.
const LANDED: u64 = 1 << 40;
const TARGET: u64 = 1;

/// How long a client looks before it sleeps.
const LOOK: Duration = Duration::from_micros(10);

/// The longest sleep between two looks at the clock.
const SLEEP: DurNs = DurNs(50_000_000);

/// How tickets reach the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Path {
    Ring,
    Socket,
}

/// What a client is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadOrder {
    pub path: Path,
    pub daemon: PathBuf,
    /// The CPU that is the daemon's alone, where there are others.
    pub avoid: Option<u32>,
}

/// What it counted in the window.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Loaded {
    pub completions: u64,
    pub syscalls: u64,
    /// Completions before the window and in it.
    pub all: u64,
}

/// Is such a client.
pub fn be(post: &Post, order: &LoadOrder) -> Result<()> {
    let allowed = keep_off(order.avoid)?;
    let loaded = work(post, order);
    sched_setaffinity(None, &allowed).doing("sched_setaffinity")?;
    post.answer(&Answer::Loaded(loaded?))
}

/// Keeps the calling thread off a CPU, where it has another; answers where it was allowed before.
pub fn keep_off(cpu: Option<u32>) -> Result<CpuSet> {
    let allowed = sched_getaffinity(None).doing("sched_getaffinity")?;
    let mut cpus = allowed;
    if let Some(cpu) = cpu {
        cpus.unset(cpu as usize);
    }
    if cpus != CpuSet::new() {
        sched_setaffinity(None, &cpus).doing("sched_setaffinity")?;
    }
    Ok(allowed)
}

fn work(post: &Post, order: &LoadOrder) -> Result<Loaded> {
    let mut client = Client::connect(order)?;
    post.ready(&[])?;
    let (Order::Start(times), _) = post.order()? else { return Err("no start".into()) };
    client.run(order.path, &times)
}

struct Client {
    session: raw::Session,
    submissions: SubmitProducer<Region<ReadWrite>>,
    results: ResultConsumer<Region<ReadWrite>>,
    doorbell: Bell<Region<ReadWrite>, Region<ReadOnly>>,
    lane: u32,
    /// Names tickets.
    tickets: u64,
    /// What may go out.
    free: u32,
    cookie: u64,
    syscalls: u64,
}

impl Client {
    fn connect(order: &LoadOrder) -> Result<Client> {
        let hello = Hello { submit_entries: DEPTH, result_entries: DEPTH, ..raw::hello() };
        let session = raw::Session::open_with(&order.daemon, &hello);
        if session.bell.is_some() && order.path == Path::Ring {
            return Err("bells are eventfds here".into());
        }
        let lane = session.lane(64).lane;
        session.store(lane, LANDED);
        let sizes = RingSizes::new(DEPTH, DEPTH).doing("rings")?;
        Ok(Client {
            submissions: SubmitProducer::new(session.rings.clone(), sizes).doing("rings")?,
            results: ResultConsumer::new(session.rings.clone(), sizes).doing("rings")?,
            doorbell: Bell::new(session.lanes.clone(), session.status.clone(), 0).doing("bell")?,
            session,
            lane,
            tickets: 0,
            free: DEPTH,
            cookie: 1,
            syscalls: 0,
        })
    }

    fn run(&mut self, path: Path, times: &Times) -> Result<Loaded> {
        let (mut taken, mut begin, mut looked) = (0, None, Instant::now());
        loop {
            let now = clock::now();
            if now >= times.begin && begin.is_none() {
                begin = Some((taken, self.syscalls));
            }
            if now >= times.end {
                let (taken0, syscalls0) = begin.unwrap_or_default();
                let syscalls = self.syscalls - syscalls0;
                return Ok(Loaded { completions: taken - taken0, syscalls, all: taken });
            }
            let came = self.take()?;
            taken += u64::from(came);
            match path {
                Path::Ring => self.push()?,
                Path::Socket => self.send()?,
            }
            if came > 0 {
                looked = Instant::now();
            } else if looked.elapsed() > LOOK {
                self.sleep()?;
                looked = Instant::now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn take(&mut self) -> Result<u32> {
        let mut came = 0;
        for result in &mut self.results {
            if result.status != 1 {
                return Err(format!("a ticket ended as {}", result.status));
            }
            came += 1;
        }
        if came > 0 {
            self.results.advance();
            self.free += came;
        }
        Ok(came)
    }

    fn entry(&mut self) -> SubmitEntry {
        self.tickets += 1;
        SubmitEntry { point: 1, ..raw::word(self.lane, TARGET, self.tickets) }
    }

    fn push(&mut self) -> Result<()> {
        if self.free == 0 {
            return Ok(());
        }
        while self.free > 0 {
            let words = self.entry().to_words();
            if self.submissions.push(&words).doing("push")?.is_none() {
                break;
            }
            self.free -= 1;
        }
        self.submissions.publish();
        if self.doorbell.ring() == Ring::MustWake {
            self.syscalls += 1;
            futex::wake_one(FutexAddr::new(self.doorbell.address())).doing("doorbell")?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        while self.free >= BATCH {
            let entries: Vec<SubmitEntry> = (0..BATCH).map(|_| self.entry()).collect();
            let body = message::Submit { tickets: BATCH, fds: 0 };
            let tail = request::submit_tail(&entries);
            let record = message::encode(Opcode::Submit as u16, self.cookie, &body, tail);
            self.syscalls += 1;
            self.session.wire.try_send(&record, &[]).doing("SUBMIT")?;
            self.cookie += 1;
            self.free -= BATCH;
            self.answers()?;
        }
        Ok(())
    }

    /// Takes the answers to SUBMITs that are there.
    fn answers(&mut self) -> Result<()> {
        let mut answer = [0; 512];
        loop {
            self.syscalls += 1;
            let socket = &self.session.wire.socket;
            match rustix::net::recv(socket, &mut answer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err("the daemon has hung up".into()),
                Ok(_) if answer[..2] == (Opcode::Submit as u16 | REPLY).to_le_bytes() => {}
                Ok(_) => return Err(format!("an answer: {:?}", &answer[..24])),
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(format!("recv: {errno}")),
            }
        }
    }

    fn sleep(&mut self) -> Result<()> {
        let tail = self.results.arm(armed::TAIL);
        if self.results.ready() {
            return Ok(());
        }
        self.syscalls += 1;
        let until = clock::now() + SLEEP;
        let word = FutexAddr::new(self.results.tail_address());
        futex::wait(word, tail, Some(until)).map(drop).doing("futex")
    }
}
