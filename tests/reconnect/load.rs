//! A session under load, and what counts as an end.

use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use parkd::client::{Lane, PlanId, Session, Status, Ticket, Width};
use rustix::event::{EventfdFlags, eventfd};

use crate::support::{PATIENCE, until};

/// Looks until something has happened.
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    until(what, || happened().then_some(()));
}

/// A counter of one's own.
pub fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}

/// Makes it readable.
pub fn write(event: &OwnedFd) {
    rustix::io::write(event, &1u64.to_ne_bytes()).unwrap();
}

/// Its end, within patience.
pub fn end_of(mut ticket: Ticket) -> Status {
    ticket.wait_for(PATIENCE).unwrap().expect("an end: it was lost").status
}

/// The smallest executor: one task, one thread.
pub fn block_on(mut ticket: Ticket) -> Status {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let begun = Instant::now();
    loop {
        let polled = Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker));
        match polled {
            Poll::Ready(end) => return end.unwrap().status,
            Poll::Pending => thread::park_timeout(PATIENCE),
        }
        assert!(begun.elapsed() < PATIENCE, "an end: it was lost");
    }
}

/// A device: it stores what it is told, a moment later.
pub fn device() -> (Sender<(Lane, u64)>, thread::JoinHandle<()>) {
    let (orders, work) = channel::<(Lane, u64)>();
    let device = thread::spawn(move || {
        for (lane, target) in work {
            (0..200).for_each(|_| thread::yield_now());
            lane.store(target);
        }
    });
    (orders, device)
}

/// What the workers under load have in common.
pub struct Load {
    /// The session.
    pub session: Session,
    stop: AtomicBool,
    tickets: AtomicU64,
}

impl Load {
    /// No work yet.
    pub fn of(session: Session) -> Load {
        Load { session, stop: AtomicBool::new(false), tickets: AtomicU64::new(0) }
    }

    /// Whether the workers are to go on.
    pub fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Lets the workers end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Does something in the middle of the work, and waits until work is done after it.
    pub fn over(&self, what: impl FnOnce()) {
        let before = self.tickets.load(Ordering::Relaxed);
        what();
        let after = || self.tickets.load(Ordering::Relaxed);
        eventually("work", || after() > before + 100);
    }

    /// All of it, by five threads, while `meanwhile` runs.
    pub fn run(&self, plan: PlanId, meanwhile: impl FnOnce()) {
        thread::scope(|scope| {
            scope.spawn(|| self.words(plan, end_of));
            scope.spawn(|| self.words(plan, end_of));
            scope.spawn(|| self.words(plan, block_on));
            scope.spawn(|| self.tagged());
            scope.spawn(|| self.fds());
            meanwhile();
            self.stop();
        });
        assert_eq!((self.session.strays(), self.session.live()), (0, Ok(())));
        eventually("every slot", || self.session.room().unwrap() == 64);
    }

    /// Counts a ticket.
    pub fn count(&self) {
        self.tickets.fetch_add(1, Ordering::Relaxed);
    }

    /// One thread, two lanes: tickets waited for by `wait`.
    pub fn words(&self, plan: PlanId, wait: impl Fn(Ticket) -> Status) {
        let lanes = [self.session.lane().unwrap(), self.session.lane().unwrap()];
        let (orders, device) = device();
        while self.goes_on() {
            for lane in &lanes {
                let target = lane.next_target();
                let ticket = lane.ticket(target).plan(plan).submit_blocking().unwrap();
                orders.send((lane.clone(), target)).unwrap();
                assert_eq!(wait(ticket), Status::Done);
                assert!(lane.reached(target), "early");
                self.count();
            }
        }
        drop((orders, lanes));
        device.join().unwrap();
    }

    /// Tagged tickets, several of them at a time: each comes back once.
    pub fn tagged(&self) {
        let lane = self.session.lane_on_device("default", Width::W32).unwrap();
        let (orders, device) = device();
        while self.goes_on() {
            let targets: Vec<u64> = (0..8).map(|_| lane.next_target()).collect();
            let tickets = targets.iter().map(|target| (lane.ticket(*target), *target));
            self.session.submit_all_tagged(tickets).unwrap();
            orders.send((lane.clone(), targets[7])).unwrap();
            let mut seen = Vec::new();
            while seen.len() < 8 {
                let next = self.session.next_completion(Some(PATIENCE)).unwrap();
                let (tag, end) = next.expect("a result: it was lost");
                assert!(end.is_done() && lane.reached(tag), "early: {tag} {end:?}");
                seen.push(tag);
                self.count();
            }
            seen.sort_unstable();
            assert_eq!(seen, targets, "twice, or another's");
        }
        drop(orders);
        device.join().unwrap();
    }

    /// Tickets on fds, and lanes that come and go.
    pub fn fds(&self) {
        while self.goes_on() {
            let event = event();
            let ticket = self.session.fd_ticket(&event).submit().unwrap();
            let lane = self.session.lane().unwrap();
            let target = lane.next_target();
            let other = lane.ticket(target).submit_blocking().unwrap();
            write(&event);
            assert_eq!(end_of(ticket), Status::Done);
            other.cancel().unwrap();
            assert_eq!(end_of(other), Status::Cancelled);
            lane.close().unwrap();
            self.count();
        }
    }
}
