//! What `--json` writes, with exactly these keys.

use serde::{Deserialize, Serialize};

use super::arithmetic::Round;
use super::workload::Cell;

/// The whole.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    pub header: Header,
    pub rows: Vec<Row>,
    pub throughput: Vec<Throughput>,
    pub scale: Vec<Scale>,
}

/// What it ran on, and what could not be run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Header {
    pub executor: String,
    pub kernel: String,
    pub cpu: String,
    pub governor: String,
    pub idle_driver: String,
    /// Each as `what: why`.
    pub skipped: Vec<String>,
}

/// Nanoseconds from a store to the waiter's code running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeNs {
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// A contender in a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub contender: String,
    pub workload: String,
    pub work_us: u64,
    pub processes: u32,
    pub waiters: u32,
    pub wake_ns: WakeNs,
    pub late_percent: f64,
    pub cpu_ns_per_completion: f64,
    pub completions: u64,
    pub ctx_switches: u64,
}

impl Row {
    /// Of these rounds.
    pub fn new(contender: &str, cell: &Cell, rounds: &[Round]) -> Row {
        let median = Round::median(rounds);
        Row {
            contender: contender.into(),
            workload: cell.workload.name().into(),
            work_us: cell.workload.work_us,
            processes: cell.shape.processes,
            waiters: cell.shape.waiters,
            wake_ns: median.wake_ns,
            late_percent: median.late_percent,
            cpu_ns_per_completion: median.cpu_ns_per_completion,
            completions: median.completions,
            ctx_switches: median.ctx_switches,
        }
    }
}

/// How many tickets that have landed go through the daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Throughput {
    /// `ring` or `socket`.
    pub path: String,
    pub clients: u32,
    pub tickets_per_s: f64,
    /// Of the daemon and its clients. None where they could not be counted.
    pub syscalls_per_completion: Option<f64>,
}

/// What waiting tickets cost those that complete, and how much memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scale {
    pub outstanding: u64,
    pub detect_ns_p50: u64,
    pub daemon_bytes_per_ticket: f64,
}

impl Record {
    /// The row of a contender.
    pub fn row(&self, contender: &str, workload: &str, work_us: u64, waiters: u32) -> Option<&Row> {
        let of = |row: &&Row| {
            let shape = row.waiters == waiters && row.processes == waiters;
            row.contender == contender
                && row.workload == workload
                && row.work_us == work_us
                && shape
        };
        self.rows.iter().find(of)
    }
}
