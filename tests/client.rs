//! The client library and parkctl against the real daemon, with real processes.

pub mod support;

use std::future::Future;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::pin::pin;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use parkd::client::{
    Control, Lane, Session, Status, Waited, Width, wait_all, wait_any, wait_any_for,
};
use parkd::core::error::ErrorCode;
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Signal;

use support::{Daemon, Executor, Folder, PATIENCE, until};

for_each_executor! {
    a_silent_store_ends_a_ticket_under_every_plan,
    bells_deadlines_cancels_failures_and_closes_each_end_their_tickets,
    a_lane_of_32_bits_wraps,
    fds_of_the_allowed_kinds_can_be_waited_for,
    credit_is_kept_over_many_rounds_of_small_rings,
    thousands_of_tagged_tickets_come_back_once_each,
    eight_threads_share_a_session,
    tickets_are_futures_on_any_executor,
    what_has_landed_is_immediate,
    a_killed_daemon_ends_every_wait,
    a_daemon_told_to_end_answers_every_ticket,
    a_client_that_dies_leaves_nothing_behind,
    parkctl_shows_the_daemons_state,
    parkctl_waits_until_any_process_stores_the_number,
    parkctl_gives_up_after_its_timeout,
    sessions_come_and_go_without_others_noticing,
}

#[cfg(feature = "tokio")]
mod tokio_runtime {
    crate::for_each_executor! { tickets_are_awaited_on_tokio_through_the_eventfd }

    use super::tickets_are_awaited_on_tokio_through_the_eventfd;
}

fn connect(daemon: &Daemon) -> Session {
    Session::connect_to(&daemon.socket()).unwrap()
}

fn a_silent_store_ends_a_ticket_under_every_plan(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let session = connect(&daemon);
    assert!(!session.executor().is_empty());
    let lane = session.lane().unwrap();
    let texts = [
        "block",
        "poll",
        "flag:park_us=100,backstop_us=1000",
        "flag:park_us=100,backstop_us=1000+predict:\
         margin_us=50,min_sleep_us=20,max_sleep_us=10000,window=4",
    ];
    for (point, text) in texts.iter().enumerate() {
        let plan = session.plan(text).unwrap();
        for _ in 0..20 {
            let target = lane.next_target();
            let ticket = lane.ticket(target).plan(plan).point(point as u64).submit().unwrap();
            thread::scope(|scope| {
                scope.spawn(|| lane.store(target));
                let end = ticket.wait().unwrap();
                assert!(end.is_done() && end.seen >= target, "{text}: {end:?}");
                assert!(end.submitted <= end.detected && end.detected <= end.published);
            });
        }
    }
    assert_eq!(session.plan("flag:park_us=0").unwrap_err().code, ErrorCode::InvalidPlan);
    assert_eq!(session.plan_named("default").map(drop), Ok(()));
    assert_eq!(session.plan_named("missing").unwrap_err().code, ErrorCode::NoSuchPlan);
    assert_eq!(session.strays(), 0);
}

fn bells_deadlines_cancels_failures_and_closes_each_end_their_tickets(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let session = connect(&daemon);
    let lane = session.lane().unwrap();

    let rung = lane.ticket(lane.next_target()).submit().unwrap();
    lane.store_and_ring(1);
    assert!(rung.wait().unwrap().is_done());

    let mut late = lane.ticket(2).submit().unwrap();
    assert_eq!(late.wait_for(Duration::from_millis(5)).unwrap(), None);
    let expired = lane.ticket(2).deadline_in(Duration::from_millis(5)).submit().unwrap();
    assert_eq!(expired.wait().unwrap().status, Status::DeadlineExpired);
    assert_eq!(wait_any_for(std::slice::from_mut(&mut late), Duration::ZERO).unwrap(), None);
    late.cancel().unwrap();
    assert_eq!(late.wait().unwrap().status, Status::Cancelled);

    let failed = lane.ticket(2).submit().unwrap();
    lane.fail(700).unwrap();
    let failed = failed.wait().unwrap();
    assert_eq!((failed.status, failed.code), (Status::DeviceFailed, 700));

    let later = lane.ticket(2).submit().unwrap().wait().unwrap();
    assert_eq!((later.status, later.code), (Status::DeviceFailed, 700), "until it is reopened");

    let lane = session.lane().unwrap();
    let closed = lane.ticket(9).submit().unwrap();
    eventually("the ticket", || outstanding(&daemon) == 1);
    lane.clone().close().unwrap();
    assert_eq!(closed.wait().unwrap().status, Status::Cancelled);
    assert_eq!(lane.fail(1).unwrap_err().code, ErrorCode::NoSuchLane);
    let refused = lane.ticket(9).submit().unwrap().wait().unwrap();
    assert_eq!(refused.into_result().unwrap_err().code, ErrorCode::NoSuchLane);
    assert_eq!(session.lane_on_device("none", Width::W64).unwrap_err().code, {
        ErrorCode::NoSuchDevice
    });
    eventually("every slot", || session.room().unwrap() == 4096);
}

