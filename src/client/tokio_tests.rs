use std::time::{Duration, Instant};

use super::super::completion::Completion;
use super::super::double::{Double, PATIENCE, eventually};
use super::super::ticket::Ticket;
use super::*;
use crate::core::error::ErrorCode;

fn runtime() -> ::tokio::runtime::Runtime {
    let mut builder = ::tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

async fn finish(ticket: Ticket) -> Completion {
    let begun = Instant::now();
    let end = ::tokio::time::timeout(PATIENCE, ticket).await;
    // The last poll finds what no wake told of.
    assert!(begun.elapsed() < PATIENCE, "a task slept on");
    end.unwrap().unwrap()
}

fn has_helper(session: &Session) -> bool {
    session.shared().reopen().driver.helper.is_some()
}

#[test]
fn tickets_are_awaited_without_a_helper() {
    let (double, session) = Double::session_that_is_woken();
    runtime().block_on(async {
        let session = AsyncSession::new(session).unwrap();
        let lane = session.lane().unwrap();
        for target in 1..=100 {
            let ticket = lane.ticket(target).submit().unwrap();
            let producer = lane.clone();
            let stores = ::tokio::spawn(async move { producer.store(target) });
            assert!(finish(ticket).await.is_done());
            stores.await.unwrap();
        }
        assert!(!has_helper(&session));
    });
    assert!(double.count(|l| &l.results) <= 100);
}

#[test]
fn many_tasks_await_at_once() {
    let (double, session) = Double::session_that_is_woken();
    runtime().block_on(async {
        let session = AsyncSession::new(session).unwrap();
        let mut tasks = Vec::new();
        for _ in 0..16 {
            let lane = session.lane().unwrap();
            tasks.push(::tokio::spawn(async move {
                for _ in 0..50 {
                    let target = lane.next_target();
                    let ticket = lane.ticket(target).submit().unwrap();
                    ::tokio::task::yield_now().await;
                    let producer = lane.clone();
                    let stores = ::tokio::spawn(async move { producer.store(target) });
                    assert!(finish(ticket).await.is_done());
                    stores.await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert!(!has_helper(&session));
        let quiet = session.clone();
        eventually("every slot", || quiet.room().unwrap() == 256);
        assert_eq!(session.strays(), 0);
    });
    assert_eq!(double.count(|l| &l.tickets), double.count(|l| &l.results));
}

#[test]
fn a_timeout_around_an_await_cancels_the_ticket() {
    let (double, session) = Double::session_that_is_woken();
    runtime().block_on(async {
        let session = AsyncSession::new(session).unwrap();
        let lane = session.lane().unwrap();
        let ticket = lane.ticket(1).submit().unwrap();
        let late = ::tokio::time::timeout(Duration::from_millis(5), ticket).await;
        assert!(late.is_err());
        eventually("the CANCEL", || double.count(|l| &l.cancels) == 1);
        eventually("its result", || session.room().unwrap() == 256);
    });
}

#[test]
fn when_the_driver_goes_the_helper_takes_over() {
    let (_double, session) = Double::session_that_is_woken();
    let lane = session.lane().unwrap();
    let runtime = runtime();
    let asynchronous = runtime.block_on(async { AsyncSession::new(session.clone()).unwrap() });
    let ticket = lane.ticket(1).submit().unwrap();
    let other = ::tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| other.block_on(finish(ticket)));
        eventually("the task", || session.shared().reopen().driver.tasks == 1);
        // The runtime that drives it ends, with the task that does.
        drop(runtime);
        eventually("the helper", || has_helper(&session));
        lane.store(1);
        assert!(waits.join().unwrap().is_done());
    });
    drop(asynchronous);
}

#[test]
fn dropping_the_async_session_detaches_it() {
    let (_double, session) = Double::session_that_is_woken();
    let lane = session.lane().unwrap();
    let runtime = runtime();
    let first = runtime.block_on(async { AsyncSession::new(session.clone()).unwrap() });
    let second = runtime.block_on(async { AsyncSession::new(session.clone()).unwrap() });
    drop(first);
    let ticket = lane.ticket(1).submit().unwrap();
    lane.store(1);
    assert!(runtime.block_on(finish(ticket)).is_done());
    drop(second);
    eventually("both gone", || session.shared().reopen().driver.attached == 0);
    let ticket = lane.ticket(2).submit().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| runtime.block_on(finish(ticket)));
        lane.store(2);
        assert!(waits.join().unwrap().is_done());
    });
}

#[test]
fn a_daemon_that_dies_ends_the_waits_at_once() {
    let (double, session) = Double::session_that_is_woken();
    runtime().block_on(async {
        let session = AsyncSession::new(session).unwrap();
        let lane = session.lane().unwrap();
        let ticket = lane.ticket(1).submit().unwrap();
        let waits = ::tokio::spawn(ticket);
        let watched = session.clone();
        ::tokio::task::spawn_blocking(move || {
            eventually("the task", || watched.shared().reopen().driver.tasks == 1);
            double.set(|l| &l.die, true);
            double
        })
        .await
        .unwrap();
        assert_eq!(waits.await.unwrap().unwrap_err().code, ErrorCode::Disconnected);
        assert!(!has_helper(&session));
    });
}

#[test]
fn a_session_is_not_held_by_its_driver() {
    let (double, session) = Double::session_that_is_woken();
    let runtime = runtime();
    let session = runtime.block_on(async { AsyncSession::new(session).unwrap() });
    drop(session);
    eventually("BYE", || double.count(|l| &l.byes) == 1);
}
