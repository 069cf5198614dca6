//! What one user may take, and what another notices of it: shares, rates and `[allow]`, by threads
//! that have become other users.

pub mod support;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parkd::core::error::ErrorCode;
use parkd::proto::entry::{Status, SubmitEntry};
use parkd::proto::message::{Hello, Opcode, Role, encode};
use parkd::proto::request::Refusal;
use rustix::event::EventfdFlags;
use rustix::io::Errno;

use support::raw::{self, Reply, Session, Wire, fd, hello, word};
use support::user::{self, STRANGER, being};
use support::{Daemon, Executor, PATIENCE, skipped, until};

for_each_executor! {
    one_user_at_its_quotas_leaves_the_others_theirs,
    a_storm_of_connections_is_its_users_own,
    tickets_are_handed_in_at_a_rate,
    a_user_that_comes_again_is_known_again,
    who_is_not_allowed_is_told_what_to_do,
}

/// Another one.
const OTHER: u32 = STRANGER + 1;

/// A daemon that lets both in, with these limits.
fn daemon(executor: &Executor, limits: &str) -> Option<Daemon> {
    if let Some(why) = user::unavailable() {
        skipped(why);
        return None;
    }
    let allow = format!("[allow]\nuids = [{STRANGER}, {OTHER}]\n");
    let daemon = Daemon::start(executor, &format!("[limits]\n{limits}{allow}"));
    user::open_to_all(&daemon.socket());
    Some(daemon)
}

/// The refusal, which is of this code and names this limit.
fn refused(reply: Reply, code: ErrorCode, key: &str) -> Refusal {
    assert_eq!(reply.code(), code, "{reply:?}");
    let refusal = reply.body.unwrap_err();
    assert!(refusal.detail.starts_with(&format!("uid {STRANGER}: ")), "{refusal:?}");
    assert!(refusal.detail.ends_with(&format!("(raise [limits] {key})")), "{refusal:?}");
    refusal
}

/// Connects and says HELLO. Who is refused may be before he has.
fn greet(wire: &Wire, hello: &Hello) -> Reply {
    let _ = wire.try_send(&encode(Opcode::Hello as u16, 1, hello, &[]), &[]);
    wire.receive().expect("an answer")
}

fn greeted(daemon: &Daemon) -> Reply {
    greet(&Wire::connect(&daemon.socket()), &hello())
}

fn one_user_at_its_quotas_leaves_the_others_theirs(executor: &Executor) {
    let limits =
        "sessions_per_uid = 3\nlanes_per_uid = 128\ntickets_per_uid = 64\nfds_per_uid = 2\n";
    let Some(daemon) = daemon(executor, limits) else { return };
    let quota = ErrorCode::QuotaExceeded;
    let event = || rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let fill = || {
        let mut sessions = [(); 2].map(|()| Session::open(&daemon.socket()));
        let lanes = [0, 1].map(|at| sessions[at as usize].lane(64).lane);
        let event = event();
        let tickets: Vec<_> = (0..62).map(|name| word(lanes[0], 1, name)).collect();
        sessions[0].submit(&tickets, &[]);
        sessions[1].submit(&[fd(0, 1), fd(1, 2)], &[event.as_fd(), event.as_fd()]);
        (sessions, lanes, event)
    };
    let (mut greedy, lanes, _event) = being(STRANGER, fill);
    being(STRANGER, || {
        refused(greeted(&daemon), quota, "lanes_per_uid");
        refused(greedy[1].try_submit(&[word(lanes[1], 1, 3)], &[]), quota, "tickets_per_uid");
        let event = event();
        let one_more = greedy[1].try_submit(&[fd(0, 4)], &[event.as_fd()]);
        refused(one_more, quota, "fds_per_uid");
        greedy[1].push(&[word(lanes[1], 0, 5)]);
        let result = greedy[1].result();
        assert_eq!((result.user_data, result.status), (5, Status::Refused as u8));
        assert_eq!(result.code, u32::from(quota.number()));
    });
    let (mut others, ..) = being(OTHER, fill);
    let (mut roots, ..) = fill();
    for sessions in [&mut greedy, &mut others, &mut roots] {
        sessions[0].store(0, 1);
        for _ in 0..62 {
            assert_eq!(sessions[0].outcome().1, Status::Done);
        }
    }
    // What one has given back it may take again.
    being(STRANGER, || {
        assert_eq!(greedy[1].submit(&[word(lanes[1], 0, 3)], &[]), 61);
        assert_eq!(greedy[1].outcome(), (3, Status::Done));
    });
}

/// A connection that does what a short-lived program does.
fn visit(daemon: &Daemon) {
    let mut session = Session::open(&daemon.socket());
    let lane = session.lane(64).lane;
    session.submit(&[word(lane, 0, 1)], &[]);
    assert_eq!(session.outcome(), (1, Status::Done));
    session.wire.bye();
}

