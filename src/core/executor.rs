//! The FILL executor: the tasks of one thread, all of one future type.
//!
//! A *task* is a future that the executor owns. What always holds: a task is polled when it is
//! spawned and then only after its own waker fired, once however often it fired in between; the
//! reactor is fired after every poll, so that a completion that has landed is ready work at once;
//! ready tasks take turns, so that one that wakes itself starves no other; and the thread idles
//! only when nothing is ready. A waker may be fired on any thread, but it does not end an idle:
//! that is for the reactor's registrations.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

use super::error::{Error, ErrorCode, Result};
use super::reactor::{Reactor, Turn};
use super::ready::{ReadySet, Signal};
use super::time::{Clock, Idle};

/// Polls that are made before it is seen whether tasks are left.
const BATCH: usize = 64;

/// What an executor has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStats {
    /// Polls of tasks.
    pub polls: u64,
    /// Registrations of the reactor that were fired.
    pub woke: u64,
    /// Times the thread slept to a time.
    pub slept: u64,
    /// Times the thread was parked on a line.
    pub parked: u64,
    /// Nanoseconds slept and parked.
    pub idle_ns: u64,
}

/// The tasks of one thread.
#[derive(Debug)]
pub struct Executor<F> {
    ready: ReadySet,
    // By place; the places without a task are in `free`.
    tasks: Vec<Option<Task<F>>>,
    free: Vec<usize>,
    stats: RunStats,
}

#[derive(Debug)]
struct Task<F> {
    future: Pin<Box<F>>,
    signal: Arc<Signal>,
    waker: Waker,
}

impl<F: Future<Output = ()>> Executor<F> {
    /// An executor without tasks.
    pub fn new() -> Executor<F> {
        Executor {
            ready: ReadySet::default(),
            tasks: Vec::new(),
            free: Vec::new(),
            stats: RunStats::default(),
        }
    }

    /// Takes a task and polls it.
    pub fn spawn(&mut self, future: F) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.tasks.push(None);
            self.tasks.len() - 1
        });
        let signal = self.ready.signal(place);
        let waker = Waker::from(signal.clone());
        self.tasks[place] = Some(Task { future: Box::pin(future), signal, waker });
        self.poll(place);
    }

    /// Tasks that have not completed.
    pub fn tasks(&self) -> usize {
        self.tasks.len() - self.free.len()
    }

    /// Whether a task is ready to be polled.
    pub fn any_ready(&self) -> bool {
        self.ready.any()
    }

    /// What has been done so far.
    pub fn stats(&self) -> RunStats {
        self.stats
    }

    /// Polls ready tasks, each followed by a [`Reactor::fire`], until none is ready or `most` polls
    /// were made. How many were.
    pub fn run_ready<C: Clock, I: Idle>(
        &mut self,
        reactor: &Reactor<'_, C, I>,
        most: usize,
    ) -> usize {
        let mut polls = 0;
        while polls < most
            && let Some(place) = self.ready.take()
        {
            if self.poll(place) {
                polls += 1;
                self.stats.woke += reactor.fire() as u64;
            }
        }
        polls
    }

    /// Runs until every task has completed.
    ///
    /// # Errors
    /// `Stalled` when tasks are left, none is ready and the reactor has nothing registered. The
    /// tasks are kept: run again once one has been woken.
    pub fn run<C: Clock, I: Idle>(&mut self, reactor: &Reactor<'_, C, I>) -> Result<RunStats> {
        loop {
            if self.run_ready(reactor, BATCH) > 0 {
                continue;
            }
            let left = self.tasks();
            if left == 0 {
                return Ok(self.stats);
            }
            match reactor.turn() {
                Turn::Woke(woke) => self.stats.woke += woke as u64,
                Turn::Slept(length) => {
                    self.stats.slept += 1;
                    self.stats.idle_ns += length.0;
                }
                Turn::Parked(length) => {
                    self.stats.parked += 1;
                    self.stats.idle_ns += length.0;
                }
                // Another thread may have woken a task since the look.
                Turn::Nothing if self.ready.any() => {}
                Turn::Nothing => return Err(stalled(left)),
            }
        }
    }

    /// Polls the task of this place if it was woken. Whether it was.
    fn poll(&mut self, place: usize) -> bool {
        let Some(task) = &mut self.tasks[place] else { return false };
        if !task.signal.take_fired() {
            return false;
        }
        self.stats.polls += 1;
        if task.future.as_mut().poll(&mut Context::from_waker(&task.waker)).is_ready() {
            self.tasks[place] = None;
            self.free.push(place);
        }
        true
    }
}

impl<F: Future<Output = ()>> Default for Executor<F> {
    fn default() -> Executor<F> {
        Executor::new()
    }
}

fn stalled(left: usize) -> Error {
    let detail = format!("executor: {left} tasks left and nothing registered that could wake them");
    Error::new(ErrorCode::Stalled, detail)
}

/// Lets the other ready tasks run, once.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if core::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls `future` once, where it must complete at once.
///
/// # Errors
/// `PendedInline`, naming `site`, if it does not.
pub fn run_inline<T>(site: &str, future: impl Future<Output = T>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => {
            let detail = format!("{site}: the future was pending at its only poll");
            Err(Error::new(ErrorCode::PendedInline, detail))
        }
    }
}

#[cfg(test)]
#[path = "executor_tests.rs"]
mod tests;
