//! Without an fd store: the daemon is killed and another one is started.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use parkd::client::{Lane, PlanId, Session, Status};
use parkd::core::error::ErrorCode;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use crate::load::{Load, end_of, event, eventually, write};
use crate::support::{self, Daemon, Executor, Folder, PATIENCE};

crate::for_each_executor! {
    nobody_notices_under_load,
    what_was_stored_meanwhile_is_found,
    failed_and_closed_lanes_stay_so,
    cancels_and_deadlines_are_kept,
    fds_are_waited_for_by_the_next_daemon,
    requests_wait_for_the_next_daemon,
    who_looks_and_never_sleeps_finds_the_next_daemon,
    an_event_loop_of_ones_own_keeps_its_fds,
    a_daemon_told_to_end_ends_the_tickets_and_not_the_session,
    a_rate_of_connections_is_waited_for_on_the_way_back_alone,
    shared_lanes_are_shared_and_redeemed_again,
    a_lane_whose_owner_does_not_come_back_is_given_up,
    nobody_comes_back,
}

#[cfg(feature = "tokio")]
mod tokio_runtime {
    crate::for_each_executor! { tasks_on_tokio_notice_nothing }

    use super::tasks_on_tokio_notice_nothing;
}

/// A folder, and the daemon that lives in it now.
struct House {
    folder: Arc<Folder>,
    executor: Executor,
    daemon: Daemon,
    config: &'static str,
}

impl House {
    fn new(executor: &Executor) -> House {
        House::with(executor, "")
    }

    fn with(executor: &Executor, config: &'static str) -> House {
        let folder = Folder::new();
        let daemon = Daemon::start_in(&folder, executor, config);
        House { folder, executor: *executor, daemon, config }
    }

    /// Ends the daemon without a word.
    fn kill(&mut self) {
        self.daemon.signal(Signal::KILL);
        self.daemon.ended();
    }

    /// Starts another one in its place.
    fn start(&mut self) {
        self.daemon = Daemon::start_in(&self.folder, &self.executor, self.config);
    }

    fn restart(&mut self) {
        self.kill();
        self.start();
    }

    fn session(&self) -> Session {
        self.patient(Duration::from_secs(60))
    }

    fn patient(&self, patience: Duration) -> Session {
        let builder = Session::builder().submit_entries(64).result_entries(256);
        builder.reconnect(patience).connect_to(&self.daemon.socket()).unwrap()
    }
}

const PLAN: &str = "flag:park_us=200,backstop_us=2000";

fn nobody_notices_under_load(executor: &Executor) {
    let mut house = House::new(executor);
    let load = Load::of(house.session());
    let plans = || ["block", PLAN].map(|text| load.session.plan(text).unwrap());
    let before = plans();
    load.run(before[1], || (0..4).for_each(|_| load.over(|| house.restart())));
    assert_eq!(plans().map(PlanId::number), before.map(PlanId::number), "plans keep their ids");
}

#[cfg(feature = "tokio")]
fn tasks_on_tokio_notice_nothing(executor: &Executor) {
    use parkd::client::tokio::AsyncSession;

    let mut house = House::new(executor);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    let load = Arc::new(Load::of(house.session()));
    runtime.block_on(async {
        let asynchronous = AsyncSession::new(load.session.clone()).unwrap();
        let lanes = [(); 4].map(|()| asynchronous.lane().unwrap());
        let tasks = lanes.map(|lane| tokio::spawn(work_on(Arc::clone(&load), lane)));
        let watched = Arc::clone(&load);
        let restarts = tokio::task::spawn_blocking(move || {
            (0..4).for_each(|_| watched.over(|| house.restart()));
            watched.stop();
            house
        });
        let house = restarts.await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!((load.session.strays(), load.session.live()), (0, Ok(())));
        drop(house);
    });
}

#[cfg(feature = "tokio")]
async fn work_on(load: Arc<Load>, lane: Lane) {
    while load.goes_on() {
        let target = lane.next_target();
        let ticket = lane.ticket(target).submit().unwrap();
        let producer = lane.clone();
        let store = tokio::spawn(async move {
            tokio::task::yield_now().await;
            producer.store(target);
        });
        let end = tokio::time::timeout(PATIENCE, ticket).await;
        assert!(end.expect("an end: it was lost").unwrap().is_done());
        assert!(lane.reached(target), "early");
        store.await.unwrap();
        load.count();
    }
}

