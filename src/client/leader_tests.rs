use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::super::completion::Completion;
use super::super::double::{Double, PATIENCE, eventually};
use super::super::lane::Lane;
use super::super::session::Session;
use super::super::ticket::Ticket;
use crate::core::time::DurNs;
use crate::proto::entry::Status;

const THREADS: u64 = 8;

fn wait(mut ticket: Ticket) -> Completion {
    let begun = Instant::now();
    let end = ticket.wait_for(PATIENCE).unwrap();
    // The last look finds what no wake told of.
    assert!(begun.elapsed() < PATIENCE, "a thread slept on");
    end.unwrap()
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// One of several threads with a session: submits, has its numbers stored out of order, and waits
/// in every way, until `rounds` rounds are done. Counts what it got.
fn work(lane: &Lane, seed: u64, rounds: u64, done: &AtomicU64, cancelled: &AtomicU64) {
    let mut state = seed | 1;
    for _ in 0..rounds {
        let depth = 1 + random(&mut state) % 6;
        let first = lane.next_target();
        let last = (1..depth).fold(first, |_, _| lane.next_target());
        let mut tickets: Vec<Ticket> =
            (first..=last).map(|t| lane.ticket(t).submit_blocking().unwrap()).collect();
        lane.store(last);
        while !tickets.is_empty() {
            let at = (random(&mut state) % tickets.len() as u64) as usize;
            let mut ticket = tickets.swap_remove(at);
            match random(&mut state) % 4 {
                0 => drop(ticket),
                1 if ticket.try_wait().unwrap().is_none() => tickets.push(ticket),
                2 => {
                    ticket.cancel().unwrap();
                    let status = wait(ticket).status;
                    let counter = if status == Status::Cancelled { cancelled } else { done };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                _ => {
                    assert!(wait(ticket).is_done());
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

#[test]
fn threads_with_one_session_get_each_result_once() {
    let builder =
        Session::builder().look_at_socket(DurNs::MAX).submit_entries(64).result_entries(64);
    let (double, session) = Double::session_of(builder);
    let (done, cancelled) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 1..=THREADS {
            let lane = session.lane().unwrap();
            let (done, cancelled) = (&done, &cancelled);
            scope.spawn(move || work(&lane, seed * 7919, 300, done, cancelled));
        }
    });
    assert!(done.load(Ordering::Relaxed) > 0);
    eventually("every result", || double.count(|l| &l.outstanding) == 0);
    eventually("every slot", || session.room().unwrap() == 64);
    assert_eq!(session.strays(), 0);
    assert_eq!(double.count(|l| &l.tickets), double.count(|l| &l.results));
    assert!(double.count(|l| &l.most_held) <= 64);
    assert_eq!(session.shared().reopen().leadership.followers().count(), 0);
}

/// Only the daemon completes here (waits on lanes that others store into much later), so that a
/// hand-over that is lost shows as a thread that never wakes.
#[test]
fn leadership_is_never_lost() {
    let (double, session) = Double::session_that_is_woken();
    let lanes: Vec<_> = (0..THREADS).map(|_| session.lane().unwrap()).collect();
    let rounds = 200;
    std::thread::scope(|scope| {
        for lane in &lanes {
            scope.spawn(move || {
                for target in 1..=rounds {
                    assert!(wait(lane.ticket(target).submit().unwrap()).is_done());
                }
            });
        }
        scope.spawn(|| {
            let mut state = 12_345;
            let mut stored = vec![0; lanes.len()];
            while stored.iter().any(|at| *at < rounds) {
                let at = (random(&mut state) % THREADS) as usize;
                // One further than anybody can be waiting for is not stored ahead of time.
                if stored[at] < rounds && double.count(|l| &l.outstanding) > 0 {
                    stored[at] += 1;
                    lanes[at].store(stored[at]);
                }
                std::thread::yield_now();
            }
        });
    });
    eventually("every slot", || session.room().unwrap() == 256);
    assert_eq!(session.strays(), 0);
}

#[test]
fn tagged_results_go_to_one_taker_each() {
    let (double, session) = Double::session_that_is_woken();
    let lane = session.lane().unwrap();
    let total = 4000;
    let taken: Vec<AtomicU64> = (0..total).map(|_| AtomicU64::new(0)).collect();
    let count = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while count.load(Ordering::SeqCst) < total {
                    let bound = Duration::from_millis(20);
                    if let Some((tag, end)) = session.next_completion(Some(bound)).unwrap() {
                        assert!(end.is_done());
                        taken[tag as usize].fetch_add(1, Ordering::SeqCst);
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        scope.spawn(|| {
            for tag in 0..total {
                let target = lane.next_target();
                while session.room().unwrap() < 2 {
                    std::thread::yield_now();
                }
                // Half of them have landed before they go out.
                if tag % 2 == 0 {
                    lane.store(target);
                    lane.ticket(target).submit_tagged(tag).unwrap();
                } else {
                    lane.ticket(target).submit_tagged(tag).unwrap();
                    lane.store(target);
                }
            }
        });
    });
    assert!(taken.iter().all(|times| times.load(Ordering::SeqCst) == 1));
    eventually("every slot", || session.room().unwrap() == 256);
    assert_eq!(double.count(|l| &l.tickets), double.count(|l| &l.results));
}

#[test]
fn a_landed_tagged_ticket_wakes_a_thread_that_sleeps_for_it() {
    let (_double, session) = Double::session_that_is_woken();
    let lane = session.lane().unwrap();
    lane.store(1);
    for tag in 0..200 {
        std::thread::scope(|scope| {
            let begun = Instant::now();
            let taker = scope.spawn(|| session.next_completion(Some(PATIENCE)).unwrap());
            if tag % 2 == 0 {
                eventually("a leader", || session.shared().reopen().leadership.leads_for_tags());
            }
            lane.ticket(1).submit_tagged(tag).unwrap();
            assert_eq!(taker.join().unwrap().map(|(tag, _)| tag), Some(tag));
            assert!(begun.elapsed() < PATIENCE, "a thread slept on");
        });
    }
}

#[test]
fn nobody_is_woken_who_looks() {
    let (double, session) = Double::session_that_is_woken();
    let lane = session.lane().unwrap();
    for target in 1..=50 {
        double.set(|l| &l.hold, true);
        lane.ticket(target).submit_tagged(target).unwrap();
        lane.store(target);
        double.set(|l| &l.hold, false);
        eventually("the result", || {
            session.next_completion(Some(Duration::ZERO)).unwrap().is_some()
        });
    }
    assert_eq!(double.count(|l| &l.wakes), 0);
}

#[test]
fn a_leader_that_stays_calls_the_followers() {
    let (_double, session) = Double::session_that_is_woken();
    let stays = session.lane().unwrap();
    let lane = session.lane().unwrap();
    std::thread::scope(|scope| {
        let leader = stays.ticket(1).submit().unwrap();
        let leader = scope.spawn(|| wait(leader));
        eventually("the leader", || session.shared().reopen().leadership.is_led());
        for target in 1..=50 {
            let ticket = lane.ticket(target).submit().unwrap();
            let follower = scope.spawn(|| wait(ticket));
            eventually("the follower", || {
                session.shared().reopen().leadership.followers().count() == 1
            });
            lane.store(target);
            assert!(follower.join().unwrap().is_done());
            assert!(!leader.is_finished());
        }
        stays.store(1);
        assert!(leader.join().unwrap().is_done());
    });
}

#[test]
fn whoever_gives_up_leaves_an_heir() {
    let (_double, session) = Double::session_that_is_woken();
    let lane = session.lane().unwrap();
    for target in 1..=20 {
        std::thread::scope(|scope| {
            let mut impatient = session.lane().unwrap().ticket(1).submit().unwrap();
            let gives_up = scope.spawn(move || impatient.wait_for(Duration::from_millis(2)));
            let ticket = lane.ticket(target).submit().unwrap();
            let stays = scope.spawn(|| wait(ticket));
            assert_eq!(gives_up.join().unwrap().unwrap(), None);
            lane.store(target);
            assert!(stays.join().unwrap().is_done());
        });
    }
}
