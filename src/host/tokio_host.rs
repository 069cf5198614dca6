//! The core's timer on a tokio runtime.
//!
//! tokio's own timers tick in milliseconds; the sleeps of a wait are finer. So a sleep is a
//! timerfd that the runtime polls. The clock is [`MonoClock`](crate::host::clock::MonoClock).

use std::future::{Future, pending, poll_fn};
use std::io;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::core::time::{MonoNs, Timer};
use crate::host::clock;
use crate::host::polled_fd::PolledFd;

/// A timer for tasks of a tokio runtime with its I/O and its time enabled. Times are those of
/// CLOCK_MONOTONIC. A sleep that is dropped closes its timerfd.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioTimer;

impl Timer for TokioTimer {
    /// # Panics
    /// Outside such a runtime, as tokio does.
    fn sleep_until(&self, at: MonoNs) -> impl Future<Output = ()> {
        sleep_until(at)
    }
}

async fn sleep_until(at: MonoNs) {
    if at == MonoNs::MAX {
        pending::<()>().await;
    }
    if clock::now() < at && fine(at).await.is_err() {
        coarse(at).await;
    }
}

async fn fine(at: MonoNs) -> io::Result<()> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let once =
        Itimerspec { it_interval: clock::timespec_at(MonoNs(0)), it_value: clock::timespec_at(at) };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &once)?;
    let timer = PolledFd::readable(timer)?;
    while clock::now() < at {
        poll_fn(|context| timer.poll(context)).await?;
    }
    Ok(())
}

/// Without a timerfd to spare: late by up to a millisecond or two, never early.
async fn coarse(at: MonoNs) {
    tokio::time::sleep(Duration::from_nanos(at.since(clock::now()).0)).await;
}

#[cfg(test)]
#[path = "tokio_host_tests.rs"]
mod tests;
