//! A stream at work: its jobs in order, each number stored at its time.
//!
//! What always holds: numbers are stored in order, none before its job's ideal time, each behind
//! its stamp. A late host does not move the schedule: the jobs that are due are stored at once and
//! the next one at its own time.

use std::hint::black_box;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};

use super::pages::Pages;
use super::protocol::Stream;
use super::work::split_mix;
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock::{self, now};

/// How long a sleep lasts at most before it looks whether to stop.
const SLICE: DurNs = DurNs(20_000_000);
/// Rounds of computing between two looks at the clock: about a microsecond.
const ROUNDS: u64 = 256;
const NS_PER_S: u64 = 1_000_000_000;

/// Runs the stream's jobs from `t0` on, until they are done, the device faults or `stop` is set.
pub(super) fn run(stream: &Stream, t0: MonoNs, pages: &Pages, stop: &AtomicBool) {
    // Refused only for an argument that this is not; at worst sleeps end 50 us later.
    let _ = clock::set_timer_slack(NonZeroU64::MIN);
    let wait = if stream.cpu { compute_until } else { sleep_until };
    for (job, at) in (0..stream.jobs).zip(stream.work.schedule(t0)) {
        if stream.fault_after == Some(job) || !wait(at, stop) {
            return;
        }
        pages.complete(stream.first.wrapping_add(job));
    }
}

/// Sleeps until `at`; false when told to stop first.
fn sleep_until(at: MonoNs, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let now = now();
        if now >= at {
            return true;
        }
        let until = at.min(now + SLICE).0;
        let until =
            Timespec { tv_sec: (until / NS_PER_S) as i64, tv_nsec: (until % NS_PER_S) as _ };
        // Ended early by a signal, it is tried again.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
    }
}

/// Computes until `at`; false when told to stop first.
fn compute_until(at: MonoNs, stop: &AtomicBool) -> bool {
    let mut sum = 0_u64;
    while now() < at {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        sum = (0..ROUNDS).fold(sum, |sum, round| sum ^ split_mix(sum, black_box(round)));
    }
    black_box(sum);
    !stop.load(Ordering::Relaxed)
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