fn what_was_stored_meanwhile_is_found(executor: &Executor) {
    let mut house = House::new(executor);
    let session = house.session();
    let page = || {
        let status = rustix::fs::fstat(session.status_fd().unwrap()).unwrap();
        (status.st_dev, status.st_ino)
    };
    let old = page();
    let lanes = [session.lane().unwrap(), session.lane().unwrap()];
    let far = Duration::from_secs(3600);
    let tickets = lanes.each_ref().map(|lane| lane.ticket(5).deadline_in(far).submit().unwrap());
    let waits = tickets.map(|ticket| thread::spawn(|| end_of(ticket)));
    house.kill();
    lanes[0].store(5);
    let mut new = lanes[0].ticket(6).submit().unwrap();
    assert_eq!(new.wait_for(Duration::from_millis(1)).unwrap(), None, "no wait is longer");
    assert_eq!(session.live(), Ok(()));
    house.start();
    lanes[1].store_and_ring(5);
    waits.into_iter().for_each(|wait| assert_eq!(wait.join().unwrap(), Status::Done));
    // What looks and never sleeps finds the next daemon as well.
    lanes[0].store(6);
    eventually("its end", || new.try_wait().unwrap().is_some());
    let next = session.lane().unwrap();
    assert_eq!(next.index(), 2, "the lanes are where they were");
    assert_ne!(page(), old, "bells are rung for the daemon that is there");
}

fn failed_and_closed_lanes_stay_so(executor: &Executor) {
    let mut house = House::new(executor);
    let session = house.session();
    let [failed, closed, idle] = [(); 3].map(|()| session.lane().unwrap());
    failed.fail(700).unwrap();
    let code = |lane: &Lane| {
        let mut ticket = lane.ticket(1).submit().unwrap();
        let end = ticket.wait_for(PATIENCE).unwrap().expect("an end");
        (end.status, end.code)
    };
    assert_eq!(code(&failed), (Status::DeviceFailed, 700));
    let kept = closed.clone();
    closed.close().unwrap();
    idle.store(3);
    drop(idle);
    house.restart();
    assert_eq!(code(&failed), (Status::DeviceFailed, 700));
    let refused = (Status::Refused, u32::from(ErrorCode::NoSuchLane.number()));
    assert_eq!(code(&kept), refused);
    // A lane that is opened anew has not failed.
    failed.close().unwrap();
    house.restart();
    let again = session.lane().unwrap();
    assert_eq!(again.index(), 0);
    let ticket = again.ticket(1).submit().unwrap();
    again.store(1);
    assert_eq!(end_of(ticket), Status::Done);
    house.restart();
    let ticket = again.ticket(2).submit().unwrap();
    again.store(2);
    assert_eq!(end_of(ticket), Status::Done);
}

fn cancels_and_deadlines_are_kept(executor: &Executor) {
    let mut house = House::new(executor);
    let session = house.session();
    let lane = session.lane().unwrap();
    let submit = || lane.ticket(9).submit().unwrap();
    let [before, dropped, stays] = [(); 3].map(|()| submit());
    house.kill();
    before.cancel().unwrap();
    drop(dropped);
    let after = submit();
    after.cancel().unwrap();
    let late = lane.ticket(9).deadline_in(Duration::from_millis(1)).submit().unwrap();
    house.start();
    assert_eq!(end_of(before), Status::Cancelled);
    assert_eq!(end_of(after), Status::Cancelled);
    assert_eq!(end_of(late), Status::DeadlineExpired);
    lane.store(9);
    assert_eq!(end_of(stays), Status::Done);
    eventually("every slot", || session.room().unwrap() == 64);
    assert_eq!(session.strays(), 0);
}

fn fds_are_waited_for_by_the_next_daemon(executor: &Executor) {
    let mut house = House::new(executor);
    let session = house.session();
    let events: Vec<_> = (0..100).map(|_| event()).collect();
    let submit = |event| session.fd_ticket(event).submit().unwrap();
    let mut tickets: Vec<_> = events.iter().map(submit).collect();
    for _ in 0..2 {
        house.kill();
        write(&events[tickets.len() - 1]);
        house.start();
        assert_eq!(end_of(tickets.pop().unwrap()), Status::Done);
        assert_eq!(tickets[0].wait_for(Duration::from_millis(1)).unwrap(), None);
    }
    events.iter().for_each(write);
    assert!(tickets.into_iter().all(|ticket| end_of(ticket) == Status::Done));
    assert_eq!(session.strays(), 0);
}

