//! Connections: silent ones, ones that never read, more than there is room for, and ones that
//! leave in the middle of things.

use std::os::fd::{AsFd, OwnedFd};

use parkd::core::error::ErrorCode;
use parkd::core::time::DurNs;
use parkd::host::clock;
use parkd::proto::entry::Status;
use parkd::proto::limits::GREETINGS_MAX;
use parkd::proto::message::{self, Opcode, encode};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::Scene;
use super::support::raw::{self, Session, Wire, fd, hello, word};
use super::support::{Executor, skipped, until};

crate::for_each_executor! {
    a_silent_connection_is_ended,
    who_never_reads_is_ended,
    who_never_reads_its_errors_is_ended,
    more_greetings_than_there_is_room_for,
    those_who_have_gone_take_no_room,
    two_thousand_connect_at_once,
    connections_without_fds_are_told_so,
    a_spare_fd_that_was_lost_is_had_again,
    sessions_have_limits,
    tickets_have_limits,
    lanes_and_plans_have_limits,
    whoever_leaves_early_leaves_nothing,
}

fn a_silent_connection_is_ended(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let silent: Vec<Wire> = (0..3).map(|_| Wire::connect(&scene.socket())).collect();
    // Others come and go meanwhile.
    raw::control(&scene.socket()).bye();
    scene.goes_on();
    for wire in silent {
        assert_eq!(wire.parted(), ErrorCode::HelloTimeout);
    }
    // One that has greeted may be silent for as long as it likes.
    scene.unharmed();
}

/// Sends without ever reading until the daemon has had enough.
fn pour(wire: &Wire, record: &[u8]) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    until("the daemon closes the connection", || {
        // Until it has to catch up.
        loop {
            match send(&wire.socket, record, flags) {
                Ok(_) => {}
                Err(Errno::AGAIN) => return None,
                Err(Errno::PIPE | Errno::CONNRESET) => return Some(()),
                Err(errno) => panic!("send: {errno}"),
            }
        }
    });
}

fn who_never_reads_is_ended(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let session = Session::open(&scene.socket());
    let status = message::StatusRequest { reserved: 0 };
    let record = encode(Opcode::Status as u16, 9, &status, &[]);
    scene.goes_on();
    pour(&session.wire, &record);
    assert_eq!(session.close_code(), ErrorCode::SlowReader);
    until("the log says so", || scene.daemon.log().contains("SlowReader").then_some(()));
    scene.unharmed();
}

fn who_never_reads_its_errors_is_ended(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let session = Session::open(&scene.socket());
    pour(&session.wire, b"garbage");
    assert_eq!(session.close_code(), ErrorCode::SlowReader);
    // One without a session has no place to read the code, and is closed all the same.
    pour(&raw::control(&scene.socket()), b"garbage");
    scene.unharmed();
}

fn more_greetings_than_there_is_room_for(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let many = GREETINGS_MAX as usize + 40;
    let silent: Vec<Wire> = (0..many).map(|_| Wire::connect(&scene.socket())).collect();
    // The oldest make room, and say why they had to go; whoever comes last is served.
    for wire in &silent[..40] {
        assert_eq!(wire.parted(), ErrorCode::HelloTimeout);
    }
    scene.goes_on();
    let last = silent.last().expect("many");
    assert!(last.ask(Opcode::Hello, 1, &hello(), &[]).body.is_ok());
    scene.unharmed();
}

fn those_who_have_gone_take_no_room(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let slow = Wire::connect(&scene.socket());
    // One that takes its time to greet is not driven out by those that come and go meanwhile.
    let wire = raw::control(&scene.socket());
    for _ in 0..GREETINGS_MAX {
        drop(Wire::connect(&scene.socket()));
    }
    wire.bye();
    raw::control(&scene.socket()).bye();
    assert!(slow.ask(Opcode::Hello, 1, &hello(), &[]).body.is_ok());
    scene.unharmed();
}

