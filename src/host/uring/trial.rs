//! Whether futex wakes through io_uring get lost or come late on this kernel: a short trial.
//!
//! Public reports say that they can. A *race* is one wait that is armed while another thread raises
//! its word and wakes it, at a random moment. A wake is *lost* when the wake call has returned, the
//! ring has been entered since, and the wait still stands; it is *late* when the wait ended long
//! after the wake call had returned, without what the scheduler accounts for. Lost ones count from
//! the first; of late ones a few may pass, since a hypervisor holds CPUs up and does not say so.
//!
//! The trial has a ring and two threads of its own, at the lowest priority, and is bounded: it is
//! made beside a daemon that serves.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use rustix::process::setpriority_process;

use super::{Probe, UringHost};
use crate::core::error::Result;
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;
use crate::host::fill::{EventBatch, FillHost, HostEvent, Token};
use crate::host::futex::{self, FutexAddr};
use crate::host::held::Held;
use crate::shm::area::Area;
use crate::shm::region::{ReadOnly, ReadWrite, Region};
use crate::shm::words::{ReadWords, WriteWords};

/// Races at most.
const RACES: u32 = 4096;

/// After so long no other race is begun, if there were enough.
const LENGTH: DurNs = DurNs(50_000_000);

/// Fewer races than this prove nothing.
const RACES_MIN: u32 = 256;

/// A wait is looked at this often, and a wait whose wake was made stands lost after two looks.
const LOOK: DurNs = DurNs(50_000_000);

/// Where a machine is too busy to get on with the trial, it is given up.
const PATIENCE: DurNs = DurNs(2_000_000_000);

/// A wake that comes so long after its call is late.
const LATE: DurNs = DurNs(5_000_000);
const LATE_MAX: u32 = 3;

/// The least that the scheduler gives: the trial is never in anybody's way.
const NICE: i32 = 19;

/// The longest wait of the waker before a wake: as long as it takes to arm a wait.
const GAP_NS: u64 = 4_000;

/// What a trial found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every wake ended its wait in time, in this many races.
    Sound(u32),
    /// Wakes get lost or come late: what was seen.
    Doubtful(String),
    /// It could not be made: why. Nothing is known.
    Unknown(String),
}

/// Makes the trial on the calling thread, which is left at the lowest priority.
pub fn run() -> Verdict {
    // Refused where the thread is at it already, or by a sandbox: the trial is short all the same.
    let _ = setpriority_process(None, NICE);
    let host = Probe::run()
        .map_err(|error| error.detail)
        .and_then(|probe| UringHost::new(probe).map_err(|error| format!("io_uring: {error}")));
    match host {
        Ok(mut host) => on(&mut host, LENGTH),
        Err(why) => Verdict::Unknown(why),
    }
}

/// The trial of a host, of this length.
fn on(host: &mut impl FillHost, length: DurNs) -> Verdict {
    let counted = Word::new().map_err(|error| error.detail).and_then(|word| {
        races(host, &word, length).map_err(|error| format!("io_uring_enter: {error}"))
    });
    counted.map_or_else(Verdict::Unknown, |counted| counted.verdict())
}

/// A futex word as clients have them: of a memfd, and read-only for who waits on it.
struct Word {
    raised: Region<ReadWrite>,
    watched: Region<ReadOnly>,
}

impl Word {
    fn new() -> Result<Word> {
        let area = Area::table(size_of::<u32>())?;
        Ok(Word { raised: area.map()?, watched: area.map()? })
    }

    fn count(&self) -> u32 {
        self.watched.load32(0)
    }

    fn address(&self) -> FutexAddr {
        FutexAddr::new(self.watched.address(0))
    }
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    races: u32,
    lost: u32,
    late: u32,
}

impl Counted {
    fn verdict(self) -> Verdict {
        let Counted { races, lost, late } = self;
        if lost > 0 {
            return Verdict::Doubtful(format!("{lost} of {races} futex wakes were lost"));
        }
        if late > LATE_MAX {
            let ms = LATE.as_us() / 1000;
            let text = format!("{late} of {races} futex wakes came more than {ms} ms late");
            return Verdict::Doubtful(text);
        }
        if races < RACES_MIN {
            return Verdict::Unknown(format!("no more than {races} races"));
        }
        Verdict::Sound(races)
    }
}

/// What waiter and waker say to each other.
#[derive(Default)]
struct Talk {
    /// The count that the waiter has acted on.
    acted_on: AtomicU32,
    /// The count whose wake call has returned, and when.
    woken: AtomicU32,
    woken_ns: AtomicU64,
    over: AtomicBool,
}

