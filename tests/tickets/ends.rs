//! Tickets that end in another way than by their number: deadlines, CANCEL, FAIL, CLOSE_LANE.

use std::path::Path;
use std::process::{Command, Stdio};

use parkd::core::error::ErrorCode;
use parkd::host::clock;
use parkd::proto::entry::{Op, Status, SubmitEntry};
use parkd::proto::message::{self, LaneOpened, Opcode};

use super::support::raw::{Reply, Session, word};
use super::support::{Daemon, Executor, skipped};
use super::{WAYS, Way};

crate::for_each_executor! {
    a_deadline_ends_a_wait,
    a_past_deadline_ends_it_at_once,
    a_deadline_does_not_touch_its_neighbours,
    a_deadline_may_be_as_far_as_time_goes,
    deadlines_and_times_are_the_clients_own,
    a_ticket_is_cancelled,
    what_is_over_cannot_be_cancelled,
    a_producer_fails_a_lane,
    a_failed_lane_stays_failed_until_opened_anew,
    closing_a_lane_cancels_its_tickets,
    requests_come_after_what_was_submitted,
    every_ending_shows_in_its_result,
}

const MILLISECOND: u64 = 1_000_000;

fn cancel(user_data: u64) -> SubmitEntry {
    SubmitEntry { op: Op::Cancel as u8, user_data, ..SubmitEntry::default() }
}

pub fn fail(lane: u32, code: u32) -> SubmitEntry {
    let op = Op::Fail as u8;
    SubmitEntry { op, source: lane, target: code.into(), ..SubmitEntry::default() }
}

fn close_lane(session: &Session, lane: u32) -> Reply {
    session.wire.ask(Opcode::CloseLane, 4, &message::CloseLane { lane, reserved: 0 }, &[])
}

fn a_deadline_ends_a_wait(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    for plan in ["block", "poll", "flag:park_us=50,backstop_us=1000"] {
        let plan = session.plan(plan, false);
        for (user_data, way) in (1..).zip(WAYS) {
            let deadline_ns = clock::now().0 + 20 * MILLISECOND;
            let entry = SubmitEntry { deadline_ns, plan, ..word(lane, 1, user_data) };
            way.submit(&mut session, &[entry]);
            let result = session.result();
            assert_eq!((result.user_data, result.waited), (user_data, 0), "{way:?}");
            assert_eq!(result.status, Status::DeadlineExpired as u8);
            assert!(result.detected_ns >= deadline_ns, "{way:?}: early: {result:?}");
        }
    }
    assert_eq!(session.wire.status()["tickets"], 0);
}

fn a_past_deadline_ends_it_at_once(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    session.store(lane, 5);
    for way in WAYS {
        // What has been reached is Done all the same.
        let past = |target, user_data, deadline_ns| SubmitEntry {
            deadline_ns,
            ..word(lane, target, user_data)
        };
        way.submit(&mut session, &[past(6, 1, 1), past(5, 2, 1), past(6, 3, clock::now().0)]);
        let mut found = [(); 3].map(|()| session.outcome());
        found.sort_unstable_by_key(|(user_data, _)| *user_data);
        let expired = Status::DeadlineExpired;
        assert_eq!(found, [(1, expired), (2, Status::Done), (3, expired)], "{way:?}");
    }
}

fn a_deadline_does_not_touch_its_neighbours(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    let soon = clock::now().0 + 10 * MILLISECOND;
    let later = clock::now().0 + 3600 * 1000 * MILLISECOND;
    let ticket = |number, deadline_ns| SubmitEntry { deadline_ns, ..word(lane, number, number) };
    // The first of the lane, the last, and one between.
    session.submit(&[ticket(1, soon), ticket(2, 0), ticket(3, soon), ticket(4, later)], &[]);
    session.submit(&[ticket(5, soon)], &[]);
    let mut expired = [(); 3].map(|()| session.outcome());
    expired.sort_unstable_by_key(|(user_data, _)| *user_data);
    assert_eq!(expired, [1, 3, 5].map(|number| (number, Status::DeadlineExpired)));
    session.still();
    session.store(lane, 2);
    assert_eq!(session.outcome(), (2, Status::Done));
    session.store(lane, 4);
    assert_eq!(session.outcome(), (4, Status::Done));
    session.still();
}

fn a_deadline_may_be_as_far_as_time_goes(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    for (number, deadline_ns) in (1..).zip([u64::MAX, u64::MAX - 1, i64::MAX as u64 + 1]) {
        for way in WAYS {
            let entry = SubmitEntry { deadline_ns, ..word(lane, number, number) };
            way.submit(&mut session, &[entry]);
        }
        session.still();
        session.store(lane, number);
        let both = [session.outcome(), session.outcome()];
        assert_eq!(both, [(number, Status::Done); 2]);
    }
}

/// Where the process below finds the daemon.
const ELSEWHEN: &str = "PARKD_TEST_ELSEWHEN";

