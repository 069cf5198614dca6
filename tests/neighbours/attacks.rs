//! What attackers do: each is made on its thread, and then done over and over.

use std::os::fd::OwnedFd;

use parkd::host::futex;
use parkd::proto::layout::{SessionState, armed, lanes, rings, status as page};
use parkd::proto::message::{self, Hello, Opcode, encode};
use parkd::shm::words::{ReadWords, WriteWords};

use rustix::fs::{FallocateFlags, fallocate};

use super::crowd::Crowd;
use super::nap;
use super::support::raw::{Session, Wire, hello, word};
use super::support::{Daemon, skipped};

/// An attack on a daemon.
pub type Attack = fn(&Daemon) -> Box<dyn FnMut()>;

/// Connects and leaves.
pub fn connections(daemon: &Daemon) -> Box<dyn FnMut()> {
    let socket = daemon.socket();
    Box::new(move || drop(Wire::try_connect(&socket)))
}

/// A session with large rings and one lane.
fn large(daemon: &Daemon) -> Session {
    let entries = Hello { submit_entries: 4096, result_entries: 4096, lanes: 4096, ..hello() };
    let session = Session::open_with(&daemon.socket(), &entries);
    session.lane(64);
    session
}

/// Hands in tickets that are done at once, as fast as their results come.
pub fn submissions(daemon: &Daemon) -> Box<dyn FnMut()> {
    let mut session = large(daemon);
    let mut name = 0;
    Box::new(move || {
        let unread = session.submit_tail.wrapping_sub(session.result_head);
        if unread + 64 <= 4096 {
            let entries: Vec<_> = (name..name + 64).map(|name| word(0, 0, name)).collect();
            session.push(&entries);
            name += 64;
        }
        while session.take().is_some() {}
        assert_ne!(session.state(), Some(SessionState::Closed));
    })
}

/// Asks for STATUS, as much as the socket takes, and reads the answers.
pub fn status(daemon: &Daemon) -> Box<dyn FnMut()> {
    let session = Session::open(&daemon.socket());
    let record = encode(Opcode::Status as u16, 5, &message::StatusRequest { reserved: 0 }, &[]);
    Box::new(move || {
        (0..32).for_each(|_| session.wire.send(&record));
        (0..32).for_each(|_| drop(session.wire.receive().expect("an answer")));
    })
}

/// Wakes and rings, with nothing to say.
pub fn wakes(daemon: &Daemon) -> Box<dyn FnMut()> {
    let session = Session::open(&daemon.socket());
    let parked = futex::FutexAddr::new(session.status.address(page::PARKED));
    Box::new(move || {
        for bell in 0..2 {
            session.wake(bell);
            session.ring(bell);
        }
        let _ = futex::wake_one(parked);
    })
}

/// Flips the armed word while results come.
pub fn armed(daemon: &Daemon) -> Box<dyn FnMut()> {
    let mut session = large(daemon);
    let mut name = 0;
    Box::new(move || {
        name += 1;
        session.push(&[word(0, 0, name)]);
        for how in [armed::BOTH, armed::NOT, armed::NOTIFY, armed::TAIL] {
            session.rings.store32(rings::ARMED, armed::word(session.result_head, how));
        }
        while session.take().is_some() {}
        let _ = rustix::io::read(&session.eventfd, &mut [0; 8]);
        if name % 256 == 0 {
            // What is not read is not there to be handed in.
            session.drained();
        }
    })
}

/// 50,000 wait on the tail that each result wakes.
pub fn crowd(daemon: &Daemon) -> Box<dyn FnMut()> {
    let mut session = large(daemon);
    let crowd = match Crowd::gather(&session) {
        Ok(crowd) => crowd,
        Err(why) => {
            skipped(&why);
            return Box::new(|| nap(1000));
        }
    };
    let mut name = 0;
    Box::new(move || {
        // It stays as long as this does.
        let _crowd = &crowd;
        name += 1;
        session.arm(armed::TAIL);
        session.push(&[word(0, 0, name)]);
        session.result();
    })
}

/// Punches holes into what the daemon reads and writes all the time.
pub fn holes(daemon: &Daemon) -> Box<dyn FnMut()> {
    let mut session = large(daemon);
    let plan = session.plan("flag:park_us=1,backstop_us=1", false);
    let ticket = word(0, 1 << 40, 0);
    session.push(&[parkd::proto::entry::SubmitEntry { plan, ..ticket }]);
    session.drained();
    let mut name = 0;
    Box::new(move || {
        name += 1;
        session.push(&[word(0, 0, name)]);
        // An entry that is punched before it is taken would end the session.
        session.drained();
        punch(&session.lanes_fd, lanes::LANES as u64);
        punch(&session.rings_fd, rings::SUBMIT_RING as u64 + name % 4096 * 64);
        session.result_head = session.rings.load32(rings::RESULT_TAIL);
        session.rings.store32(rings::RESULT_HEAD, session.result_head);
    })
}

/// Gives the page of a file back in which this byte is. No more: who touches a page that is being
/// given back waits, and would wait for whatever else this machine has to do before that is done.
fn punch(file: &OwnedFd, byte: u64) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, flags, byte / 4096 * 4096, 4096).expect("a hole");
}

/// A ticket on each of many lanes, looked at as often as a plan can ask.
pub fn parks(daemon: &Daemon) -> Box<dyn FnMut()> {
    let mut session = large(daemon);
    let plan = session.plan("flag:park_us=1,backstop_us=1", false);
    for lane in 0..512 {
        if lane > 0 {
            session.lane(64);
        }
        let ticket = word(lane, 1 << 40, lane.into());
        session.push(&[parkd::proto::entry::SubmitEntry { plan, ..ticket }]);
    }
    session.drained();
    Box::new(move || {
        // Stored to, so that each look finds another number.
        session.store(7, 1);
        assert!(session.take().is_none(), "all of them wait");
        assert_ne!(session.state(), Some(SessionState::Closed));
        nap(1000);
    })
}
