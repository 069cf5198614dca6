//! Every way in which a ticket can end, through the client library, and what waits on the lanes of
//! other processes.

pub mod support;

use std::collections::BTreeSet;
use std::future::Future;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parkd::client::{Capability, Completion, Control, Lane, Session, Status, Ticket, Width};
use parkd::core::error::ErrorCode;

use support::{Daemon, Executor, Folder, PATIENCE, until};

for_each_executor! {
    every_ending_is_distinct,
    a_lane_of_another_session_is_waited_on_in_every_way,
    a_capability_is_one_until_it_is_revoked,
    whoever_drops_a_redeemed_lane_gives_its_place_back,
    a_process_that_shares_a_lane_may_die,
    a_daemon_that_starts_afresh_is_told_of_redeemed_lanes,
}

fn connect(daemon: &Daemon) -> Session {
    Session::connect_to(&daemon.socket()).unwrap()
}

fn waited(mut ticket: Ticket) -> Completion {
    ticket.wait_for(PATIENCE).unwrap().expect("an end in time")
}

fn code_of(end: Completion) -> Option<ErrorCode> {
    end.into_result().err().map(|error| error.code)
}

/// The table: what brings the ending about, and how it shows.
fn every_ending_is_distinct(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let (session, owner) = (connect(&daemon), connect(&daemon));
    let lane = || session.lane().unwrap();
    let ticket = |lane: &Lane| lane.ticket(1).submit().unwrap();
    let redeem = |lane: &Lane| session.redeem(&lane.share().unwrap()).unwrap();

    let reached = lane();
    let done = ticket(&reached);
    reached.store(1);

    let late = lane();
    let expired = late.ticket(1).deadline_in(Duration::from_millis(10)).submit().unwrap();

    let closed = lane();
    let cancelled = ticket(&closed);
    taken(&daemon, 1);
    closed.close().unwrap();

    let (mut process, capability) = owner_process(&daemon);
    let orphan = session.redeem(&capability).unwrap();
    let died = orphan.ticket(8).submit().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();

    let faulty = lane();
    let failed = ticket(&faulty);
    faulty.fail(700).unwrap();

    let shared = owner.lane().unwrap();
    let lent = redeem(&shared);
    let refused = lent.ticket(1).submit().unwrap();
    shared.revoke().unwrap();

    let revoked = u32::from(ErrorCode::LaneRevoked.number());
    let rows = [
        (done, Status::Done, 0, None),
        (expired, Status::DeadlineExpired, 0, Some(ErrorCode::DeadlineExpired)),
        (cancelled, Status::Cancelled, 0, Some(ErrorCode::Cancelled)),
        (died, Status::ProducerDied, 0, Some(ErrorCode::ProducerDied)),
        (failed, Status::DeviceFailed, 700, Some(ErrorCode::ProducerFailed)),
        (refused, Status::Refused, revoked, Some(ErrorCode::LaneRevoked)),
    ];
    let mut seen = BTreeSet::new();
    let mut check = |ticket, status: Status, code, error| {
        let end = waited(ticket);
        assert_eq!((end.status, end.code), (status, code));
        assert_eq!(code_of(end), error, "{end:?}");
        assert!(seen.insert(status as u8), "{status:?} twice");
    };
    for (ticket, status, code, error) in rows {
        check(ticket, status, code, error);
    }
    let unfinished = ticket(&lane());
    let drained = Control::connect_to(&daemon.socket()).unwrap().drain(Duration::ZERO).unwrap();
    assert_eq!((drained.finished, drained.ended), (0, 1));
    check(unfinished, Status::ShuttingDown, 0, Some(ErrorCode::Disconnected));
    let all: Vec<u8> = (1..).map_while(Status::from_number).map(|status| status as u8).collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all, "an ending that no row shows");
    assert_eq!(session.strays(), 0);
}

/// Waits until the daemon has so many tickets outstanding. (STATUS makes it take those in rings.)
fn taken(daemon: &Daemon, tickets: u64) {
    let operator = support::raw::control(&daemon.socket());
    until("tickets are taken", || {
        (operator.status()["tickets"].as_u64() >= Some(tickets)).then_some(())
    });
}

fn a_lane_of_another_session_is_waited_on_in_every_way(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let (owner, waiter) = (connect(&daemon), connect(&daemon));
    let lane = owner.lane_on_device("default", Width::W32).unwrap();
    lane.store(6);
    let own = waiter.lane().unwrap();
    let redeemed = waiter.redeem(&lane.share().unwrap()).unwrap();
    assert_eq!((redeemed.width(), redeemed.value_then()), (Width::W32, 6));
    assert_ne!(redeemed.index(), own.index());
    // What has landed is the daemon's to see.
    let end = waited(redeemed.ticket(6).submit().unwrap());
    assert_eq!((end.status, end.seen), (Status::Done, 6));
    redeemed.ticket(7).submit_tagged(70).unwrap();
    let mut future = pin!(redeemed.ticket(8).submit().unwrap().into_future());
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    let several = [redeemed.ticket(8).submit().unwrap(), redeemed.ticket(9).submit().unwrap()];
    lane.store_and_ring(8);
    let tagged = until("a tagged end", || waiter.next_completion(Some(Duration::ZERO)).unwrap());
    assert_eq!((tagged.0, tagged.1.status), (70, Status::Done));
    let end = until("a future's end", || match future.as_mut().poll(&mut context) {
        Poll::Ready(end) => Some(end.unwrap()),
        Poll::Pending => None,
    });
    assert_eq!(end.status, Status::Done);
    let [eighth, ninth] = several;
    assert_eq!(waited(eighth).status, Status::Done);
    lane.fail(5).unwrap();
    let end = waited(ninth);
    assert_eq!((end.status, end.code), (Status::DeviceFailed, 5));
    assert_eq!(waiter.strays(), 0);
}

