//! Much of what is allowed: connections, requests and submissions as fast as they can be made. Each
//! is answered or refused with a code, and when the storm is over nothing of it is left.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use parkd::core::error::ErrorCode;
use parkd::proto::entry::{Status, SubmitEntry};
use parkd::proto::layout::SessionState;
use parkd::proto::limits::GREETINGS_MAX;
use parkd::proto::message::{self, Hello, Opcode, encode, name_field};
use parkd::proto::request::submit_tail;
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::support::raw::{Reply, Session, Wire, fd, hello, word};
use super::support::{Executor, until};
use super::{Scene, beside};

crate::for_each_executor! {
    ten_thousand_connect_in_a_second,
    handshakes_are_left_half_open,
    sessions_come_and_go,
    as_many_sessions_as_a_user_may_have,
    a_full_ring_is_stormed_by_messages,
    submissions_storm_past_a_full_ring,
    status_is_asked_for_without_end,
    lanes_open_and_close_without_end,
    cancels_of_nothing_pour_in,
    fds_pour_in,
    everything_is_asked_at_once,
    the_largest_rings_are_asked_for,
}

/// All that was there before is there again, and no more.
fn gone(scene: &Scene, fds: usize) {
    until("the storm leaves nothing behind", || {
        let sessions = scene.neighbour.wire.status()["sessions"] == 1;
        (sessions && scene.daemon.fds() <= fds).then_some(())
    });
}

/// Connects so many times as fast as the daemon accepts, and sees what becomes of each: how many
/// are welcomed, and how many told why not or closed.
fn connects(socket: &Path, count: usize) -> (usize, usize) {
    // Fewer than this wait for an answer at a time; the daemon has room for fewer greetings.
    const OPEN: usize = 2 * GREETINGS_MAX as usize;
    let (mut open, mut made, mut welcomed) = (VecDeque::new(), 0, 0);
    let record = encode(
        Opcode::Hello as u16,
        1,
        &Hello { role: message::Role::Control as u32, ..hello() },
        &[],
    );
    let mut ask = |wire: Wire| {
        // It may have been turned away already: that is there to be read.
        let _ = wire.try_send(&record, &[]);
        let reply = wire.receive();
        let refused = reply.as_ref().is_some_and(|reply| reply.body.is_err());
        let codes = [ErrorCode::RateExceeded, ErrorCode::HelloTimeout];
        assert!(!refused || codes.contains(&reply.as_ref().map(Reply::code).expect("one")));
        welcomed += usize::from(reply.is_some() && !refused);
    };
    while made < count {
        // The listener's queue holds thousands; a connection that finds no place is told so.
        match Wire::try_connect(socket) {
            Ok(wire) => {
                open.push_back(wire);
                made += 1;
            }
            Err(Errno::AGAIN) => open.pop_front().into_iter().for_each(&mut ask),
            Err(errno) => panic!("connect: {errno}"),
        }
        if open.len() == OPEN {
            open.pop_front().into_iter().for_each(&mut ask);
        }
    }
    open.into_iter().for_each(&mut ask);
    (welcomed, made - welcomed)
}

fn ten_thousand_connect_in_a_second(executor: &Executor) {
    // As many as one user may by default, and all of them.
    for limits in ["", "[limits]\nconnects_per_second = 1000000\n"] {
        let mut scene = Scene::new(executor, limits);
        let begun = Instant::now();
        let (welcomed, refused) = std::thread::scope(|scope| {
            let socket = scene.socket();
            let crowd = [(); 2].map(|()| {
                let socket = socket.clone();
                scope.spawn(move || connects(&socket, 5000))
            });
            (0..5).for_each(|_| scene.goes_on());
            let each = crowd.map(|each| each.join().expect("its connects"));
            (each[0].0 + each[1].0, each[0].1 + each[1].1)
        });
        let rate = 10_000.0 / begun.elapsed().as_secs_f64();
        eprintln!("{}: {rate:.0} connects a second", executor.name);
        assert_eq!(welcomed + refused, 10_000);
        assert!(welcomed > 0);
        scene.unharmed();
    }
}

