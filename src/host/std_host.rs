//! The core's clock, timer and idle on the standard library alone: any target, any thread.
//!
//! For waits in process, without a daemon: an executor and a reactor of the core stand on
//! [`StdClock`] and [`StdIdle`]; a single wait that has a thread to itself can use [`StdTimer`].
//! What always holds: times of one [`StdClock`], and of its copies, compare with each other and
//! with nothing else.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::core::line::{CompletionLine, LineValues};
use crate::core::time::{Clock, Idle, MonoNs, Timer};
use crate::host::wordpark::WordPark;

/// A monotonic clock whose zero is when it was made.
#[derive(Clone, Copy, Debug)]
pub struct StdClock {
    zero: Instant,
}

impl StdClock {
    /// A clock that begins now.
    pub fn new() -> StdClock {
        StdClock { zero: Instant::now() }
    }

    /// Blocks the calling thread; never returns early.
    fn sleep_until(&self, at: MonoNs) {
        loop {
            let left = at.since(self.now());
            if left.0 == 0 {
                return;
            }
            std::thread::sleep(Duration::from_nanos(left.0));
        }
    }
}

impl Default for StdClock {
    fn default() -> StdClock {
        StdClock::new()
    }
}

impl Clock for StdClock {
    fn now(&self) -> MonoNs {
        // 584 years fit.
        MonoNs(u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Idles the calling thread: sleeps in the kernel, parks on a line by the CPU's word park.
#[derive(Clone, Copy, Debug)]
pub struct StdIdle {
    clock: StdClock,
    park: WordPark,
}

impl StdIdle {
    /// An idle by this clock and this CPU.
    pub fn new(clock: StdClock) -> StdIdle {
        StdIdle { clock, park: WordPark::detect() }
    }

    /// What parks on lines; its label says how.
    pub fn word_park(&self) -> WordPark {
        self.park
    }
}

impl Idle for StdIdle {
    fn sleep_until(&self, at: MonoNs) {
        self.clock.sleep_until(at);
    }

    fn park_line(&self, line: &CompletionLine, seen: &LineValues, until: MonoNs) {
        self.park.park(line, || line.values() == *seen, &self.clock, until);
    }
}

/// A timer that sleeps inside the poll of its future: for a wait that has a thread to itself.
#[derive(Clone, Copy, Debug)]
pub struct StdTimer {
    clock: StdClock,
}

impl StdTimer {
    /// A timer by this clock.
    pub fn new(clock: StdClock) -> StdTimer {
        StdTimer { clock }
    }
}

impl Timer for StdTimer {
    fn sleep_until(&self, at: MonoNs) -> impl Future<Output = ()> {
        let clock = self.clock;
        async move { clock.sleep_until(at) }
    }
}

#[cfg(test)]
#[path = "std_host_tests.rs"]
mod tests;
