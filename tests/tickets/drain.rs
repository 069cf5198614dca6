//! DRAIN: what finishes in time and what does not, and that each ticket is counted once.

use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use parkd::core::error::ErrorCode;
use parkd::proto::entry::Status;
use parkd::proto::layout::SessionState;
use parkd::proto::message::{self, Drained, Opcode};
use rustix::event::EventfdFlags;
use rustix::process::Signal;

use super::support::raw::{self, Session, Wire, fd, hello, word};
use super::support::{Daemon, Executor, skipped, until, user};

crate::for_each_executor! {
    what_finishes_in_time_is_not_ended,
    what_does_not_finish_is_ended_when_the_time_is_over,
    a_drained_daemon_takes_nothing_and_stays,
    whoever_leaves_a_draining_daemon_is_not_waited_for,
    of_two_drains_the_earlier_time_holds,
    a_stop_ends_a_drain_at_once,
    parkctl_drains,
    only_root_and_the_daemons_user_drain,
}

const HOUR_MS: u32 = 3_600_000;

fn ask(wire: &Wire, timeout_ms: u32) {
    let body = message::Drain { timeout_ms, reserved: 0 };
    wire.send(&message::encode(Opcode::Drain as u16, 5, &body, &[]));
}

fn counted(wire: &Wire) -> (u32, u32) {
    let reply = wire.receive().expect("an answer");
    assert_eq!((reply.opcode, reply.cookie), (Opcode::Drain as u16 | message::REPLY, 5));
    let (Drained { finished, ended }, rest) = reply.parts();
    assert!(rest.is_empty());
    (finished, ended)
}

/// Waits until a session's control line says that the daemon drains.
fn draining(session: &Session) {
    until("the control line says draining", || {
        (session.state() == Some(SessionState::Draining)).then_some(())
    });
}

fn what_finishes_in_time_is_not_ended(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let mut other = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    session.submit(&[word(lane, 1, 1), word(lane, 2, 2), fd(0, 3)], &[event.as_fd()]);
    let others = other.lane(64).lane;
    other.push(&[word(others, 1, 4)]);
    let operator = raw::control(&daemon.socket());
    ask(&operator, HOUR_MS);
    draining(&session);
    draining(&other);
    session.store(lane, 2);
    assert_eq!([session.outcome(), session.outcome()], [(1, Status::Done), (2, Status::Done)]);
    rustix::io::write(&event, &1u64.to_ne_bytes()).expect("a write to the eventfd");
    assert_eq!(session.outcome(), (3, Status::Done));
    // The last one is not waited for by its time.
    let body = message::Cancel { user_data: 4 };
    assert!(other.wire.ask(Opcode::Cancel, 9, &body, &[]).body.is_ok());
    assert_eq!(counted(&operator), (4, 0));
    assert_eq!(other.outcome(), (4, Status::Cancelled));
    session.still();
    other.still();
}

fn what_does_not_finish_is_ended_when_the_time_is_over(executor: &Executor) {
    // Nothing but a bell or the backstop, a second away, looks at these lanes.
    let slow = "[plans]\ndefault = \"block\"\n[park]\nbackstop_us = 1000000\n";
    let daemon = Daemon::start(executor, slow);
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    session.submit(&[word(lane, 1, 1), word(lane, 2, 2), fd(0, 3)], &[event.as_fd()]);
    session.push(&[word(lane, 3, 4)]);
    let operator = raw::control(&daemon.socket());
    let begun = Instant::now();
    ask(&operator, 200);
    draining(&session);
    // What was stored by the end is Done, though nobody had looked.
    session.store(lane, 1);
    assert_eq!(counted(&operator), (1, 3));
    assert!(begun.elapsed() >= Duration::from_millis(200), "ended before its time");
    let mut ended = [(); 4].map(|()| session.take().expect("a result before the answer"));
    ended.sort_unstable_by_key(|result| result.user_data);
    assert_eq!(ended.map(|result| result.user_data), [1, 2, 3, 4]);
    assert_eq!(ended[0].status, Status::Done as u8);
    assert!(ended[1..].iter().all(|result| result.status == Status::ShuttingDown as u8));
    session.store(lane, 3);
    session.still();
    let status = operator.status();
    assert_eq!((&status["tickets"], &status["draining"]), (&0.into(), &true.into()));
    assert_eq!(status["counters"]["results"]["shutting_down"], 3);
}

