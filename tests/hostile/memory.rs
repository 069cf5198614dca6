//! What a client writes into its own session memory, and what it does with its fds: nonsense ends
//! that session with a code, or fools the client alone.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use parkd::core::error::ErrorCode;
use parkd::proto::entry::{Op, Status, SubmitEntry, TicketKind};
use parkd::proto::layout::{SessionState, armed, lanes, rings};
use parkd::shm::region::{ReadWrite, Region};
use parkd::shm::words::WriteWords;
use rustix::fs::{FallocateFlags, OFlags, SealFlags, fallocate, fcntl_getfl, fcntl_setfl};

use super::support::raw::{Session, fd, readable, word};
use super::support::{Executor, until};
use super::{Scene, noise};

crate::for_each_executor! {
    a_submit_tail_that_jumps_ends_the_session,
    a_result_head_that_jumps_ends_the_session,
    entries_that_are_no_tickets_end_the_session,
    wrong_tickets_in_the_ring_are_answered_in_it,
    a_result_ring_that_is_never_read_takes_no_more,
    the_daemons_words_are_not_the_clients_to_change,
    holes_in_session_memory_hurt_nobody_else,
    wake_spam_costs_no_neighbour_its_results,
    a_full_eventfd_that_blocks_holds_nobody_up,
    lanes_may_say_anything,
    session_memory_is_sealed,
    scribbling_ends_no_session_but_ones_own,
}

/// A session with a ticket that waits, one that is done, and one result unread.
fn victim(scene: &Scene) -> Session {
    let mut session = Session::open(&scene.socket());
    let lane = session.lane(64).lane;
    session.push(&[word(lane, 0, 1), word(lane, 1, 2)]);
    session.drained();
    session.published(1);
    session
}

/// The session is closed with this code, in its memory and over its socket, and is gone.
fn ended(scene: &Scene, session: &Session, code: ErrorCode) {
    assert_eq!(session.close_code(), code);
    assert_eq!(session.wire.parted(), code);
    until("the session is gone", || (scene.neighbour.wire.status()["sessions"] == 1).then_some(()));
}

fn a_submit_tail_that_jumps_ends_the_session(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    // Two entries were taken of a ring of 64.
    for tail in [1, 0, 2 + 65, 2 + (1 << 31), u32::MAX, 1 << 16] {
        let session = victim(&scene);
        session.rings.store32(rings::SUBMIT_TAIL, tail);
        session.ring(0);
        ended(&scene, &session, ErrorCode::RingIndex);
        scene.goes_on();
    }
    scene.unharmed();
}

fn a_result_head_that_jumps_ends_the_session(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    // One result was written into a ring of 64.
    for head in [2, 64, 1 << 31, u32::MAX - 63, u32::MAX] {
        // It shows when credit is counted: at the next ticket by either way.
        let mut session = victim(&scene);
        session.rings.store32(rings::RESULT_HEAD, head);
        session.push(&[word(0, 0, 3)]);
        if head >= u32::MAX - 62 {
            // Behind what was ever read, within the ring: the client says that more is unread.
            session.published(2);
            session.wire.bye();
        } else {
            ended(&scene, &session, ErrorCode::RingIndex);
        }
        let mut session = victim(&scene);
        session.rings.store32(rings::RESULT_HEAD, head);
        if head < u32::MAX - 62 {
            assert_eq!(session.try_submit(&[word(0, 0, 3)], &[]).code(), ErrorCode::RingIndex);
            ended(&scene, &session, ErrorCode::RingIndex);
        }
        scene.goes_on();
    }
    scene.unharmed();
}

