//! Allocations of FILL, counted by a library that is preloaded into the daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use parkd::proto::entry::{Op, Status, SubmitEntry};
use parkd::proto::layout::armed;

use crate::support::raw::{Session, word};
use crate::support::{self, Daemon, Executor, Folder, skipped};

crate::for_each_executor! { fill_allocates_nothing_on_a_tickets_way }

/// FILL's name, as the kernel has it.
const THREAD: &str = "parkd-fill";

/// Tickets of each way, first for what is made once, then counted.
const TICKETS: u64 = 500;

const PREDICTED: &str = "flag:park_us=50,backstop_us=1000+predict:\
    margin_us=20,min_sleep_us=1,max_sleep_us=1000,window=4";

fn library() -> Result<&'static Path, &'static str> {
    static LIBRARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/costs/counting.c");
        support::compiled_with(&source, &["-shared", "-fPIC"])
    });
    made.as_deref().map_err(String::as_str)
}

fn fill_allocates_nothing_on_a_tickets_way(executor: &Executor) {
    let library = match library() {
        Ok(library) => library,
        Err(why) => return skipped(why),
    };
    let folder = Folder::new();
    let count = folder.file("count");
    fs::write(&count, [0; 8]).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_parkd"));
    program.env("LD_PRELOAD", library).env("PARKD_COUNTED", &count);
    program.env("PARKD_COUNTED_THREAD", THREAD);
    let config = format!("executor = {:?}\nstrict = true\n", executor.name);
    let mut daemon = Daemon::launch_as(program, &folder, &config);
    daemon.listening();
    let counted = || u64::from_ne_bytes(fs::read(&count).unwrap().try_into().expect("8 bytes"));
    let mut session = Session::open(&daemon.socket());
    assert!(counted() > 0, "making a session allocates, and that is seen");
    let mut ways = Ways::new(&mut session);
    ways.all(&mut session);
    let before = counted();
    ways.all(&mut session);
    assert_eq!(counted() - before, 0, "allocations for {} tickets", 5 * TICKETS);
}

/// The ways of a ticket through FILL.
struct Ways {
    lane: u32,
    bell: u32,
    predicted: u16,
    number: u64,
}

impl Ways {
    fn new(session: &mut Session) -> Ways {
        let lane = session.lane(64);
        let predicted = session.plan(PREDICTED, false);
        Ways { lane: lane.lane, bell: lane.bell, predicted, number: 0 }
    }

    fn next(&mut self) -> SubmitEntry {
        self.number += 1;
        word(self.lane, self.number, self.number)
    }

    fn all(&mut self, session: &mut Session) {
        for _ in 0..TICKETS {
            self.landed(session);
            self.rung(session);
            self.found(session);
            self.expired(session);
            self.cancelled(session);
        }
    }

    /// Its number had been stored.
    fn landed(&mut self, session: &mut Session) {
        let ticket = self.next();
        session.store(self.lane, self.number);
        session.push(&[ticket]);
        assert_eq!(session.outcome(), (self.number, Status::Done));
    }

    /// Its producer rings, and its client is woken.
    fn rung(&mut self, session: &mut Session) {
        let ticket = self.next();
        session.push(&[ticket]);
        let tail = session.arm(armed::TAIL);
        session.store(self.lane, self.number);
        session.ring(self.bell);
        session.park(tail);
        assert_eq!(session.outcome(), (self.number, Status::Done));
    }

    /// FILL finds its number, at a time that it has learned.
    fn found(&mut self, session: &mut Session) {
        let ticket = SubmitEntry { plan: self.predicted, ..self.next() };
        session.push(&[ticket]);
        session.drained();
        session.store(self.lane, self.number);
        assert_eq!(session.outcome(), (self.number, Status::Done));
    }

    /// Its time is over.
    fn expired(&mut self, session: &mut Session) {
        let ticket = SubmitEntry { deadline_ns: 1, ..self.next() };
        session.push(&[ticket]);
        assert_eq!(session.outcome(), (self.number, Status::DeadlineExpired));
        session.store(self.lane, self.number);
    }

    /// Its client does not want it any more.
    fn cancelled(&mut self, session: &mut Session) {
        let ticket = self.next();
        let cancel =
            SubmitEntry { op: Op::Cancel as u8, user_data: self.number, ..SubmitEntry::default() };
        session.push(&[ticket, cancel]);
        assert_eq!(session.outcome(), (self.number, Status::Cancelled));
        session.store(self.lane, self.number);
    }
}