fn who_looks_and_never_sleeps_finds_the_next_daemon(executor: &Executor) {
    let mut house = House::new(executor);
    let session = house.session();
    let event = event();
    let mut ticket = session.fd_ticket(&event).submit().unwrap();
    house.kill();
    write(&event);
    house.start();
    eventually("its end", || ticket.try_wait().unwrap().is_some());
    assert!(ticket.completion().unwrap().is_done());
}

fn an_event_loop_of_ones_own_keeps_its_fds(executor: &Executor) {
    let mut house = House::new(executor);
    let session = house.session();
    let lane = session.lane().unwrap();
    let driver = session.event_driver().unwrap();
    let waker = Waker::from(Arc::new(Nobody));
    let mut context = Context::from_waker(&waker);
    let ready = |patience: Duration| {
        let hang_up = PollFd::from_borrowed_fd(driver.hang_up(), PollFlags::IN);
        let mut fds = [PollFd::from_borrowed_fd(driver.events(), PollFlags::IN), hang_up];
        poll(&mut fds, Some(&patience.try_into().unwrap())).unwrap();
        fds.map(|fd| fd.revents().contains(PollFlags::IN))
    };
    for round in 1..4 {
        let mut ticket = lane.ticket(round).submit().unwrap();
        assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
        house.kill();
        assert_eq!(ready(PATIENCE), [false, true]);
        driver.check().unwrap();
        assert_eq!(ready(Duration::ZERO), [false, false], "it was noticed");
        house.start();
        eventually("the next daemon", || outstanding(&house) == Some(1));
        lane.store(round);
        assert_eq!(ready(PATIENCE), [true, false], "the daemon tells by the same eventfd");
        driver.turn().unwrap();
        assert!(Pin::new(&mut ticket).poll(&mut context).is_ready());
    }
}

/// Whom nobody has to wake.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Tickets that the daemon has taken and not answered.
fn outstanding(house: &House) -> Option<u64> {
    support::raw::control(&house.folder.socket()).status()["tickets"].as_u64()
}

fn requests_wait_for_the_next_daemon(executor: &Executor) {
    let mut house = House::new(executor);
    let session = house.session();
    let lane = session.lane().unwrap();
    house.kill();
    let event = event();
    thread::scope(|scope| {
        let opens = scope.spawn(|| session.lane().unwrap().index());
        let plans = scope.spawn(|| session.plan("block").unwrap().number());
        let submits = scope.spawn(|| session.fd_ticket(&event).submit().unwrap());
        let closes = scope.spawn(|| lane.close().unwrap());
        house.start();
        assert!(opens.join().unwrap() < 2);
        assert_eq!(plans.join().unwrap(), 1);
        closes.join().unwrap();
        write(&event);
        assert_eq!(end_of(submits.join().unwrap()), Status::Done);
    });
}

fn a_daemon_told_to_end_ends_the_tickets_and_not_the_session(executor: &Executor) {
    let mut house = House::new(executor);
    let session = house.session();
    let lane = session.lane().unwrap();
    let ticket = lane.ticket(1).submit().unwrap();
    eventually("the ticket", || outstanding(&house) == Some(1));
    house.daemon.signal(Signal::TERM);
    assert_eq!(end_of(ticket), Status::ShuttingDown);
    assert!(house.daemon.ended().success());
    let new = lane.ticket(1).submit().unwrap();
    house.start();
    lane.store_and_ring(1);
    assert_eq!(end_of(new), Status::Done);
    assert_eq!(session.live(), Ok(()));
}

