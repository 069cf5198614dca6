//! Tickets on file descriptors: each kind that is allowed, and what becomes of the fds.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use parkd::host::clock;
use parkd::proto::entry::{ResultEntry, Status, SubmitEntry, TicketKind};
use parkd::proto::message::{self, Opcode};
use rustix::event::{EventfdFlags, PollFlags};
use rustix::process::{PidfdFlags, pidfd_open};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::support::raw::{self, Session, fd, word};
use super::support::{Daemon, Executor, pid, skipped, until};

crate::for_each_executor! {
    an_eventfd_completes,
    a_timerfd_completes,
    a_pidfd_completes,
    a_sync_file_completes_and_fails,
    a_deadline_and_a_cancel_end_fd_tickets,
    fds_complete_while_the_daemon_is_hot,
    a_message_may_mix_words_and_fds,
    every_fd_is_given_back,
}

fn eventfd() -> OwnedFd {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd")
}

fn signal(eventfd: &OwnedFd) {
    rustix::io::write(eventfd, &1u64.to_ne_bytes()).expect("a write");
}

/// Checks that a result says its fd was readable.
fn check_done(result: &ResultEntry, user_data: u64) {
    assert_eq!((result.user_data, result.status), (user_data, Status::Done as u8), "{result:?}");
    let readable = u64::from(PollFlags::IN.bits());
    assert_eq!(result.seen & readable, readable, "{result:?}");
}

fn an_eventfd_completes(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let event = eventfd();
    session.submit(&[fd(0, 1)], &[event.as_fd()]);
    session.still();
    signal(&event);
    check_done(&session.result(), 1);
    // It was polled and not read, so that it is still readable for the next ticket.
    session.submit(&[fd(0, 2)], &[event.as_fd()]);
    check_done(&session.result(), 2);
}

fn a_timerfd_completes(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).expect("a timer");
    session.submit(&[fd(0, 1)], &[timer.as_fd()]);
    session.still();
    let soon = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let time = Itimerspec { it_interval: zero, it_value: soon };
    let set = clock::now().0;
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &time).expect("a time");
    let result = session.result();
    check_done(&result, 1);
    assert!(result.detected_ns >= set + 5_000_000, "early");
}

fn a_pidfd_completes(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let mut child =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
    let process = pidfd_open(pid(&child), PidfdFlags::empty()).expect("a pidfd");
    session.submit(&[fd(0, 1)], &[process.as_fd()]);
    session.still();
    drop(child.stdin.take());
    check_done(&session.result(), 1);
    child.wait().expect("cat ends");
}

/// Where the kernel lets a program make sync_files, if it does.
const SW_SYNC: [&str; 2] = ["/dev/sw_sync", "/sys/kernel/debug/sync/sw_sync"];

/// Makes a timeline and two fences on it, sends the fences over the socket that is its stdin,
/// then signals one for a byte received, and ends with the other one unsignalled: the kernel makes
/// that an error (ENOENT) of its fence.
const FENCES: &str = r"
import fcntl, os, socket, struct, sys
CREATE_FENCE, INC = 0xc0285700, 0x40045701
timeline = os.open(sys.argv[1], os.O_RDWR)
def fence(value):
    made = fcntl.ioctl(timeline, CREATE_FENCE, struct.pack('I32si', value, b'parkd', -1))
    return struct.unpack('I32si', made)[2]
peer = socket.socket(fileno=0)
socket.send_fds(peer, [b'.'], [fence(1), fence(2)])
peer.recv(1)
fcntl.ioctl(timeline, INC, struct.pack('I', 1))
peer.recv(1)
";

fn fences(timeline: &str) -> Option<(Child, UnixStream, Vec<OwnedFd>)> {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let stdin = Stdio::from(OwnedFd::from(theirs));
    let made = Command::new("python3").args(["-c", FENCES, timeline]).stdin(stdin).spawn();
    let child = made.map_err(|e| skipped(&format!("python3: {e}"))).ok()?;
    let fds = raw::receive_fds(ours.as_fd());
    Some((child, ours, fds))
}