fn entries_that_are_no_tickets_end_the_session(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let none = SubmitEntry::default();
    let fail = SubmitEntry { op: Op::Fail as u8, ..none };
    let cancel = SubmitEntry { op: Op::Cancel as u8, ..none };
    let (bad, flags) = (ErrorCode::BadMessage, ErrorCode::UnknownFlags);
    let cases = [
        (none, bad),
        (SubmitEntry { op: 4, ..none }, bad),
        (SubmitEntry { op: 255, kind: 255, ..none }, bad),
        (SubmitEntry { kind: 1, ..cancel }, bad),
        (SubmitEntry { flags: 1, ..cancel }, flags),
        (SubmitEntry { reserved0: 1, ..cancel }, bad),
        (SubmitEntry { reserved1: [1, 0], ..fail }, bad),
        (SubmitEntry { flags: 0x8000, ..fail }, flags),
        (SubmitEntry { target: 1 << 32, ..fail }, bad),
    ];
    for (entry, code) in cases {
        let mut session = victim(&scene);
        // What stood before it was taken; what stands behind it is not.
        session.push(&[word(0, 0, 5), entry, word(0, 0, 6)]);
        ended(&scene, &session, code);
        scene.goes_on();
    }
    // A FAIL or a CANCEL of what is not there is nothing.
    let mut session = victim(&scene);
    session.push(&[SubmitEntry { source: u32::MAX, ..fail }, cancel, word(0, 0, 5)]);
    session.published(2);
    assert_eq!(session.state(), Some(SessionState::Live));
    scene.unharmed();
}

fn wrong_tickets_in_the_ring_are_answered_in_it(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = Session::open(&scene.socket());
    let lane = session.lane(64).lane;
    let good = word(lane, 0, 1);
    let event = TicketKind::Event as u8;
    let bad = ErrorCode::BadMessage;
    let cases = [
        (SubmitEntry { kind: 0, ..good }, bad),
        (SubmitEntry { kind: 200, ..good }, bad),
        (SubmitEntry { flags: 1 << 15, ..good }, ErrorCode::UnknownFlags),
        (SubmitEntry { reserved0: 1, ..good }, bad),
        (SubmitEntry { reserved1: [1, 1], ..good }, bad),
        (SubmitEntry { plan: 65, ..good }, ErrorCode::NoSuchPlan),
        (SubmitEntry { source: 63, ..good }, ErrorCode::NoSuchLane),
        (SubmitEntry { source: u32::MAX, ..good }, ErrorCode::NoSuchLane),
        (SubmitEntry { kind: event, ..good }, ErrorCode::NotSupported),
        (fd(0, 1), ErrorCode::NotSupported),
    ];
    for (user_data, (wrong, code)) in (10..).zip(cases) {
        session.push(&[SubmitEntry { user_data, ..wrong }]);
        let result = session.result();
        assert_eq!((result.user_data, result.status), (user_data, Status::Refused as u8));
        assert_eq!(result.code, u32::from(code.number()), "{wrong:?}");
    }
    session.push(&[good]);
    assert_eq!(session.outcome(), (1, Status::Done));
    scene.unharmed();
}

fn a_result_ring_that_is_never_read_takes_no_more(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = Session::open(&scene.socket());
    let lane = session.lane(64).lane;
    for name in 0..64 {
        session.push(&[word(lane, 0, name)]);
    }
    session.published(64);
    assert_eq!(session.state(), Some(SessionState::Live));
    session.push(&[word(lane, 0, 64)]);
    ended(&scene, &session, ErrorCode::CreditExceeded);
    // All that fitted was answered, and is there to be read.
    for name in 0..64 {
        assert_eq!(session.outcome(), (name, Status::Done));
    }
    assert_eq!(session.take(), None);
    scene.unharmed();
}

fn the_daemons_words_are_not_the_clients_to_change(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = Session::open(&scene.socket());
    let lane = session.lane(64).lane;
    for (number, junk) in (1..).zip([0, 1, 77, 1 << 31, u32::MAX]) {
        for word in [rings::SUBMIT_HEAD, rings::RESULT_TAIL, rings::STATE, rings::GENERATION] {
            session.rings.store32(word, junk);
        }
        // Magic, version and sizes have been read for the last time.
        for at in (0..32).step_by(4) {
            session.rings.store32(at, junk);
            session.lanes.store32(at, junk);
        }
        session.push(&[word(lane, number, number)]);
        session.store(lane, number);
        assert_eq!(session.outcome(), (number, Status::Done));
    }
    // The daemon writes over what was written over.
    session.published(5);
    scene.unharmed();
}