/// Not a test by itself: this program is started again where the clock shows another time.
#[test]
fn a_client_in_another_time_namespace() {
    let Some(socket) = std::env::var_os(ELSEWHEN) else { return };
    let mut session = Session::open(Path::new(&socket));
    assert_ne!(session.welcome.clock_offset_ns, 0);
    let lane = session.lane(64).lane;
    let start = clock::now().0;
    let soon = start + 20 * MILLISECOND;
    let later = start + 3600 * 1000 * MILLISECOND;
    let ticket = |target, deadline_ns| SubmitEntry { deadline_ns, ..word(lane, target, target) };
    session.submit(&[ticket(1, later), ticket(2, soon)], &[]);
    let expired = session.result();
    assert_eq!((expired.user_data, expired.status), (2, Status::DeadlineExpired as u8));
    session.store(lane, 1);
    let done = session.result();
    assert_eq!((done.user_data, done.status), (1, Status::Done as u8));
    // Two looks at two clocks are not one: what the daemon adds is right to the time that HELLO
    // was on its way.
    let way = 1000 * MILLISECOND;
    for result in [expired, done] {
        let times = [result.submitted_ns, result.detected_ns, result.published_ns];
        let own = start - way..clock::now().0 + way;
        assert!(times.iter().all(|time| own.contains(time)), "{result:?} is not in {own:?}");
    }
    println!("\nelsewhen");
}

fn deadlines_and_times_are_the_clients_own(executor: &Executor) {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--time", "--monotonic", "100000", "--fork"]);
        command
    };
    let can = unshare().arg("true").stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        return skipped("a time namespace cannot be made here");
    }
    let daemon = Daemon::start(executor, "");
    let client = unshare()
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "ends::a_client_in_another_time_namespace", "--nocapture"])
        .env(ELSEWHEN, daemon.socket())
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&client.stdout);
    let wrong = String::from_utf8_lossy(&client.stderr);
    assert!(said.lines().any(|line| line == "elsewhen"), "{said}{wrong}");
}

fn a_ticket_is_cancelled(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    let tickets = [1, 2, 3, 4].map(|number| word(lane, number, number));
    session.submit(&tickets, &[]);
    let body = message::Cancel { user_data: 1 };
    assert!(session.wire.ask(Opcode::Cancel, 9, &body, &[]).body.is_ok());
    assert_eq!(session.outcome(), (1, Status::Cancelled));
    session.push(&[cancel(3)]);
    assert_eq!(session.outcome(), (3, Status::Cancelled));
    session.store(lane, 4);
    assert_eq!([session.outcome(), session.outcome()], [(2, Status::Done), (4, Status::Done)]);
    session.still();
}

fn what_is_over_cannot_be_cancelled(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    session.submit(&[word(lane, 0, 1)], &[]);
    assert_eq!(session.outcome(), (1, Status::Done));
    for user_data in [1, 99] {
        let reply = session.wire.ask(Opcode::Cancel, 9, &message::Cancel { user_data }, &[]);
        assert_eq!(reply.code(), ErrorCode::NoSuchTicket);
        // In the ring a cancel that comes too late is nothing.
        session.push(&[cancel(user_data)]);
        session.drained();
        session.still();
    }
    // A ticket behind its cancel in one batch is not hit by it, one before it is.
    session.push(&[word(lane, 1, 5), cancel(5), cancel(6), word(lane, 1, 6)]);
    assert_eq!(session.outcome(), (5, Status::Cancelled));
    session.drained();
    session.still();
    session.store(lane, 1);
    assert_eq!(session.outcome(), (6, Status::Done));
}

/// Fails a lane by either way.
pub fn post_failure(session: &mut Session, way: Way, lane: u32, code: u32) {
    match way {
        Way::Socket => {
            let reply = session.wire.ask(Opcode::Fail, 8, &message::Fail { lane, code }, &[]);
            assert!(reply.body.is_ok(), "{reply:?}");
        }
        Way::Ring => {
            session.push(&[fail(lane, code)]);
            session.drained();
        }
    }
}

fn a_producer_fails_a_lane(executor: &Executor) {
    let daemon = Daemon::start(executor, "[plans]\ndefault = \"block\"\n");
    let mut session = Session::open(&daemon.socket());
    for way in WAYS {
        let (lane, other) = (session.lane(64).lane, session.lane(64).lane);
        let tickets = [word(lane, 1, 1), word(lane, 2, 2), word(lane, 3, 3), word(other, 1, 4)];
        session.submit(&tickets, &[]);
        // The first was done before the device failed.
        session.store(lane, 1);
        post_failure(&mut session, way, lane, 700);
        let result = session.result();
        assert_eq!((result.user_data, result.status), (1, Status::Done as u8), "{way:?}");
        for user_data in [2, 3] {
            let result = session.result();
            assert_eq!((result.user_data, result.code), (user_data, 700), "{way:?}");
            assert_eq!(result.status, Status::DeviceFailed as u8);
        }
        session.still();
        session.store(other, 1);
        assert_eq!(session.outcome(), (4, Status::Done));
    }
    let reply = session.wire.ask(Opcode::Fail, 8, &message::Fail { lane: 60, code: 1 }, &[]);
    assert_eq!(reply.code(), ErrorCode::NoSuchLane);
}

