//! Time as the core sees it: an input.
//!
//! A [`MonoNs`] is an instant, nanoseconds on a monotonic clock whose zero means nothing; a
//! [`DurNs`] is a length of time in nanoseconds. Both saturate: an instant that would lie beyond
//! the clock's end is its end, and no length is negative. What reads a clock, sleeps or idles is
//! given to the core through the traits below, so that a virtual clock can stand in for any.

use core::fmt;
use core::future::Future;
use core::ops::Add;

use super::line::{CompletionLine, LineValues};

/// An instant: nanoseconds on a monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct MonoNs(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DurNs(pub u64);

impl MonoNs {
    /// The end of time: no clock reaches it, so it stands for "never".
    pub const MAX: MonoNs = MonoNs(u64::MAX);

    /// The time from `earlier` to here; zero if `earlier` is later.
    pub const fn since(self, earlier: MonoNs) -> DurNs {
        DurNs(self.0.saturating_sub(earlier.0))
    }
}

impl DurNs {
    /// No time.
    pub const ZERO: DurNs = DurNs(0);
    /// The longest length.
    pub const MAX: DurNs = DurNs(u64::MAX);

    /// `us` microseconds, saturating.
    pub const fn from_us(us: u64) -> DurNs {
        DurNs(us.saturating_mul(1000))
    }

    /// Whole microseconds, rounded down.
    pub const fn as_us(self) -> u64 {
        self.0 / 1000
    }

    /// This length less `other`; zero if `other` is longer.
    pub const fn saturating_sub(self, other: DurNs) -> DurNs {
        DurNs(self.0.saturating_sub(other.0))
    }
}

impl Add<DurNs> for MonoNs {
    type Output = MonoNs;

    fn add(self, after: DurNs) -> MonoNs {
        MonoNs(self.0.saturating_add(after.0))
    }
}

impl Add for DurNs {
    type Output = DurNs;

    fn add(self, more: DurNs) -> DurNs {
        DurNs(self.0.saturating_add(more.0))
    }
}

impl fmt::Display for DurNs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} us", self.0 / 1000, self.0 % 1000)
    }
}

/// Tells the time. Never goes back.
pub trait Clock {
    /// The current instant.
    fn now(&self) -> MonoNs;
}

/// Suspends a task for a time.
pub trait Timer {
    /// Completes when the clock has reached `at`, at once if it has already. Dropping the future
    /// leaves nothing registered.
    fn sleep_until(&self, at: MonoNs) -> impl Future<Output = ()>;
}

/// How an executor's thread idles when no task is ready. Both calls may return early: the caller
/// looks at the clock and at every word again.
pub trait Idle {
    /// Sleeps until `at`.
    fn sleep_until(&self, at: MonoNs);

    /// Parks until a word of `line` differs from what `seen` has, or until `until`, whichever is
    /// first. `seen` was read before the caller's last look, so a store since then ends the park.
    fn park_line(&self, line: &CompletionLine, seen: &LineValues, until: MonoNs);
}

impl<C: Clock> Clock for &C {
    fn now(&self) -> MonoNs {
        (*self).now()
    }
}

impl<T: Timer> Timer for &T {
    fn sleep_until(&self, at: MonoNs) -> impl Future<Output = ()> {
        (*self).sleep_until(at)
    }
}

impl<I: Idle> Idle for &I {
    fn sleep_until(&self, at: MonoNs) {
        (*self).sleep_until(at);
    }

    fn park_line(&self, line: &CompletionLine, seen: &LineValues, until: MonoNs) {
        (*self).park_line(line, seen, until);
    }
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
