//! How often a user may do something: a token bucket for each uid.
//!
//! A bucket is kept as the time at which it is full again, so that one at rest needs no keeping.
//! (The generic cell rate algorithm, ITU-T I.371.)

use std::collections::HashMap;

use crate::core::time::{DurNs, MonoNs};

/// Users that are kept before those at rest are forgotten.
const USERS: usize = 1024;

/// The buckets of all users.
pub struct Rates {
    /// Between two, in the long run.
    interval: DurNs,
    /// What a full bucket allows at once, as time.
    burst: DurNs,
    full_at: HashMap<u32, MonoNs>,
}

impl Rates {
    /// `per_second` a second in the long run, and `burst` at once; 0 counts as 1.
    pub fn new(per_second: u32, burst: u32) -> Rates {
        let interval = DurNs(1_000_000_000 / u64::from(per_second.max(1)));
        let burst = DurNs(interval.0 * u64::from(burst.max(1)));
        Rates { interval, burst, full_at: HashMap::new() }
    }

    /// Whether a user may go on at `now`.
    ///
    /// # Errors
    /// How long it is to wait.
    pub fn check(&self, uid: u32, now: MonoNs) -> Result<(), DurNs> {
        let full_at = self.full_at.get(&uid).copied().unwrap_or(now);
        let wanted = full_at.since(now) + self.interval;
        match wanted <= self.burst {
            true => Ok(()),
            false => Err(DurNs(wanted.0 - self.burst.0)),
        }
    }

    /// A user does `count` of it at `now`, which [`Rates::check`] has allowed.
    pub fn spend(&mut self, uid: u32, count: u32, now: MonoNs) {
        if self.full_at.len() >= USERS {
            self.full_at.retain(|_, full_at| *full_at > now);
        }
        let full_at = self.full_at.entry(uid).or_insert(now);
        *full_at = (*full_at).max(now) + DurNs(self.interval.0 * u64::from(count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> MonoNs {
        MonoNs(77_000_000_000 + ms * 1_000_000)
    }

    /// How many of `tries` at one instant are allowed.
    fn allowed(rates: &mut Rates, uid: u32, tries: u32, now: MonoNs) -> u32 {
        let mut count = 0;
        for _ in 0..tries {
            if rates.check(uid, now).is_ok() {
                rates.spend(uid, 1, now);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn a_full_bucket_allows_its_burst_and_fills_again_with_time() {
        let mut rates = Rates::new(4, 10);
        assert_eq!(allowed(&mut rates, 1, 50, at(0)), 10);
        assert_eq!(rates.check(1, at(0)), Err(DurNs::from_us(250_000)));
        assert_eq!(rates.check(1, at(100)), Err(DurNs::from_us(150_000)));
        assert_eq!(allowed(&mut rates, 1, 50, at(250)), 1);
        assert_eq!(allowed(&mut rates, 1, 50, at(1250)), 4);
        assert_eq!(allowed(&mut rates, 1, 50, at(100_000)), 10, "never more than full");
    }

    #[test]
    fn users_do_not_share_a_bucket_and_those_at_rest_are_forgotten() {
        let mut rates = Rates::new(1, 2);
        for uid in 0..USERS as u32 {
            assert_eq!(allowed(&mut rates, uid, 3, at(0)), 2);
        }
        assert_eq!(allowed(&mut rates, 9999, 3, at(2000)), 2);
        assert_eq!(rates.full_at.len(), 1);
    }

    #[test]
    fn many_at_once_are_paid_for_later() {
        let mut rates = Rates::new(1000, 1000);
        rates.spend(1, 3000, at(0));
        assert_eq!(rates.check(1, at(2000)), Err(DurNs::from_us(1000)));
        assert_eq!(rates.check(1, at(2001)), Ok(()));
    }
}