fn two_thousand_connect_at_once(executor: &Executor) {
    let enough = parkd::host::fds::raise_nofile().is_ok_and(|limit| limit >= 10_000);
    if !enough {
        return skipped("RLIMIT_NOFILE is below 10000");
    }
    let mut scene = Scene::new(executor, "[limits]\nconnects_per_second = 1000000\n");
    let before = scene.daemon.fds();
    let wires: Vec<Wire> = (0..2000).map(|_| Wire::connect(&scene.socket())).collect();
    scene.goes_on();
    Session::open(&scene.socket());
    drop(wires);
    until("all are gone", || (scene.daemon.fds() <= before).then_some(()));
    // Who misbehaves does not fill the log.
    let lines = scene.daemon.log().lines().count();
    assert!((20..1000).contains(&lines), "{lines} lines");
    scene.unharmed();
}

/// Lets the daemon have this many fds more than it has.
fn limit_fds(scene: &Scene, more: usize) {
    let limit = Some((scene.daemon.fds() + more) as u64);
    let pid = Pid::from_raw(scene.daemon.pid() as i32);
    let limit = Rlimit { current: limit, maximum: limit };
    prlimit(pid, Resource::Nofile, limit).expect("prlimit");
}

/// CPU time that a daemon's process has used, nanoseconds.
fn cpu_ns(scene: &Scene) -> u64 {
    let text = std::fs::read_to_string(scene.daemon.proc("schedstat")).unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Not even the spare fd can be had for a while, as where the whole machine has none left.
fn a_spare_fd_that_was_lost_is_had_again(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let pid = Pid::from_raw(scene.daemon.pid() as i32);
    // The daemon has the limit that it inherited: nobody else may raise it again.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let none = Rlimit { current: Some(3), maximum };
    let before = prlimit(pid, Resource::Nofile, none).expect("prlimit");
    let wire = Wire::connect(&scene.socket());
    wire.send(&encode(Opcode::Hello as u16, 1, &hello(), &[]));
    scene.goes_on();
    // The desk, which is the process's first thread, does not look all the time.
    let (start, cpu) = (clock::now(), cpu_ns(&scene));
    until("time passes", || (clock::now().since(start) > DurNs(200_000_000)).then_some(()));
    let (cpu, wall) = (cpu_ns(&scene) - cpu, clock::now().since(start).0);
    assert!(cpu < wall / 4, "{cpu} ns of CPU in {wall} ns");
    prlimit(pid, Resource::Nofile, before).expect("prlimit");
    let reply = wire.receive().expect("an answer");
    assert!(reply.body.is_ok());
    // There is a spare fd again: who is one too many is told.
    let few = Some(scene.daemon.fds() as u64);
    prlimit(pid, Resource::Nofile, Rlimit { current: few, maximum }).expect("prlimit");
    let silent: Vec<Wire> = (0..40).map(|_| Wire::connect(&scene.socket())).collect();
    let last = silent.last().expect("many").receive().expect("an answer");
    assert_eq!(last.body.expect_err("an ERROR").detail, "accept: too many open files");
    prlimit(pid, Resource::Nofile, before).expect("prlimit");
    drop((silent, wire));
    scene.unharmed();
}

fn connections_without_fds_are_told_so(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = Session::open(&scene.socket());
    session.lane(64);
    let before = scene.daemon.fds();
    limit_fds(&scene, 40);
    let mut taken = Vec::new();
    let mut told = 0;
    // Those that find room fall silent; those that do not are told.
    until("fds run out", || {
        let wire = Wire::connect(&scene.socket());
        wire.send(&encode(Opcode::Hello as u16, 1, &hello(), &[]));
        let reply = wire.receive().expect("an answer");
        if reply.body.is_ok() {
            taken.push((wire, reply));
        } else {
            assert_eq!(reply.code(), ErrorCode::SystemFailed);
            assert!(reply.closes());
            told += 1;
        }
        (told == 20).then_some(())
    });
    assert!(!taken.is_empty());
    let silent: Vec<Wire> = (0..60).map(|_| Wire::connect(&scene.socket())).collect();
    scene.goes_on();
    // A ticket whose fd finds no place is refused, and words go on.
    let event: OwnedFd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let fds = [event.as_fd(); 64];
    let tickets: Vec<_> = (0..64).map(|at| fd(at, at.into())).collect();
    let reply = session.try_submit(&tickets, &fds);
    assert!(reply.body.is_err(), "{reply:?}");
    session.submit(&[word(0, 0, 1)], &[]);
    assert_eq!(session.result().user_data, 1);
    drop((taken, silent));
    until("their fds are free", || (scene.daemon.fds() <= before).then_some(()));
    drop(session);
    scene.unharmed();
}

fn sessions_have_limits(executor: &Executor) {
    let mut scene = Scene::new(executor, "[limits]\nsessions = 3\nlanes_per_uid = 192\n");
    let refused = |hello: &message::Hello| {
        let wire = Wire::connect(&scene.socket());
        wire.send(&encode(Opcode::Hello as u16, 1, hello, &[]));
        wire.parted()
    };
    let wide = message::Hello { lanes: 256, ..hello() };
    assert_eq!(refused(&wide), ErrorCode::QuotaExceeded);
    let two = [Session::open(&scene.socket()), Session::open(&scene.socket())];
    assert_eq!(refused(&hello()), ErrorCode::LimitExceeded);
    // Whoever only looks is none of them.
    assert_eq!(raw::control(&scene.socket()).status()["sessions"], 3);
    drop(two);
    until("the sessions are gone", || {
        (scene.neighbour.wire.status()["sessions"] == 1).then_some(())
    });
    scene.unharmed();
}

fn tickets_have_limits(executor: &Executor) {
    let limits = "[limits]\ntickets = 96\ntickets_per_uid = 64\n";
    for (limits, code) in
        [(limits, ErrorCode::QuotaExceeded), ("[limits]\ntickets = 64\n", ErrorCode::LimitExceeded)]
    {
        let mut scene = Scene::new(executor, limits);
        let mut session = Session::open(&scene.socket());
        let lane = session.lane(64).lane;
        // The neighbour has nine.
        let tickets: Vec<_> = (1..=56).map(|number| word(lane, number, number)).collect();
        assert_eq!(session.try_submit(&tickets, &[]).code(), code);
        session.submit(&tickets[..55], &[]);
        assert_eq!(session.try_submit(&tickets[55..], &[]).code(), code);
        session.store(lane, 55);
        for number in 1..=55 {
            assert_eq!(session.outcome(), (number, Status::Done));
        }
        drop(session);
        until("the session is gone", || {
            (scene.neighbour.wire.status()["sessions"] == 1).then_some(())
        });
        scene.unharmed();
    }
}

fn lanes_and_plans_have_limits(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let session = Session::open(&scene.socket());
    for lane in 0..64 {
        assert_eq!(session.lane(64).lane, lane);
    }
    assert_eq!(session.lane_of("default", u32::MAX, 64).code(), ErrorCode::NoFreeLane);
    let ask = |park: u32| {
        let text = format!("flag:park_us={park},backstop_us=1000");
        let body = message::Plan { by_name: 0, bytes: text.len() as u32 };
        session.wire.ask(Opcode::Plan, 3, &body, text.as_bytes())
    };
    assert!((1..=64).all(|park| ask(park).body.is_ok()));
    assert_eq!(ask(65).code(), ErrorCode::LimitExceeded);
    assert!(ask(1).body.is_ok());
    scene.unharmed();
}

fn whoever_leaves_early_leaves_nothing(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let before = scene.daemon.fds();
    let event: OwnedFd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    for round in 0..40 {
        let wire = Wire::connect(&scene.socket());
        if round % 4 == 0 {
            // Gone before it has said a word.
            continue;
        }
        wire.send(&encode(Opcode::Hello as u16, 1, &hello(), &[]));
        if round % 4 == 1 {
            // Gone before it has read WELCOME and its fds.
            continue;
        }
        let reply = wire.receive().expect("WELCOME");
        assert!(reply.body.is_ok());
        let submit = message::Submit { tickets: 1, fds: 1 };
        let tail = parkd::proto::request::submit_tail(&[fd(0, 1)]).to_vec();
        let record = encode(Opcode::Submit as u16, 1, &submit, &tail);
        wire.try_send(&record, &[event.as_fd()]).expect("send");
        if round % 4 == 2 {
            // Nothing more to say, and nothing more will be heard.
            shutdown(&wire.socket, Shutdown::Both).expect("shutdown");
        }
    }
    scene.goes_on();
    until("nothing is left", || (scene.daemon.fds() <= before).then_some(()));
    assert_eq!(scene.neighbour.wire.status()["sessions"], 1);
    scene.unharmed();
}
