//! The reactor: what the tasks of one thread wait for, and how that thread idles meanwhile.
//!
//! A *watch* is a future that waits for a completion word, a *sleep* one that waits for a time;
//! each is registered from its first poll until it is fired or dropped. Firing takes the
//! registration out and wakes its task. What always holds: every watched word is looked at in
//! every [`fire`](Reactor::fire), not only the words of the line that the thread parks on, and a
//! park never lasts longer than the bound the reactor was made with.

use alloc::collections::BTreeMap;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::ops::Bound;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use super::line::{CompletionLine, MemoryDescriptor};
use super::time::{Clock, DurNs, Idle, MonoNs, Timer};

/// The waits of one thread's tasks.
#[derive(Debug)]
pub struct Reactor<'l, C, I> {
    clock: C,
    idle: I,
    park: DurNs,
    // Registrations are numbered, and numbers are never used again.
    numbers: Cell<u64>,
    words: RefCell<BTreeMap<u64, (MemoryDescriptor<'l>, Waker)>>,
    times: RefCell<BTreeMap<(MonoNs, u64), Waker>>,
    // The watch whose line was parked on last.
    parked_on: Cell<u64>,
}

/// What one [`turn`](Reactor::turn) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// So many registrations were fired.
    Woke(usize),
    /// The thread slept, for so long.
    Slept(DurNs),
    /// The thread was parked on a line, for so long.
    Parked(DurNs),
    /// Nothing is registered.
    Nothing,
}

impl<'l, C: Clock, I: Idle> Reactor<'l, C, I> {
    /// A reactor with nothing registered, whose parks last `park` at most.
    pub fn new(clock: C, idle: I, park: DurNs) -> Self {
        Reactor {
            clock,
            idle,
            park,
            numbers: Cell::new(0),
            words: RefCell::default(),
            times: RefCell::default(),
            parked_on: Cell::new(0),
        }
    }

    /// Its clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Waits until the word has reached its target: true; or until `until`: false.
    pub fn watch(
        &self,
        descriptor: MemoryDescriptor<'l>,
        until: Option<MonoNs>,
    ) -> Watch<'_, 'l, C, I> {
        let deadline = Sleep { reactor: self, at: until.unwrap_or(MonoNs::MAX), number: None };
        Watch { descriptor, deadline, number: None }
    }

    /// Waits until `at`; [`MonoNs::MAX`] never comes.
    pub fn sleep(&self, at: MonoNs) -> Sleep<'_, 'l, C, I> {
        Sleep { reactor: self, at, number: None }
    }

    /// Registrations at present.
    pub fn registered(&self) -> usize {
        self.words.borrow().len() + self.times.borrow().len()
    }

    /// Wakes the tasks whose word has reached its target or whose time has come. How many.
    pub fn fire(&self) -> usize {
        self.fire_words() + self.fire_times()
    }

    /// For a thread with nothing ready: fires; else idles once. It sleeps to the earliest time
    /// where no word is watched, and is parked on a watched line, to the bound or the earliest
    /// time, where one is.
    pub fn turn(&self) -> Turn {
        // The line's values come first: a store after them ends the park, one before them is seen
        // by the look in `fire`.
        let line = self.next_line().map(|line| (line, line.values()));
        let woke = self.fire();
        if woke > 0 {
            return Turn::Woke(woke);
        }
        let earliest = self.times.borrow().keys().next().map(|&(at, _)| at);
        let start = self.clock.now();
        match (line, earliest) {
            (Some((line, seen)), earliest) => {
                let until = (start + self.park).min(earliest.unwrap_or(MonoNs::MAX));
                self.idle.park_line(line, &seen, until);
                Turn::Parked(self.clock.now().since(start))
            }
            (None, Some(at)) => {
                self.idle.sleep_until(at);
                Turn::Slept(self.clock.now().since(start))
            }
            (None, None) => Turn::Nothing,
        }
    }

