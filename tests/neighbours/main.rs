//! Neighbours: a client that keeps to the rules, beside the loudest of those that do not.
//!
//! A *round* is so many tickets of the neighbour's, one after another: a producer stores the number
//! and rings, the neighbour sleeps on its result tail, and what counts is the time from the store
//! to the neighbour running. Rounds are played in *pairs*, alone and beside an attacker in turn, so
//! that whatever else the machine does meets both; what the scheduler kept the threads in question
//! waiting for a CPU is taken off. Of the rounds' p99 the median beside the attacker is to stay
//! within twice the median alone, or the best within twice the best. A machine that is busy with
//! other things spoils rounds of both kinds, so a few pairs that do not satisfy are followed by
//! more; an attacker that gets through spoils all of them, and with them median and best.
//!
//! Attackers are of the lowest priority and stay off FILL's CPU where there is another: what they
//! take of the machine any process can take. What is tested is what the daemon lets them.

#[path = "../support/mod.rs"]
pub mod support;

#[path = "../support/crowd.rs"]
pub mod crowd;

mod attacks;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use attacks::Attack;
use parkd::core::time::DurNs;
use parkd::host::{affinity, clock, futex};
use parkd::proto::layout::{armed, rings};
use parkd::shm::words::ReadWords;
use rustix::thread::{CpuSet, sched_setaffinity};
use support::raw::{Session, word};
use support::{Daemon, Executor, NAIVE, PATIENCE};

/// Tickets of a round.
const TICKETS: u64 = 100;

/// Threads that attack at once. A daemon that is not optimised takes ten times as long for each
/// ticket as one that is: one attacker keeps it as busy as it can be.
const ATTACKERS: u64 = if cfg!(debug_assertions) { 1 } else { 2 };

/// Pairs of rounds: where these do not satisfy, up to so many.
const PAIRS_MIN: usize = 3;
const PAIRS_MAX: usize = 9;

/// What a wait takes at most where nothing is foreseen and FILL polls, in microseconds: there the
/// p99 alone is this or much less, as it happens.
const PARK_US: f64 = 150.0;

/// How much worse a neighbour's p99 may become.
const FACTOR: f64 = 2.0;

crate::for_each_executor! {
    a_storm_of_connections,
    a_storm_of_submissions,
    a_flood_of_status,
    wakes_without_end,
    an_armed_word_that_flaps,
    a_crowd_on_one_tail,
    the_shortest_parks_on_many_lanes,
    holes_in_what_is_read,
}

fn a_storm_of_connections(executor: &Executor) {
    beside(executor, "[limits]\nconnects_per_second = 1000000\n", attacks::connections);
}

fn a_storm_of_submissions(executor: &Executor) {
    beside(executor, "[limits]\nsubmits_per_second = 100000000\n", attacks::submissions);
}

fn a_flood_of_status(executor: &Executor) {
    beside(executor, "", attacks::status);
}

fn wakes_without_end(executor: &Executor) {
    beside(executor, "", attacks::wakes);
}

fn an_armed_word_that_flaps(executor: &Executor) {
    beside(executor, "", attacks::armed);
}

fn a_crowd_on_one_tail(executor: &Executor) {
    beside(executor, "", attacks::crowd);
}

fn the_shortest_parks_on_many_lanes(executor: &Executor) {
    beside(executor, "", attacks::parks);
}

fn holes_in_what_is_read(executor: &Executor) {
    beside(executor, "", attacks::holes);
}

/// Plays pairs of rounds, and fails where the neighbour fares worse beside the attacker.
fn beside(executor: &Executor, config: &str, attack: Attack) {
    // One at a time: they would be one another's attackers.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let daemon = Daemon::start(executor, config);
    let mut neighbour = Neighbour::new(&daemon);
    neighbour.round();
    let floor = if executor.name == NAIVE.name { PARK_US } else { 0.0 };
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    while pairs.len() < PAIRS_MAX {
        let alone = neighbour.round();
        pairs.push((alone, attacked(&daemon, attack, || neighbour.round())));
        let of = |pick: fn(Vec<f64>) -> f64| {
            let (alone, together) = pairs.iter().copied().unzip();
            (pick(alone), pick(together))
        };
        let within = |(alone, together): (f64, f64)| together <= FACTOR * alone.max(floor);
        if pairs.len() >= PAIRS_MIN && (within(of(median)) || within(of(best))) {
            let (alone, together) = of(median);
            eprintln!("{}: p99 {alone:.0} us alone, {together:.0} us beside", executor.name);
            return;
        }
    }
    panic!("p99 in us, alone and beside: {pairs:.0?}");
}

fn best(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::MAX, f64::min)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Does the work while attackers are at theirs.
fn attacked<T>(daemon: &Daemon, attack: Attack, work: impl FnOnce() -> T) -> T {
    let (over, begun) = (AtomicBool::new(false), AtomicU64::new(0));
    let cpu = support::raw::control(&daemon.socket()).status()["cpu"].as_u64();
    std::thread::scope(|scope| {
        for _ in 0..ATTACKERS {
            scope.spawn(|| {
                stand_back(cpu);
                let mut attack = attack(daemon);
                begun.fetch_add(1, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    attack();
                }
            });
        }
        let _end = Raise(&over);
        support::until("the attack begins", || {
            (begun.load(Ordering::Relaxed) == ATTACKERS).then_some(())
        });
        work()
    })
}

