//! How long ahead of a wake an idle CPU must be called, measured on this machine.
//!
//! A CPU that has gone idle takes tens of microseconds to come back. A request to keep CPUs awake
//! ([`super::pm_qos`]) calls it back, and helps a wake only if it was made long enough before: made
//! too late it helps not at all, the CPU is still on its way up. How long that takes is the
//! hardware's and the hypervisor's affair, so it is tried: a thread sleeps on a futex long enough
//! for its CPU to go idle and is woken at different times after the request, and without one.
//!
//! A wake that finds its CPU idle also costs the waker several times as much. That is how the waker
//! can tell later, at each wake, whether the request was made early enough.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::futex::{self, FutexAddr};
use super::pm_qos::PmQos;
use super::{affinity, clock};
use crate::core::time::{DurNs, MonoNs};

/// Times that are tried, in microseconds.
const AHEAD_US: [u64; 9] = [20, 40, 60, 80, 100, 150, 200, 300, 400];

/// Far enough ahead to be in full effect.
const LONG_US: u64 = 600;

/// Wakes of each kind; their median counts.
const ROUNDS: usize = 9;

/// How long the sleeper sleeps before each: its CPU goes idle.
const NAP: Duration = Duration::from_millis(1);

/// The least factor between a wake that finds its CPU idle and one that finds it awake.
const FACTOR: u64 = 2;

/// A wake that takes longer found its CPU idle: no other on a machine that has nothing else to do.
const IDLE: DurNs = DurNs(12_000);

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeLead {
    /// How long ahead a thread must be called.
    pub ahead: DurNs,
    /// From the wake of a thread on an idle CPU until it runs, median.
    pub idle: DurNs,
    /// What requests to keep CPUs awake do.
    pub requests: Requests,
}

/// What requests to keep CPUs awake do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// They make wakes short and cheap. What a wake costs its waker, medians:
    Help {
        /// Where the CPU is idle.
        idle_cost: DurNs,
        /// Where it was kept awake.
        awake_cost: DurNs,
    },
    /// They change nothing: the kernel here has no idle states to choose from.
    Useless,
    /// It was not tried, or the machine was too busy to see.
    Unknown,
}

/// Measures it, with a sleeper on a CPU other than `busy` and the calling thread on another where
/// there is one; requests too, where `try_requests`. Takes 20 or 250 ms, mostly asleep.
///
/// # Errors
/// What the request's file, the futex or the thread say; `Unsupported` with a single CPU.
pub fn measure(busy: Option<u32>, try_requests: bool) -> io::Result<WakeLead> {
    let sleeper = Sleeper::start(busy)?;
    let idle = sleeper.wakes(None)?;
    if idle.latency == NEVER {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the machine is too busy to see"));
    }
    if !try_requests {
        return Ok(without(idle, Requests::Unknown));
    }
    let mut request = PmQos::open()?;
    let awake = sleeper.wakes(Some((&mut request, DurNs::from_us(LONG_US))))?;
    let mut tried = Vec::new();
    for us in AHEAD_US {
        let ahead = DurNs::from_us(us);
        tried.push((ahead, sleeper.wakes(Some((&mut request, ahead)))?.latency));
    }
    Ok(judge(idle, awake, &tried))
}

/// The time of a wake that was not seen to arrive.
const NEVER: DurNs = DurNs(u64::MAX);

/// Medians of some wakes.
#[derive(Clone, Copy, Debug)]
struct Wakes {
    latency: DurNs,
    cost: DurNs,
}

/// What follows from wakes of an idle CPU, of one kept awake, and of one called so long before.
fn judge(idle: Wakes, awake: Wakes, tried: &[(DurNs, DurNs)]) -> WakeLead {
    if idle.latency.max(awake.latency) == NEVER {
        // It has not run in time, as often as not.
        return without(idle, Requests::Unknown);
    }
    let apart = |idle: DurNs, awake: DurNs| idle.0 >= awake.0.saturating_mul(FACTOR);
    if !apart(idle.latency, awake.latency) {
        let useless = idle.latency >= IDLE && awake.latency >= IDLE;
        return without(idle, if useless { Requests::Useless } else { Requests::Unknown });
    }
    let good_enough = awake.latency.0.saturating_mul(2);
    // From the longest down: one that is too short may look well by chance.
    let helped = tried.iter().rev().take_while(|(_, latency)| latency.0 <= good_enough).last();
    match helped {
        Some(&(ahead, _)) if apart(idle.cost, awake.cost) => {
            let requests = Requests::Help { idle_cost: idle.cost, awake_cost: awake.cost };
            WakeLead { ahead, idle: idle.latency, requests }
        }
        _ => without(idle, Requests::Unknown),
    }
}

/// Without requests it takes twice what half of all wakes take.
fn without(idle: Wakes, requests: Requests) -> WakeLead {
    let ahead = DurNs(idle.latency.0.saturating_mul(2));
    WakeLead { ahead, idle: idle.latency, requests }
}

/// A thread that sleeps on a word and says when it woke.
struct Sleeper {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Raised for each wake.
    word: AtomicU32,
    woke_at: AtomicU64,
    over: AtomicBool,
}

