//! How a client is told of its results, what they say, and how many may be unread.

use parkd::core::error::ErrorCode;
use parkd::core::time::MonoNs;
use parkd::host::clock;
use parkd::proto::entry::{Status, SubmitEntry};
use parkd::proto::layout::armed;

use super::support::raw::{Session, readable, word};
use super::support::{Daemon, Executor, until};
use super::{WAYS, Way};

crate::for_each_executor! {
    a_parked_client_is_told_by_futex,
    a_polling_client_is_told_by_eventfd,
    who_arms_both_is_told_by_both,
    one_arming_is_told_once,
    times_are_in_order,
    a_detection_is_not_dated_back,
    unread_results_count_against_the_ring,
    the_ring_goes_round,
}

/// Stores rising numbers from another thread, each when the client sleeps or is about to.
fn tell(executor: &Executor, how: u32) {
    const NUMBERS: u64 = 50;
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    for number in 1..=NUMBERS {
        WAYS[number as usize % 2].submit(&mut session, &[word(lane, number, number)]);
        // The producer has its own mappings, as every producer has.
        let producer = session.producer();
        std::thread::scope(|scope| {
            scope.spawn(|| producer.store(lane, number));
            let result = session.told(how);
            assert_eq!((result.user_data, result.status), (number, Status::Done as u8));
        });
    }
}

fn a_parked_client_is_told_by_futex(executor: &Executor) {
    tell(executor, armed::TAIL);
}

fn a_polling_client_is_told_by_eventfd(executor: &Executor) {
    tell(executor, armed::NOTIFY);
}

fn who_arms_both_is_told_by_both(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    session.submit(&[word(lane, 1, 1)], &[]);
    let tail = session.arm(armed::BOTH);
    std::thread::scope(|scope| {
        let parked = scope.spawn(|| session.park(tail));
        session.store(lane, 1);
        assert!(readable(&session.eventfd), "not told by eventfd");
        parked.join().expect("told by futex");
    });
    assert_eq!(session.outcome(), (1, Status::Done));
}

fn one_arming_is_told_once(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    session.arm(armed::NOTIFY);
    for number in 1..=3 {
        session.submit(&[word(lane, number, number)], &[]);
        session.store(lane, number);
        assert_eq!(session.outcome(), (number, Status::Done));
    }
    assert!(readable(&session.eventfd));
    let mut count = [0; 8];
    rustix::io::read(&session.eventfd, &mut count).expect("a read of the eventfd");
    assert_eq!(u64::from_ne_bytes(count), 1);
    // Not armed: not told.
    session.arm(armed::NOT);
    session.submit(&[word(lane, 4, 4)], &[]);
    session.store(lane, 4);
    assert_eq!(session.outcome(), (4, Status::Done));
    let counters = &session.wire.status()["counters"];
    assert_eq!((&counters["eventfd_wakes"], &counters["futex_wakes"]), (&1.into(), &0.into()));
}

fn times_are_in_order(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    for (number, way) in (1..).zip([Way::Socket, Way::Ring]) {
        way.submit(&mut session, &[word(lane, number, number)]);
        let MonoNs(taken) = clock::now();
        session.still();
        session.store(lane, number);
        let result = session.result();
        let MonoNs(after) = clock::now();
        assert!(result.submitted_ns <= taken, "{way:?}: {result:?}");
        assert!(result.detected_ns <= result.published_ns, "{way:?}: {result:?}");
        assert!(result.published_ns <= after, "{way:?}: {result:?}");
        assert!(result.detected_ns >= result.submitted_ns, "{way:?}: {result:?}");
        assert_eq!((result.seen, result.flags, result.code), (number, 0, 0));
    }
}

/// A daemon that a bell wakes dates what it finds by the wake, not by when it went to sleep.
fn a_detection_is_not_dated_back(executor: &Executor) {
    let daemon = Daemon::start(executor, "[park]\nbackstop_us = 1000000\n");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64);
    let plan = session.plan("block", false);
    let mut number = 0;
    // A store that comes while the daemon is still in its turn may be found by that turn.
    until("a detection after its store", || {
        number += 1;
        session.submit(&[SubmitEntry { plan, ..word(lane.lane, number, number) }], &[]);
        let MonoNs(submitted) = clock::now();
        until("time passes", || (clock::now().0 > submitted + 5_000_000).then_some(()));
        let MonoNs(stored) = clock::now();
        session.store(lane.lane, number);
        session.ring(lane.bell);
        (session.result().detected_ns >= stored).then_some(())
    });
}

fn unread_results_count_against_the_ring(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    let all: Vec<SubmitEntry> = (1..=64).map(|number| word(lane, number, number)).collect();
    assert_eq!(session.submit(&all[..60], &[]), 4);
    let free = |session: &mut Session, tickets: &[SubmitEntry]| {
        let reply = session.try_submit(tickets, &[]);
        assert_eq!(reply.code(), ErrorCode::CreditExceeded);
        reply.body.expect_err("a refusal").value
    };
    // Refused whole, and the same cookie serves for less.
    assert_eq!(free(&mut session, &all[..5]), 4);
    assert_eq!(session.submit(&all[60..], &[]), 0);
    assert_eq!(free(&mut session, &all[..1]), 0);
    // Ended but unread, they still count.
    session.store(lane, 64);
    session.published(64);
    assert_eq!(free(&mut session, &all[..1]), 0);
    assert_eq!(session.outcome(), (1, Status::Done));
    assert_eq!(session.submit(&all[..1], &[]), 0);
    for number in (2..=64).chain([1]) {
        assert_eq!(session.outcome(), (number, Status::Done));
    }
    session.still();
}

fn the_ring_goes_round(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    // 64 entries each: five laps of both rings.
    for batch in 0..8u64 {
        let numbers = batch * 40 + 1..=batch * 40 + 40;
        let tickets: Vec<_> = numbers.clone().map(|number| word(lane, number, number)).collect();
        Way::Ring.submit(&mut session, &tickets);
        session.store(lane, *numbers.end());
        for number in numbers {
            assert_eq!(session.outcome(), (number, Status::Done));
        }
    }
    // Results are there to be taken before the tail says so.
    session.published(320);
}