fn a_storm_of_connections_is_its_users_own(executor: &Executor) {
    let Some(daemon) = daemon(executor, "connects_per_second = 100\n") else { return };
    let over = AtomicBool::new(false);
    let storm = || {
        let (mut let_in, mut told, mut full) = (0u32, 0u32, 0u32);
        let begun = Instant::now();
        while !over.load(Ordering::Relaxed) || told < 200 {
            assert!(begun.elapsed() < PATIENCE, "{let_in} let in, {told} told");
            let wire = match Wire::try_connect(&daemon.socket()) {
                Ok(wire) => wire,
                Err(Errno::AGAIN) => {
                    full += 1;
                    continue;
                }
                Err(errno) => panic!("connect: {errno}"),
            };
            let reply = greet(&wire, &Hello { role: Role::Control as u32, ..hello() });
            if reply.body.is_ok() {
                let_in += 1;
            } else {
                assert!(reply.closes());
                let refusal = refused(reply, ErrorCode::RateExceeded, "connects_per_second");
                assert!((1..=1000).contains(&refusal.value), "{refusal:?}");
                told += 1;
            }
        }
        (let_in, told, full, begun.elapsed())
    };
    std::thread::scope(|scope| {
        let storms: Vec<_> = (0..2).map(|_| scope.spawn(|| being(STRANGER, storm))).collect();
        // Each of these is let in at once, and served.
        for _ in 0..50 {
            being(OTHER, || visit(&daemon));
        }
        over.store(true, Ordering::Relaxed);
        let storms: Vec<_> =
            storms.into_iter().map(|storm| storm.join().expect("it ends")).collect();
        let let_in: u32 = storms.iter().map(|(let_in, ..)| let_in).sum();
        let longest = storms.iter().map(|(.., took)| *took).max().expect("two of them");
        let most = 100 + (longest.as_secs_f64() * 100.0).ceil() as u32 + 1;
        assert!((100..=most).contains(&let_in), "{let_in} let in, {most} at most: {storms:?}");
    });
    // When it is over its user comes in again.
    until("the storm is forgotten", || {
        being(STRANGER, || greeted(&daemon).body.is_ok()).then_some(())
    });
    let lines = daemon.log().lines().count();
    assert!(lines < 1000, "{lines} lines in the log");
}

fn tickets_are_handed_in_at_a_rate(executor: &Executor) {
    let Some(daemon) = daemon(executor, "submits_per_second = 256\n") else { return };
    let rate = ErrorCode::RateExceeded;
    let mut session = being(STRANGER, || {
        Session::open_with(&daemon.socket(), &Hello { result_entries: 1024, ..hello() })
    });
    let lane = session.lane(64).lane;
    session.store(lane, 1);
    let tickets = |names: std::ops::Range<u64>| -> Vec<SubmitEntry> {
        names.map(|name| word(lane, 1, name)).collect()
    };
    let begun = Instant::now();
    session.submit(&tickets(0..200), &[]);
    // All or none of a message, and those in the ring one by one.
    let refusal = refused(session.try_submit(&tickets(200..400), &[]), rate, "submits_per_second");
    assert!((1..=1000).contains(&refusal.value), "{refusal:?}");
    for name in 0..200 {
        assert_eq!(session.outcome(), (name, Status::Done));
    }
    session.push(&tickets(400..464));
    session.drained();
    session.push(&tickets(464..528));
    let ended: Vec<_> = (400..528).map(|_| session.result()).collect();
    let refused_ones = ended.iter().filter(|result| result.status == Status::Refused as u8);
    assert!(refused_ones.clone().all(|result| result.code == u32::from(rate.number())));
    let taken = 200 + ended.len() - refused_ones.count();
    let most = 256 + (begun.elapsed().as_secs_f64() * 256.0).ceil() as usize;
    assert!((256..=most).contains(&taken), "{taken} taken, {most} at most");
    // A share of its own.
    let mut other = being(OTHER, || Session::open(&daemon.socket()));
    let others = other.lane(64).lane;
    other.submit(&[word(others, 0, 1)], &[]);
    assert_eq!(other.outcome(), (1, Status::Done));
    until("the bucket fills again", || {
        session.try_submit(&tickets(200..400), &[]).body.is_ok().then_some(())
    });
}

fn a_user_that_comes_again_is_known_again(executor: &Executor) {
    let Some(daemon) = daemon(executor, "submits_per_second = 256\n") else { return };
    let spend = || {
        let mut session = Session::open(&daemon.socket());
        let lane = session.lane(64).lane;
        let tickets: Vec<_> = (0..64).map(|name| word(lane, 0, name)).collect();
        let reply = session.try_submit(&tickets, &[]);
        session.wire.bye();
        reply
    };
    let begun = Instant::now();
    let taken = (0..40).filter(|_| being(STRANGER, spend).body.is_ok()).count();
    let most = 4 + (begun.elapsed().as_secs_f64() * 4.0).ceil() as usize;
    assert!((4..=most).contains(&taken), "{taken} of 40 SUBMITs taken, {most} at most");
}

fn who_is_not_allowed_is_told_what_to_do(executor: &Executor) {
    if let Some(why) = user::unavailable() {
        return skipped(why);
    }
    let daemon = Daemon::start(executor, "[allow]\ngroups = [\"root\"]\n");
    user::open_to_all(&daemon.socket());
    let reply = being(STRANGER, || greeted(&daemon));
    assert!(reply.closes());
    assert_eq!(reply.code(), ErrorCode::PermissionDenied);
    assert_eq!(
        reply.body.unwrap_err().detail,
        format!(
            "uid {STRANGER} gid {STRANGER} is not allowed by [allow]: add its uid or gid to uids \
             or gids there, or make it a member of group root"
        )
    );
    raw::control(&daemon.socket()).bye();
}