fn a_lane_of_32_bits_wraps(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let session = connect(&daemon);
    let lane = session.lane_on_device("default", Width::W32).unwrap();
    lane.store(u64::from(u32::MAX) - 1);
    let last = lane.ticket(u64::from(u32::MAX)).submit().unwrap();
    let wrapped = lane.ticket(3).submit().unwrap();
    lane.store(u64::from(u32::MAX));
    assert!(last.wait().unwrap().is_done());
    lane.store(3);
    assert!(wrapped.wait().unwrap().is_done());
}

fn fds_of_the_allowed_kinds_can_be_waited_for(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let session = connect(&daemon);
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let mut ticket = session.fd_ticket(&event).submit().unwrap();
    assert_eq!(ticket.wait_for(Duration::from_millis(5)).unwrap(), None);
    rustix::io::write(&event, &1u64.to_ne_bytes()).unwrap();
    assert!(ticket.wait().unwrap().is_done());
    let (pipe, _end) = std::io::pipe().unwrap();
    let refused = session.fd_ticket(&pipe.as_fd()).submit();
    assert_eq!(refused.map(drop).unwrap_err().code, ErrorCode::FdKindRefused);
    let again = session.fd_ticket(&event).deadline_in(Duration::from_secs(20)).submit().unwrap();
    assert!(again.wait().unwrap().is_done(), "a refusal takes no cookie");
}

fn credit_is_kept_over_many_rounds_of_small_rings(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let builder = Session::builder().submit_entries(64).result_entries(64);
    let session = builder.connect_to(&daemon.socket()).unwrap();
    let lane = session.lane().unwrap();
    for _ in 0..50 {
        let targets: Vec<u64> = (0..64).map(|_| lane.next_target()).collect();
        assert!(session.wait_for_room(64, Some(PATIENCE)).unwrap());
        let tickets = session.submit_all(targets.iter().map(|t| lane.ticket(*t))).unwrap();
        let full = lane.ticket(u64::MAX / 2).submit().map(drop);
        assert_eq!(full.unwrap_err().code, ErrorCode::CreditExceeded);
        lane.store(targets[63]);
        assert!(wait_all(tickets).unwrap().iter().all(|end| end.is_done()));
    }
    eventually("every slot", || session.room().unwrap() == 64);
    assert_eq!(session.strays(), 0);
    assert_eq!(session.live(), Ok(()));
}

fn thousands_of_tagged_tickets_come_back_once_each(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let builder = Session::builder().submit_entries(4096).result_entries(4096);
    let session = builder.connect_to(&daemon.socket()).unwrap();
    let lanes: Vec<Lane> = (0..16).map(|_| session.lane().unwrap()).collect();
    let each = 250;
    let tag = |lane: u64, n: u64| lane << 32 | n;
    let tickets = lanes.iter().enumerate().flat_map(|(at, lane)| {
        (1..=each).map(move |n| (lane.ticket(n).point(at as u64), tag(at as u64, n)))
    });
    session.submit_all_tagged(tickets).unwrap();
    let mut seen = std::collections::HashSet::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=each {
                lanes.iter().rev().for_each(|lane| lane.store(n));
            }
        });
        for next in session.completions() {
            let (tag, end) = next.unwrap();
            assert!(end.is_done() && end.seen >= tag & 0xffff_ffff, "early: {tag:x} {end:?}");
            assert!(seen.insert(tag), "twice: {tag:x}");
        }
    });
    assert_eq!(seen.len() as u64, each * lanes.len() as u64);
    assert_eq!((session.room(), session.strays()), (Ok(4096), 0));
}

