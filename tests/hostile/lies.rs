//! Claims that are not true: of earlier lives, of memory to adopt, of what one has been sent, and
//! numbers at the ends of their range.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use parkd::core::error::ErrorCode;
use parkd::host::clock;
use parkd::proto::entry::{Status, SubmitEntry};
use parkd::proto::message::{self, AGAIN, Hello, Opcode, encode, name_field};
use parkd::proto::request::submit_tail;
use rustix::event::EventfdFlags;
use rustix::fs::MemfdFlags;
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, UCred, sendmsg, shutdown,
};

use super::Scene;
use super::support::raw::{Session, Wire, fd, hello, word};
use super::support::{Executor, until};

crate::for_each_executor! {
    requests_that_were_never_sent_are_sent_again,
    submits_of_another_life_bring_fds,
    cookies_with_gaps_take_nothing,
    memory_that_can_shrink_is_adopted,
    names_of_tickets_are_used_twice,
    deadlines_at_the_ends_of_time,
    targets_at_the_ends_of_numbers,
    names_and_texts_hold_control_characters,
    records_are_empty_or_bear_credentials,
    one_side_of_the_socket_is_shut,
    capabilities_are_guessed,
    replies_are_sent_as_requests,
}

/// The same record, as one that an earlier life of the daemon may have got.
fn again(mut record: Vec<u8>) -> Vec<u8> {
    record[2..4].copy_from_slice(&AGAIN.to_le_bytes());
    record
}

/// A scene, and a session with lane 0.
fn stage(executor: &Executor) -> (Scene, Session) {
    let scene = Scene::new(executor, "");
    let session = Session::open(&scene.socket());
    session.lane(64);
    (scene, session)
}

fn submit(cookie: u64, entries: &[SubmitEntry], fds: u32) -> Vec<u8> {
    let body = message::Submit { tickets: entries.len() as u32, fds };
    encode(Opcode::Submit as u16, cookie, &body, submit_tail(entries))
}

fn requests_that_were_never_sent_are_sent_again(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    // Never sent before: done as if for the first time, and once.
    let record = again(submit(1, &[word(0, 5, 1)], 0));
    session.wire.send(&record);
    assert!(session.wire.receive().expect("an answer").body.is_ok());
    for _ in 0..50 {
        session.wire.send(&record);
        let reply = session.wire.receive().expect("an answer");
        assert!(reply.body.is_ok(), "{reply:?}");
    }
    session.cookie = 2;
    session.store(0, 5);
    assert_eq!(session.outcome(), (1, Status::Done));
    session.still();
    // A later number than comes next is no better for the flag.
    session.wire.send(&again(submit(9, &[word(0, 6, 9)], 0)));
    let reply = session.wire.receive().expect("an answer");
    assert_eq!(reply.code(), ErrorCode::CookieOutOfOrder);
    scene.goes_on();
    session.submit(&[word(0, 5, 2)], &[]);
    assert_eq!(session.outcome(), (2, Status::Done));
    scene.unharmed();
}

fn submits_of_another_life_bring_fds(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    session.submit(&[word(0, 9, 1)], &[]);
    let fds = scene.daemon.fds();
    let event: OwnedFd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    // Accepted, it says; of its tickets none waits for an fd.
    for cookie in [0, 1, 0, 1] {
        let record = again(submit(cookie, &[fd(0, 1)], 1));
        session.wire.try_send(&record, &[event.as_fd()]).expect("send");
        let reply = session.wire.receive().expect("an answer");
        assert!(reply.body.is_ok(), "{reply:?}");
    }
    until("the fds are closed", || (scene.daemon.fds() <= fds).then_some(()));
    session.cookie = 2;
    session.submit(&[fd(0, 2)], &[event.as_fd()]);
    rustix::io::write(&event, &1u64.to_ne_bytes()).expect("a write");
    assert_eq!(session.outcome(), (2, Status::Done));
    scene.goes_on();
    scene.unharmed();
}

fn cookies_with_gaps_take_nothing(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    // All at once, without waiting for an answer.
    let sent = [1, 2, 4, 3, 3, 6, 4, u64::MAX, 0, 5];
    let taken = [1, 2, 3, 4, 5];
    for cookie in sent {
        session.wire.send(&submit(cookie, &[word(0, 0, cookie)], 0));
    }
    let mut expected = 1;
    for cookie in sent {
        let reply = session.wire.receive().expect("an answer");
        assert_eq!(reply.cookie, cookie);
        if cookie == expected {
            assert!(reply.body.is_ok(), "{reply:?}");
            expected += 1;
        } else {
            assert_eq!(reply.code(), ErrorCode::CookieOutOfOrder);
            assert_eq!(reply.body.expect_err("a refusal").value, expected);
        }
    }
    for cookie in taken {
        assert_eq!(session.outcome(), (cookie, Status::Done));
    }
    session.still();
    scene.unharmed();
}