fn a_capability_is_one_until_it_is_revoked(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let (owner, waiter) = (connect(&daemon), connect(&daemon));
    let lane = owner.lane().unwrap();
    let capability = lane.share().unwrap();
    assert_eq!(lane.share(), Ok(capability));
    // As it travels: by text.
    let read: Capability = capability.to_string().parse().unwrap();
    waiter.redeem(&read).unwrap();
    lane.revoke().unwrap();
    lane.revoke().unwrap();
    assert_eq!(waiter.redeem(&capability).unwrap_err().code, ErrorCode::NoSuchCapability);
    let fresh = lane.share().unwrap();
    assert_ne!(fresh, capability);
    assert_eq!(owner.redeem(&fresh).unwrap_err().code, ErrorCode::NotSupported);
    let clone = lane.clone();
    lane.close().unwrap();
    assert_eq!(clone.share().unwrap_err().code, ErrorCode::NoSuchLane);
    assert_eq!(clone.revoke().unwrap_err().code, ErrorCode::NoSuchLane);
}

fn whoever_drops_a_redeemed_lane_gives_its_place_back(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let (owner, waiter) = (connect(&daemon), connect(&daemon));
    let capability = owner.lane().unwrap().share().unwrap();
    for _ in 0..3 {
        drop(waiter.redeem(&capability).unwrap());
    }
    let redeemed = waiter.redeem(&capability).unwrap();
    let ticket = redeemed.ticket(1).submit().unwrap();
    taken(&daemon, 1);
    redeemed.close().unwrap();
    assert_eq!(waited(ticket).status, Status::Cancelled);
    assert_eq!(waiter.lane().map(|lane| lane.index()), Ok(0));
}

/// Where the process below finds the daemon.
const OWNER: &str = "PARKD_TEST_OWNER";

/// Not a test by itself: this program is started again to own a lane and to be killed.
#[test]
fn an_owner_process() {
    let Some(socket) = std::env::var_os(OWNER) else { return };
    let session = Session::connect_to(&PathBuf::from(socket)).unwrap();
    let lane = session.lane().unwrap();
    lane.store(7);
    println!("\nshared {}", lane.share().unwrap());
    let _ = std::io::stdin().read(&mut [0]);
}

fn owner_process(daemon: &Daemon) -> (Child, Capability) {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_owner_process", "--nocapture"])
        .env(OWNER, daemon.socket())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    let shared = |line: String| line.strip_prefix("shared ")?.parse().ok();
    let capability = lines.filter_map(shared).next().expect("a capability");
    (process, capability)
}

fn a_process_that_shares_a_lane_may_die(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let waiter = connect(&daemon);
    let (mut process, capability) = owner_process(&daemon);
    let redeemed = waiter.redeem(&capability).unwrap();
    assert_eq!(waited(redeemed.ticket(7).submit().unwrap()).status, Status::Done);
    let waiting: Vec<Ticket> = (8..40).map(|n| redeemed.ticket(n).submit().unwrap()).collect();
    process.kill().unwrap();
    process.wait().unwrap();
    for ticket in waiting {
        let end = waited(ticket);
        assert_eq!((end.status, end.seen), (Status::ProducerDied, 7));
        let error = end.into_result().unwrap_err();
        assert_eq!(
            (error.code, error.detail.as_str()),
            (ErrorCode::ProducerDied, "the producer died at 7")
        );
    }
    assert_eq!(waited(redeemed.ticket(8).submit().unwrap()).status, Status::ProducerDied);
    assert_eq!(waiter.redeem(&capability).unwrap_err().code, ErrorCode::NoSuchCapability);
}

/// Without an fd store nobody remembers whose lane it was: its owner shares it again, and who had
/// redeemed it redeems it again.
fn a_daemon_that_starts_afresh_is_told_of_redeemed_lanes(executor: &Executor) {
    let folder = Folder::new();
    let daemon = Daemon::start_in(&folder, executor, "");
    let (owner, waiter) = (connect(&daemon), connect(&daemon));
    let lane = owner.lane().unwrap();
    let capability = lane.share().unwrap();
    let redeemed = waiter.redeem(&capability).unwrap();
    let own = waiter.lane().unwrap();
    let tickets = [redeemed.ticket(1).submit().unwrap(), own.ticket(1).submit().unwrap()];
    taken(&daemon, 2);
    drop(daemon);
    let _daemon = Daemon::start_in(&folder, executor, "");
    lane.store(1);
    own.store(1);
    for ticket in tickets {
        assert_eq!(waited(ticket).status, Status::Done);
    }
    let ticket = redeemed.ticket(2).submit().unwrap();
    redeemed.close().unwrap();
    assert_eq!(waited(ticket).status, Status::Cancelled);
    assert!(waiter.redeem(&capability).is_ok(), "it is the same as before");
    assert_eq!((waiter.strays(), owner.strays()), (0, 0));
}
