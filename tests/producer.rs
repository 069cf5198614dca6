//! A producer that is not ours: a C program that links nothing of parkd stores into a lane that it
//! was handed, silently and with the bell. Real processes all three: daemon, client, producer.

pub mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parkd::client::{Lane, Session};
use parkd::core::line::Width;
use parkd::core::step::Waited;
use parkd::proto::entry::Status;
use rustix::io::{FdFlags, fcntl_setfd};

use support::{Daemon, Executor, PATIENCE};

for_each_executor! {
    silent_stores_are_found,
    a_bell_ends_a_wait_that_nothing_else_would,
    a_producer_of_32_bits_runs_over_their_end,
    a_dead_producer_costs_nobody_anything,
}

/// The C program, compiled once; or why it cannot be.
fn compiled() -> Result<&'static Path, &'static str> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = PROGRAM.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        support::compiled(&root.join("tests/producer/producer.c"))
    });
    made.as_deref().map_err(String::as_str)
}

/// The C program at work.
struct Producer {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Producer {
    /// Hands it a lane, and its bell where it is to ring.
    fn start(program: &Path, lane: &Lane, first: u64, bell: bool) -> Producer {
        let session = lane.session();
        let mut fds = vec![session.lanes_fd().unwrap()];
        let mut args = vec![
            lane.width().bits().to_string(),
            first.to_string(),
            number(&fds[0]),
            lane.offset().to_string(),
        ];
        if bell {
            fds.push(session.status_fd().unwrap());
            args.extend([number(&fds[1]), lane.bell_offset().to_string()]);
            if let Some(eventfd) = session.bell_fd().unwrap() {
                args.push(number(&eventfd));
                fds.push(eventfd);
            }
        }
        for fd in &fds {
            fcntl_setfd(fd.as_fd(), FdFlags::empty()).unwrap();
        }
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Producer { child, stdin, stdout: BufReader::new(stdout) }
    }

    /// Has it store its next number; answers which, once it is stored.
    fn store(&mut self) -> u64 {
        writeln!(self.stdin).unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number(fd: &OwnedFd) -> String {
    fd.as_raw_fd().to_string()
}

/// The next result as the daemon says it: tag, status and number seen. A ticket that is waited on
/// by its handle would do without the daemon, for the client looks at its lane first.
fn done(session: &Session) -> (u64, Status, u64) {
    let next = session.next_completion(Some(PATIENCE)).unwrap();
    let (tag, completion) = next.expect("a result");
    (tag, completion.status, completion.seen)
}

/// The program, or that the test is skipped.
fn program() -> Option<&'static Path> {
    compiled().map_err(support::skipped).ok()
}

fn silent_stores_are_found(executor: &Executor) {
    let Some(program) = program() else { return };
    let daemon = Daemon::start(executor, "");
    let session = Session::connect_to(&daemon.socket()).unwrap();
    let lane = session.lane().unwrap();
    let mut producer = Producer::start(program, &lane, 1, false);
    for target in 1..=200 {
        lane.ticket(target).submit_tagged(target).unwrap();
        let early = session.next_completion(Some(Duration::ZERO)).unwrap();
        assert_eq!(early, None, "{target} is early");
        assert_eq!(producer.store(), target);
        assert_eq!(done(&session), (target, Status::Done, target));
        assert_eq!(lane.value(), target);
    }
}

fn a_bell_ends_a_wait_that_nothing_else_would(executor: &Executor) {
    let Some(program) = program() else { return };
    // Without its bell a number would be found a second after the look before it.
    let slow = "[park]\npark_us = 10000\nbackstop_us = 1000000\n\
                [[device]]\nname = \"default\"\nplan = \"block\"\n";
    let daemon = Daemon::start(executor, slow);
    let session = Session::connect_to(&daemon.socket()).unwrap();
    let lane = session.lane().unwrap();
    let mut producer = Producer::start(program, &lane, 1, true);
    let start = Instant::now();
    for target in 1..=40 {
        lane.ticket(target).submit_tagged(target).unwrap();
        producer.store();
        assert_eq!(done(&session), (target, Status::Done, target));
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?} for 40 bells", start.elapsed());
}

fn a_producer_of_32_bits_runs_over_their_end(executor: &Executor) {
    let Some(program) = program() else { return };
    let daemon = Daemon::start(executor, "");
    let session = Session::connect_to(&daemon.socket()).unwrap();
    let lane = session.lane_on_device("default", Width::W32).unwrap();
    lane.store(u64::from(u32::MAX - 2));
    let first = u64::from(u32::MAX - 1);
    let mut producer = Producer::start(program, &lane, first, true);
    for target in first..first + 4 {
        lane.ticket(target).submit_tagged(target).unwrap();
        producer.store();
        assert_eq!(done(&session).1, Status::Done);
        assert_eq!(lane.value(), target & u64::from(u32::MAX));
    }
}

fn a_dead_producer_costs_nobody_anything(executor: &Executor) {
    let Some(program) = program() else { return };
    let daemon = Daemon::start(executor, "");
    let session = Session::connect_to(&daemon.socket()).unwrap();
    let lane = session.lane().unwrap();
    let mut producer = Producer::start(program, &lane, 1, false);
    producer.store();
    drop(producer);
    // What it stored is there; what it did not is waited for to the deadline, and no longer.
    let stored = lane.ticket(1).submit().unwrap().wait().unwrap();
    assert_eq!((stored.status, stored.waited), (Status::Done, Some(Waited::Immediate)));
    let never = lane.ticket(2).deadline_in(Duration::from_millis(50)).submit().unwrap();
    assert_eq!(never.wait().unwrap().status, Status::DeadlineExpired);
    let mut next = Producer::start(program, &lane, 2, true);
    let ticket = lane.ticket(2).submit().unwrap();
    next.store();
    assert_eq!(ticket.wait().unwrap().status, Status::Done);
}
