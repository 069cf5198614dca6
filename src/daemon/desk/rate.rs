//! How often each user may do something: a bucket for every uid.

use std::collections::HashMap;

use crate::core::rate::{Bucket, Rate};
use crate::core::time::{DurNs, MonoNs};

/// Users that are kept before those at rest are forgotten.
const USERS: usize = 1024;

/// The buckets of all users.
pub struct Rates {
    rate: Rate,
    buckets: HashMap<u32, Bucket>,
}

impl Rates {
    pub fn new(rate: Rate) -> Rates {
        Rates { rate, buckets: HashMap::new() }
    }

    /// Whether a user may go on at `now`.
    ///
    /// # Errors
    /// How long it is to wait.
    pub fn check(&self, uid: u32, now: MonoNs) -> Result<(), DurNs> {
        self.buckets.get(&uid).map_or(Ok(()), |bucket| bucket.check(&self.rate, 1, now))
    }

    /// A user does it once at `now`, which [`Rates::check`] has allowed.
    pub fn spend(&mut self, uid: u32, now: MonoNs) {
        if self.buckets.len() >= USERS {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        self.buckets.entry(uid).or_default().spend(&self.rate, 1, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_do_not_share_a_bucket_and_those_at_rest_are_forgotten() {
        let mut rates = Rates::new(Rate::new(1, 2));
        let now = |s: u64| MonoNs(s * 1_000_000_000);
        for uid in 0..USERS as u32 {
            for allowed in [true, true, false] {
                assert_eq!(rates.check(uid, now(9)).is_ok(), allowed);
                if allowed {
                    rates.spend(uid, now(9));
                }
            }
        }
        assert_eq!(rates.check(9999, now(11)), Ok(()));
        rates.spend(9999, now(11));
        assert_eq!(rates.buckets.len(), 1);
    }
}
