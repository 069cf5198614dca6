//! Bad input from end to end: whatever a peer sends, stores, holds back or uses up, it gets a coded
//! ERROR or a coded close, and nobody else notices.
//!
//! Every test plays before the same *scene*: a daemon, and a neighbour whose tickets wait all the
//! while. In the end they complete, and the next connection is served.

#[path = "../support/mod.rs"]
pub mod support;

#[path = "../support/crowd.rs"]
pub mod crowd;

mod adoption;
mod blockers;
mod connections;
mod fds;
mod fuse;
mod growth;
mod lies;
mod memory;
mod messages;
mod races;
mod storms;

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use parkd::core::error::ErrorCode;
use parkd::host::clock;
use parkd::proto::entry::{Status, SubmitEntry};
use parkd::proto::message::{Opcode, encode};
use rustix::event::EventfdFlags;
use support::raw::{Session, Wire, fd, hello, word};
use support::{Daemon, Executor, until};

/// A daemon, and a neighbour with tickets. When it goes, all else that the test had has gone, and
/// the daemon has closed what was theirs.
struct Scene {
    daemon: Daemon,
    neighbour: Session,
    lane: u32,
    event: OwnedFd,
    /// What the daemon has open with the neighbour alone.
    fds: usize,
}

/// Tickets on words that the neighbour waits for at any time.
const WAITING: u64 = 8;

impl Scene {
    fn new(executor: &Executor, config: &str) -> Scene {
        let daemon = Daemon::start(executor, config);
        let mut neighbour = Session::open(&daemon.socket());
        let lane = neighbour.lane(64).lane;
        let words: Vec<SubmitEntry> =
            (1..=WAITING).map(|number| word(lane, number, number)).collect();
        neighbour.submit(&words, &[]);
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        let far = clock::now().0 + 3_600_000_000_000;
        let ticket = SubmitEntry { deadline_ns: far, ..fd(0, 99) };
        neighbour.submit(&[ticket], &[event.as_fd()]);
        let fds = daemon.fds();
        Scene { daemon, neighbour, lane, event, fds }
    }

    fn socket(&self) -> PathBuf {
        self.daemon.socket()
    }

    /// One of the neighbour's tickets completes, and another takes its place.
    fn goes_on(&mut self) {
        let done = u64::from(self.neighbour.result_head) + 1;
        let next = done + WAITING;
        self.neighbour.push(&[word(self.lane, next, next)]);
        self.neighbour.store(self.lane, done);
        assert_eq!(self.neighbour.outcome(), (done, Status::Done), "the neighbour noticed");
    }

    /// The next session; none where the attack has used up its user's connections for now.
    fn next(&self) -> Option<Session> {
        let wire = Wire::connect(&self.socket());
        // It may have been turned away already: that is there to be read.
        let _ = wire.try_send(&encode(Opcode::Hello as u16, 1, &hello(), &[]), &[]);
        let reply = wire.receive()?;
        let over = reply.body.as_ref().err().and_then(|refusal| refusal.code);
        (over != Some(ErrorCode::RateExceeded)).then(|| Session::welcomed(wire, reply))
    }

    /// The neighbour's tickets complete, the next connection is served, and nothing has panicked.
    fn unharmed(&mut self) {
        for _ in 0..3 {
            self.goes_on();
        }
        rustix::io::write(&self.event, &1u64.to_ne_bytes()).expect("a write");
        assert_eq!(self.neighbour.outcome(), (99, Status::Done), "the neighbour noticed");
        // The ticket's eventfd.
        self.fds -= 1;
        self.neighbour.still();
        let mut next = until("a connection that its user's rate allows", || self.next());
        let lane = next.lane(64).lane;
        next.submit(&[word(lane, 1, 1)], &[]);
        next.store(lane, 1);
        assert_eq!(next.outcome(), (1, Status::Done));
        assert!(self.daemon.runs());
        let log = self.daemon.log();
        assert!(!log.contains("panicked"), "{log}");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            until("no fd is left", || (self.daemon.fds() <= self.fds).then_some(()));
        }
    }
}

/// Does the work while another thread does `attack` over and over.
fn beside<T>(attack: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                attack();
            }
        });
        // Also where the work fails: its panic waits for this thread.
        let _end = Raise(&over);
        work()
    })
}

/// Raises a flag in the end.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Bytes that look like chance, the same every time.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| byte()).collect()
}

/// The cases of these tests, file by file: the names between the braces of their lists.
const FILES: &[&str] = &[
    include_str!("adoption.rs"),
    include_str!("blockers.rs"),
    include_str!("connections.rs"),
    include_str!("fds.rs"),
    include_str!("growth.rs"),
    include_str!("lies.rs"),
    include_str!("memory.rs"),
    include_str!("messages.rs"),
    include_str!("races.rs"),
    include_str!("storms.rs"),
];

/// Fewest cases that there have to be.
const CASES_MIN: usize = 60;

#[test]
fn the_cases_are_as_many_as_the_document_says() {
    let listed = |text: &'static str| {
        let (_, list) = text.split_once("for_each_executor! {").expect("a list of cases");
        let (list, _) = list.split_once('}').expect("its end");
        list.split(',').map(str::trim).filter(|name| !name.is_empty())
    };
    let mut cases: Vec<&str> = FILES.iter().copied().flat_map(listed).collect();
    let page = include_str!("../../docs/TESTING.md");
    let (_, section) = page.split_once("\n## Hostile peers\n").expect("its section");
    let section = section.split("\n## ").next().expect("the section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let mut documented: Vec<&str> = rows.map(|(name, _)| name).collect();
    cases.sort_unstable();
    documented.sort_unstable();
    assert_eq!(documented, cases, "docs/TESTING.md, Hostile peers");
    assert!(cases.len() >= CASES_MIN, "{} cases", cases.len());
}
