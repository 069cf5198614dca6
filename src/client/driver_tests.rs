use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use super::super::double::{Double, PATIENCE, eventually};
use super::super::session::Session;
use super::super::ticket::Ticket;
use crate::core::error::ErrorCode;

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
    let begun = Instant::now();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(out) => return out,
            Poll::Pending => thread::park_timeout(PATIENCE),
        }
        assert!(begun.elapsed() < PATIENCE, "a task slept on");
    }
}

/// A waker that counts.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn tasks(session: &Session) -> usize {
    session.shared().reopen().driver.tasks
}

fn serving(session: &Session) -> bool {
    session.shared().reopen().driver.serving
}

fn poll_once(ticket: &mut Ticket, waker: &Waker) -> bool {
    Pin::new(ticket).poll(&mut Context::from_waker(waker)).is_ready()
}

#[test]
fn a_ticket_is_awaited_on_any_executor() {
    let (_double, session) = Double::session_that_is_woken();
    let lane = session.lane().unwrap();
    for target in 1..=100 {
        let ticket = lane.ticket(target).submit().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| lane.store(target));
            assert!(block_on(ticket).unwrap().is_done());
        });
    }
    assert_eq!(tasks(&session), 0);
    eventually("the helper's rest", || !serving(&session));
}

#[test]
fn no_helper_is_started_before_a_task_waits() {
    let (_double, session) = Double::session_that_is_woken();
    let lane = session.lane().unwrap();
    lane.store(1);
    assert!(block_on(lane.ticket(1).submit().unwrap()).unwrap().is_done());
    let ticket = lane.ticket(2).submit().unwrap();
    lane.store(2);
    assert!(ticket.wait().unwrap().is_done());
    assert!(session.shared().reopen().driver.helper.is_none());
}

#[test]
fn a_ticket_dropped_after_any_poll_leaves_nothing() {
    let (double, session) = Double::session_that_is_woken();
    let lane = session.lane().unwrap();
    for polls in 0..4 {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut ticket = lane.ticket(1).submit().unwrap();
        for _ in 0..polls {
            assert!(!poll_once(&mut ticket, &waker));
        }
        assert_eq!(tasks(&session), usize::from(polls > 0), "one task, however often polled");
        drop(ticket);
        assert_eq!(tasks(&session), 0);
        eventually("its result", || session.room().unwrap() == 256);
        drop(waker);
        eventually("the waker's end", || Arc::strong_count(&count) == 1);
        assert_eq!(count.0.load(Ordering::SeqCst), 0, "a dropped ticket wakes nobody");
    }
    assert_eq!(double.count(|l| &l.cancels), 4);
    assert_eq!(session.strays(), 0);
}

#[test]
fn the_last_waker_is_the_one_that_is_woken() {
    let (_double, session) = Double::session_that_is_woken();
    let lane = session.lane().unwrap();
    let counts = [Arc::new(Count::default()), Arc::new(Count::default())];
    let wakers = counts.clone().map(Waker::from);
    let mut ticket = lane.ticket(1).submit().unwrap();
    assert!(!poll_once(&mut ticket, &wakers[0]));
    assert!(!poll_once(&mut ticket, &wakers[1]));
    lane.store(1);
    eventually("the wake", || counts[1].0.load(Ordering::SeqCst) == 1);
    assert_eq!(counts[0].0.load(Ordering::SeqCst), 0);
    assert!(poll_once(&mut ticket, &wakers[1]));
    assert!(poll_once(&mut ticket, &wakers[1]), "an ended ticket stays so");
    assert_eq!(tasks(&session), 0);
}

#[test]
fn tasks_and_threads_wait_in_one_session() {
    let (double, session) = Double::session_that_is_woken();
    thread::scope(|scope| {
        for worker in 0..6 {
            let lane = session.lane().unwrap();
            scope.spawn(move || {
                for target in 1..=300 {
                    let ticket = lane.ticket(target).submit().unwrap();
                    let end = thread::scope(|inner| {
                        let waits = inner.spawn(|| match worker % 2 {
                            0 => block_on(ticket),
                            _ => ticket.wait(),
                        });
                        lane.store(target);
                        waits.join().unwrap()
                    });
                    assert!(end.unwrap().is_done());
                }
            });
        }
    });
    assert_eq!(tasks(&session), 0);
    eventually("every slot", || session.room().unwrap() == 256);
    assert_eq!(double.count(|l| &l.tickets), double.count(|l| &l.results));
    assert_eq!(session.strays(), 0);
}

#[test]
fn a_thread_that_leaves_hands_tasks_to_the_helper() {
    let (double, session) = Double::session_that_is_woken();
    let lane = session.lane().unwrap();
    let other = session.lane().unwrap();
    for target in 1..=100 {
        let thread_ticket = lane.ticket(target).submit().unwrap();
        let task_ticket = other.ticket(target).submit().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| thread_ticket.wait().unwrap());
            let task = scope.spawn(|| block_on(task_ticket).unwrap());
            lane.store(target);
            eventually("the thread's result", || double.count(|l| &l.results) % 2 == 1);
            other.store(target);
            assert!(task.join().unwrap().is_done());
        });
        eventually("both", || double.count(|l| &l.results) == 2 * target);
    }
}

