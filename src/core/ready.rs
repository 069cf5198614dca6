//! Which of an executor's tasks are ready: what it shares with their wakers, on any thread.
//!
//! A *place* is where a task is kept; a *signal* is what one task and its wakers share. What always
//! holds: a wake is followed by a poll of that very task, which sees what was done before the
//! wake. The ready bit belongs to the place, which a later task may have taken over: it only says
//! where to look. `fired` belongs to the task and decides.

use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;

use super::sync::{AtomicBool, AtomicU64, Ordering};

/// Places that share a word of ready bits.
pub const GROUP: usize = 64;

/// The ready bits of an executor's places.
#[derive(Debug, Default)]
pub struct ReadySet {
    // Place n has bit n % 64 of word n / 64.
    groups: Vec<Arc<AtomicU64>>,
    // Where the search for the next ready place starts, so that each has its turn.
    cursor: usize,
}

/// What one task and its wakers share.
#[derive(Debug)]
pub struct Signal {
    fired: AtomicBool,
    group: Arc<AtomicU64>,
    bit: u64,
}

impl ReadySet {
    /// The signal of a new task at `place`, as if it had been fired.
    pub fn signal(&mut self, place: usize) -> Arc<Signal> {
        while self.groups.len() <= place / GROUP {
            self.groups.push(Arc::new(AtomicU64::new(0)));
        }
        let group = self.groups[place / GROUP].clone();
        Arc::new(Signal { fired: AtomicBool::new(true), group, bit: 1 << (place % GROUP) })
    }

    /// Takes the first ready place at or after the cursor, around the end.
    pub fn take(&mut self) -> Option<usize> {
        let groups = self.groups.len();
        // The cursor's own group comes first from the cursor on, and last as a whole.
        for step in 0..=groups {
            let at = (self.cursor / GROUP + step) % groups.max(1);
            let from = if step == 0 { u64::MAX << (self.cursor % GROUP) } else { u64::MAX };
            let group = self.groups.get(at)?;
            let found = group.load(Ordering::Relaxed) & from;
            if found != 0 {
                let bit = found.trailing_zeros();
                // Pairs with the Release in `wake_by_ref`: its `fired` is seen by `take_fired`.
                group.fetch_and(!(1 << bit), Ordering::Acquire);
                let place = at * GROUP + bit as usize;
                self.cursor = (place + 1) % (groups * GROUP);
                return Some(place);
            }
        }
        None
    }

    /// Whether any place is ready.
    pub fn any(&self) -> bool {
        self.groups.iter().any(|group| group.load(Ordering::Acquire) != 0)
    }
}

impl Signal {
    /// Whether the task was woken since the last call. To be called before the poll, so that a
    /// wake during it makes the task ready again.
    pub fn take_fired(&self) -> bool {
        // Pairs with the swap in `wake_by_ref`: what was done before a wake is seen by the poll.
        self.fired.swap(false, Ordering::Acquire)
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A waker that finds `fired` set leaves the bit to the one that set it: either the bit's
        // poll is still to come, or it took `fired` after this swap and so sees what this waker
        // did.
        if !self.fired.swap(true, Ordering::Release) {
            self.group.fetch_or(self.bit, Ordering::Release);
        }
    }
}

#[cfg(test)]
#[path = "ready_tests.rs"]
mod tests;