/// Races until there were enough, or something is wrong.
fn races(host: &mut impl FillHost, word: &Word, length: DurNs) -> io::Result<Counted> {
    let talk = Talk::default();
    std::thread::scope(|scope| {
        let waker = std::thread::Builder::new().name("parkd-trial-2".to_owned());
        waker.spawn_scoped(scope, || wake(word, &talk))?;
        let (now, held) = (clock::now(), Held::of_current());
        let waiter = Waiter { host, word, talk: &talk, held, waits: 0, give_up: now + PATIENCE };
        let counted = waiter.run(now + length);
        talk.over.store(true, Ordering::Relaxed);
        counted
    })
}

/// The waker: raises the word and wakes its waiter, each time at another moment.
fn wake(word: &Word, talk: &Talk) {
    let mut random = clock::now().0 | 1;
    for count in 1..=RACES {
        while talk.acted_on.load(Ordering::Acquire) != count - 1 {
            if talk.over.load(Ordering::Relaxed) {
                return;
            }
            std::thread::yield_now();
        }
        // xorshift
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let at = clock::now() + DurNs(random % GAP_NS);
        while clock::now() < at {
            std::hint::spin_loop();
        }
        word.raised.fetch_add32(0, 1);
        fence(Ordering::SeqCst);
        // It cannot fail: the word is mapped. Were it to, the wake would count as lost.
        let _ = futex::wake_one(FutexAddr::new(word.raised.address(0)));
        talk.woken_ns.store(clock::now().0, Ordering::Relaxed);
        talk.woken.store(count, Ordering::Release);
    }
}

/// The waiter.
struct Waiter<'a, H> {
    host: &'a mut H,
    word: &'a Word,
    talk: &'a Talk,
    held: Held,
    /// Waits so far: each has a token of its own.
    waits: u64,
    give_up: MonoNs,
}

/// How a race ended.
enum Ended {
    InTime,
    Late,
    Lost,
    /// The machine does not get on with it.
    GivenUp,
}

impl<H: FillHost> Waiter<'_, H> {
    /// Races until there were enough, or something is wrong.
    fn run(mut self, until: MonoNs) -> io::Result<Counted> {
        let mut counted = Counted::default();
        while counted.races < RACES && counted.late <= LATE_MAX {
            let now = clock::now();
            if now > self.give_up || now > until && counted.races >= RACES_MIN {
                break;
            }
            match self.race(counted.races)? {
                Ended::InTime => {}
                Ended::Late => counted.late += 1,
                Ended::Lost => counted.lost += 1,
                Ended::GivenUp => break,
            }
            counted.races += 1;
            if counted.lost > 0 {
                break;
            }
            self.talk.acted_on.store(counted.races, Ordering::Release);
        }
        Ok(counted)
    }

    /// Arms a wait on this count, and sees how it ends.
    fn race(&mut self, count: u32) -> io::Result<Ended> {
        let held = self.held.so_far();
        let mut looks = 0;
        // A late wake of the race before may end a wait of this one.
        loop {
            self.waits += 1;
            let token = Token(self.waits);
            self.host.watch_word(token, self.word.address(), count)?;
            while !rang(self.host, token)? {
                looks += u32::from(self.woken(count).is_some());
                if looks > 1 {
                    return Ok(Ended::Lost);
                }
                if clock::now() > self.give_up {
                    return Ok(Ended::GivenUp);
                }
            }
            if self.word.count() != count {
                break;
            }
        }
        // The time first: what holds this thread up in between must not count as late.
        let seen = clock::now();
        let held = self.held.so_far().saturating_sub(held);
        let late = self.woken(count).map_or(DurNs::ZERO, |woken| seen.since(woken));
        Ok(if late.saturating_sub(held) > LATE { Ended::Late } else { Ended::InTime })
    }

    /// When the wake call that ends a wait on this count has returned, if it has.
    fn woken(&self, count: u32) -> Option<MonoNs> {
        let woken = self.talk.woken.load(Ordering::Acquire) > count;
        woken.then(|| MonoNs(self.talk.woken_ns.load(Ordering::Relaxed)))
    }
}

/// Whether this wait ends before the next look.
fn rang(host: &mut impl FillHost, token: Token) -> io::Result<bool> {
    let mut events = EventBatch::new();
    let until = clock::now() + LOOK;
    while clock::now() < until {
        host.idle(Some(until))?;
        host.reap(&mut events)?;
        if events.as_slice().contains(&HostEvent::Bell(token)) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
