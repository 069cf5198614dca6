//! The work that clients wait for: which streams a client has.
//!
//! Every client has a stream of 1 ms jobs; in the *mixed* workload, the demo's, the first has one
//! of 50 us more and the last one of 10 ms. Lengths vary by 5 % either way. What always holds: a
//! client's streams depend on its place among the clients alone, so all ways of waiting are
//! measured on the same jobs.

use clap::ValueEnum;

use crate::soft::work::{Work, split_mix};

/// Tickets in flight on a lane.
pub const DEPTH: usize = 4;
/// Stamps of a lane: with jobs of 50 us, 12 ms of them.
pub const STAMPS: u32 = 256;
/// Clients unless asked otherwise.
pub const CLIENTS: u32 = 4;
/// Clients at most.
pub const CLIENTS_MAX: u32 = 64;
/// Streams of one client at most.
pub const STREAMS_MAX: u32 = 3;

const MS: u64 = 1_000_000;
const SEED: u64 = 0x7061_726b_6421;
const JITTER_PERMILLE: u32 = 50;

/// What the clients' streams are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// 1 ms each, and one stream each of 50 us and of 10 ms.
    Mixed,
    /// 1 ms each.
    Steady,
}

impl Workload {
    /// The workload's name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Mixed => "mixed",
            Workload::Steady => "steady",
        }
    }
}

/// The streams of client `client` of `clients`.
pub fn streams(workload: Workload, client: u32, clients: u32) -> Vec<Work> {
    let mixed = workload == Workload::Mixed;
    let mut work_ns = vec![MS];
    if mixed && client == 0 {
        work_ns.push(MS / 20);
    }
    if mixed && client + 1 == clients {
        work_ns.push(10 * MS);
    }
    let seeds = u64::from(client) * u64::from(STREAMS_MAX)..;
    seeds
        .zip(work_ns)
        .map(|(index, work_ns)| Work {
            seed: split_mix(SEED, index),
            work_ns,
            jitter_permille: JITTER_PERMILLE,
        })
        .collect()
}

#[cfg(test)]
#[path = "workload_tests.rs"]
mod tests;
