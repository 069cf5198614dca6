//! The next life of a daemon goes on with the sessions of the one before: seen from the wire, by a
//! client that knows nothing of restarts but what docs/PROTOCOL.md says.

#[path = "supervisor/mod.rs"]
pub mod supervisor;
#[path = "support/mod.rs"]
pub mod support;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use parkd::core::error::ErrorCode;
use parkd::daemon::boot::Known;
use parkd::proto::entry::Status;
use parkd::proto::layout::{armed, status};
use parkd::proto::message::{self, LaneOpened, Opcode, OpenLane, Resumed, Submitted};
use parkd::proto::request::submit_tail;
use parkd::shm::words::ReadWords;
use rustix::event::EventfdFlags;
use supervisor::{Supervisor, Unit};
use support::raw::{Session, fd, word};
use support::{Executor, Folder, until};

for_each_executor!(
    tickets_and_words_outlive_the_daemon,
    what_was_not_answered_is_done_once,
    an_fd_that_is_sent_again_is_waited_for,
    a_stop_in_order_is_a_pause_too,
    a_session_that_ends_is_not_kept,
    shared_lanes_outlive_the_daemon,
    futex_bells_that_came_into_doubt_are_read,
);

fn start(executor: &Executor) -> (Arc<Folder>, Supervisor) {
    let folder = Folder::new();
    let config = folder.file("parkd.toml");
    let text = format!(
        "[daemon]\nsocket = {:?}\nexecutor = {:?}\nstrict = true\n",
        folder.socket(),
        executor.name
    );
    std::fs::write(&config, text).expect("a configuration");
    let command = vec![
        env!("CARGO_BIN_EXE_parkd").to_owned(),
        "serve".to_owned(),
        "--config".to_owned(),
        config.to_str().expect("a path in UTF-8").to_owned(),
    ];
    let unit = Unit { command, store_max: 100, speaks: true, pause: Duration::from_millis(1) };
    let supervisor = Supervisor::start(&folder, unit);
    (folder, supervisor)
}

/// A wake that is lost: the count moves, and nothing else.
fn futex_bells_that_came_into_doubt_are_read(executor: &Executor) {
    let (folder, supervisor) = start(executor);
    let mut session = Session::open(&supervisor.socket());
    let lane = session.lane(64).lane;
    folder.futexes(&Known::Doubtful("one was lost".to_owned()));
    supervisor.kill();
    resumed(&session);
    supervisor.ready(2);
    for name in 1..=3 {
        until("it sleeps", || (session.status.load32(status::PARKED) != 0).then_some(()));
        session.store(lane, name);
        session.fill(&[word(lane, name, name)]);
        match session.bell {
            Some(_) => session.ring(0),
            None => session.count(0),
        }
        assert_eq!(session.outcome(), (name, Status::Done));
    }
}

/// Reads the notice of the life that goes on.
fn resumed(session: &Session) -> Resumed {
    let notice = session.wire.receive().expect("a notice");
    assert_eq!((notice.opcode, notice.cookie), (message::RESUMED, 0));
    notice.parts::<Resumed>().0
}

fn tickets_and_words_outlive_the_daemon(executor: &Executor) {
    let (_folder, supervisor) = start(executor);
    let mut session = Session::open(&supervisor.socket());
    let lane = session.lane(64).lane;
    for round in 0..5u32 {
        let first = u64::from(round) * 4 + 1;
        let far = parkd::host::clock::now().0 + 3_600_000_000_000;
        let mut tickets: Vec<_> = (first..first + 4).map(|n| word(lane, n, n)).collect();
        tickets[3].deadline_ns = far;
        session.submit(&tickets[..2], &[]);
        session.push(&tickets[2..]);
        session.store(lane, first);
        assert_eq!(session.outcome(), (first, Status::Done));
        let kill = supervisor.kill();
        assert_eq!(kill.life, round + 1);
        // Nobody is there: the device stores, and the client sleeps.
        session.store(lane, first + 1);
        let notice = resumed(&session);
        assert_eq!((notice.generation, notice.last_cookie), (round + 2, u64::from(round) + 1));
        assert_eq!(session.told(armed::TAIL).user_data, first + 1);
        session.store(lane, first + 3);
        let mut done = [session.outcome(), session.outcome()];
        done.sort_unstable_by_key(|(name, _)| *name);
        assert_eq!(done, [(first + 2, Status::Done), (first + 3, Status::Done)]);
        session.still();
    }
    assert_eq!(supervisor.seen().complaints, Vec::<String>::new());
}

fn what_was_not_answered_is_done_once(executor: &Executor) {
    let (_folder, supervisor) = start(executor);
    let mut session = Session::open(&supervisor.socket());
    let lane = session.lane(64).lane;
    session.submit(&[word(lane, 9, 1)], &[]);
    supervisor.kill();
    resumed(&session);
    // As if the answers had been lost: the SUBMIT that was taken, and the OPEN_LANE.
    let submit = message::Submit { tickets: 1, fds: 0 };
    let body = [word(lane, 9, 1)];
    let again = |opcode: Opcode, cookie: u64, mut record: Vec<u8>| {
        message::mark_again(&mut record);
        session.wire.send(&record);
        let reply = session.wire.receive().expect("an answer");
        assert_eq!(reply.opcode, opcode as u16 | message::REPLY);
        assert_eq!(reply.cookie, cookie);
        reply
    };
    let record = message::encode(Opcode::Submit as u16, 1, &submit, submit_tail(&body));
    let (submitted, _) = again(Opcode::Submit, 1, record).parts::<Submitted>();
    assert_eq!(submitted.tickets, 1);
    let open = OpenLane {
        lane: u32::MAX,
        width: 64,
        device: message::name_field("default").expect("a name"),
    };
    let cookie = 2; // `lane` has used it
    let record = message::encode(Opcode::OpenLane as u16, cookie, &open, &[]);
    let (opened, _) = again(Opcode::OpenLane, cookie, record.clone()).parts::<LaneOpened>();
    assert_eq!(opened.lane, lane, "the same lane");
    // This life has answered it: a second one is not answered again.
    let mut record = record;
    message::mark_again(&mut record);
    session.wire.send(&record);
    session.store(lane, 9);
    assert_eq!(session.outcome(), (1, Status::Done));
    session.still();
    assert_eq!(session.lane(64).lane, lane + 1);
}