fn memory_that_can_shrink_is_adopted(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let fds = scene.daemon.fds();
    let bytes = parkd::proto::layout::lanes::bytes(64) as u64;
    let event: OwnedFd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let adopting = Hello { adopt: 1, ..hello() };
    for flags in [MemfdFlags::CLOEXEC, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING] {
        let lanes = rustix::fs::memfd_create("lanes", flags).expect("a memfd");
        rustix::fs::ftruncate(&lanes, bytes).expect("its size");
        rustix::io::pwrite(&lanes, b"parkd-ln\x01", 0).expect("its head");
        let wire = Wire::connect(&scene.socket());
        let record = encode(Opcode::Hello as u16, 1, &adopting, &[]);
        wire.try_send(&record, &[lanes.as_fd(), event.as_fd()]).expect("send");
        let code = wire.parted();
        let coded = [ErrorCode::SessionMemory, ErrorCode::NotSupported, ErrorCode::BadMessage];
        assert!(coded.contains(&code), "{code}");
        rustix::fs::ftruncate(&lanes, 0).expect("it can shrink");
        scene.goes_on();
    }
    until("its fds are closed", || (scene.daemon.fds() <= fds).then_some(()));
    scene.unharmed();
}

fn names_of_tickets_are_used_twice(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    session.submit(&[word(0, 1, 7), word(0, 2, 7), word(0, 3, 7)], &[]);
    session.push(&[word(0, 4, 7)]);
    session.drained();
    let cancel = message::Cancel { user_data: 7 };
    let reply = session.wire.ask(Opcode::Cancel, 3, &cancel, &[]);
    assert!(reply.body.is_ok(), "{reply:?}");
    session.store(0, 4);
    let outcomes: Vec<_> = (0..4).map(|_| session.outcome()).collect();
    let cancelled = outcomes.iter().filter(|outcome| **outcome == (7, Status::Cancelled));
    assert_eq!(cancelled.count(), 1, "{outcomes:?}");
    session.still();
    scene.unharmed();
}

fn deadlines_at_the_ends_of_time(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    let now = clock::now().0;
    let past = [1, 2, now / 2, now];
    for (name, deadline_ns) in (1..).zip(past) {
        session.push(&[SubmitEntry { deadline_ns, ..word(0, 1 << 40, name) }]);
        assert_eq!(session.outcome(), (name, Status::DeadlineExpired));
    }
    // What lies beyond all time never comes, and what was reached is done whatever its deadline.
    for (name, deadline_ns) in (10..).zip([u64::MAX, u64::MAX / 2, 1 << 63]) {
        session.push(&[SubmitEntry { deadline_ns, ..word(0, 5, name) }]);
    }
    session.drained();
    scene.goes_on();
    session.still();
    session.store(0, 5);
    let mut done: Vec<_> = (0..3).map(|_| session.outcome()).collect();
    done.sort_by_key(|(name, _)| *name);
    assert_eq!(done, [(10, Status::Done), (11, Status::Done), (12, Status::Done)]);
    scene.unharmed();
}

fn targets_at_the_ends_of_numbers(executor: &Executor) {
    let (mut scene, mut session) = stage(executor);
    // Behind by less than half of all numbers is reached, ahead is not.
    let reached = [0, u64::MAX, (1 << 63) + 1];
    for (name, target) in (1..).zip(reached) {
        session.push(&[word(0, target, name)]);
        assert_eq!(session.outcome(), (name, Status::Done));
    }
    session.push(&[word(0, (1 << 63) - 1, 8)]);
    session.drained();
    session.still();
    session.store(0, u64::MAX >> 1);
    assert_eq!(session.outcome(), (8, Status::Done));
    // Over the end, and 32 bits wide beside it.
    let narrow = session.lane(32).lane;
    session.store_low(narrow, u32::MAX);
    session.push(&[word(narrow, 1 << 32, 9)]);
    session.drained();
    session.store_low(narrow, 0);
    assert_eq!(session.outcome(), (9, Status::Done));
    scene.unharmed();
}

