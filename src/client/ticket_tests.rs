use std::sync::atomic::Ordering;

use rustix::event::{EventfdFlags, eventfd};

use super::super::double::{Double, eventually};
use super::super::many::{wait_all, wait_any, wait_any_for};
use super::*;
use crate::core::step::Waited;
use crate::proto::entry::Status;

const SOON: Duration = Duration::from_millis(5);
const LATE: Duration = Duration::from_secs(20);

#[test]
fn a_ticket_ends_when_its_number_is_stored() {
    let (double, session) = Double::session();
    let lane = session.lane().unwrap();
    for _ in 0..100 {
        let target = lane.next_target();
        let ticket = lane.ticket(target).point(4).rows(2).submit().unwrap();
        lane.store(target);
        let completion = ticket.wait().unwrap().into_result().unwrap();
        assert!(completion.seen >= target);
    }
    eventually("every slot", || session.room().unwrap() == 256);
    assert_eq!(double.count(|l| &l.results), double.count(|l| &l.tickets));
    assert_eq!(session.strays(), 0);
}

#[test]
fn what_has_landed_needs_no_daemon() {
    let (double, session) = Double::session();
    let lane = session.lane().unwrap();
    lane.store(5);
    let ticket = lane.ticket(4).submit().unwrap();
    assert_eq!(ticket.completion().map(|c| (c.seen, c.waited)), Some((5, Some(Waited::Immediate))));
    assert_eq!(ticket.wait().unwrap().status, Status::Done);
    lane.ticket(5).submit_tagged(9).unwrap();
    assert_eq!(session.next_completion(None).unwrap().map(|(tag, _)| tag), Some(9));
    assert_eq!(double.count(|l| &l.tickets), 0);

    // And one that lands while the daemon does not look.
    double.set(|l| &l.hold, true);
    let mut ticket = lane.ticket(6).submit().unwrap();
    assert_eq!(ticket.try_wait().unwrap(), None);
    lane.store(6);
    assert!(ticket.try_wait().unwrap().unwrap().is_done());
    assert!(ticket.wait().unwrap().is_done(), "and again, the same");
    double.set(|l| &l.hold, false);
    eventually("the late result", || session.room().unwrap() == 256);
    assert_eq!(session.strays(), 0, "the late result was dropped, not lost");
}

#[test]
fn waits_are_bounded_by_their_own_time_and_by_the_deadline() {
    let (_double, session) = Double::session();
    let lane = session.lane().unwrap();
    let mut ticket = lane.ticket(1).submit().unwrap();
    assert_eq!(ticket.wait_for(SOON).unwrap(), None);
    assert_eq!(ticket.wait_for(Duration::ZERO).unwrap(), None);
    assert_eq!(wait_any_for(std::slice::from_mut(&mut ticket), SOON).unwrap(), None);
    assert_eq!(session.next_completion(Some(SOON)).unwrap().map(drop), None);
    let short = lane.ticket(1).deadline_in(SOON).submit().unwrap();
    let expired = short.wait().unwrap();
    assert_eq!(expired.status, Status::DeadlineExpired);
    assert_eq!(expired.into_result().unwrap_err().code, ErrorCode::DeadlineExpired);
    let past = lane.ticket(1).deadline(MonoNs(0)).submit().unwrap();
    assert_eq!(past.wait().unwrap().status, Status::DeadlineExpired, "0 is past, not never");
    lane.store(1);
    assert!(ticket.wait_for(LATE).unwrap().unwrap().is_done());
}

#[test]
fn cancel_ends_a_ticket_and_dropping_one_cancels_it() {
    let (double, session) = Double::session();
    let lane = session.lane().unwrap();
    let ticket = lane.ticket(1).submit().unwrap();
    ticket.cancel().unwrap();
    let cancelled = ticket.wait().unwrap();
    assert_eq!(cancelled.status, Status::Cancelled);
    assert_eq!(cancelled.into_result().unwrap_err().code, ErrorCode::Cancelled);

    drop(lane.ticket(1).submit().unwrap());
    eventually("the CANCEL", || double.count(|l| &l.cancels) == 2);
    eventually("its result", || session.room().unwrap() == 256);
    let next = lane.ticket(1).submit().unwrap();
    lane.store(1);
    assert!(next.wait().unwrap().is_done(), "the next life of the slot has its own result");
    assert_eq!(session.strays(), 0);
}