fn a_rate_of_connections_is_waited_for_on_the_way_back_alone(executor: &Executor) {
    const SESSIONS: usize = 12;
    let mut house = House::with(executor, "[limits]\nconnects_per_second = 5\n");
    let builder = Session::builder().submit_entries(64).result_entries(64);
    let mut refused = 0;
    let sessions: Vec<Session> = std::iter::repeat_with(|| {
        support::until("a connection", || match builder.connect_to(&house.daemon.socket()) {
            Ok(session) => Some(session),
            Err(error) => {
                // Not what the socket's end would be.
                assert_eq!(error.code, ErrorCode::RateExceeded, "{error}");
                refused += 1;
                None
            }
        })
    })
    .take(SESSIONS)
    .collect();
    assert!(refused > 0, "a first connection is told");
    let lanes = sessions.iter().map(|session| session.lane().unwrap());
    let lanes: Vec<Lane> = lanes.collect();
    let tickets: Vec<_> = lanes.iter().map(|lane| lane.ticket(1).submit().unwrap()).collect();
    house.restart();
    lanes.iter().for_each(|lane| lane.store(1));
    assert!(tickets.into_iter().all(|ticket| end_of(ticket) == Status::Done));
    assert!(sessions.iter().all(|session| session.live() == Ok(())));
}

fn shared_lanes_are_shared_and_redeemed_again(executor: &Executor) {
    let mut house = House::new(executor);
    // The owner never waits.
    let (owner, waiter) = (house.session(), house.session());
    let lanes = [owner.lane().unwrap(), owner.lane().unwrap()];
    let capabilities = lanes.each_ref().map(|lane| lane.share().unwrap());
    let own = waiter.lane().unwrap();
    let redeemed = capabilities.map(|capability| waiter.redeem(&capability).unwrap());
    for number in 1..=6 {
        let tickets = redeemed.each_ref().map(|lane| lane.ticket(number).submit().unwrap());
        house.kill();
        lanes[0].store(number);
        // What is submitted meanwhile waits too, and an index of the old daemon is nobody's.
        let later = redeemed[1].ticket(number).submit().unwrap();
        let other = own.ticket(number).submit().unwrap();
        house.start();
        let [first, second] = tickets;
        assert_eq!(end_of(first), Status::Done);
        lanes[1].store_and_ring(number);
        assert_eq!((end_of(second), end_of(later)), (Status::Done, Status::Done));
        own.store(number);
        assert_eq!(end_of(other), Status::Done);
        assert_eq!(lanes.each_ref().map(|lane| lane.share().unwrap()), capabilities);
        // Other lanes take places among those that the daemon knows.
        assert_eq!(waiter.lane().unwrap().close(), Ok(()));
    }
    // A revoked one is not shared again.
    lanes[0].revoke().unwrap();
    house.restart();
    let refused = waiter.redeem(&capabilities[0]).unwrap_err();
    assert_eq!(refused.code, ErrorCode::NoSuchCapability);
    assert_eq!((waiter.strays(), waiter.live()), (0, Ok(())));
}

fn a_lane_whose_owner_does_not_come_back_is_given_up(executor: &Executor) {
    let mut house = House::new(executor);
    let owner = house.session();
    let lane = owner.lane().unwrap();
    let capability = lane.share().unwrap();
    let waiter = house.patient(Duration::from_secs(1));
    let redeemed = waiter.redeem(&capability).unwrap();
    let ticket = || redeemed.ticket(1).submit().unwrap();
    let [waits, cancelled] = [ticket(), ticket()];
    house.kill();
    drop((lane, owner));
    house.start();
    cancelled.cancel().unwrap();
    assert_eq!(end_of(cancelled), Status::Cancelled);
    assert_eq!(end_of(waits), Status::Refused);
    let refused = redeemed.ticket(1).submit().unwrap_err();
    assert_eq!(refused.code, ErrorCode::NoSuchCapability);
    assert_eq!(redeemed.close(), Ok(()));
    assert_eq!((waiter.strays(), waiter.live()), (0, Ok(())));
}

fn nobody_comes_back(executor: &Executor) {
    let mut house = House::new(executor);
    let session = house.patient(Duration::from_millis(300));
    let lane = session.lane().unwrap();
    let tickets = [(); 3].map(|()| lane.ticket(1).submit().unwrap());
    let waits = tickets.map(|ticket| thread::spawn(|| ticket.wait()));
    house.kill();
    for wait in waits {
        let error = wait.join().unwrap().unwrap_err();
        assert_eq!(error.code, ErrorCode::Disconnected);
        assert!(error.detail.contains("300 ms") && error.detail.contains("connect"), "{error}");
    }
    assert_eq!(session.live().unwrap_err().code, ErrorCode::Disconnected);
    assert_eq!(session.lane().unwrap_err().code, ErrorCode::Disconnected);
    house.start();
    assert_eq!(lane.ticket(1).submit().map(drop).unwrap_err().code, ErrorCode::Disconnected);
}