fn handshakes_are_left_half_open(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let fds = scene.daemon.fds();
    let record = encode(Opcode::Hello as u16, 1, &hello(), &[]);
    let mut open = Vec::new();
    for round in 0..120 {
        let wire = Wire::connect(&scene.socket());
        match round % 3 {
            // A word of HELLO, and no more.
            0 => {
                wire.send(&record[..round / 3 % 56]);
                assert_eq!(wire.parted(), ErrorCode::BadMessage);
            }
            // HELLO, and nobody to read WELCOME.
            1 => wire.send(&record),
            // Two of them in one go.
            _ => {
                wire.send(&record);
                wire.send(&record);
                assert!(wire.receive().expect("WELCOME").body.is_ok());
                let second = wire.receive().expect("a refusal");
                assert_eq!((second.code(), second.closes()), (ErrorCode::NotGreeted, false));
            }
        }
        open.push(wire);
    }
    scene.goes_on();
    drop(open);
    gone(&scene, fds);
    scene.unharmed();
}

fn sessions_come_and_go(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let fds = scene.daemon.fds();
    for round in 0..300u64 {
        let mut session = Session::open(&scene.socket());
        session.lane(64);
        session.push(&[word(0, 0, 1), word(0, 9, 2)]);
        match round % 3 {
            0 => session.wire.bye(),
            1 => assert_eq!(session.outcome(), (1, Status::Done)),
            _ => {}
        }
        if round % 50 == 0 {
            scene.goes_on();
        }
    }
    gone(&scene, fds);
    scene.unharmed();
}

fn as_many_sessions_as_a_user_may_have(executor: &Executor) {
    let mut scene = Scene::new(executor, "[limits]\nsessions = 200\nsessions_per_uid = 150\n");
    let fds = scene.daemon.fds();
    let sessions: Vec<Session> = (0..149).map(|_| Session::open(&scene.socket())).collect();
    for _ in 0..40 {
        let wire = Wire::connect(&scene.socket());
        wire.send(&encode(Opcode::Hello as u16, 1, &hello(), &[]));
        assert_eq!(wire.parted(), ErrorCode::QuotaExceeded);
    }
    scene.goes_on();
    drop(sessions);
    gone(&scene, fds);
    scene.unharmed();
}

fn a_full_ring_is_stormed_by_messages(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = Session::open(&scene.socket());
    let lane = session.lane(64).lane;
    let tickets: Vec<SubmitEntry> = (1..=64).map(|number| word(lane, number, number)).collect();
    session.submit(&tickets, &[]);
    for _ in 0..2000 {
        let reply = session.try_submit(&tickets[..1], &[]);
        assert_eq!(reply.code(), ErrorCode::CreditExceeded);
        assert_eq!(reply.body.expect_err("a refusal").value, 0, "nothing is free");
    }
    scene.goes_on();
    session.store(lane, 64);
    for number in 1..=64 {
        assert_eq!(session.outcome(), (number, Status::Done));
    }
    session.still();
    scene.unharmed();
}

fn submissions_storm_past_a_full_ring(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    for _ in 0..20 {
        let mut session = Session::open(&scene.socket());
        session.lane(64);
        // Entry upon entry over those that were not taken, and a tail that runs on and on.
        for name in 0..2000 {
            session.push(&[word(0, 1 << 40, name)]);
            if session.state() == Some(SessionState::Closed) {
                break;
            }
        }
        let code = session.close_code();
        assert!(matches!(code, ErrorCode::CreditExceeded | ErrorCode::RingIndex), "{code}");
        assert_eq!(session.wire.parted(), code);
        scene.goes_on();
    }
    scene.unharmed();
}

fn status_is_asked_for_without_end(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let wires: Vec<Wire> = (0..4).map(|_| Session::open(&scene.socket()).wire).collect();
    let record = encode(Opcode::Status as u16, 5, &message::StatusRequest { reserved: 0 }, &[]);
    let flood = || {
        for wire in &wires {
            (0..32).for_each(|_| wire.send(&record));
            for _ in 0..32 {
                let reply = wire.receive().expect("an answer");
                assert!(reply.body.is_ok(), "{reply:?}");
            }
        }
    };
    beside(flood, || (0..30).for_each(|_| scene.goes_on()));
    scene.unharmed();
}

fn lanes_open_and_close_without_end(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = Session::open(&scene.socket());
    for round in 1..=500u64 {
        let lane = session.lane(if round % 2 == 0 { 64 } else { 32 });
        assert_eq!(lane.lane, 0);
        session.submit(&[word(0, lane.value + 5, round)], &[]);
        let close = message::CloseLane { lane: 0, reserved: 0 };
        assert!(session.wire.ask(Opcode::CloseLane, 4, &close, &[]).body.is_ok());
        assert_eq!(session.outcome(), (round, Status::Cancelled));
        // What a late device stores is nobody's.
        session.store(0, round);
    }
    scene.goes_on();
    session.still();
    scene.unharmed();
}