#[test]
fn a_cancel_that_found_the_ring_full_goes_out_later() {
    let (double, session) = Double::session_of(Session::builder().submit_entries(64));
    let (lane, never) = (session.lane().unwrap(), session.lane().unwrap());
    double.set(|l| &l.deaf, true);
    let kept: Vec<_> = (0..32).map(|_| lane.ticket(1).submit().unwrap()).collect();
    let dropped: Vec<_> = (0..32).map(|_| never.ticket(1).submit().unwrap()).collect();
    let full = lane.ticket(1).submit().unwrap_err();
    assert_eq!(full.code, ErrorCode::CreditExceeded);
    drop(dropped);
    double.set(|l| &l.deaf, false);
    eventually("all slots but the kept", || {
        session.room().unwrap() == 64 && {
            double.count(|l| &l.cancels) == 32 && double.count(|l| &l.outstanding) == 32
        }
    });
    lane.store(1);
    assert!(wait_all(kept).unwrap().iter().all(Completion::is_done));
    assert_eq!(session.strays(), 0);
}

#[test]
fn credit_is_kept_and_waited_for() {
    let builder = Session::builder().submit_entries(64).result_entries(64);
    let (double, session) = Double::session_of(builder);
    let lane = session.lane().unwrap();
    let mut tickets: Vec<_> = (0..60).map(|_| lane.ticket(1).submit().unwrap()).collect();
    eventually("60 taken", || double.count(|l| &l.tickets) == 60);
    let five = session.submit_all((0..5).map(|_| lane.ticket(1))).unwrap_err();
    assert_eq!(five.code, ErrorCode::CreditExceeded);
    assert!(five.detail.contains("5 tickets asked for, 4 free of 64"), "{five}");
    tickets.extend(session.submit_all((0..4).map(|_| lane.ticket(1))).unwrap());
    assert_eq!(lane.ticket(1).submit().unwrap_err().code, ErrorCode::CreditExceeded);
    assert!(!session.wait_for_room(1, Some(SOON)).unwrap());
    assert_eq!(session.wait_for_room(65, None).unwrap_err().code, ErrorCode::CreditExceeded);

    std::thread::scope(|scope| {
        let more = scope.spawn(|| lane.ticket(1).submit_blocking().unwrap().wait().unwrap());
        lane.store(1);
        // What has ended makes room, also while its owner keeps it.
        assert!(more.join().unwrap().is_done());
        assert_eq!(wait_all(tickets).unwrap().len(), 64);
    });
    assert!(double.count(|l| &l.most_held) <= 64);
}

#[test]
fn a_batch_goes_out_whole_and_comes_back_in_its_order() {
    let (double, session) = Double::session();
    let lane = session.lane().unwrap();
    let other = session.lane().unwrap();
    lane.store(10);
    let targets = [5u64, 20, 10, 30];
    let tickets = session.submit_all(targets.iter().map(|t| lane.ticket(*t))).unwrap();
    assert_eq!(tickets.iter().filter(|t| t.completion().is_some()).count(), 2);
    lane.store(30);
    assert_eq!(wait_all(tickets).unwrap().len(), 4);
    assert_eq!(session.submit_all([]).unwrap().len(), 0);

    let tagged = (0..10).map(|tag| (other.ticket(tag + 1), tag));
    session.submit_all_tagged(tagged).unwrap();
    other.store(10);
    let mut tags: Vec<_> = session.completions().map(|next| next.unwrap().0).collect();
    tags.sort_unstable();
    assert_eq!(tags, (0..10).collect::<Vec<_>>());
    assert_eq!(double.count(|l| &l.tickets), 12);

    let (_double, stranger) = Double::session();
    let foreign = stranger.submit_all([lane.ticket(99)]).unwrap_err();
    assert_eq!(foreign.code, ErrorCode::NoSuchLane);
}

#[test]
fn any_is_the_first_that_ended_and_none_is_stalled() {
    let (_double, session) = Double::session();
    let lanes: Vec<_> = (0..4).map(|_| session.lane().unwrap()).collect();
    let mut tickets: Vec<_> = lanes.iter().map(|l| l.ticket(1).submit().unwrap()).collect();
    for index in [2, 0, 3, 1] {
        std::thread::scope(|scope| {
            scope.spawn(|| lanes[index].store(1));
            let found = wait_any(&mut tickets).unwrap();
            assert_eq!(found, index);
        });
        // Another one on the same lane, which does not end.
        tickets[index] = lanes[index].ticket(2).submit().unwrap();
    }
    assert_eq!(wait_any(&mut []).unwrap_err().code, ErrorCode::Stalled);
}

#[test]
fn any_of_several_sessions_works_too() {
    let (_one, first) = Double::session();
    let (_two, second) = Double::session();
    let lanes = [first.lane().unwrap(), second.lane().unwrap()];
    for index in [1, 0, 1] {
        let targets = [lanes[0].next_target(), lanes[1].next_target()];
        let mut tickets: Vec<_> =
            lanes.iter().zip(targets).map(|(l, t)| l.ticket(t).submit().unwrap()).collect();
        assert_eq!(wait_any_for(&mut tickets, SOON).unwrap(), None);
        std::thread::scope(|scope| {
            scope.spawn(|| lanes[index].store(targets[index]));
            assert_eq!(wait_any(&mut tickets).unwrap(), index);
        });
        lanes[1 - index].store(targets[1 - index]);
    }
}