impl Sleeper {
    fn start(busy: Option<u32>) -> io::Result<Sleeper> {
        let cpus: Vec<u32> =
            affinity::allowed()?.into_iter().filter(|cpu| Some(*cpu) != busy).collect();
        let Some(&its_cpu) = cpus.first() else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "there is one CPU"));
        };
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("parkd-wakes".to_owned());
        thread.spawn(move || {
            if affinity::pin_current(its_cpu).is_ok() {
                theirs.sleep_and_say();
            }
        })?;
        // Not where it sleeps: then it would have to wait for the waker to sleep.
        let other = affinity::allowed()?.into_iter().rev().find(|&cpu| cpu != its_cpu);
        if let Some(cpu) = other {
            affinity::pin_current(cpu).map_err(|error| io::Error::other(error.to_string()))?;
        }
        Ok(Sleeper { shared })
    }

    /// Wakes it a number of times, with a request made so long ahead of each where one is given.
    fn wakes(&self, mut request: Option<(&mut PmQos, DurNs)>) -> io::Result<Wakes> {
        let mut latencies = [DurNs::ZERO; ROUNDS];
        let mut costs = [DurNs::ZERO; ROUNDS];
        for round in 0..ROUNDS {
            thread::sleep(NAP);
            if let Some((request, ahead)) = &mut request {
                let called = clock::now();
                request.hold(true, called)?;
                while clock::now() < called + *ahead {
                    std::hint::spin_loop();
                }
            }
            let (woken, cost) = self.wake()?;
            thread::sleep(NAP);
            if let Some((request, _)) = &mut request {
                request.hold(false, clock::now())?;
            }
            let ran = MonoNs(self.shared.woke_at.load(Ordering::Acquire));
            latencies[round] = if ran >= woken { ran.since(woken) } else { NEVER };
            costs[round] = cost;
        }
        Ok(Wakes { latency: median(latencies), cost: median(costs) })
    }

    /// Wakes it: when, and what it cost.
    fn wake(&self) -> io::Result<(MonoNs, DurNs)> {
        let from = clock::now();
        self.shared.word.fetch_add(1, Ordering::Release);
        futex::wake_one((&self.shared.word).into())?;
        Ok((from, clock::now().since(from)))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        let _ = self.wake();
    }
}

impl Shared {
    fn sleep_and_say(&self) {
        let word = FutexAddr::from(&self.word);
        while !self.over.load(Ordering::Acquire) {
            let seen = self.word.load(Ordering::Acquire);
            if futex::wait(word, seen, None).is_err() {
                return;
            }
            self.woke_at.store(clock::now().0, Ordering::Release);
        }
    }
}

fn median(mut of: [DurNs; ROUNDS]) -> DurNs {
    of.sort_unstable();
    of[ROUNDS / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEPT: Wakes = Wakes { latency: DurNs(42_000), cost: DurNs(8_000) };
    const AWAKE: Wakes = Wakes { latency: DurNs(4_000), cost: DurNs(1_500) };

    fn us(pairs: &[(u64, u64)]) -> Vec<(DurNs, DurNs)> {
        pairs.iter().map(|&(ahead, took)| (DurNs::from_us(ahead), DurNs::from_us(took))).collect()
    }

    #[test]
    fn a_sleeper_that_a_busy_machine_kept_from_running_says_nothing() {
        let never = Wakes { latency: DurNs(u64::MAX), ..SLEPT };
        let tried = us(&[(20, 5)]);
        for (idle, awake) in [(never, AWAKE), (never, never), (SLEPT, never)] {
            assert!(!matches!(judge(idle, awake, &tried).requests, Requests::Help { .. }));
        }
    }

    #[test]
    fn the_shortest_that_helps_is_taken_and_a_lucky_one_is_not() {
        let tried = us(&[(20, 41), (40, 5), (60, 30), (80, 7), (100, 5), (150, 4)]);
        let found = judge(SLEPT, AWAKE, &tried);
        assert_eq!((found.ahead, found.idle), (DurNs::from_us(80), SLEPT.latency));
        assert_eq!(
            found.requests,
            Requests::Help { idle_cost: SLEPT.cost, awake_cost: AWAKE.cost }
        );
    }

    #[test]
    fn requests_that_change_nothing_are_useless_and_what_cannot_be_seen_is_unknown() {
        let twice = DurNs::from_us(84);
        let found = judge(SLEPT, SLEPT, &us(&[(20, 41)]));
        assert_eq!((found.ahead, found.requests), (twice, Requests::Useless));
        let busy = Wakes { latency: DurNs(5_000), ..SLEPT };
        assert_eq!(judge(busy, AWAKE, &us(&[(20, 4)])).requests, Requests::Unknown);
        let cheap = Wakes { cost: DurNs(2_000), ..SLEPT };
        assert_eq!(judge(cheap, AWAKE, &us(&[(20, 4)])).requests, Requests::Unknown);
        let none_helps = judge(SLEPT, AWAKE, &us(&[(20, 40), (40, 40)]));
        assert_eq!((none_helps.ahead, none_helps.requests), (twice, Requests::Unknown));
    }

    #[test]
    fn it_is_measured_on_this_machine_or_said_why_not() {
        let requests = PmQos::open().is_ok();
        match thread::spawn(move || measure(None, requests)).join().expect("no panic") {
            Ok(found) => {
                assert!(found.ahead.0 > 0 && found.idle.0 > 0);
                println!("{found:?}");
            }
            Err(error) => println!("skipped: {error}"),
        }
    }
}
