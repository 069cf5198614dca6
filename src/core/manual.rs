//! Virtual time, for tests and simulators: a clock that stands until it is moved, a timer that
//! moves it, and an idle that moves it past a script of stores.
//!
//! What always holds: the clock never goes back, and nothing here waits.

use alloc::collections::VecDeque;
use core::cell::RefCell;
use core::future::Future;
use core::sync::atomic::{AtomicU64, Ordering};

use super::line::{CompletionLine, LineValues, Slot};
use super::time::{Clock, DurNs, Idle, MonoNs, Timer};

/// A clock that stands until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at `now`.
    pub const fn new(now: MonoNs) -> ManualClock {
        ManualClock { now_ns: AtomicU64::new(now.0) }
    }

    /// Moves the clock to `at`, unless it is there or past it.
    pub fn advance_to(&self, at: MonoNs) {
        self.now_ns.fetch_max(at.0, Ordering::Relaxed);
    }

    /// Moves the clock on by `by`.
    pub fn advance(&self, by: DurNs) {
        self.advance_to(self.now() + by);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> MonoNs {
        MonoNs(self.now_ns.load(Ordering::Relaxed))
    }
}

/// A timer for one wait alone: a sleep moves the clock to its end at once.
#[derive(Clone, Copy, Debug)]
pub struct ManualTimer<'c> {
    clock: &'c ManualClock,
}

impl<'c> ManualTimer<'c> {
    /// A timer that moves this clock.
    pub const fn new(clock: &'c ManualClock) -> ManualTimer<'c> {
        ManualTimer { clock }
    }
}

impl Timer for ManualTimer<'_> {
    fn sleep_until(&self, at: MonoNs) -> impl Future<Output = ()> {
        let clock = self.clock;
        async move { clock.advance_to(at) }
    }
}

/// An idle that moves the clock, and performs the stores of a script when their time comes.
#[derive(Debug)]
pub struct ManualIdle<'l> {
    clock: &'l ManualClock,
    // By rising time.
    script: RefCell<VecDeque<Store<'l>>>,
}

#[derive(Clone, Copy, Debug)]
struct Store<'l> {
    at: MonoNs,
    line: &'l CompletionLine,
    slot: Slot,
    value: u64,
}

impl<'l> ManualIdle<'l> {
    /// An idle that moves this clock and has an empty script.
    pub fn new(clock: &'l ManualClock) -> ManualIdle<'l> {
        ManualIdle { clock, script: RefCell::default() }
    }

    /// At `at`, `value` is stored into this word, as a device does. Stores of one time are done in
    /// the order they were added.
    pub fn store_at(&self, at: MonoNs, line: &'l CompletionLine, slot: Slot, value: u64) {
        let mut script = self.script.borrow_mut();
        let place = script.partition_point(|store| store.at <= at);
        script.insert(place, Store { at, line, slot, value });
    }

    /// Moves the clock to `at` and performs what the script has until then, each store at its time.
    pub fn advance_to(&self, at: MonoNs) {
        while self.store_next(at) {}
        self.clock.advance_to(at);
    }

    /// Moves the clock to the script's next store and performs it, if it comes by `until`.
    fn store_next(&self, until: MonoNs) -> bool {
        let due = |store: &&Store<'_>| store.at <= until;
        let Some(store) = self.script.borrow().front().filter(due).copied() else { return false };
        self.script.borrow_mut().pop_front();
        self.clock.advance_to(store.at);
        store.line.store(store.slot, store.value);
        true
    }
}

impl Idle for ManualIdle<'_> {
    fn sleep_until(&self, at: MonoNs) {
        self.advance_to(at);
    }

    fn park_line(&self, line: &CompletionLine, seen: &LineValues, until: MonoNs) {
        while line.values() == *seen {
            if !self.store_next(until) {
                self.clock.advance_to(until);
                return;
            }
        }
    }
}

#[cfg(test)]
#[path = "manual_tests.rs"]
mod tests;
