//! How the daemon waits for one ticket after the other, computed.
//!
//! A wait's work takes so long; the wait sleeps as long as its estimator says, then *watches*
//! (looks without a pause) for `spin_us`, then looks every `park_us`. Without an estimate it looks
//! every `park_us` from the start. What it learns is what the engine would. Left out is what no
//! rule changes: that sleeps end late, that wakes take time, and the budget for watching.

use std::path::Path;

use parkd::core::estimator::{EstimatorKind, Sample};
use parkd::core::plan::{Park, Predict};
use parkd::core::time::DurNs;
use parkd::daemon::config::Config;

/// Pause between two looks of a client that sleeps.
const SLEEP_POLL_NS: u64 = 100_000;

/// The numbers of a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    pub predict: Predict,
    pub late_percent: u32,
    pub spin_ns: u64,
    pub park_ns: u64,
}

/// Who decides how long to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Estimated(EstimatorKind),
    /// Nobody: it watches all the time.
    Spin,
    /// Nobody: it looks every 100 us.
    SleepPoll,
}

impl Rule {
    pub fn name(self) -> &'static str {
        match self {
            Rule::Estimated(kind) => kind.label(),
            Rule::Spin => "spin",
            Rule::SleepPoll => "sleep-poll",
        }
    }
}

/// What one wait came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wait {
    late: bool,
    /// From the end of the work to the look that found it.
    added_ns: u64,
    /// Time spent watching.
    watched_ns: u64,
}

/// What the waits of a trace came to.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    waits: u64,
    late: u64,
    /// Rises.
    added_ns: Vec<u64>,
    watched_ns: u64,
    work_ns: u64,
}

impl Looks {
    /// Those of a configuration's text.
    pub fn shipped(text: &str) -> Result<Looks, String> {
        let config = Config::parse(Path::new("parkd.toml"), text);
        let config = config.map_err(|error| error.to_string())?;
        let device = config.devices.first().ok_or("no device")?;
        let plan = device.plan.plan_for(0);
        let (Some(predict), Park::Flag { park_us, .. }) = (plan.predict, plan.park) else {
            return Err(format!("the default plan {plan} predicts nothing"));
        };
        Ok(Looks {
            predict,
            late_percent: config.predict.late_percent,
            spin_ns: u64::from(config.park.spin_us) * 1000,
            park_ns: u64::from(park_us) * 1000,
        })
    }

    /// Waits for one piece of work after the other, by a rule.
    pub fn replay(&self, rule: Rule, work: &[u64]) -> Totals {
        let mut totals = Totals::default();
        match rule {
            Rule::Estimated(kind) => {
                let mut estimator = kind.cold(self.late_percent);
                for &ns in work {
                    let (wait, sample) = self.wait(estimator.sleep(&self.predict), ns);
                    estimator.record(&self.predict, sample);
                    totals.add(wait, ns);
                }
            }
            Rule::Spin => {
                work.iter()
                    .for_each(|&ns| totals.add(Wait { watched_ns: ns, ..Wait::default() }, ns));
            }
            Rule::SleepPoll => {
                let added = |ns: u64| ns.next_multiple_of(SLEEP_POLL_NS) - ns;
                let wait = |ns| Wait { late: true, added_ns: added(ns), watched_ns: 0 };
                work.iter().for_each(|&ns| totals.add(wait(ns), ns));
            }
        }
        totals.added_ns.sort_unstable();
        totals
    }

    /// One wait for `work` nanoseconds that sleeps as long as this first, and what it teaches.
    fn wait(&self, sleep: Option<DurNs>, work: u64) -> (Wait, Sample) {
        let Some(DurNs(sleep)) = sleep else { return self.parked(0, work, 0) };
        if work <= sleep {
            let wait = Wait { late: true, added_ns: sleep - work, watched_ns: 0 };
            return (wait, Sample::Late { woke_after: DurNs(sleep) });
        }
        let watched = work - sleep;
        if watched > self.spin_ns {
            return self.parked(sleep + self.spin_ns, work, self.spin_ns);
        }
        let wait = Wait { late: false, added_ns: 0, watched_ns: watched };
        (wait, Sample::Exact(DurNs(work)))
    }

    /// A look every `park_us` from a time on.
    fn parked(&self, from: u64, work: u64, watched_ns: u64) -> (Wait, Sample) {
        let parks = (work - from).div_ceil(self.park_ns).max(1);
        let to = from + parks * self.park_ns;
        let wait = Wait { late: false, added_ns: to - work, watched_ns };
        (wait, Sample::Between { from: DurNs(to - self.park_ns), to: DurNs(to) })
    }
}

impl Totals {
    fn add(&mut self, wait: Wait, work: u64) {
        self.waits += 1;
        self.late += u64::from(wait.late);
        self.added_ns.push(wait.added_ns);
        self.watched_ns += wait.watched_ns;
        self.work_ns += work + wait.added_ns;
    }

    /// Waits whose work was found done when their sleep ended.
    pub fn late_percent(&self) -> f64 {
        self.late as f64 * 100.0 / self.waits.max(1) as f64
    }

    /// From the end of the work to the look that found it, on average.
    pub fn mean_added_ns(&self) -> f64 {
        self.added_ns.iter().sum::<u64>() as f64 / self.waits.max(1) as f64
    }

    /// The same of so many of the waits at most.
    pub fn added_ns(&self, quantile: f64) -> u64 {
        let rank = (quantile * self.added_ns.len() as f64).ceil() as usize;
        self.added_ns.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }

    /// Time spent watching, of all the time.
    pub fn watched_percent(&self) -> f64 {
        self.watched_ns as f64 * 100.0 / self.work_ns.max(1) as f64
    }
}
