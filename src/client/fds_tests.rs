use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::super::double::{Double, PATIENCE, eventually};
use super::super::session::Session;
use crate::core::error::ErrorCode;
use crate::proto::entry::Status;
use crate::proto::message::{Opcode, StatusRequest};

/// The double goes on as another life of the daemon.
fn restart(double: &Double, life: u32) {
    double.levers.next_life.store(life, Ordering::SeqCst);
    eventually("the other life", || double.levers.next_life.load(Ordering::SeqCst) == 0);
}

fn event() -> std::os::fd::OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}

fn signal(event: &std::os::fd::OwnedFd) {
    rustix::io::write(event, &1u64.to_ne_bytes()).unwrap();
}

fn kept(session: &Session) -> usize {
    session.shared().reopen().remembered.fds.len()
}

#[test]
fn a_request_that_an_earlier_life_lost_is_sent_again() {
    let (double, session) = Double::session();
    let first = session.lane().unwrap();
    for done in [false, true] {
        let lever = if done { &double.levers.mute } else { &double.levers.swallow };
        let before = double.count(|l| &l.agains);
        std::thread::scope(|scope| {
            lever.store(1, Ordering::SeqCst);
            let opens = scope.spawn(|| session.lane().unwrap().index());
            eventually("the request", || lever.load(Ordering::SeqCst) == 0);
            restart(&double, 4 + u32::from(done));
            assert_eq!(opens.join().unwrap(), 1, "the lane that it would have been, once");
        });
        assert_eq!(double.count(|l| &l.agains), before + 1);
        assert_eq!(session.plan("block").map(|plan| plan.number()), Ok(1 + u16::from(done)));
    }
    assert_eq!(double.count(|l| &l.doubled), 0);
    // The notice lies there before the request goes out: this life has had it when it comes again.
    restart(&double, 6);
    let asked = &StatusRequest { reserved: 0 };
    assert!(session.shared().wire().request(Opcode::Status, asked, &[], None).is_ok());
    eventually("the other copy", || double.count(|l| &l.doubled) == 1);
    drop(first);
    assert_eq!(session.live(), Ok(()));
}

#[test]
fn a_submit_that_an_earlier_life_lost_is_taken_once() {
    let (double, session) = Double::session();
    for done in [false, true] {
        let lever = if done { &double.levers.mute } else { &double.levers.swallow };
        let event = event();
        let ticket = std::thread::scope(|scope| {
            lever.store(1, Ordering::SeqCst);
            let submits = scope.spawn(|| session.fd_ticket(&event).submit().unwrap());
            eventually("the request", || lever.load(Ordering::SeqCst) == 0);
            restart(&double, 4 + u32::from(done));
            submits.join().unwrap()
        });
        assert_eq!(double.count(|l| &l.fds), 1, "it has the fd again");
        signal(&event);
        assert!(ticket.wait().unwrap().is_done());
    }
    assert_eq!((double.count(|l| &l.tickets), session.strays()), (2, 0));
    assert_eq!(kept(&session), 0, "the session keeps no fd of tickets that have ended");
}

#[test]
fn fds_of_outstanding_tickets_go_to_the_next_life() {
    let (double, session) = Double::session();
    let events: Vec<_> = (0..5).map(|_| event()).collect();
    let submit = |event| session.fd_ticket(event).submit().unwrap();
    let mut tickets: Vec<_> = events.iter().map(submit).collect();
    signal(&events[0]);
    assert!(tickets.remove(0).wait().unwrap().is_done());
    assert_eq!(kept(&session), 4);
    for life in 4..8 {
        restart(&double, life);
        // Any look of any thread will do.
        assert_eq!(tickets[0].wait_for(Duration::from_millis(1)).unwrap(), None);
        eventually("the fds", || double.count(|l| &l.fds) == tickets.len() as u64);
        assert_eq!(double.count(|l| &l.doubled), 0, "each to a life that has not had it");
        eventually("the end of it", || !session.shared().reopen().tended);
    }
    signal(&events[3]);
    assert!(tickets.remove(2).wait().unwrap().is_done());
    tickets[0].cancel().unwrap();
    assert_eq!(tickets.remove(0).wait().unwrap().status, Status::Cancelled);
    drop(tickets);
    eventually("every slot", || session.room().unwrap() == 256);
    assert_eq!((kept(&session), session.strays()), (0, 0));
    assert_eq!(double.count(|l| &l.agains), 16);
}

