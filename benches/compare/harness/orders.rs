//! What the harness tells its members, and what they answer.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::contender::Way;
use super::load::LoadOrder;
use super::load::Loaded;
use super::wake::WakeKind;
use super::workload::{Times, Workload};

/// A run as every member needs to know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub way: Way,
    pub wake: WakeKind,
    pub workload: Workload,
    /// Chooses the jobs' lengths and phases: the round's.
    pub seed: u64,
    /// Waiters of all processes.
    pub waiters: u32,
    /// Processes that they are spread over.
    pub processes: u32,
    /// The daemon's socket, for who waits through one.
    pub daemon: Option<PathBuf>,
    /// The CPU that is the daemon's, for who must keep off it.
    pub daemon_cpu: Option<u32>,
    /// The relay's socket, where there is one.
    pub relay: Option<PathBuf>,
    /// Makes names of this run unlike those of others.
    pub name: String,
}

impl Run {
    /// Waiters of one process.
    pub fn each(&self) -> u32 {
        self.waiters / self.processes
    }
}

/// What a member is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Be the waiters of process `process` in a run. Answered with `Ready`, and the fds that its
    /// producer needs.
    Wait { run: Run, process: u32 },
    /// Be the producer of a run: one `Hand` for every process follows, then it answers `Ready`.
    Produce { run: Run },
    /// The fds of a process.
    Hand,
    /// Be the relay of a run. Answered with `Ready` once it listens, with `Done` in the end.
    Relay { run: Run },
    /// The run goes at these times.
    Start(Times),
    /// Submit tickets that have landed, as fast as they come back.
    Load(LoadOrder),
}

/// What a member answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    Ready,
    /// Part of a waiter's latencies in nanoseconds, in no order: from the store to the waiter
    /// running.
    Wakes(Vec<u32>),
    /// The same from the store until what the daemon found was there to be seen.
    Detected(Vec<u32>),
    /// The run is over.
    Done(Done),
    /// So is the load.
    Loaded(Loaded),
    /// It cannot go on.
    Failed(String),
}

/// What a process of waiters counted in the window. A producer or a relay counts nothing.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    pub completions: u64,
    /// Those that nobody saw come: found when a sleep by the clock ended.
    pub late: u64,
    /// CPU of the whole process, as a share of one CPU.
    pub cpu_share: f64,
    /// Context switches of its threads in a second.
    pub switches_per_s: f64,
}