/// Raises a flag in the end, also where something failed.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Gives the calling thread the lowest priority, and every CPU but FILL's.
fn stand_back(fill: Option<u64>) {
    rustix::process::nice(19).expect("a lower priority");
    let others = affinity::allowed().expect("the allowed CPUs").into_iter();
    let others: Vec<u32> = others.filter(|cpu| Some(u64::from(*cpu)) != fill).collect();
    if !others.is_empty() {
        let mut set = CpuSet::new();
        others.into_iter().for_each(|cpu| set.set(cpu as usize));
        sched_setaffinity(None, &set).expect("an affinity");
    }
}

/// Sleeps.
pub fn nap(us: u64) {
    let word = std::sync::atomic::AtomicU32::new(0);
    let end = clock::now() + DurNs::from_us(us);
    futex::wait((&word).into(), 0, Some(end)).expect("a wait on a word");
}

/// The client that is measured.
struct Neighbour {
    session: Session,
    fill: RunDelay,
    number: u64,
}

impl Neighbour {
    fn new(daemon: &Daemon) -> Neighbour {
        let session = Session::open(&daemon.socket());
        session.lane(64);
        Neighbour { session, fill: RunDelay::of_fill(daemon), number: 0 }
    }

    /// Plays a round and answers its p99, in microseconds.
    fn round(&mut self) -> f64 {
        let first = self.number + 1;
        self.number += TICKETS;
        let (producer, memory) = (self.session.producer(), self.session.rings.clone());
        let samples: Vec<Sample> = (0..TICKETS).map(|_| Sample::default()).collect();
        let (session, fill) = (&mut self.session, &self.fill);
        std::thread::scope(|scope| {
            let samples = &samples;
            scope.spawn(move || {
                for (number, sample) in (first..).zip(samples) {
                    let end = clock::now() + DurNs(PATIENCE.as_nanos() as u64);
                    while memory.load32(rings::SUBMIT_HEAD) != number as u32 {
                        assert!(clock::now() < end, "ticket {number} is not taken");
                        nap(20);
                    }
                    nap(300);
                    let held_up = fill.ns() + RunDelay::of_this_thread().ns();
                    sample.stored.store(clock::now().0, Ordering::Relaxed);
                    producer.store(0, number);
                    producer.ring(1);
                    let producer = RunDelay::of_this_thread().ns();
                    sample.held_up.fetch_sub(held_up, Ordering::Relaxed);
                    sample.held_up.fetch_add(producer, Ordering::Relaxed);
                }
            });
            let own = RunDelay::of_this_thread();
            for (number, sample) in (first..).zip(samples) {
                session.push(&[word(0, number, number)]);
                let held_up = own.ns();
                let result = session.told(armed::TAIL);
                sample.woken.store(clock::now().0, Ordering::Relaxed);
                assert_eq!(result.user_data, number);
                sample.held_up.fetch_add(fill.ns() + own.ns(), Ordering::Relaxed);
                sample.held_up.fetch_sub(held_up, Ordering::Relaxed);
            }
        });
        let mut waits: Vec<u64> = samples.iter().map(Sample::wait_ns).collect();
        waits.sort_unstable();
        // The smallest that 99 of 100 do not exceed.
        waits[(waits.len() * 99).div_ceil(100) - 1] as f64 / 1000.0
    }
}

/// One ticket's times.
#[derive(Default)]
struct Sample {
    stored: AtomicU64,
    woken: AtomicU64,
    /// How long FILL, the neighbour and the producer were ready and did not run.
    held_up: AtomicU64,
}

impl Sample {
    /// From the store to the neighbour running, less what the scheduler took of it.
    fn wait_ns(&self) -> u64 {
        let of = |time: &AtomicU64| time.load(Ordering::Relaxed);
        (of(&self.woken) - of(&self.stored)).saturating_sub(of(&self.held_up))
    }
}

/// How long a thread has been ready and did not run, by the scheduler's own count.
struct RunDelay(File);

impl RunDelay {
    fn of_this_thread() -> RunDelay {
        RunDelay(File::open("/proc/thread-self/schedstat").expect("the thread's counts"))
    }

    /// Of a daemon's FILL thread.
    fn of_fill(daemon: &Daemon) -> RunDelay {
        let tasks = std::fs::read_dir(daemon.proc("task")).expect("its threads").flatten();
        let is_fill = |task: &PathBuf| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "parkd-fill\n")
        };
        let fill = tasks.map(|task| task.path()).find(is_fill).expect("FILL's thread");
        RunDelay(File::open(fill.join("schedstat")).expect("FILL's counts"))
    }

    fn ns(&self) -> u64 {
        let mut text = [0; 128];
        let bytes = self.0.read_at(&mut text, 0).expect("a thread's counts");
        let text = String::from_utf8_lossy(&text[..bytes]);
        text.split(' ').nth(1).and_then(|delay| delay.parse().ok()).expect("a run delay")
    }
}