#[test]
fn a_life_that_ends_before_it_has_said_so_is_waited_past() {
    let (double, session) = Double::session();
    let event = event();
    let mut ticket = session.fd_ticket(&event).submit().unwrap();
    double.set(|l| &l.silent_life, true);
    restart(&double, 4);
    assert_eq!(ticket.wait_for(Duration::from_millis(1)).unwrap(), None);
    eventually("the tender", || session.shared().reopen().tended);
    double.set(|l| &l.silent_life, false);
    restart(&double, 5);
    eventually("the fd", || double.count(|l| &l.fds) == 1);
    eventually("the end of it", || !session.shared().reopen().tended);
    assert_eq!((double.count(|l| &l.agains), double.count(|l| &l.doubled)), (1, 0));
    assert_eq!(session.live(), Ok(()));
}

#[test]
fn a_second_welcome_is_a_notice_too() {
    let (double, session) = Double::session();
    double.set(|l| &l.welcome_again, true);
    let event = event();
    let mut ticket = session.fd_ticket(&event).submit().unwrap();
    double.levers.swallow.store(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let plans = scope.spawn(|| session.plan("block").unwrap().number());
        eventually("the request", || double.levers.swallow.load(Ordering::SeqCst) == 0);
        restart(&double, 4);
        assert_eq!(plans.join().unwrap(), 1);
    });
    assert_eq!(ticket.wait_for(Duration::from_millis(1)).unwrap(), None);
    eventually("the fd", || double.count(|l| &l.fds) == 1);
    assert_eq!((double.count(|l| &l.agains), double.count(|l| &l.doubled)), (2, 0));
}

#[test]
fn a_life_that_ends_in_the_middle_leaves_no_ticket_behind() {
    let (double, session) = Double::session();
    let events: Vec<_> = (0..5).map(|_| event()).collect();
    let submit = |event| session.fd_ticket(event).submit().unwrap();
    let mut tickets: Vec<_> = events.iter().map(submit).collect();
    double.levers.swallow_again.store(4, Ordering::SeqCst);
    restart(&double, 4);
    assert_eq!(tickets[0].wait_for(Duration::from_millis(1)).unwrap(), None);
    eventually("the fourth", || double.count(|l| &l.agains) == 4);
    assert_eq!(double.count(|l| &l.fds), 3);
    restart(&double, 5);
    // The rest goes to the next life, and what the one before it was given as well.
    assert_eq!(tickets[0].wait_for(Duration::from_millis(1)).unwrap(), None);
    eventually("the fds", || double.count(|l| &l.fds) == 5);
    eventually("the end of it", || !session.shared().reopen().tended);
    assert_eq!((double.count(|l| &l.agains), double.count(|l| &l.doubled)), (9, 0));
}

#[test]
fn threads_go_on_over_many_lives() {
    let (double, session) = Double::session();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let (session, stop) = (&session, &stop);
                scope.spawn(move || {
                    let mut rounds = 0;
                    while !stop.load(Ordering::SeqCst) {
                        let lane = session.lane().unwrap();
                        let target = lane.next_target();
                        let ticket = lane.ticket(target).submit().unwrap();
                        let event = event();
                        let other = session.fd_ticket(&event).submit().unwrap();
                        lane.store(target);
                        signal(&event);
                        assert!(ticket.wait().unwrap().is_done());
                        let mut other = other;
                        let end = other.wait_for(PATIENCE).unwrap();
                        let end = end.expect("it lost its fd");
                        assert!(end.is_done(), "worker {worker}: {end:?}");
                        rounds += 1;
                    }
                    rounds
                })
            })
            .collect();
        for life in 4..40 {
            let before = double.count(|l| &l.results);
            restart(&double, life);
            eventually("work", || double.count(|l| &l.results) > before + 3);
        }
        stop.store(true, Ordering::SeqCst);
        let rounds: u64 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
        assert!(rounds > 30, "{rounds}");
        eventually("every ticket", || double.count(|l| &l.tickets) == 2 * rounds);
    });
    assert_eq!((session.strays(), kept(&session)), (0, 0));
}

#[test]
fn a_ticket_that_nobody_takes_keeps_no_fd() {
    let (double, session) = Double::session();
    double.set(|l| &l.die, true);
    let gone = session.fd_ticket(&event()).submit().map(drop).unwrap_err();
    assert_eq!(gone.code, ErrorCode::Disconnected);
    assert_eq!(kept(&session), 0);
}