    /// The line of the watch after the one parked on last, so that each has its turn.
    fn next_line(&self) -> Option<&'l CompletionLine> {
        let words = self.words.borrow();
        let after = (Bound::Excluded(self.parked_on.get()), Bound::Unbounded);
        let (&number, (descriptor, _)) = words.range(after).next().or(words.iter().next())?;
        self.parked_on.set(number);
        Some(descriptor.line)
    }

    fn fire_words(&self) -> usize {
        let (mut fired, mut looked_to) = (0, 0);
        while let Some((number, waker)) = self.take_reached(looked_to) {
            looked_to = number;
            fired += 1;
            waker.wake();
        }
        fired
    }

    /// Takes out the first watch after number `after` whose word has reached its target.
    fn take_reached(&self, after: u64) -> Option<(u64, Waker)> {
        let mut words = self.words.borrow_mut();
        let mut rest = words.range((Bound::Excluded(after), Bound::Unbounded));
        let (&number, _) = rest.find(|(_, (word, _))| word.is_reached())?;
        words.remove(&number).map(|(_, waker)| (number, waker))
    }

    fn fire_times(&self) -> usize {
        if self.times.borrow().is_empty() {
            return 0;
        }
        let (mut fired, now) = (0, self.clock.now());
        while let Some(waker) = self.take_expired(now) {
            fired += 1;
            waker.wake();
        }
        fired
    }

    fn take_expired(&self, now: MonoNs) -> Option<Waker> {
        let mut times = self.times.borrow_mut();
        times.first_entry().filter(|entry| entry.key().0 <= now).map(|entry| entry.remove())
    }

    /// A number that no registration has; never 0.
    fn number(&self) -> u64 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }
}

impl<C: Clock, I: Idle> Timer for Reactor<'_, C, I> {
    fn sleep_until(&self, at: MonoNs) -> impl Future<Output = ()> {
        self.sleep(at)
    }
}

// Wakers are called and dropped outside the borrows: either may drop a future of this reactor.

fn register<K: Ord, V>(registry: &RefCell<BTreeMap<K, V>>, key: K, value: V) {
    let replaced = registry.borrow_mut().insert(key, value);
    drop(replaced);
}

fn unregister<K: Ord, V>(registry: &RefCell<BTreeMap<K, V>>, key: K) {
    let removed = registry.borrow_mut().remove(&key);
    drop(removed);
}

/// Waits for a time. Made by [`Reactor::sleep`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Sleep<'r, 'l, C, I> {
    reactor: &'r Reactor<'l, C, I>,
    at: MonoNs,
    number: Option<u64>,
}

impl<C: Clock, I: Idle> Future for Sleep<'_, '_, C, I> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.at != MonoNs::MAX {
            if self.reactor.clock.now() >= self.at {
                return Poll::Ready(());
            }
            let reactor = self.reactor;
            let number = *self.number.get_or_insert_with(|| reactor.number());
            register(&reactor.times, (self.at, number), context.waker().clone());
        }
        Poll::Pending
    }
}

impl<C, I> Drop for Sleep<'_, '_, C, I> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            unregister(&self.reactor.times, (self.at, number));
        }
    }
}

/// Waits for a word. Made by [`Reactor::watch`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Watch<'r, 'l, C, I> {
    descriptor: MemoryDescriptor<'l>,
    deadline: Sleep<'r, 'l, C, I>,
    number: Option<u64>,
}

impl<C: Clock, I: Idle> Future for Watch<'_, '_, C, I> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        if self.descriptor.is_reached() {
            return Poll::Ready(true);
        }
        if Pin::new(&mut self.deadline).poll(context).is_ready() {
            return Poll::Ready(false);
        }
        let reactor = self.deadline.reactor;
        let number = *self.number.get_or_insert_with(|| reactor.number());
        let watch = (self.descriptor, context.waker().clone());
        register(&reactor.words, number, watch);
        Poll::Pending
    }
}

impl<C, I> Drop for Watch<'_, '_, C, I> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            unregister(&self.deadline.reactor.words, number);
        }
    }
}

#[cfg(test)]
#[path = "reactor_tests.rs"]
mod tests;
