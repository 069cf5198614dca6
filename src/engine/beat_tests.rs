//! Work with a beat of its own, waited for by a client that takes its time: how soon the engine
//! foresees it, and whether it keeps to that.

use crate::core::estimator::EstimatorKind;
use crate::core::time::{DurNs, MonoNs};
use crate::engine::bench_tests::*;

const SHIPPED: &str = "flag:park_us=150,backstop_us=1000\
    +predict:margin_us=60,min_sleep_us=100,max_sleep_us=50000,window=8";

/// A number that is the same each time, below `most`.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// A machine as it is seen from FILL: nanoseconds.
struct Machine {
    period: u64,
    /// How much a store is off its beat, either way.
    wobble: u64,
    /// How late FILL wakes from a sleep.
    overshoot: u64,
    /// How long the client takes to wake and come back.
    comes_back: u64,
    percent: u32,
}

/// How late each store was seen, in nanoseconds.
fn seen(machine: &Machine, seed: u64, waits: u64) -> Vec<u64> {
    let mut config = bench_config(SHIPPED);
    config.estimator = EstimatorKind::Adaptive;
    config.park = DurNs::from_us(150);
    config.spin_budget_percent = machine.percent;
    let mut bench = bench_of(config);
    let mut chance = Chance(seed);
    let mut late = Vec::new();
    let mut beat = bench.now.0;
    for n in 1..=waits {
        beat += machine.period;
        let stored = beat - machine.wobble + chance.below(2 * machine.wobble + 1);
        bench.submit(word(n, n));
        loop {
            if bench.engine.is_hot() {
                bench.now = MonoNs(bench.now.0 + 300);
            } else {
                let woken = bench.engine.next_due().0 + chance.below(machine.overshoot + 1);
                bench.engine.set_lead(DurNs(machine.overshoot / 2));
                bench.now = MonoNs(woken.max(bench.now.0 + 300));
            }
            if bench.now.0 >= stored {
                bench.shared.store(0, n);
            }
            bench.turn();
            if bench.shared.read().len() == 1 {
                break;
            }
        }
        late.push(bench.now.0 - stored);
        bench.now = MonoNs(bench.now.0 + machine.comes_back / 2 + chance.below(machine.comes_back));
    }
    late
}

/// The share of stores that were seen within two microseconds, in percent.
fn at_once(late: &[u64]) -> usize {
    late.iter().filter(|&&late| late < 2_000).count() * 100 / late.len()
}

#[test]
fn work_with_a_beat_of_its_own_is_soon_seen_at_once_and_stays_so() {
    for (period, wobble) in [
        (200_000, 5_000),
        (1_000_000, 5_000),
        (1_000_000, 20_000),
        (1_000_000, 50_000),
        (10_000_000, 50_000),
    ] {
        for seed in 1..3 {
            let machine =
                Machine { period, wobble, overshoot: 100_000, comes_back: 15_000, percent: 30 };
            let late = seen(&machine, seed, 400);
            let by_hundred: Vec<_> = late.chunks(100).map(at_once).collect();
            let name = format!("{period} ns, {wobble} off, seed {seed}: {by_hundred:?}");
            assert!(by_hundred[1..].iter().all(|&percent| percent >= 90), "{name}");
        }
    }
}
