//! How much of FILL's time a session may spend on hot looking: a token bucket of nanoseconds.
//!
//! The sessions that have asked to look lately share `spin_budget_percent` of one core evenly: each
//! bucket fills at its share and is charged for the hot time that its lanes take part in, so that
//! the sum of what is spent stays within the percentage. Who merely waits takes no share. What a
//! session does not use in [`CAPACITY_NS`] is lost, not saved up.

use crate::core::time::{DurNs, MonoNs};

/// Wall time whose share a bucket holds at most, in nanoseconds; and for so long, at least, who has
/// asked counts as one of those that share.
pub const CAPACITY_NS: u64 = 20_000_000;

/// What a bucket must hold for its session to begin looking hot, in nanoseconds: less would buy a
/// few looks at the price of going from hot to asleep and back.
pub const QUANTUM_NS: i64 = 20_000;

/// How many sessions share: those that have asked in this piece of time or the one before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sharers {
    piece: u64,
    here: u32,
    before: u32,
}

impl Sharers {
    /// Counts a session that asks at `now`; `asked` is its memory of when it last did. Answers how
    /// many share, itself among them.
    fn count(&mut self, now: MonoNs, asked: &mut u64) -> u32 {
        // From 1 on: a session that has never asked remembers 0.
        let piece = now.0 / CAPACITY_NS + 1;
        if piece != self.piece {
            let follows = piece == self.piece + 1;
            self.before = if follows { self.here } else { 0 };
            (self.piece, self.here) = (piece, 0);
        }
        if core::mem::replace(asked, piece) != piece {
            self.here += 1;
        }
        self.here.max(self.before)
    }
}

/// A session's bucket.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    tokens_ns: i64,
    filled: MonoNs,
    asked: u64,
}

impl Budget {
    /// A full bucket.
    pub fn new(percent: u32) -> Budget {
        Budget { tokens_ns: share(CAPACITY_NS, percent, 1), filled: MonoNs(0), asked: 0 }
    }

    /// Fills the bucket up to `now` and tells whether there is enough in it: a quantum to begin,
    /// anything to go on.
    pub fn may_spend(
        &mut self,
        now: MonoNs,
        percent: u32,
        sharers: &mut Sharers,
        go_on: bool,
    ) -> bool {
        let sharers = sharers.count(now, &mut self.asked);
        let elapsed = now.since(self.filled).0.min(CAPACITY_NS);
        self.filled = now;
        let full = share(CAPACITY_NS, percent, 1);
        self.tokens_ns = (self.tokens_ns + share(elapsed, percent, sharers)).min(full);
        self.tokens_ns >= if go_on { 1 } else { QUANTUM_NS }
    }

    /// Takes what was spent.
    pub fn charge(&mut self, spent: DurNs) {
        self.tokens_ns -= spent.0.min(CAPACITY_NS) as i64;
    }

    /// Whether the bucket was empty after the last charge.
    pub fn is_empty(&self) -> bool {
        self.tokens_ns <= 0
    }
}

fn share(ns: u64, percent: u32, sharers: u32) -> i64 {
    (ns * u64::from(percent) / 100 / u64::from(sharers.max(1))) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: DurNs = DurNs(10_000);
    const END: u64 = 2_000_000_000;

    /// What these buckets spend together, in percent, if each spends all that it may.
    fn spent(buckets: &mut [Budget], percent: u32) -> u64 {
        let mut sharers = Sharers::default();
        let mut spent = 0;
        for now in (0..END).step_by(STEP.0 as usize) {
            let each = STEP.0 / buckets.len() as u64;
            for bucket in &mut *buckets {
                if bucket.may_spend(MonoNs(now), percent, &mut sharers, true) {
                    bucket.charge(DurNs(each));
                    spent += each;
                }
            }
        }
        spent * 100 / END
    }

    #[test]
    fn sharers_together_spend_no_more_than_the_percentage() {
        for count in [1, 3, 10] {
            let percent = spent(&mut vec![Budget::new(30); count], 30);
            assert!((28..=33).contains(&percent), "{count}: {percent}");
        }
    }

    #[test]
    fn who_has_stopped_asking_takes_no_share() {
        let mut sharers = Sharers::default();
        let mut asked = [0; 3];
        let mut count = |at: u64, who: usize| sharers.count(MonoNs(at), &mut asked[who]);
        assert_eq!([count(5, 0), count(6, 1), count(7, 1), count(8, 2)], [1, 2, 2, 3]);
        assert_eq!(count(CAPACITY_NS + 5, 0), 3, "they have asked lately");
        assert_eq!(count(2 * CAPACITY_NS + 5, 0), 1, "and not since");
        assert_eq!(count(9 * CAPACITY_NS, 1), 1);
    }

    #[test]
    fn nothing_is_spent_at_zero_percent() {
        assert_eq!(spent(&mut [Budget::new(0)], 0), 0);
    }
}
