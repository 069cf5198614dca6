//! One waiter's stream as the waiter sees it, and what it takes down.
//!
//! A word and, in an area of their own, the *stamps* of its last numbers: when each was stored.
//! What always holds: a latency runs from the store to the waiter's own clock, read as its code
//! runs with the completion; every number of the window has one, also those that had landed before
//! the waiter came to wait for them.

use parkd::core::line::Width;
use parkd::core::time::MonoNs;
use parkd::host::clock;
use parkd::shm::lanes::LanesView;
use parkd::shm::region::{ReadOnly, Region};

use super::super::Result;
use super::super::accounts::Meter;
use super::super::workload::{Schedule, Times};

/// Stamps of one stream.
pub const STAMPS: u32 = 64;

/// The lane of the stamps area that has a number's stamp.
pub fn stamp_lane(place: u32, number: u64) -> u32 {
    place * STAMPS + (number % u64::from(STAMPS)) as u32
}

/// How a completion was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// Nobody saw it come: a sleep by the clock ended, and it was there.
    pub late: bool,
    /// When what the daemon's look found was there to be seen, where that is looked at.
    pub detected: Option<MonoNs>,
}

/// See the file's head.
#[derive(Debug)]
pub struct Watch {
    words: LanesView<Region<ReadOnly>>,
    stamps: LanesView<Region<ReadOnly>>,
    /// Its place among those of the process: the lane of its word.
    pub place: u32,
    /// The number to wait for, while there is one.
    next: u64,
    ideal: Option<MonoNs>,
    schedule: Schedule,
    times: Times,
    meter: Option<Meter>,
    pub sums: Sums,
}

/// What a waiter has taken down.
#[derive(Debug, Default)]
pub struct Sums {
    pub wakes: Vec<u32>,
    pub detected: Vec<u32>,
    pub late: u64,
}

impl Watch {
    /// The waiter at `place`, of a stream with this schedule.
    pub fn new(
        words: LanesView<Region<ReadOnly>>,
        stamps: LanesView<Region<ReadOnly>>,
        place: u32,
        mut schedule: Schedule,
        times: Times,
        meter: Option<Meter>,
    ) -> Watch {
        // Room for all, so that the window sees no growth.
        let room = schedule.clone().filter(|at| times.holds(*at)).count();
        let (wakes, detected) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let sums = Sums { wakes, detected, late: 0 };
        let ideal = schedule.next();
        Watch { words, stamps, place, next: 1, ideal, schedule, times, meter, sums }
    }

    /// The number to wait for; none when all have come.
    pub fn next(&self) -> Option<u64> {
        self.ideal.map(|_| self.next)
    }

    /// The word.
    pub fn word(&self) -> u64 {
        self.words.load(self.place)
    }

    /// Whether the word has reached a number.
    pub fn reached(&self, number: u64) -> bool {
        Width::W64.reached(self.word(), number)
    }

    /// The waiter runs with the completion of the number that it waited for.
    pub fn done(&mut self, found: Found) -> Result<()> {
        // The clock first: what it takes to look is not latency.
        let now = clock::now();
        let (number, Some(ideal)) = (self.next, self.ideal) else {
            return Err("a completion of no number".into());
        };
        if !self.reached(number) || now < ideal {
            return Err(format!("number {number} completed before it was stored"));
        }
        // A stamp that was written over is that of a very late wake: the time at which the number
        // was due stands in, before which it was not stored.
        let stored = self.stamp(number).unwrap_or(ideal);
        // By when it was due, so that every contender's window holds the same numbers.
        if self.times.holds(ideal) {
            let to = |at: MonoNs| u32::try_from(at.since(stored).0).unwrap_or(u32::MAX);
            self.sums.wakes.push(to(now));
            self.sums.detected.extend(found.detected.map(to));
            self.sums.late += u64::from(found.late);
        }
        self.next += 1;
        self.ideal = self.schedule.next();
        self.meter.as_mut().map_or(Ok(()), |meter| meter.tick(now))
    }

    fn stamp(&self, number: u64) -> Option<MonoNs> {
        // With Acquire, before the word: pairs with the producer's order of stores.
        let stamp = self.stamps.load(stamp_lane(self.place, number));
        let ahead = self.word().wrapping_sub(number);
        (ahead < u64::from(STAMPS) - 1).then_some(MonoNs(stamp))
    }

    /// What it took down, and the process's account where it kept that.
    pub fn end(self) -> (Sums, Option<Meter>) {
        (self.sums, self.meter)
    }
}