fn a_failed_lane_stays_failed_until_opened_anew(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    post_failure(&mut session, Way::Socket, lane, 9);
    for way in WAYS {
        way.submit(&mut session, &[word(lane, 1, 1)]);
        let result = session.result();
        assert_eq!((result.status, result.code), (Status::DeviceFailed as u8, 9), "{way:?}");
    }
    assert!(close_lane(&session, lane).body.is_ok());
    let _: LaneOpened = session.lane_of("default", lane, 64).parts().0;
    session.submit(&[word(lane, 1, 2)], &[]);
    session.still();
    session.store(lane, 1);
    assert_eq!(session.outcome(), (2, Status::Done));
}

/// What stands in the ring was submitted before the request was sent, whether or not anybody has
/// looked.
fn requests_come_after_what_was_submitted(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lanes = [(); 3].map(|()| session.lane(64).lane);
    session.fill(&[word(lanes[0], 1, 1), word(lanes[1], 1, 2), word(lanes[2], 1, 3)]);
    assert!(close_lane(&session, lanes[0]).body.is_ok());
    assert_eq!(session.outcome(), (1, Status::Cancelled));
    session.fill(&[word(lanes[1], 1, 4)]);
    let four = message::Cancel { user_data: 4 };
    assert!(session.wire.ask(Opcode::Cancel, 5, &four, &[]).body.is_ok());
    assert_eq!(session.outcome(), (4, Status::Cancelled));
    session.fill(&[word(lanes[2], 1, 5)]);
    let code = message::Fail { lane: lanes[2], code: 7 };
    assert!(session.wire.ask(Opcode::Fail, 6, &code, &[]).body.is_ok());
    let failed = [session.outcome(), session.outcome()];
    assert_eq!(failed, [(3, Status::DeviceFailed), (5, Status::DeviceFailed)]);
    session.store(lanes[1], 1);
    assert_eq!(session.outcome(), (2, Status::Done));
}

fn closing_a_lane_cancels_its_tickets(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    session.submit(&[word(lane, 1, 1), word(lane, 2, 2)], &[]);
    assert!(close_lane(&session, lane).body.is_ok());
    let both = [session.outcome(), session.outcome()];
    assert_eq!(both, [(1, Status::Cancelled), (2, Status::Cancelled)]);
    assert_eq!(close_lane(&session, lane).code(), ErrorCode::NoSuchLane);
    assert_eq!(session.try_submit(&[word(lane, 0, 3)], &[]).code(), ErrorCode::NoSuchLane);
    session.push(&[word(lane, 0, 4)]);
    let result = session.result();
    assert_eq!((result.user_data, result.status), (4, Status::Refused as u8));
    assert_eq!(result.code, u32::from(ErrorCode::NoSuchLane.number()));
}

/// The table of docs/PROTOCOL.md, each row with what brings it about.
fn every_ending_shows_in_its_result(executor: &Executor) {
    type Cause = fn(&mut Session, &Session, u32);
    const ROWS: [(Status, u32, Cause); 7] = [
        (Status::Done, 0, |_, owner, lane| owner.store(lane, 1)),
        (Status::DeadlineExpired, 0, |_, _, _| {}),
        (Status::Cancelled, 0, |session, _, _| session.push(&[cancel(3)])),
        (Status::ProducerDied, 0, |_, owner, lane| {
            assert!(close_lane(owner, lane).body.is_ok());
        }),
        (Status::DeviceFailed, 700, |_, owner, lane| {
            let body = message::Fail { lane, code: 700 };
            assert!(owner.wire.ask(Opcode::Fail, 8, &body, &[]).body.is_ok());
        }),
        (Status::Refused, ErrorCode::LaneRevoked as u32, |_, owner, lane| {
            assert!(owner.revoke(lane).body.is_ok());
        }),
        (Status::ShuttingDown, 0, |_, owner, _| {
            let body = message::Drain { timeout_ms: 0, reserved: 0 };
            assert!(owner.wire.ask(Opcode::Drain, 9, &body, &[]).body.is_ok());
        }),
    ];
    let daemon = Daemon::start(executor, "");
    let owner = Session::open(&daemon.socket());
    let mut session = Session::open(&daemon.socket());
    for (status, code, cause) in ROWS {
        let lane = owner.lane(64).lane;
        let redeemed = session.redeem(owner.share(lane)).lane;
        let deadline_ns = match status {
            Status::DeadlineExpired => clock::now().0 + MILLISECOND,
            _ => 0,
        };
        let entry = SubmitEntry { deadline_ns, ..word(redeemed, 1, status as u64) };
        session.submit(&[entry], &[]);
        cause(&mut session, &owner, lane);
        let result = session.result();
        assert_eq!(result.user_data, status as u64);
        assert_eq!((result.status, result.code), (status as u8, code));
    }
    session.still();
}
