//! A waker: raises words and wakes their waiters, in races with the arming of the next wait.
//!
//! Its rounds are *pairs*: the ring's waiter is woken, then the plain one, or the other way round,
//! and each has acted on its wake before the next is made. The next comes at once or a random
//! moment later, so that it meets the arming at every step of its way. One round in four leaves a
//! random gap between the raise and the wake, which then may hit the next wait; one in sixteen
//! raises and wakes several times.

use std::time::{Duration, Instant};

use parkd::core::time::{DurNs, MonoNs};
use parkd::host::held::Held;
use parkd::host::{clock, futex};
use serde::{Deserialize, Serialize};

use crate::pit::{Acted, Seen, WakerSide};
use crate::scenario::{Gap, Scenario};
use crate::tally::Tally;

/// How long a waiter may take before this process gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a waker measured of its two waiters.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Woken {
    pub ring: Tally,
    pub plain: Tally,
}

/// Which words of the ring's waiter this waker raises.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub first: u32,
    pub count: u32,
}

/// A waiter as its waker knows it.
struct Waiter {
    side: WakerSide,
    /// How long it had been held up by when it was last seen to act.
    held_ns: u64,
    /// How long this process has been.
    own: Held,
    tally: Tally,
}

impl Waiter {
    fn new(side: WakerSide) -> Waiter {
        Waiter { side, held_ns: 0, own: Held::of_current(), tally: Tally::default() }
    }
}

pub struct Waker {
    ring: Waiter,
    plain: Waiter,
    share: Share,
    scenario: &'static Scenario,
    random: u64,
}

impl Waker {
    pub fn new(
        ring: WakerSide,
        plain: WakerSide,
        share: Share,
        scenario: &'static Scenario,
    ) -> Waker {
        let random = clock::now().0 ^ u64::from(std::process::id()) << 40 | 1;
        let (ring, plain) = (Waiter::new(ring), Waiter::new(plain));
        Waker { ring, plain, share, scenario, random }
    }

    /// Wakes for this long; the second half with a second thread in the process.
    pub fn run(mut self, length: Duration) -> Result<Woken, String> {
        let (start, mut single, mut round) = (Instant::now(), true, 0_u64);
        while start.elapsed() < length {
            if single && start.elapsed() > length / 2 {
                single = false;
                std::thread::spawn(|| {
                    loop {
                        std::thread::park();
                    }
                });
            }
            round += 1;
            for first in [round.is_multiple_of(2), !round.is_multiple_of(2)] {
                if first { self.ring()? } else { self.plain()? }
            }
        }
        Ok(Woken { ring: self.ring.tally.packed(), plain: self.plain.tally.packed() })
    }

    fn ring(&mut self) -> Result<(), String> {
        let word = self.share.first + self.below(u64::from(self.share.count)) as u32;
        let readonly = self.scenario.readonly;
        let plan = self.plan();
        self.ring.wake(word, readonly, &plan).map_err(|text| format!("ring: {text}"))
    }

    fn plain(&mut self) -> Result<(), String> {
        let readonly = self.scenario.readonly;
        let plan = self.plan();
        self.plain.wake(0, readonly, &plan).map_err(|text| format!("plain: {text}"))
    }

    /// How the next wake is made.
    fn plan(&mut self) -> Plan {
        let rest = match self.scenario.gap {
            Gap::Race => Duration::ZERO,
            Gap::Rest => Duration::from_nanos(self.below(3_000_000)),
        };
        Plan {
            rest,
            delay_ns: self.below(4_000),
            gap_ns: if self.below(4) == 0 { self.below(4_000) } else { 0 },
            times: if self.below(16) == 0 { 3 } else { 1 },
        }
    }

    /// A number below `bound`, from xorshift.
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }
}

/// How one wake is made.
struct Plan {
    /// Asleep before it.
    rest: Duration,
    /// Looking at the clock before it.
    delay_ns: u64,
    /// Between the raise and the wake.
    gap_ns: u64,
    times: u32,
}

impl Waiter {
    /// Raises a word, wakes the waiter, and waits until it has acted on it.
    fn wake(&mut self, word: u32, readonly: bool, plan: &Plan) -> Result<(), String> {
        if !plan.rest.is_zero() {
            std::thread::sleep(plan.rest);
        }
        pass(plan.delay_ns);
        let (mut from, mut count) = (MonoNs(0), 0);
        let own = self.own.so_far();
        let address = self.side.address(word, readonly);
        for _ in 0..plan.times {
            // What is late is counted from the last: the waiter may act on any of them.
            from = clock::now();
            count = self.side.raise(word);
            pass(plan.gap_ns);
            futex::wake_one(address).map_err(|error| format!("wake: {error}"))?;
        }
        let own = self.own.so_far().saturating_sub(own);
        let acted = self.acted(word, count);
        let acted = acted.ok_or(format!("word {word}: no act within {PATIENCE:?}"))?;
        if let Acted::First(Seen { at, held_ns }) = acted {
            let held = held_ns.saturating_sub(std::mem::replace(&mut self.held_ns, held_ns));
            self.tally.add(at.since(from), own + DurNs(held));
        }
        Ok(())
    }

    /// What the waiter did about a count, once it has.
    fn acted(&self, word: u32, count: u32) -> Option<Acted> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            for _ in 0..64 {
                match self.side.acted(word, count) {
                    Acted::NotYet => std::hint::spin_loop(),
                    acted => return Some(acted),
                }
            }
            std::thread::yield_now();
        }
        None
    }
}

/// Looks at the clock until so much has passed.
fn pass(ns: u64) {
    let end = clock::now() + DurNs(ns);
    while ns > 0 && clock::now() < end {
        std::hint::spin_loop();
    }
}