#[test]
fn a_failure_posted_on_a_lane_ends_its_tickets() {
    let (_double, session) = Double::session();
    let lane = session.lane().unwrap();
    let ticket = lane.ticket(1).submit().unwrap();
    lane.fail(700).unwrap();
    let completion = ticket.wait().unwrap();
    assert_eq!((completion.status, completion.code), (Status::DeviceFailed, 700));
}

#[test]
fn closing_a_lane_cancels_its_tickets() {
    let (double, session) = Double::session();
    let lane = session.lane().unwrap();
    let ticket = lane.ticket(1).submit().unwrap();
    eventually("the ticket", || double.count(|l| &l.tickets) == 1);
    lane.close().unwrap();
    assert_eq!(ticket.wait().unwrap().status, Status::Cancelled);
}

#[test]
fn a_ticket_on_an_fd_ends_when_that_is_readable() {
    let (double, session) = Double::session();
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let mut ticket = session.fd_ticket(&event).point(1).submit().unwrap();
    let never = session.fd_ticket(&event).deadline_in(SOON).submit().unwrap();
    assert_eq!(never.wait().unwrap().status, Status::DeadlineExpired);
    assert_eq!(ticket.try_wait().unwrap(), None);
    rustix::io::write(&event, &1u64.to_ne_bytes()).unwrap();
    drop(event);
    assert!(ticket.wait().unwrap().is_done());
    assert_eq!(double.count(|l| &l.tickets), 2);
}

#[test]
fn the_sessions_end_ends_every_wait_after_the_results_that_came() {
    for die in [false, true] {
        let (double, session) = Double::session();
        let lane = session.lane().unwrap();
        let done = lane.ticket(1).submit().unwrap();
        let left: Vec<_> = (0..4).map(|_| lane.ticket(9).submit().unwrap()).collect();
        lane.ticket(9).submit_tagged(5).unwrap();
        lane.store(1);
        eventually("the result", || double.count(|l| &l.results) == 1);
        std::thread::scope(|scope| {
            let waits: Vec<_> = left.into_iter().map(|t| scope.spawn(|| t.wait())).collect();
            let tagged = scope.spawn(|| session.next_completion(None));
            if die {
                double.set(|l| &l.die, true);
            } else {
                double.levers.close.store(61, Ordering::SeqCst);
            }
            for wait in waits {
                assert_eq!(wait.join().unwrap().unwrap_err().code, ErrorCode::Disconnected);
            }
            assert_eq!(tagged.join().unwrap().unwrap_err().code, ErrorCode::Disconnected);
        });
        assert!(done.wait().unwrap().is_done());
        assert_eq!(lane.ticket(9).submit().unwrap_err().code, ErrorCode::Disconnected);
        let mut rest = session.completions();
        // The tagged ticket's result never came.
        assert_eq!(rest.next().unwrap().unwrap_err().code, ErrorCode::Disconnected);
        assert!(rest.next().is_none(), "an error is the last");
    }
}

#[test]
fn a_result_sent_twice_is_counted_and_nobody_elses() {
    let (double, session) = Double::session();
    double.set(|l| &l.twice, true);
    let lane = session.lane().unwrap();
    double.set(|l| &l.hold, true);
    let tickets: Vec<_> = (0..8).map(|_| lane.ticket(1).submit_tagged(3)).collect();
    assert!(tickets.iter().all(|t| t.is_ok()));
    lane.store(1);
    double.set(|l| &l.hold, false);
    assert_eq!(session.completions().count(), 8);
    eventually("the doubles", || session.room().is_ok() && session.strays() == 8);
}

#[test]
fn a_failure_waits_for_room_in_the_ring_and_overtakes_nothing() {
    let (double, session) = Double::session_of(Session::builder().submit_entries(64));
    let lane = session.lane().unwrap();
    double.set(|l| &l.deaf, true);
    let tickets: Vec<_> = (0..64).map(|_| lane.ticket(1).submit().unwrap()).collect();
    std::thread::scope(|scope| {
        let fails = scope.spawn(|| lane.fail(7));
        eventually("the wait for room", || session.shared().reopen().leadership.is_led());
        double.set(|l| &l.deaf, false);
        fails.join().unwrap().unwrap();
    });
    for end in wait_all(tickets).unwrap() {
        assert_eq!((end.status, end.code), (Status::DeviceFailed, 7));
    }
}
