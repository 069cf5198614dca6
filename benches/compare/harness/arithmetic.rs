//! Percentiles, medians over rounds, ratios: all sums that figures are made of.

use serde::{Deserialize, Serialize};

use super::record::WakeNs;

/// The value that `quantile` (0..=1) of the values are at most: the nearest rank. `sorted` rises.
pub fn quantile(sorted: &[u32], quantile: f64) -> u64 {
    let rank = (quantile * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).or(sorted.last()).copied().unwrap_or(0).into()
}

/// The middle value; of an even number of them the mean of both in the middle. 0 for none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        even if even % 2 == 0 => f64::midpoint(values[half - 1], values[half]),
        _ => values[half],
    }
}

/// What one run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    pub wake_ns: WakeNs,
    pub late_percent: f64,
    pub cpu_ns_per_completion: f64,
    pub completions: u64,
    pub ctx_switches: u64,
}

impl Round {
    /// Of the latencies of a run; CPU is the share of one CPU that all took over a window of
    /// `window_ns`, switches are those of a second.
    pub fn new(
        mut wakes: Vec<u32>,
        late: u64,
        cpu_share: f64,
        switches_per_s: f64,
        window_ns: u64,
    ) -> Round {
        wakes.sort_unstable();
        let completions = wakes.len() as u64;
        let each = completions.max(1) as f64;
        Round {
            wake_ns: WakeNs {
                p50: quantile(&wakes, 0.5),
                p99: quantile(&wakes, 0.99),
                p999: quantile(&wakes, 0.999),
                max: quantile(&wakes, 1.0),
            },
            late_percent: late as f64 / each * 100.0,
            cpu_ns_per_completion: cpu_share * window_ns as f64 / each,
            completions,
            ctx_switches: (switches_per_s * window_ns as f64 / 1e9).round() as u64,
        }
    }

    /// The median of rounds, figure by figure; of the longest wake the longest, and what was
    /// counted summed up.
    pub fn median(rounds: &[Round]) -> Round {
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
        Round {
            wake_ns: WakeNs {
                p50: of(|round| round.wake_ns.p50 as f64).round() as u64,
                p99: of(|round| round.wake_ns.p99 as f64).round() as u64,
                p999: of(|round| round.wake_ns.p999 as f64).round() as u64,
                max: rounds.iter().map(|round| round.wake_ns.max).max().unwrap_or(0),
            },
            late_percent: of(|round| round.late_percent),
            cpu_ns_per_completion: of(|round| round.cpu_ns_per_completion),
            completions: rounds.iter().map(|round| round.completions).sum(),
            ctx_switches: rounds.iter().map(|round| round.ctx_switches).sum(),
        }
    }
}

/// `of` over `to`; none where there is nothing to divide by.
pub fn ratio(of: f64, to: f64) -> Option<f64> {
    (to > 0.0).then(|| of / to)
}
