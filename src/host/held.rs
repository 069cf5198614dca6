//! How long a thread was held up: ready to run, and not running.
//!
//! What tells a late wake from a busy machine: the scheduler counts this for every thread, and a
//! wake that came late is what is left of a delay without it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::core::time::DurNs;

/// Longer than the kernel's line of three numbers.
const LINE_BYTES: usize = 96;

/// The count of one thread. Meant for that thread: elsewhere the number is still that one's.
#[derive(Debug)]
pub struct Held {
    schedstat: Option<File>,
}

impl Held {
    /// The calling thread's.
    pub fn of_current() -> Held {
        Held { schedstat: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// How long in all, since the thread was made; 0 where the kernel does not say.
    pub fn so_far(&self) -> DurNs {
        let mut line = [0; LINE_BYTES];
        let read = self.schedstat.as_ref().and_then(|file| file.read_at(&mut line, 0).ok());
        let line = line.get(..read.unwrap_or(0)).unwrap_or_default();
        // Time on a CPU, time held up, slices.
        let held = std::str::from_utf8(line).ok().and_then(|line| line.split_whitespace().nth(1));
        DurNs(held.and_then(|ns| ns.parse().ok()).unwrap_or(0))
    }
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
