//! Tickets on completion words.

use parkd::core::error::ErrorCode;
use parkd::proto::entry::{Status, SubmitEntry};
use parkd::proto::message::{self, Hello, LaneOpened, Opcode};

use super::support::raw::{self, Session, word};
use super::support::{Daemon, Executor, PATIENCE, until};
use super::{WAYS, Way};

crate::for_each_executor! {
    a_silent_store_is_found,
    a_rung_store_is_found_before_the_backstop,
    each_device_has_its_bell,
    the_low_half_alone_counts_on_a_narrow_lane,
    numbers_wrap,
    every_plan_waits,
    rows_choose_among_bands,
    plans_have_names_and_stable_ids,
    sessions_do_not_meet,
    thousands_wait_at_once,
    a_reused_lane_goes_on_from_its_last_number,
}

fn a_silent_store_is_found(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    for (number, way) in (1..).zip([Way::Socket, Way::Ring, Way::Socket, Way::Ring]) {
        way.submit(&mut session, &[word(lane, number, 100 + number)]);
        session.still();
        session.store(lane, number);
        assert_eq!(session.outcome(), (100 + number, Status::Done), "{way:?}");
    }
}

/// With a backstop of a second, what is found within that second of its submit was not found by
/// looking.
const BELLS_ONLY: &str = "[park]\nbackstop_us = 1000000\n[plans]\ndefault = \"block\"\n";

/// Whether a ring finds a store on this lane, tried until the machine leaves time for it.
fn rings(session: &mut Session, LaneOpened { lane, bell, value }: LaneOpened) {
    let mut number = value;
    until("a rung store is found", || {
        number += 1;
        session.submit(&[word(lane, number, number)], &[]);
        session.store(lane, number);
        session.ring(bell);
        let result = session.result();
        assert_eq!((result.user_data, result.status), (number, Status::Done as u8));
        (result.detected_ns - result.submitted_ns < 900_000_000).then_some(())
    });
}

fn a_rung_store_is_found_before_the_backstop(executor: &Executor) {
    let daemon = Daemon::start(executor, BELLS_ONLY);
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64);
    for _ in 0..3 {
        rings(&mut session, lane);
    }
}

fn each_device_has_its_bell(executor: &Executor) {
    let devices = "[[device]]\nname = \"a\"\n[[device]]\nname = \"b\"\n";
    let daemon = Daemon::start(executor, &format!("{BELLS_ONLY}{devices}"));
    let mut session = Session::open(&daemon.socket());
    let lane =
        |session: &Session, name| -> LaneOpened { session.lane_of(name, u32::MAX, 64).parts().0 };
    let (a, b) = (lane(&session, "a"), lane(&session, "b"));
    assert_eq!((a.bell, b.bell), (1, 2));
    rings(&mut session, b);
    rings(&mut session, a);
    assert_eq!(session.lane_of("c", u32::MAX, 64).code(), ErrorCode::NoSuchDevice);
}

fn the_low_half_alone_counts_on_a_narrow_lane(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(32).lane;
    // What stands in the high half, in the word and in the target, says nothing.
    session.store(lane, 0xdead_beef_0000_0005);
    session.submit(&[word(lane, 5, 1), word(lane, 0xffff_ffff_0000_0006, 2)], &[]);
    assert_eq!(session.outcome(), (1, Status::Done));
    session.still();
    session.store_low(lane, 6);
    assert_eq!(session.outcome(), (2, Status::Done));
}

fn numbers_wrap(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let (wide, narrow) = (session.lane(64).lane, session.lane(32).lane);
    session.store(wide, u64::MAX - 1);
    session.store_low(narrow, u32::MAX - 1);
    for way in WAYS {
        // Out of their order, so that the daemon has to find it.
        let (base, entries) = match way {
            Way::Socket => (wide, [word(wide, 1, 3), word(wide, u64::MAX, 1), word(wide, 0, 2)]),
            Way::Ring => {
                let max = u32::MAX.into();
                (narrow, [word(narrow, 1, 3), word(narrow, max, 1), word(narrow, 0, 2)])
            }
        };
        way.submit(&mut session, &entries);
        session.still();
        for (number, user_data) in [(u64::MAX, 1), (0, 2), (1, 3)] {
            match way {
                Way::Socket => session.store(base, number),
                Way::Ring => session.store_low(base, number as u32),
            }
            assert_eq!(session.outcome(), (user_data, Status::Done), "{way:?}");
            session.still();
        }
    }
}

fn every_plan_waits(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let predict = "+predict:margin_us=50,min_sleep_us=20,max_sleep_us=50000,window=8";
    let plans = [
        ("block", 4..=4),
        ("poll", 3..=3),
        ("flag:park_us=50,backstop_us=1000", 3..=3),
        // As restless as a plan may be, and as calm.
        ("flag:park_us=1,backstop_us=1", 3..=3),
        ("flag:park_us=10000,backstop_us=1000000", 3..=3),
        (&format!("poll{predict}"), 2..=3),
        (&format!("flag:park_us=50,backstop_us=1000{predict}"), 2..=3),
        (&format!("flag:park_us=20,backstop_us=500{predict},wake=early"), 2..=3),
    ];
    for (text, waited) in plans {
        let plan = session.plan(text, false);
        let lane = session.lane(64).lane;
        for number in 1..=12 {
            let entry = SubmitEntry { plan, point: plan.into(), ..word(lane, number, number) };
            WAYS[number as usize % 2].submit(&mut session, &[entry]);
            assert_eq!(session.take(), None, "{text}: early");
            session.store(lane, number);
            let result = session.result();
            assert_eq!((result.user_data, result.status), (number, Status::Done as u8), "{text}");
            assert!(result.seen >= number, "{text}: {result:?}");
            assert!(waited.contains(&result.waited), "{text}: {result:?}");
        }
    }
}

