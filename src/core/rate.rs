//! How often something may be done: a rate, and for each who does it a bucket.
//!
//! A bucket is kept as the time at which it is full again, so that one at rest needs no keeping.
//! (The generic cell rate algorithm, ITU-T I.371.)

use super::time::{DurNs, MonoNs};

/// So many a second in the long run, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Between two, in the long run.
    interval: DurNs,
    /// What a full bucket holds, as time.
    burst: DurNs,
}

impl Rate {
    /// `per_second` a second in the long run, 10^9 at most, and `burst` at once; 0 counts as 1.
    pub const fn new(per_second: u32, burst: u32) -> Rate {
        let per_second = if per_second == 0 { 1 } else { per_second };
        let burst = if burst == 0 { 1 } else { burst };
        let interval = 1_000_000_000 / per_second as u64;
        let interval = if interval == 0 { 1 } else { interval };
        Rate { interval: DurNs(interval), burst: DurNs(interval * burst as u64) }
    }
}

/// What one has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    full_at: MonoNs,
}

impl Bucket {
    /// Whether there is enough for `count` at `now`.
    ///
    /// # Errors
    /// How long to wait until there is; for a `count` past the burst there never is.
    pub fn check(&self, rate: &Rate, count: u32, now: MonoNs) -> Result<(), DurNs> {
        let wanted = self.full_at.since(now).0.saturating_add(rate.interval.0 * u64::from(count));
        match wanted <= rate.burst.0 {
            true => Ok(()),
            false => Err(DurNs(wanted - rate.burst.0)),
        }
    }

    /// Takes `count` at `now`, which [`Bucket::check`] has allowed.
    pub fn spend(&mut self, rate: &Rate, count: u32, now: MonoNs) {
        self.full_at = self.full_at.max(now) + DurNs(rate.interval.0 * u64::from(count));
    }

    /// Whether nothing is missing at `now`.
    pub fn is_full(&self, now: MonoNs) -> bool {
        self.full_at <= now
    }
}

/// Milliseconds of a wait, rounded up: how people and clients are told of it.
pub fn wait_ms(wait: DurNs) -> u64 {
    wait.0.div_ceil(1_000_000)
}

#[cfg(test)]
#[path = "rate_tests.rs"]
mod tests;