fn eight_threads_share_a_session(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let builder = Session::builder().submit_entries(64).result_entries(128);
    let session = builder.connect_to(&daemon.socket()).unwrap();
    let (done, other) = (AtomicU64::new(0), AtomicU64::new(0));
    let lanes: Vec<_> = (0..8).map(|_| session.lane().unwrap()).collect();
    thread::scope(|scope| {
        for worker in 0..8u64 {
            let (done, other, lane) = (&done, &other, &lanes[worker as usize]);
            scope.spawn(move || {
                for round in 0..250u64 {
                    let targets = [lane.next_target(), lane.next_target()];
                    let mut tickets = targets.map(|t| lane.ticket(t).submit_blocking().unwrap());
                    thread::scope(|inner| {
                        let last = targets[1];
                        let store = inner.spawn(move || lane.store(last));
                        match (worker + round) % 4 {
                            0 => drop(tickets),
                            1 => {
                                let first = wait_any(&mut tickets).unwrap();
                                assert!(tickets[first].completion().unwrap().is_done());
                                done.fetch_add(1, Ordering::Relaxed);
                            }
                            2 => {
                                tickets[1].cancel().unwrap();
                                for ticket in tickets {
                                    ticket.wait().unwrap();
                                    other.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                            _ => {
                                let ends = wait_all(tickets).unwrap();
                                assert!(ends.iter().all(|end| end.is_done()));
                                done.fetch_add(2, Ordering::Relaxed);
                            }
                        }
                        store.join().unwrap();
                    });
                }
            });
        }
    });
    assert!(done.into_inner() > 0 && other.into_inner() > 0);
    eventually("every slot", || session.room().unwrap() == 64);
    assert_eq!(session.strays(), 0);
    assert_eq!(session.live(), Ok(()));
}

/// The smallest executor: one task, one thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(out) => return out,
            Poll::Pending => thread::park(),
        }
    }
}

fn tickets_are_futures_on_any_executor(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let session = connect(&daemon);
    let lane = session.lane().unwrap();
    for _ in 0..100 {
        let target = lane.next_target();
        let ticket = lane.ticket(target).submit().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| lane.store(target));
            assert!(block_on(ticket).unwrap().is_done());
        });
    }
}

#[cfg(feature = "tokio")]
fn tickets_are_awaited_on_tokio_through_the_eventfd(executor: &Executor) {
    use parkd::client::tokio::AsyncSession;

    let daemon = Daemon::start(executor, "");
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let socket = daemon.socket();
        let session = AsyncSession::connect_to(Session::builder(), socket).await.unwrap();
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let lane = session.lane().unwrap();
            tasks.push(tokio::spawn(async move {
                for _ in 0..50 {
                    let target = lane.next_target();
                    let ticket = lane.ticket(target).submit().unwrap();
                    let producer = lane.clone();
                    let store = tokio::spawn(async move { producer.store(target) });
                    assert!(ticket.await.unwrap().is_done());
                    store.await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let lane = session.lane().unwrap();
        let never = lane.ticket(lane.next_target()).submit().unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(5), never).await.is_err());
        assert_eq!(session.strays(), 0);
    });
}

fn what_has_landed_is_immediate(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let session = connect(&daemon);
    let lane = session.lane().unwrap();
    lane.store(4);
    let end = lane.ticket(4).submit().unwrap().wait().unwrap();
    assert_eq!((end.waited, end.seen), (Some(Waited::Immediate), 4));
    lane.ticket(3).submit_tagged(8).unwrap();
    assert_eq!(session.next_completion(None).unwrap().map(|(tag, _)| tag), Some(8));
    let status = support::raw::control(&daemon.socket()).status();
    assert_eq!(status["counters"]["tickets"], 0, "the daemon has heard of neither");
}

/// A session that ends with its daemon.
fn connect_once(daemon: &Daemon) -> Session {
    Session::builder().reconnect(Duration::ZERO).connect_to(&daemon.socket()).unwrap()
}

fn a_killed_daemon_ends_every_wait(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let session = connect_once(&daemon);
    let lane = session.lane().unwrap();
    let tickets: Vec<_> = (0..4).map(|_| lane.ticket(1).submit().unwrap()).collect();
    let task = lane.ticket(1).submit().unwrap();
    thread::scope(|scope| {
        let waits: Vec<_> = tickets.into_iter().map(|t| scope.spawn(|| t.wait())).collect();
        let task = scope.spawn(|| block_on(task));
        daemon.signal(Signal::KILL);
        for wait in waits.into_iter().chain([task]) {
            assert_eq!(wait.join().unwrap().unwrap_err().code, ErrorCode::Disconnected);
        }
    });
    assert_eq!(lane.ticket(1).submit().map(drop).unwrap_err().code, ErrorCode::Disconnected);
    let gone = Session::connect_to(&daemon.socket()).map(drop).unwrap_err();
    assert_eq!(gone.code, ErrorCode::SocketUnavailable);
}

fn a_daemon_told_to_end_answers_every_ticket(executor: &Executor) {
    let mut daemon = Daemon::start(executor, "");
    let session = connect_once(&daemon);
    let lane = session.lane().unwrap();
    let tickets: Vec<_> = (0..32).map(|_| lane.ticket(1).submit().unwrap()).collect();
    eventually("the tickets", || outstanding(&daemon) == 32);
    daemon.signal(Signal::TERM);
    for ticket in tickets {
        assert_eq!(ticket.wait().unwrap().status, Status::ShuttingDown);
    }
    assert!(daemon.ended().success());
    assert_eq!(session.live().unwrap_err().code, ErrorCode::Disconnected);
}

