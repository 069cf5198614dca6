//! What is waited for: how long jobs take, how many wait, and when every number is stored.
//!
//! A *stream* is one waiter's sequence of jobs, back to back; it has a phase of its own. What
//! always holds: the times of a stream are a pure function of its workload, seed and place and of
//! the run's times, so producer and waiter know them without talking.

use parkd::core::time::MonoNs;
use parkd::soft::work::{Work, split_mix};
use serde::{Deserialize, Serialize};

/// How the lengths of jobs vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pattern {
    /// They do not.
    Steady,
    /// By so many thousandths, either way.
    Jitter(u32),
    /// Twice as long from the middle of the window on.
    Step,
}

/// Every pattern with its name.
pub const PATTERNS: [(&str, Pattern); 4] = [
    ("steady", Pattern::Steady),
    ("jitter-5", Pattern::Jitter(50)),
    ("jitter-50", Pattern::Jitter(500)),
    ("step", Pattern::Step),
];

/// Mean lengths of jobs in microseconds.
pub const WORK_US: [u64; 4] = [50, 200, 1000, 10_000];

/// Jobs of one mean length that vary in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// How they vary.
    pub pattern: Pattern,
    /// Their mean length; before the step, where there is one.
    pub work_us: u64,
}

impl Workload {
    /// The pattern's name.
    pub fn name(&self) -> &'static str {
        PATTERNS.iter().find(|(_, pattern)| *pattern == self.pattern).map_or("", |(name, _)| name)
    }

    /// Whether a NAME of the command line means it.
    pub fn is(&self, name: &str) -> bool {
        name == self.name() || name == format!("{}/{}", self.name(), self.work_us)
    }

    /// The longest job.
    pub fn longest_ns(&self) -> u64 {
        let work = self.work_us * 1000;
        match self.pattern {
            Pattern::Steady => work,
            Pattern::Jitter(permille) => work + work * u64::from(permille) / 1000,
            Pattern::Step => 2 * work,
        }
    }

    /// When the numbers 1, 2, 3, ... of a stream are stored. `seed` is the round's.
    pub fn schedule(&self, seed: u64, stream: u32, times: &Times) -> Schedule {
        let work_ns = self.work_us * 1000;
        let jitter_permille = match self.pattern {
            Pattern::Jitter(permille) => permille,
            _ => 0,
        };
        let seed = split_mix(seed, stream.into());
        let phase = seed % work_ns;
        let step = (self.pattern == Pattern::Step).then(|| times.middle());
        let work = Work { seed, work_ns, jitter_permille };
        Schedule { work, job: 0, at: MonoNs(times.start.0 + phase), step, stop: times.stop }
    }
}

/// Iterator over the times at which a stream's numbers are stored.
#[derive(Clone, Debug)]
pub struct Schedule {
    work: Work,
    job: u64,
    at: MonoNs,
    step: Option<MonoNs>,
    stop: MonoNs,
}

impl Iterator for Schedule {
    type Item = MonoNs;

    fn next(&mut self) -> Option<MonoNs> {
        let length = self.work.duration(self.job);
        let longer = self.step.is_some_and(|step| self.at >= step);
        self.at = self.at + length + if longer { length } else { Default::default() };
        self.job += 1;
        (self.at < self.stop).then_some(self.at)
    }
}

/// The times of a run, on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Times {
    /// Job 0 of every stream starts, a phase later.
    #[serde(with = "ns")]
    pub start: MonoNs,
    /// CPU is counted from here on: a little before the window, so that reading the counters
    /// disturbs nothing in it.
    #[serde(with = "ns")]
    pub count: MonoNs,
    /// The window begins: numbers that are due in it are what a run reports.
    #[serde(with = "ns")]
    pub begin: MonoNs,
    /// It ends.
    #[serde(with = "ns")]
    pub end: MonoNs,
    /// No job ends later.
    #[serde(with = "ns")]
    pub stop: MonoNs,
}

impl Times {
    /// The middle of the window.
    pub fn middle(&self) -> MonoNs {
        MonoNs(self.begin.0 + (self.end.0 - self.begin.0) / 2)
    }

    /// Whether a time lies in the window.
    pub fn holds(&self, at: MonoNs) -> bool {
        self.begin <= at && at < self.end
    }

    /// How long the window is.
    pub fn window_ns(&self) -> u64 {
        self.end.since(self.begin).0
    }
}

/// Times as numbers.
mod ns {
    use parkd::core::time::MonoNs;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(at: &MonoNs, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(at.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<MonoNs, D::Error> {
        u64::deserialize(from).map(MonoNs)
    }
}

/// So many waiters, in so many processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Waiters in all.
    pub waiters: u32,
    /// Processes that they are spread over evenly.
    pub processes: u32,
}

/// One waiter.
pub const ONE: Shape = Shape { waiters: 1, processes: 1 };
/// One waiter in each of eight processes.
pub const EIGHT: Shape = Shape { waiters: 8, processes: 8 };

/// All of them.
pub const SHAPES: [Shape; 5] = [
    ONE,
    Shape { waiters: 8, processes: 1 },
    Shape { waiters: 64, processes: 1 },
    EIGHT,
    Shape { waiters: 64, processes: 8 },
];

/// Processes at most.
pub const PROCESSES_MAX: u32 = 8;

/// A workload and a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub workload: Workload,
    pub shape: Shape,
}

/// Stores that the producer can make in a second, with a wake each.
const STORES_PER_S: u64 = 80_000;

impl Cell {
    /// Stores a second.
    pub fn stores_per_s(&self) -> u64 {
        u64::from(self.shape.waiters) * 1_000_000 / self.workload.work_us
    }

    /// Whether the producer's one thread can make them.
    pub fn can_run(&self) -> bool {
        self.stores_per_s() <= STORES_PER_S
    }

    /// In words.
    pub fn title(&self) -> String {
        let Shape { waiters, processes } = self.shape;
        let work = match self.workload.work_us {
            us if us < 1000 => format!("{us} us"),
            us => format!("{} ms", us / 1000),
        };
        format!("{}, {work}, {waiters} in {processes}", self.workload.name())
    }
}

/// The cells of a run of the comparison.
pub fn cells(quick: bool, chosen: &[String]) -> Vec<Cell> {
    let patterns = if quick { &PATTERNS[..2] } else { &PATTERNS[..] };
    let work_us = if quick { &WORK_US[1..3] } else { &WORK_US[..] };
    let shapes = if quick { &[ONE, EIGHT][..] } else { &SHAPES[..] };
    let mut cells = Vec::new();
    for &(_, pattern) in patterns {
        for &work_us in work_us {
            let workload = Workload { pattern, work_us };
            if chosen.is_empty() || chosen.iter().any(|name| workload.is(name)) {
                cells.extend(shapes.iter().map(|&shape| Cell { workload, shape }));
            }
        }
    }
    cells
}
