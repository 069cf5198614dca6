//! What a run says in the end.

use parkd::core::time::DurNs;
use serde::Serialize;

use super::counts::Counts;

/// A run's result.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Lives of the daemon that were ended.
    pub kills: u32,
    /// As in [`Counts`].
    pub tickets: u64,
    /// As in [`Counts`].
    pub results: u64,
    /// As in [`Counts`].
    pub lost: u64,
    /// As in [`Counts`].
    pub duplicated: u64,
    /// As in [`Counts`].
    pub early: u64,
    /// As in [`Counts`].
    pub client_errors: u64,
    /// From a kill to the first result of the next life, milliseconds.
    pub pause_ms: Pause,
}

/// Two quantiles.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Pause {
    /// The median.
    pub p50: f64,
    /// 99 of 100 are no longer.
    pub p99: f64,
}

impl Pause {
    /// The quantiles of these pauses; zeros, where there are none.
    pub fn of(mut pauses: Vec<DurNs>) -> Pause {
        pauses.sort_unstable();
        let at = |percent: usize| {
            // The lowest that at least so many are not above.
            let rank = (pauses.len() * percent).div_ceil(100).max(1);
            let pause = pauses.get(rank - 1).copied().unwrap_or_default();
            (pause.0 / 1000) as f64 / 1000.0
        };
        Pause { p50: at(50), p99: at(99) }
    }
}

impl Figures {
    /// What `kills` lives' ends came to.
    pub fn new(kills: u32, counts: &Counts, pauses: Vec<DurNs>) -> Figures {
        let Counts { tickets, results, lost, duplicated, early, client_errors, .. } = *counts;
        let pause_ms = Pause::of(pauses);
        Figures { kills, tickets, results, lost, duplicated, early, client_errors, pause_ms }
    }

    /// For people.
    pub fn text(&self) -> String {
        let Figures { kills, tickets, results, lost, duplicated, early, .. } = self;
        let Pause { p50, p99 } = self.pause_ms;
        format!(
            "{kills} kills, {tickets} tickets, {results} results: {lost} lost, {duplicated} \
             duplicated, {early} early, {} client errors; pause p50 {p50:.1} ms, p99 {p99:.1} ms",
            self.client_errors
        )
    }
}