fn rows_choose_among_bands(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let plan = session.plan("block;rows>=100:poll", false);
    let lane = session.lane(64).lane;
    // A number that is there when its ticket comes is Blocked by `block` and Immediate by `poll`.
    session.store(lane, 9);
    for (rows, waited) in [(0, 4), (99, 4), (100, 1), (u32::MAX, 1)] {
        session.submit(&[SubmitEntry { plan, rows, ..word(lane, 9, 1) }], &[]);
        assert_eq!(session.result().waited, waited, "{rows} rows");
    }
}

fn plans_have_names_and_stable_ids(executor: &Executor) {
    let daemon = Daemon::start(executor, "[plans]\nnight = \"block\"\n");
    let mut session = Session::open(&daemon.socket());
    let night = session.plan("night", true);
    assert_ne!(session.plan("poll", false), night);
    assert_eq!(session.plan("night", true), night);
    let lane = session.lane(64).lane;
    session.submit(&[SubmitEntry { plan: night, ..word(lane, 0, 1) }], &[]);
    assert_eq!(session.result().waited, 4);
    let refused = |by_name, text: &str| {
        let body = message::Plan { by_name, bytes: text.len() as u32 };
        session.wire.ask(Opcode::Plan, 5, &body, text.as_bytes()).code()
    };
    assert_eq!(refused(1, "day"), ErrorCode::NoSuchPlan);
    assert_eq!(refused(0, "night"), ErrorCode::InvalidPlan);
    let unknown = SubmitEntry { plan: 60, ..word(lane, 0, 1) };
    assert_eq!(session.try_submit(&[unknown], &[]).code(), ErrorCode::NoSuchPlan);
}

fn sessions_do_not_meet(executor: &Executor) {
    const NUMBERS: u64 = 40;
    let daemon = Daemon::start(executor, "");
    let socket = daemon.socket();
    // Each goes through the same numbers, lanes and names as the others, at its own pace.
    std::thread::scope(|scope| {
        for at in 0..4 {
            let socket = &socket;
            scope.spawn(move || {
                let mut session = Session::open(socket);
                let lanes = [(); 3].map(|()| session.lane(64).lane);
                for number in 1..=NUMBERS {
                    let entries =
                        lanes.map(|lane| word(lane, number, number << 8 | u64::from(lane)));
                    WAYS[(at + number as usize) % 2].submit(&mut session, &entries);
                    assert_eq!(session.take(), None, "early");
                    for lane in lanes {
                        session.store(lane, number);
                    }
                    let mut found = lanes.map(|_| session.outcome());
                    found.sort_unstable_by_key(|(user_data, _)| *user_data);
                    let all = entries.map(|entry| (entry.user_data, Status::Done));
                    assert_eq!(found, all);
                }
                session.still();
            });
        }
    });
    let status = raw::control(&socket).status();
    assert_eq!(status["counters"]["results"]["done"], 4 * 3 * NUMBERS);
}

fn thousands_wait_at_once(executor: &Executor) {
    const TICKETS: u64 = 4096;
    const LANES: u32 = 64;
    let daemon = Daemon::start(executor, "");
    let entries = TICKETS as u32;
    let hello = Hello { submit_entries: entries, result_entries: entries, ..raw::hello() };
    let mut session = Session::open_with(&daemon.socket(), &hello);
    let lanes: Vec<u32> = (0..LANES).map(|_| session.lane(64).lane).collect();
    // Every lane has 64 tickets, which come in from the last number to the first.
    let ticket = |at: u64| {
        word(lanes[at as usize % lanes.len()], (TICKETS - 1 - at) / u64::from(LANES) + 1, at)
    };
    let tickets: Vec<SubmitEntry> = (0..TICKETS).map(ticket).collect();
    for (at, batch) in tickets.chunks(256).enumerate() {
        WAYS[at % 2].submit(&mut session, batch);
    }
    assert_eq!(session.wire.status()["tickets"], TICKETS);
    session.still();
    let mut seen = vec![false; TICKETS as usize];
    for number in 1..=TICKETS / u64::from(LANES) {
        for &lane in &lanes {
            session.store(lane, number);
        }
        for _ in 0..LANES {
            let result = session.result();
            let entry = &tickets[result.user_data as usize];
            assert_eq!((result.status, entry.target), (Status::Done as u8, number));
            assert!(!std::mem::replace(&mut seen[result.user_data as usize], true), "twice");
        }
    }
    assert!(seen.iter().all(|&seen| seen), "not all within {PATIENCE:?}");
    assert_eq!(session.wire.status()["tickets"], 0);
}

fn a_reused_lane_goes_on_from_its_last_number(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let opened = session.lane(64);
    assert_eq!(opened.value, 0);
    session.store(opened.lane, 41);
    let close = message::CloseLane { lane: opened.lane, reserved: 0 };
    assert!(session.wire.ask(Opcode::CloseLane, 6, &close, &[]).body.is_ok());
    let again: LaneOpened = session.lane_of("default", opened.lane, 64).parts().0;
    assert_eq!((again.lane, again.value), (opened.lane, 41));
    session.submit(&[word(again.lane, 41, 1), word(again.lane, 42, 2)], &[]);
    assert_eq!(session.outcome(), (1, Status::Done));
    session.still();
    session.store(again.lane, 42);
    assert_eq!(session.outcome(), (2, Status::Done));
}
