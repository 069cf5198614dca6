//! The work of a stream: how long each job takes, and when it is done if nobody is late.
//!
//! A *job* is one piece of work of a stream, numbered from 0; job 0 starts at the stream's *t0*
//! and each next one where the one before ends, as in a queue that was filled at once. A job's
//! length is a pure function of the work's seed and the job's number, so a client can know the
//! *ideal* time of every job without asking: what always holds is that no number can honestly be
//! seen before its job's ideal time.

use crate::core::time::{DurNs, MonoNs};

/// Jitter of a whole: lengths from zero to twice the work's.
pub const JITTER_PERMILLE_MAX: u32 = 1000;

/// How long the jobs of a stream take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Chooses the sequence of lengths.
    pub seed: u64,
    /// A job's mean length in nanoseconds.
    pub work_ns: u64,
    /// How far a length may be off the mean, in thousandths of it, either way: 0..=1000.
    pub jitter_permille: u32,
}

impl Work {
    /// The length of job number `job`: uniform in `work_ns` plus or minus its jitter.
    pub fn duration(self, job: u64) -> DurNs {
        let jitter = self.jitter_permille.min(JITTER_PERMILLE_MAX);
        let span = (u128::from(self.work_ns) * u128::from(jitter) / 1000) as u64;
        // A 64-bit fraction scaled to 0..=2*span; u128 holds the product of any two u64.
        let spread = span.saturating_mul(2).saturating_add(1);
        let off = ((u128::from(split_mix(self.seed, job)) * u128::from(spread)) >> 64) as u64;
        DurNs((self.work_ns - span).saturating_add(off))
    }

    /// The ideal completion times of jobs 0, 1, 2, ... of a stream that starts at `t0`. Endless.
    pub fn schedule(self, t0: MonoNs) -> Schedule {
        Schedule { work: self, job: 0, at: t0 }
    }

    /// How many jobs are done within `span` of the start if nobody is late; at most `max`.
    pub fn jobs_within(self, span: DurNs, max: u64) -> u64 {
        let end = MonoNs(span.0);
        let mut schedule = self.schedule(MonoNs(0));
        (0..max).take_while(|_| schedule.next().is_some_and(|at| at <= end)).count() as u64
    }
}

/// Iterator over the ideal completion times of a stream's jobs.
#[derive(Clone, Debug)]
pub struct Schedule {
    work: Work,
    job: u64,
    at: MonoNs,
}

impl Iterator for Schedule {
    type Item = MonoNs;

    fn next(&mut self) -> Option<MonoNs> {
        self.at = self.at + self.work.duration(self.job);
        self.job = self.job.wrapping_add(1);
        Some(self.at)
    }
}

/// SplitMix64: the `index`th output of the generator that starts at `seed`.
/// (G. Steele, D. Lea, C. Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.)
pub const fn split_mix(seed: u64, index: u64) -> u64 {
    const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut z = seed.wrapping_add(GAMMA.wrapping_mul(index.wrapping_add(1)));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