/// Gives the memory of a whole file back, while the daemon has it mapped.
pub fn punch(file: &OwnedFd, from: usize) {
    let bytes = rustix::fs::fstat(file).expect("fstat").st_size as u64;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, flags, from as u64, bytes - from as u64).expect("a hole");
}

fn holes_in_session_memory_hurt_nobody_else(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = victim(&scene);
    for round in 0..20 {
        punch(&session.lanes_fd, lanes::LANES);
        punch(&session.rings_fd, rings::SUBMIT_RING);
        // The lanes are all 0 now; what was stored again is found.
        session.store(0, round + 1);
        scene.goes_on();
        // Bells that fell back to 0 have moved like any other.
        punch(&session.lanes_fd, 0);
        session.ring(0);
        session.ring(1);
        scene.goes_on();
    }
    // With its indices at 0 the client's are behind the daemon's.
    punch(&session.rings_fd, 0);
    session.push(&[]);
    session.rings.store32(rings::SUBMIT_TAIL, 0);
    session.ring(0);
    ended(&scene, &session, ErrorCode::RingIndex);
    scene.unharmed();
}

fn wake_spam_costs_no_neighbour_its_results(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = Session::open(&scene.socket());
    let lane = session.lane(64).lane;
    let spammers: Vec<Session> = (0..3).map(|_| Session::open(&scene.socket())).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (at, spammer) in spammers.iter().enumerate() {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    match at {
                        // Wakes without a ring, rings without a submission, and both.
                        0 => spammer.wake(0),
                        1 => spammer.ring(0),
                        _ => (spammer.ring(1), spammer.wake(0)).0,
                    }
                }
            });
        }
        for number in 1..=20 {
            scene.goes_on();
            session.push(&[word(lane, number, number)]);
            session.store(lane, number);
            assert_eq!(session.outcome(), (number, Status::Done));
        }
        over.store(true, Ordering::Relaxed);
    });
    // Those who did it are served as well.
    for mut spammer in spammers {
        let lane = spammer.lane(64).lane;
        spammer.push(&[word(lane, 0, 1)]);
        assert_eq!(spammer.outcome(), (1, Status::Done));
    }
    scene.unharmed();
}

/// Makes writes to an eventfd block.
fn fill(eventfd: &OwnedFd) {
    let flags = fcntl_getfl(eventfd).expect("its flags");
    fcntl_setfl(eventfd, flags - OFlags::NONBLOCK).expect("its flags");
    rustix::io::write(eventfd, &(u64::MAX - 1).to_ne_bytes()).expect("a write");
}

fn a_full_eventfd_that_blocks_holds_nobody_up(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let before = scene.daemon.fds();
    let mut sessions: Vec<Session> = (0..12).map(|_| Session::open(&scene.socket())).collect();
    for session in &mut sessions {
        session.lane(64);
        fill(&session.eventfd);
        if let Some(bell) = &session.bell {
            fill(bell);
        }
    }
    for number in 1..=5 {
        for session in &mut sessions {
            session.submit(&[word(0, number, number)], &[]);
            session.arm(armed::NOTIFY);
            session.store(0, number);
        }
        scene.goes_on();
        for session in &mut sessions {
            assert_eq!(session.outcome(), (number, Status::Done));
        }
    }
    // Who empties it is told again.
    let mut first = sessions.swap_remove(0);
    rustix::io::read(&first.eventfd, &mut [0; 8]).expect("a read");
    first.submit(&[word(0, 6, 6)], &[]);
    first.arm(armed::NOTIFY);
    first.store(0, 6);
    assert!(readable(first.eventfd.as_fd()));
    assert_eq!(first.outcome(), (6, Status::Done));
    // And who leaves leaves nothing behind.
    drop((first, sessions));
    until("the sessions are gone", || (scene.daemon.fds() <= before).then_some(()));
    scene.unharmed();
}