fn a_drained_daemon_takes_nothing_and_stays(executor: &Executor) {
    let mut daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    session.store(lane, 5);
    let operator = raw::control(&daemon.socket());
    assert_eq!(operator.status()["draining"], false);
    for _ in 0..2 {
        ask(&operator, HOUR_MS);
        assert_eq!(counted(&operator), (0, 0));
        assert_eq!(session.state(), Some(SessionState::Draining));
        // Not even what has been reached.
        assert_eq!(session.try_submit(&[word(lane, 1, 1)], &[]).code(), ErrorCode::Draining);
        session.push(&[word(lane, 1, 2)]);
        let result = session.result();
        assert_eq!((result.user_data, result.status), (2, Status::Refused as u8));
        assert_eq!(result.code, u32::from(ErrorCode::Draining.number()));
        let wire = Wire::connect(&daemon.socket());
        wire.send(&message::encode(Opcode::Hello as u16, 1, &hello(), &[]));
        assert_eq!(wire.parted(), ErrorCode::Draining);
        raw::control(&daemon.socket()).bye();
    }
    assert!(daemon.runs());
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.ended().code(), Some(0));
}

fn whoever_leaves_a_draining_daemon_is_not_waited_for(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut sessions = [(); 2].map(|()| Session::open(&daemon.socket()));
    for session in &mut sessions {
        let lane = session.lane(64).lane;
        session.submit(&[word(lane, 1, 1)], &[]);
    }
    let operator = raw::control(&daemon.socket());
    ask(&operator, HOUR_MS);
    let [leaves, mut stays] = sessions;
    leaves.wire.bye();
    draining(&stays);
    let body = message::Cancel { user_data: 1 };
    assert!(stays.wire.ask(Opcode::Cancel, 9, &body, &[]).body.is_ok());
    assert_eq!(stays.outcome(), (1, Status::Cancelled));
    assert_eq!(counted(&operator), (2, 0));
}

fn of_two_drains_the_earlier_time_holds(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    session.submit(&[word(lane, 1, 1), word(lane, 2, 2)], &[]);
    let operators = [(); 3].map(|()| raw::control(&daemon.socket()));
    ask(&operators[0], HOUR_MS);
    draining(&session);
    session.store(lane, 1);
    assert_eq!(session.outcome(), (1, Status::Done));
    ask(&operators[1], 2 * HOUR_MS);
    operators[1].send(&message::encode(Opcode::Bye as u16, 6, &(), &[]));
    ask(&operators[2], 0);
    assert_eq!(counted(&operators[0]), (1, 1));
    assert_eq!(counted(&operators[2]), (0, 1));
    assert_eq!(session.outcome(), (2, Status::ShuttingDown));
}

fn a_stop_ends_a_drain_at_once(executor: &Executor) {
    let mut daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    session.submit(&[word(lane, 1, 1)], &[]);
    let operator = raw::control(&daemon.socket());
    ask(&operator, HOUR_MS);
    draining(&session);
    daemon.signal(Signal::TERM);
    assert_eq!(session.outcome(), (1, Status::ShuttingDown));
    operator.closed();
    assert_eq!(daemon.ended().code(), Some(0));
}

fn parkctl_drains(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    // Nothing but the time wakes the daemon for these.
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    session.submit(&[fd(0, 1), fd(1, 2)], &[event.as_fd(), event.as_fd()]);
    let drain = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parkctl"));
        command.arg("--socket").arg(daemon.socket()).arg("drain").args(arguments);
        let output = command.output().expect("parkctl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let said = drain(&["--timeout", "0.1", "--json"]);
    let counts: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(counts, serde_json::json!({ "finished": 0, "ended": 2 }));
    let both = [session.outcome(), session.outcome()];
    assert_eq!(both, [(1, Status::ShuttingDown), (2, Status::ShuttingDown)]);
    assert_eq!(drain(&[]), "drained: 0 tickets finished, 0 were ended\n");
}

fn only_root_and_the_daemons_user_drain(executor: &Executor) {
    if let Some(why) = user::unavailable() {
        return skipped(why);
    }
    let daemon = Daemon::start(executor, &format!("[allow]\nuids = [{}]\n", user::STRANGER));
    user::open_to_all(&daemon.socket());
    user::being(user::STRANGER, || {
        let mut session = Session::open(&daemon.socket());
        let lane = session.lane(64).lane;
        let body = message::Drain { timeout_ms: 0, reserved: 0 };
        for wire in [&session.wire, &raw::control(&daemon.socket())] {
            assert_eq!(wire.ask(Opcode::Drain, 5, &body, &[]).code(), ErrorCode::NotOperator);
            assert_eq!(wire.status()["draining"], false);
        }
        session.submit(&[word(lane, 0, 1)], &[]);
        assert_eq!(session.outcome(), (1, Status::Done));
    });
}