fn cancels_of_nothing_pour_in(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = Session::open(&scene.socket());
    session.lane(64);
    let cancel = SubmitEntry { op: 2, user_data: 77, ..SubmitEntry::default() };
    let fail = SubmitEntry { op: 3, source: 9, target: 5, ..SubmitEntry::default() };
    for _ in 0..500 {
        session.push(&[cancel, fail, cancel]);
        session.drained();
    }
    for name in 0..500 {
        let body = message::Cancel { user_data: name };
        let reply = session.wire.ask(Opcode::Cancel, 3, &body, &[]);
        assert_eq!(reply.code(), ErrorCode::NoSuchTicket);
    }
    scene.goes_on();
    session.still();
    scene.unharmed();
}

fn fds_pour_in(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let fds = scene.daemon.fds();
    let mut session = Session::open(&scene.socket());
    let event: OwnedFd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let many = vec![event.as_fd(); 253];
    for round in 0..300 {
        // More than a SUBMIT may have, on what takes none, and on garbage.
        match round % 3 {
            0 => {
                let tickets: Vec<SubmitEntry> = (0..64).map(|at| fd(at, at.into())).collect();
                let body = message::Submit { tickets: 64, fds: 64 };
                let record = encode(Opcode::Submit as u16, 1, &body, submit_tail(&tickets));
                session.wire.try_send(&record, &many).expect("send");
            }
            1 => {
                let device = name_field("default").expect("a short name");
                let open = message::OpenLane { lane: u32::MAX, width: 64, device };
                let record = encode(Opcode::OpenLane as u16, 2, &open, &[]);
                session.wire.try_send(&record, &many).expect("send");
            }
            _ => session.wire.try_send(b"nonsense", &many).expect("send"),
        }
        assert!(session.wire.receive().expect("an answer").body.is_err());
    }
    scene.goes_on();
    session.still();
    drop(session);
    gone(&scene, fds);
    scene.unharmed();
}

fn everything_is_asked_at_once(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let fds = scene.daemon.fds();
    let session = Session::open(&scene.socket());
    let mut cookie = 0;
    let mut sent = 0;
    let device = name_field("default").expect("a short name");
    // As much as the socket takes, unread; then all answers are there.
    for round in 0..100u32 {
        let record = match round % 5 {
            0 => {
                let open = message::OpenLane { lane: u32::MAX, width: 64, device };
                encode(Opcode::OpenLane as u16, 9, &open, &[])
            }
            1 => {
                cookie += 1;
                let body = message::Submit { tickets: 1, fds: 0 };
                let entry = [word(0, 1 << 50, cookie)];
                encode(Opcode::Submit as u16, cookie, &body, submit_tail(&entry))
            }
            2 => encode(Opcode::Cancel as u16, 9, &message::Cancel { user_data: 1 }, &[]),
            3 => encode(Opcode::Fail as u16, 9, &message::Fail { lane: 7, code: 1 }, &[]),
            _ => encode(Opcode::Status as u16, 9, &message::StatusRequest { reserved: 0 }, &[]),
        };
        match send(&session.wire.socket, &record, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) => sent += 1,
            Err(Errno::AGAIN) => break,
            Err(errno) => panic!("send: {errno}"),
        }
    }
    assert!(sent > 10, "{sent} requests");
    for _ in 0..sent {
        let reply = session.wire.receive().expect("an answer");
        assert!(!reply.closes(), "{reply:?}");
    }
    scene.goes_on();
    drop(session);
    gone(&scene, fds);
    scene.unharmed();
}

fn the_largest_rings_are_asked_for(executor: &Executor) {
    let mut scene = Scene::new(executor, "[limits]\nlanes_per_uid = 20544\n");
    let fds = scene.daemon.fds();
    let large = Hello { submit_entries: 65_536, result_entries: 65_536, lanes: 4096, ..hello() };
    // The neighbour has 64 lanes of the 20,544 that its user may have.
    let sessions: Vec<Session> =
        (0..5).map(|_| Session::open_with(&scene.socket(), &large)).collect();
    let wire = Wire::connect(&scene.socket());
    wire.send(&encode(Opcode::Hello as u16, 1, &large, &[]));
    assert_eq!(wire.parted(), ErrorCode::QuotaExceeded);
    let asked = Hello { lanes: u32::MAX, ..large };
    let wire = Wire::connect(&scene.socket());
    wire.send(&encode(Opcode::Hello as u16, 1, &asked, &[]));
    assert_eq!(wire.parted(), ErrorCode::LimitExceeded);
    scene.goes_on();
    drop(sessions);
    gone(&scene, fds);
    scene.unharmed();
}
