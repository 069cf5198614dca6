//! Clocks: CLOCK_MONOTONIC as the core's clock, CPU time, and timer slack.
//!
//! All times are nanoseconds. CLOCK_MONOTONIC does not count suspend and is what every absolute
//! deadline of the host means; it is read through the vDSO, without a system call.

use std::io;
use std::num::NonZeroU64;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::core::time::{Clock, DurNs, MonoNs};

const NS_PER_S: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC now.
pub fn now() -> MonoNs {
    MonoNs(ns_of(clock_gettime(ClockId::Monotonic)))
}

/// CPU time that the calling thread has used.
pub fn thread_cpu() -> DurNs {
    DurNs(ns_of(clock_gettime(ClockId::ThreadCPUTime)))
}

/// CPU time that all threads of this process have used.
pub fn process_cpu() -> DurNs {
    DurNs(ns_of(clock_gettime(ClockId::ProcessCPUTime)))
}

/// Makes the calling thread's sleeps in futex(2), epoll and nanosleep end at most `ns` late by
/// the kernel's choice (its default is 50 us; 1 is the least). The ring's waits carry no slack.
pub fn set_timer_slack(ns: NonZeroU64) -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(Some(ns))?)
}

/// CLOCK_MONOTONIC as the core's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonoClock;

impl Clock for MonoClock {
    fn now(&self) -> MonoNs {
        now()
    }
}

/// A Timespec for an absolute time.
pub(crate) fn timespec_at(at: MonoNs) -> Timespec {
    // Both parts fit: u64::MAX ns is 18.4e9 s.
    Timespec { tv_sec: (at.0 / NS_PER_S) as i64, tv_nsec: (at.0 % NS_PER_S) as _ }
}

/// A Timespec for the time from now until `at`; zero where `at` has passed.
pub(crate) fn timespec_until(at: MonoNs) -> Timespec {
    timespec_at(MonoNs(at.since(now()).0))
}

fn ns_of(t: Timespec) -> u64 {
    // The kernel's monotonic and CPU clocks are never negative.
    t.tv_sec as u64 * NS_PER_S + t.tv_nsec as u64
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