fn an_fd_that_is_sent_again_is_waited_for(executor: &Executor) {
    let (_folder, supervisor) = start(executor);
    let mut session = Session::open(&supervisor.socket());
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let other = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let tickets = [fd(0, 5), fd(1, 6)];
    session.submit(&tickets, &[event.as_fd(), other.as_fd()]);
    rustix::io::write(&other, &1u64.to_ne_bytes()).expect("a write");
    assert_eq!(session.outcome(), (6, Status::Done));
    supervisor.kill();
    assert_eq!(resumed(&session).last_cookie, 1);
    rustix::io::write(&event, &1u64.to_ne_bytes()).expect("a write");
    let submit = message::Submit { tickets: 2, fds: 2 };
    let mut record = message::encode(Opcode::Submit as u16, 1, &submit, submit_tail(&tickets));
    message::mark_again(&mut record);
    session.wire.try_send(&record, &[event.as_fd(), other.as_fd()]).expect("a send");
    let reply = session.wire.receive().expect("an answer");
    assert_eq!(reply.parts::<Submitted>().0.tickets, 2);
    assert_eq!(session.outcome(), (5, Status::Done));
    session.still();
}

fn a_stop_in_order_is_a_pause_too(executor: &Executor) {
    let (_folder, supervisor) = start(executor);
    let mut session = Session::open(&supervisor.socket());
    let lane = session.lane(64).lane;
    session.push(&[word(lane, 1, 1)]);
    supervisor.restart();
    assert_eq!(resumed(&session).generation, 2);
    session.store(lane, 1);
    assert_eq!(session.outcome(), (1, Status::Done));
    assert_eq!(supervisor.seen().fell, vec![]);
}

fn a_session_that_ends_is_not_kept(executor: &Executor) {
    let (_folder, supervisor) = start(executor);
    let session = Session::open(&supervisor.socket());
    let names = || supervisor.stored().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert!(names().len() > 5, "{:?}", names());
    session.wire.bye();
    until("the store empties", || (names() == ["status"]).then_some(()));
    let session = Session::open(&supervisor.socket());
    drop(session);
    until("the store empties", || (names() == ["status"]).then_some(()));
}

fn shared_lanes_outlive_the_daemon(executor: &Executor) {
    let (_folder, supervisor) = start(executor);
    let owner = Session::open(&supervisor.socket());
    let share = |lane| {
        let body = message::Share { lane, reserved: 0, secret: [7; 16] };
        owner.wire.ask(Opcode::Share, 6, &body, &[])
    };
    let lanes = [owner.lane(64).lane, owner.lane(64).lane];
    let lane = lanes[0];
    let capability = share(lane).parts::<message::Shared>().0.capability;
    let mut waiter = Session::open(&supervisor.socket());
    waiter.lane(64);
    let redeemed = waiter.redeem(capability).lane;
    waiter.submit(&[word(redeemed, 1, 1), word(redeemed, 2, 2), word(redeemed, 9, 3)], &[]);
    for (number, life) in (1..).zip(["the second", "the third"]) {
        supervisor.kill();
        owner.store(lane, number);
        resumed(&owner);
        resumed(&waiter);
        assert_eq!(waiter.outcome(), (number, Status::Done), "{life}");
        let shared = share(lane).parts::<message::Shared>().0;
        assert_eq!(shared.capability, capability, "{life}");
        assert_eq!(share(lanes[1]).code(), ErrorCode::LimitExceeded, "{life}");
    }
    // A REDEEM whose answer was lost answers the same lane.
    let again = |waiter: &Session| {
        let mut record =
            message::encode(Opcode::Redeem as u16, 7, &message::Redeem { capability }, &[]);
        message::mark_again(&mut record);
        waiter.wire.send(&record);
        let reply = waiter.wire.receive().expect("an answer");
        reply.parts::<message::Redeemed>().0
    };
    let found = again(&waiter);
    assert_eq!((found.lane, found.width, found.value), (redeemed, 64, 2));
    // An owner that dies while nobody serves it is a producer that died.
    supervisor.kill();
    drop(owner);
    resumed(&waiter);
    let result = waiter.result();
    assert_eq!((result.user_data, result.status), (3, Status::ProducerDied as u8));
    assert_eq!(waiter.try_redeem(capability).code(), ErrorCode::NoSuchCapability);
    supervisor.kill();
    resumed(&waiter);
    waiter.submit(&[word(redeemed, 9, 4)], &[]);
    assert_eq!(waiter.outcome(), (4, Status::ProducerDied));
    waiter.still();
    assert_eq!(supervisor.seen().complaints, Vec::<String>::new());
}