#[test]
fn tagged_results_can_be_awaited() {
    let (_double, session) = Double::session_that_is_woken();
    let lane = session.lane().unwrap();
    let mut completions = session.completions();
    assert!(block_on(completions.next_async()).is_none(), "none outstanding");
    session.submit_all_tagged((1..=64).map(|n| (lane.ticket(n), n))).unwrap();
    let mut sum = 0;
    thread::scope(|scope| {
        scope.spawn(|| (1..=64).for_each(|n| lane.store(n)));
        while let Some(next) = block_on(completions.next_async()) {
            sum += next.unwrap().0;
        }
    });
    assert_eq!(sum, 64 * 65 / 2);

    lane.ticket(65).submit_tagged(1).unwrap();
    let waker = Waker::from(Arc::new(Count::default()));
    let mut context = Context::from_waker(&waker);
    assert!(completions.poll_next(&mut context).is_pending());
    assert!(completions.poll_next(&mut context).is_pending());
    assert_eq!(tasks(&session), 1);
    drop(completions);
    assert_eq!(tasks(&session), 0);
}

#[test]
fn the_sessions_end_wakes_tasks() {
    let (double, session) = Double::session();
    let lane = session.lane().unwrap();
    let tickets = [lane.ticket(1).submit().unwrap(), lane.ticket(1).submit().unwrap()];
    thread::scope(|scope| {
        let waits = tickets.map(|ticket| scope.spawn(|| block_on(ticket)));
        eventually("both tasks", || tasks(&session) == 2);
        double.set(|l| &l.die, true);
        for wait in waits {
            assert_eq!(wait.join().unwrap().unwrap_err().code, ErrorCode::Disconnected);
        }
    });
    assert_eq!(tasks(&session), 0);
}

#[test]
fn a_waker_that_drops_tickets_meets_no_lock() {
    /// Woken, it drops another ticket of the session.
    struct Dropper(std::sync::Mutex<Option<Ticket>>);

    impl Wake for Dropper {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }

    let (double, session) = Double::session();
    let lane = session.lane().unwrap();
    let victim = lane.ticket(9).submit().unwrap();
    let dropper = Arc::new(Dropper(std::sync::Mutex::new(Some(victim))));
    let waker = Waker::from(Arc::clone(&dropper));
    let mut ticket = lane.ticket(1).submit().unwrap();
    assert!(!poll_once(&mut ticket, &waker));
    lane.store(1);
    eventually("the CANCEL", || double.count(|l| &l.cancels) == 1);
    eventually("both results", || session.room().unwrap() >= 255);
}

#[test]
fn the_helper_ends_with_the_session() {
    let (double, session) = Double::session();
    let lane = session.lane().unwrap();
    let ticket = lane.ticket(1).submit().unwrap();
    lane.store(1);
    let mut held = lane.ticket(2).submit().unwrap();
    let waker = Waker::from(Arc::new(Count::default()));
    assert!(!poll_once(&mut held, &waker));
    assert!(session.shared().reopen().driver.helper.is_some());
    drop((ticket, held, lane));
    let gone = Arc::downgrade(session.shared());
    drop(session);
    eventually("the session's end", || gone.strong_count() == 0);
    eventually("BYE", || double.count(|l| &l.byes) == 1);
}

#[test]
fn an_event_loop_of_ones_own_drives_the_waits() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    // A broken driver fails here in place of hanging.
    const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

    let (double, session) = Double::session();
    let lane = session.lane().unwrap();
    let driver = session.event_driver().unwrap();
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let readable = || {
        let mut fds = [
            PollFd::from_borrowed_fd(driver.events(), PollFlags::IN),
            PollFd::from_borrowed_fd(driver.hang_up(), PollFlags::IN),
        ];
        assert_ne!(poll(&mut fds, Some(&PATIENCE)).unwrap(), 0, "nothing came");
        (fds[0].revents().contains(PollFlags::IN), fds[1].revents().contains(PollFlags::IN))
    };
    for target in 1..=50 {
        let mut ticket = lane.ticket(target).submit().unwrap();
        assert!(!poll_once(&mut ticket, &waker));
        lane.store(target);
        while count.0.load(Ordering::SeqCst) < target as usize {
            assert_eq!(readable(), (true, false));
            driver.turn().unwrap();
        }
        assert!(poll_once(&mut ticket, &waker));
    }
    let mut last = lane.ticket(99).submit().unwrap();
    assert!(!poll_once(&mut last, &waker));
    double.set(|l| &l.die, true);
    assert!(readable().1);
    assert_eq!(driver.check().unwrap_err().code, ErrorCode::Disconnected);
    assert_eq!(count.0.load(Ordering::SeqCst), 51);
    assert!(session.shared().reopen().driver.helper.is_none());
    drop((lane, last, session));
    assert_eq!(driver.turn().unwrap_err().code, ErrorCode::Disconnected);
}
