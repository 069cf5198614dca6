//! What the processes of the demo tell one another, and what the demo tells in the end.
//!
//! A client writes [`ClientSays`] to its stdout, one JSON object a line; the parent answers with
//! one line, the time at which the streams start. A [`Phase`] is one way of waiting, measured; the
//! [`Record`] is what `--json` prints, with exactly these keys.

use serde::{Deserialize, Serialize};

use super::tally::{Counts, Latencies, latencies};
use crate::core::error::Result;

/// A line from a client to its parent.
#[derive(Debug, Serialize, Deserialize)]
pub enum ClientSays {
    /// It has its lanes, and waits for the time to start.
    Ready,
    /// It is done.
    Done(ClientReport),
    /// It cannot go on.
    Failed(String),
}

/// What a client measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct ClientReport {
    /// How its tickets ended.
    pub counts: Counts,
    /// Latencies in nanoseconds with how often each was seen.
    pub latencies: Vec<(u64, u64)>,
    /// CPU time of the whole process while it waited.
    pub cpu_ns: u64,
    /// How long it waited.
    pub wall_ns: u64,
}

/// A histogram as pairs of a value and its count.
pub fn pairs(latencies: &Latencies) -> Vec<(u64, u64)> {
    latencies
        .iter_recorded()
        .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
        .collect()
}

/// Wake latencies in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeNs {
    /// Half of all samples are at most this.
    pub p50: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    pub p999: u64,
}

/// One way of waiting, measured over all clients.
#[derive(Clone, Debug)]
pub struct Phase {
    /// How the tickets ended.
    pub counts: Counts,
    /// Wake latencies of all clients.
    pub wake_ns: WakeNs,
    /// The clients' CPU: 100 is one core.
    pub clients_percent: f64,
    /// The daemon's; 0 where none took part.
    pub daemon_percent: f64,
    /// The software device's.
    pub device_percent: f64,
}

impl Phase {
    /// A phase of these clients.
    ///
    /// # Errors
    /// `SystemFailed` where memory is short.
    pub fn new(
        clients: &[ClientReport],
        daemon_percent: f64,
        device_percent: f64,
    ) -> Result<Phase> {
        let mut counts = Counts::default();
        let mut all = latencies()?;
        let mut clients_percent = 0.0;
        for client in clients {
            counts.add(&client.counts);
            clients_percent += client.cpu_ns as f64 / client.wall_ns.max(1) as f64 * 100.0;
            for (value, times) in &client.latencies {
                all.saturating_record_n(*value, *times);
            }
        }
        let at = |quantile| all.value_at_quantile(quantile);
        let wake_ns = WakeNs { p50: at(0.5), p99: at(0.99), p999: at(0.999) };
        let clients_percent = hundredth(clients_percent);
        Ok(Phase { counts, wake_ns, clients_percent, daemon_percent, device_percent })
    }
}

/// `part` of `whole` in percent, to a hundredth.
pub fn percent(part: u64, whole: u64) -> f64 {
    hundredth(part as f64 / whole.max(1) as f64 * 100.0)
}

fn hundredth(exact: f64) -> f64 {
    (exact * 100.0).round() / 100.0
}

/// What `--json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// The label of the daemon's executor.
    pub executor: String,
    /// How many clients waited.
    pub clients: u32,
    /// Tickets submitted to the daemon.
    pub tickets: u64,
    /// Tickets whose result said Done.
    pub completed: u64,
    /// Tickets without a result.
    pub lost: u64,
    /// Results beyond a ticket's first.
    pub duplicated: u64,
    /// Results that came before they could honestly come.
    pub early: u64,
    /// From the device's store to the client running.
    pub wake_ns: WakeNs,
    /// CPU while the streams ran.
    pub cpu: Cpu,
    /// The same work, waited for in other ways.
    pub baselines: Vec<Baseline>,
}

/// CPU in percent: 100 is one core.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cpu {
    /// The daemon's.
    pub daemon_percent: f64,
    /// All clients'.
    pub clients_percent: f64,
    /// The software device's.
    pub device_percent: f64,
}

/// The same work, waited for without a daemon.
#[derive(Clone, Debug, Serialize)]
pub struct Baseline {
    /// `spin` or `poll-100us`.
    pub name: &'static str,
    /// Numbers waited for.
    pub completed: u64,
    /// From the device's store to the client running.
    pub wake_ns: WakeNs,
    /// All clients' CPU.
    pub cpu_percent: f64,
}

impl Record {
    /// The record of the daemon's phase and the baselines, in the order they ran.
    pub fn new(
        executor: String,
        clients: u32,
        parkd: &Phase,
        baselines: &[(&'static str, Phase)],
    ) -> Record {
        Record {
            executor,
            clients,
            tickets: parkd.counts.tickets,
            completed: parkd.counts.completed,
            lost: parkd.counts.lost,
            duplicated: parkd.counts.duplicated,
            early: parkd.counts.early,
            wake_ns: parkd.wake_ns,
            cpu: Cpu {
                daemon_percent: parkd.daemon_percent,
                clients_percent: parkd.clients_percent,
                device_percent: parkd.device_percent,
            },
            baselines: baselines
                .iter()
                .map(|(name, phase)| Baseline {
                    name,
                    completed: phase.counts.completed,
                    wake_ns: phase.wake_ns,
                    cpu_percent: phase.clients_percent,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