fn a_client_that_dies_leaves_nothing_behind(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let control = Control::connect_to(&daemon.socket()).unwrap();
    let sessions = || {
        let status: serde_json::Value = serde_json::from_str(&control.status().unwrap()).unwrap();
        (status["sessions"].as_u64().unwrap(), status["tickets"].as_u64().unwrap())
    };
    let before = sessions();
    let mut other =
        parkctl(&daemon).args(["wait", "--value", "5"]).stdout(Stdio::piped()).spawn().unwrap();
    eventually("its ticket", || sessions() == (before.0 + 1, 1));
    other.kill().unwrap();
    other.wait().unwrap();
    eventually("its end", || sessions() == (before.0, 0));
}

/// Tickets that the daemon has taken and not answered.
fn outstanding(daemon: &Daemon) -> u64 {
    let status = Control::connect_to(&daemon.socket()).unwrap().status().unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    status["tickets"].as_u64().unwrap()
}

/// Looks until something has happened.
fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    until(what, || happened().then_some(()));
}

fn parkctl(daemon: &Daemon) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parkctl"));
    command.env("PARKD_SOCKET", daemon.socket());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn parkctl_shows_the_daemons_state(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let _session = connect(&daemon);
    let json = parkctl(&daemon).args(["status", "--json"]).output().unwrap();
    assert!(json.status.success());
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(value["sessions"].as_u64().unwrap() >= 1);
    assert_eq!(value["pid"].as_u64(), Some(u64::from(daemon.pid())));
    let table = parkctl(&daemon).arg("status").output().unwrap();
    assert!(table.status.success());
    let shown = text(&table.stdout);
    let executor = value["executor"].as_str().unwrap();
    assert!(shown.starts_with("executor") && shown.contains(executor), "{shown}");
    assert!(shown.contains("counters.tickets"), "{shown}");
}

#[test]
fn parkctl_without_a_daemon_says_so_in_one_line() {
    let folder = Folder::new();
    let missing = folder.file("no.sock");
    for command in [["status", "--json"], ["wait", "--value=1"]] {
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_parkctl"))
            .arg("--socket")
            .arg(&missing)
            .args(command)
            .env("PARKD_SOCKET", "/also/missing")
            .output()
            .unwrap();
        assert_eq!(status.code(), Some(1));
        assert!(stdout.is_empty());
        let line = text(&stderr);
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.contains("SocketUnavailable (53)"), "{line}");
        assert!(line.contains(&missing.display().to_string()), "{line}");
        assert!(line.contains("Start the daemon"), "{line}");
    }
}

/// Where `parkctl wait` says that its lane lies.
fn place(line: &str) -> (String, u64) {
    let field = |name: &str| {
        let found = line.split_whitespace().find_map(|field| field.strip_prefix(name));
        found.unwrap_or_else(|| panic!("{name} in {line}")).to_owned()
    };
    (field("file="), field("offset=").parse().unwrap())
}

fn parkctl_waits_until_any_process_stores_the_number(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let mut waits = parkctl(&daemon)
        .args(["wait", "--value", "7", "--timeout", "60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(waits.stdout.take().unwrap()).lines();
    let (path, offset) = place(&lines.next().unwrap().unwrap());
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(&7u64.to_le_bytes()).unwrap();
    let end = lines.next().unwrap().unwrap();
    assert!(end.contains("status=Done") && end.contains("seen=7"), "{end}");
    assert_eq!(waits.wait().unwrap().code(), Some(0));
}

fn parkctl_gives_up_after_its_timeout(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let output = parkctl(&daemon).args(["wait", "--timeout", "0.01"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stdout).contains("status=DeadlineExpired"));
    let wrong = parkctl(&daemon).args(["wait", "--device", "none"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("NoSuchDevice (43)"));
}

/// Sessions of several processes do not notice one another: here, threads with sessions of their
/// own, one of which ends in the middle.
fn sessions_come_and_go_without_others_noticing(executor: &Executor) {
    let daemon = Daemon::start(executor, "");
    let ends = AtomicU32::new(0);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (daemon, ends) = (&daemon, &ends);
            scope.spawn(move || {
                for _ in 0..10 {
                    let session = connect(daemon);
                    let lane = session.lane().unwrap();
                    let left = lane.ticket(9).submit().unwrap();
                    let ticket = lane.ticket(1).submit().unwrap();
                    lane.store(1);
                    assert!(ticket.wait().unwrap().is_done());
                    if worker % 2 == 0 {
                        left.cancel().unwrap();
                        assert_eq!(left.wait().unwrap().status, Status::Cancelled);
                    }
                    ends.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(ends.load(Ordering::Relaxed), 40);
}