fn lanes_may_say_anything(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let mut session = Session::open(&scene.socket());
    let lane = session.lane(64).lane;
    // Backwards, by halves of the number space, and on lanes that are not open.
    let numbers = [5, 3, u64::MAX, 0, 1 << 63, (1 << 63) - 1, 7];
    let mut answered = 0;
    for (name, number) in (0..).zip(numbers) {
        session.push(&[word(lane, number.wrapping_add(1), name)]);
        for any in 0..64 {
            session.store(any, number);
        }
        session.ring(1);
        session.drained();
        session.wire.status();
        answered += std::iter::from_fn(|| session.take()).count();
    }
    session.store(lane, numbers[6] + 1);
    for name in 0..numbers.len() as u64 {
        let body = parkd::proto::message::Cancel { user_data: name };
        let _ = session.wire.ask(parkd::proto::message::Opcode::Cancel, 9, &body, &[]);
    }
    session.published(numbers.len() as u32);
    answered += std::iter::from_fn(|| session.take()).count();
    assert_eq!(answered, numbers.len(), "each has one result");
    scene.unharmed();
}

fn session_memory_is_sealed(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    let session = Session::open(&scene.socket());
    for file in [&session.rings_fd, &session.lanes_fd, &session.status_fd] {
        let bytes = rustix::fs::fstat(file).expect("fstat").st_size as u64;
        for other in [0, bytes / 2, bytes + 4096] {
            assert!(rustix::fs::ftruncate(file, other).is_err(), "{other} of {bytes} bytes");
        }
        // A seal of the client's would lock out a daemon that maps the memory anew.
        let seal = rustix::fs::fcntl_add_seals(file, SealFlags::FUTURE_WRITE);
        assert!(seal.is_err());
    }
    // What is every client's to read is nobody's to write.
    let page = rustix::fs::fstat(&session.status_fd).expect("fstat").st_size as usize;
    assert!(Region::<ReadWrite>::map(session.status_fd.as_fd(), page).is_err());
    assert!(rustix::io::pwrite(&session.status_fd, &[1], 0).is_err());
    scene.unharmed();
}

/// A client that has gone mad: words of its own memory change while the daemon reads them.
fn scribbling_ends_no_session_but_ones_own(executor: &Executor) {
    let mut scene = Scene::new(executor, "");
    for seed in 1..=60 {
        let session = victim(&scene);
        let words = noise(seed, 4000);
        for &[a, b, c, d, ref value @ ..] in words.as_chunks::<8>().0 {
            let place = usize::from(u16::from_le_bytes([b, c]));
            let value = u32::from_le_bytes(*value);
            let value = if d % 2 == 0 { value % 70 } else { value };
            let rings = session.welcome.submit_entries as usize * 64;
            match a % 8 {
                // The client's words, entries with some sense, anything, and the lanes.
                0 => session.rings.store32(rings::SUBMIT_TAIL + place % 4 * 4, value % 4),
                1 => session.rings.store32(rings::SUBMIT_TAIL + place % 4 * 4, value),
                2 | 3 => {
                    let entry = rings::SUBMIT_RING + place % 64 * 64;
                    session.rings.store64(entry, u64::from(value % 3 + 1) | 0x100);
                    session.rings.store32(entry + 4, value % 3);
                }
                4 => session.rings.store32(place * 4 % (4096 + 2 * rings), value),
                5 => session.lanes.store64(lanes::lane(place as u32 % 64), value.into()),
                6 => session.lanes.store32(lanes::bell(place as u32 % lanes::BELLS), value),
                _ => session.ring(place as u32 % 2),
            }
        }
        scene.goes_on();
        // It was closed with a code, or is served on; either way it can leave.
        if session.state() == Some(SessionState::Closed) {
            session.wire.closed();
        }
    }
    until("the sessions are gone", || {
        (scene.neighbour.wire.status()["sessions"] == 1).then_some(())
    });
    scene.unharmed();
}