fn a_sync_file_completes_and_fails(executor: &Executor) {
    let Some(timeline) = SW_SYNC.into_iter().find(|path| Path::new(path).exists()) else {
        return skipped(&format!("no sync_file can be made here: none of {SW_SYNC:?}"));
    };
    let Some((mut child, mut peer, fences)) = fences(timeline) else { return };
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    session.submit(&[fd(0, 1), fd(1, 2)], &[fences[0].as_fd(), fences[1].as_fd()]);
    session.still();
    peer.write_all(b".").expect("a byte to the timeline");
    check_done(&session.result(), 1);
    peer.write_all(b".").expect("a byte to the timeline");
    let result = session.result();
    assert_eq!((result.user_data, result.status), (2, Status::DeviceFailed as u8));
    assert_eq!(result.code, 2, "ENOENT");
    let _ = peer.read(&mut [0]);
    child.wait().expect("the timeline's process ends");
}

fn a_deadline_and_a_cancel_end_fd_tickets(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let event = eventfd();
    let fds = [event.as_fd(); 3];
    let deadline_ns = clock::now().0 + 10_000_000;
    session.submit(&[SubmitEntry { deadline_ns, ..fd(1, 1) }, fd(0, 2), fd(2, 3)], &fds);
    assert_eq!(session.outcome(), (1, Status::DeadlineExpired));
    let body = message::Cancel { user_data: 2 };
    assert!(session.wire.ask(Opcode::Cancel, 9, &body, &[]).body.is_ok());
    assert_eq!(session.outcome(), (2, Status::Cancelled));
    session.still();
    signal(&event);
    check_done(&session.result(), 3);
    session.still();
}

/// A daemon that never sleeps hears of fds all the same.
fn fds_complete_while_the_daemon_is_hot(executor: &Executor) {
    let hot = "[park]\nspin_budget_percent = 100\n[plans]\ndefault = \"poll\"\n";
    let daemon = Daemon::start(executor, hot);
    let mut neighbour = Session::open(&daemon.socket());
    let lane = neighbour.lane(64).lane;
    neighbour.submit(&[word(lane, 1, 1)], &[]);
    let mut session = Session::open(&daemon.socket());
    for user_data in 0..20 {
        let event = eventfd();
        session.submit(&[fd(0, user_data)], &[event.as_fd()]);
        session.still();
        signal(&event);
        check_done(&session.result(), user_data);
    }
    neighbour.store(lane, 1);
    assert_eq!(neighbour.outcome(), (1, Status::Done));
}

fn a_message_may_mix_words_and_fds(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    let events = [eventfd(), eventfd()];
    let fds = [events[0].as_fd(), events[1].as_fd()];
    session.submit(&[fd(1, 1), word(lane, 1, 2), fd(0, 3)], &fds);
    session.still();
    signal(&events[1]);
    check_done(&session.result(), 1);
    session.store(lane, 1);
    assert_eq!(session.outcome(), (2, Status::Done));
    signal(&events[0]);
    check_done(&session.result(), 3);
}

fn every_fd_is_given_back(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    // Whatever a session costs is there before.
    session.wire.status();
    let before = daemon.fds();
    let events: Vec<OwnedFd> = (0..64).map(|_| eventfd()).collect();
    let fds: Vec<BorrowedFd<'_>> = events.iter().map(AsFd::as_fd).collect();
    let tickets: Vec<SubmitEntry> = (0..64).map(|at| fd(at, at.into())).collect();
    assert!(tickets.iter().all(|ticket| ticket.kind == TicketKind::Fd as u8));
    session.submit(&tickets, &fds);
    assert_eq!(daemon.fds(), before + 64);
    assert_eq!(session.wire.status()["session_list"][0]["fds"], 64);
    for (at, event) in events.iter().enumerate() {
        if at % 2 == 0 {
            signal(event);
            check_done(&session.result(), at as u64);
        } else {
            let body = message::Cancel { user_data: at as u64 };
            assert!(session.wire.ask(Opcode::Cancel, 9, &body, &[]).body.is_ok());
            assert_eq!(session.outcome(), (at as u64, Status::Cancelled));
        }
    }
    until("all fds are closed", || (daemon.fds() <= before).then_some(()));
    assert_eq!(session.wire.status()["session_list"][0]["fds"], 0);
}