fn names_and_texts_hold_control_characters(executor: &Executor) {
    let (mut scene, session) = stage(executor);
    let evil = "x\n2026 ERROR all is lost\u{1b}[2J";
    for name in [evil, "\u{7f}", "default\n", "../../etc", "d\u{e9}fault"] {
        let device = name_field(name).expect("a name that fits");
        let open = message::OpenLane { lane: u32::MAX, width: 64, device };
        let reply = session.wire.ask(Opcode::OpenLane, 2, &open, &[]);
        assert_eq!(reply.code(), ErrorCode::NoSuchDevice, "{name:?}");
    }
    for by_name in [0, 1] {
        let body = message::Plan { by_name, bytes: evil.len() as u32 };
        let reply = session.wire.ask(Opcode::Plan, 3, &body, evil.as_bytes());
        let code = reply.code();
        assert!(matches!(code, ErrorCode::InvalidPlan | ErrorCode::NoSuchPlan), "{code}");
    }
    // As the first words of a connection they close it, and a close is logged.
    let wire = Wire::connect(&scene.socket());
    wire.send(&encode(Opcode::Plan as u16, 1, &[0u8; 0], evil.as_bytes()));
    wire.parted();
    let log = scene.daemon.log();
    let forged = |line: &str| line.starts_with("2026 ERROR") || line.contains('\u{1b}');
    assert!(!log.lines().any(forged), "{log}");
    scene.unharmed();
}

fn records_are_empty_or_bear_credentials(executor: &Executor) {
    let (mut scene, session) = stage(executor);
    let status = encode(Opcode::Status as u16, 5, &message::StatusRequest { reserved: 0 }, &[]);
    let me = UCred {
        pid: rustix::process::getpid(),
        uid: rustix::process::getuid(),
        gid: rustix::process::getgid(),
    };
    for round in 0..20 {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmCredentials(me)));
        let record = if round % 2 == 0 { &status[..] } else { &[] };
        let flags = SendFlags::NOSIGNAL;
        sendmsg(&session.wire.socket, &[IoSlice::new(record)], &mut control, flags).expect("send");
        let reply = session.wire.receive().expect("an answer");
        match round % 2 {
            0 => assert!(reply.body.is_ok(), "{reply:?}"),
            _ => assert_eq!(reply.code(), ErrorCode::BadMessage),
        }
    }
    scene.goes_on();
    scene.unharmed();
}

fn one_side_of_the_socket_is_shut(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    for side in [Shutdown::Write, Shutdown::Both, Shutdown::Read] {
        let mut session = Session::open(&scene.socket());
        session.lane(64);
        session.push(&[word(0, 1, 1)]);
        session.drained();
        shutdown(&session.wire.socket, side).expect("shutdown");
        if let Shutdown::Read = side {
            // It hears no answer any more, and is not waited for.
            let record =
                encode(Opcode::Status as u16, 5, &message::StatusRequest { reserved: 0 }, &[]);
            let _ = session.wire.try_send(&record, &[]);
        }
        until("the session is gone", || {
            (scene.neighbour.wire.status()["sessions"] == 1).then_some(())
        });
        assert_eq!(session.close_code(), ErrorCode::Disconnected);
    }
    scene.unharmed();
}

fn capabilities_are_guessed(executor: &Executor) {
    let (mut scene, session) = stage(executor);
    let mut codes = Vec::new();
    for guess in 0..300u128 {
        let body =
            message::Redeem { capability: guess.wrapping_mul(u128::MAX / 301).to_le_bytes() };
        codes.push(session.wire.ask(Opcode::Redeem, 4, &body, &[]).code());
    }
    assert_eq!(codes[0], ErrorCode::NoSuchCapability);
    // After the first few there is no telling a wrong guess from one that came too soon: of the 300
    // some more are heard where this took seconds, and no more than that.
    let of = |code| codes.iter().filter(|other| **other == code).count();
    let (heard, refused) = (of(ErrorCode::NoSuchCapability), of(ErrorCode::RateExceeded));
    assert_eq!(heard + refused, codes.len(), "{codes:?}");
    assert!(refused > codes.len() / 2, "{heard} guesses were heard");
    scene.goes_on();
    scene.unharmed();
}

fn replies_are_sent_as_requests(executor: &Executor) {
    let (mut scene, session) = stage(executor);
    for opcode in [0x8001, 0x8005, 0x800f, 0xfffe, 0xffff, 0x7fff, 0] {
        session.wire.send(&encode(opcode, 3, &[0u64; 6], &[]));
        let reply = session.wire.receive().expect("an answer");
        assert_eq!((reply.code(), reply.closes()), (ErrorCode::UnknownOpcode, false));
    }
    scene.unharmed();
}
