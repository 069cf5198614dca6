//! How the daemon waits for one ticket after the other, computed.
//!
//! A wait's work takes so long; the wait sleeps as long as its estimator says, then *watches*
//! (looks without a pause) for `spin_us` or while the budget lasts, then looks every `park_us`.
//! Without an estimate it looks every `park_us` from the start. What it learns is what the engine
//! would. A sleep ends up to [`OVERSLEPT_NS`] off its time, a waiter runs [`WAKE_NS`] after a look
//! that found its work done. Then the next work starts; or it has gone on, where work is *back to
//! back*: then the next wait is shorter by as much as the last was found late.

use std::path::Path;

use parkd::core::anchored::Begun;
use parkd::core::estimator::{Estimator, EstimatorKind, Foreseen, Sample};
use parkd::core::plan::{Park, Predict};
use parkd::core::time::DurNs;
use parkd::daemon::config::Config;
use parkd::soft::work::split_mix;

/// Pause between two looks of a client that sleeps.
const SLEEP_POLL_NS: u64 = 100_000;

/// How far off its time a sleep ends at most, either way: what is left after the daemon has made up
/// for the median.
const OVERSLEPT_NS: u64 = 5_000;

/// Wall time whose share may be watched at most, and the least that is begun with: those of
/// `src/engine/budget.rs`.
const CAPACITY_NS: u64 = 20_000_000;
const QUANTUM_NS: u64 = 20_000;

/// From a look that found something to the waiter's next wait.
const WAKE_NS: u64 = 10_000;

/// Chooses how far off sleeps end.
const SEED: u64 = 0x6f76_6572;

/// The numbers of a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    pub predict: Predict,
    pub late_percent: u32,
    pub spin_ns: u64,
    pub park_ns: u64,
    pub budget_percent: u32,
}

/// Work that is waited for, one piece after the other.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// How long each takes.
    pub ns: &'a [u64],
    /// Whether the next begins when one ends, whoever waits; else when the waiter comes back.
    pub back_to_back: bool,
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
    all_ns: u64,
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
            budget_percent: config.park.spin_budget_percent,
        })
    }

    /// Waits for one piece of work after the other, by a rule.
    pub fn replay(&self, rule: Rule, work: Work<'_>) -> Totals {
        let mut by = match rule {
            Rule::Estimated(kind) => By::Estimator(kind.cold(self.late_percent), Budget::new(self)),
            Rule::Spin => By::Spin,
            Rule::SleepPoll => By::SleepPoll,
        };
        let (mut totals, mut now, mut due) = (Totals::default(), 0, 0);
        let mut seen = None;
        for (job, &ns) in (0..).zip(work.ns) {
            due = if work.back_to_back { due + ns } else { now + ns };
            let left = due.saturating_sub(now);
            let wait = match &mut by {
                _ if left == 0 => {
                    if let By::Estimator(estimator, _) = &mut by {
                        let immediate = Sample::Immediate(DurNs(0));
                        estimator.record(&self.predict, immediate, Begun::default());
                    }
                    Wait { late: false, added_ns: now - due, watched_ns: 0 }
                }
                By::Estimator(estimator, budget) => {
                    let off = split_mix(SEED, job) % (2 * OVERSLEPT_NS + 1);
                    let after = seen.map(|seen: u64| DurNs(now.saturating_sub(seen)));
                    let begun = Begun { after, slack: DurNs::ZERO };
                    let foreseen = estimator.foresee(&self.predict, begun).map(|mut foreseen| {
                        if foreseen.sleep > DurNs::ZERO {
                            let sleep = (foreseen.sleep.0 + off).saturating_sub(OVERSLEPT_NS);
                            foreseen.sleep = DurNs(sleep);
                        }
                        foreseen
                    });
                    let (wait, sample) = self.wait(foreseen, left, budget, now);
                    estimator.record(&self.predict, sample, begun);
                    wait
                }
                By::Spin => Wait { watched_ns: left, ..Wait::default() },
                By::SleepPoll => {
                    let added_ns = left.next_multiple_of(SLEEP_POLL_NS) - left;
                    Wait { late: true, added_ns, watched_ns: 0 }
                }
            };
            totals.add(wait);
            // Where a park found it only the time between two looks is known.
            seen = Some(if wait.late { due + wait.added_ns } else { due + wait.added_ns / 2 });
            now = due + wait.added_ns + if rule == Rule::Spin { 0 } else { WAKE_NS };
        }
        totals.all_ns = now;
        totals.added_ns.sort_unstable();
        totals
    }

    /// One wait for `work` nanoseconds of which this is foreseen, and what it teaches.
    fn wait(
        &self,
        foreseen: Option<Foreseen>,
        work: u64,
        budget: &mut Budget,
        now: u64,
    ) -> (Wait, Sample) {
        let Some(Foreseen { sleep: DurNs(sleep), expected }) = foreseen else {
            return self.parked(0, work, 0);
        };
        if work <= sleep {
            let wait = Wait { late: true, added_ns: sleep - work, watched_ns: 0 };
            return (wait, Sample::Late { woke_after: DurNs(sleep) });
        }
        let looks = sleep.max(expected.0.saturating_sub(self.spin_ns / 2));
        if work <= looks {
            // The last park before the looking starts may be cut short.
            let parks = (work - sleep).div_ceil(self.park_ns);
            let from = sleep + (parks - 1) * self.park_ns;
            let to = (from + self.park_ns).min(looks);
            let wait = Wait { late: false, added_ns: to - work, watched_ns: 0 };
            return (wait, Sample::Between { from: DurNs(from), to: DurNs(to) });
        }
        let watched = (work - looks).min(self.spin_ns).min(budget.at(now + looks));
        budget.left_ns -= watched;
        if looks + watched < work {
            return self.parked(looks + watched, work, watched);
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

/// What a rule keeps from wait to wait.
enum By {
    Estimator(Estimator, Budget),
    Spin,
    SleepPoll,
}

/// What may be watched: as `src/engine/budget.rs`, for one session alone.
struct Budget {
    percent: u64,
    left_ns: u64,
    filled: u64,
}

impl Budget {
    fn new(looks: &Looks) -> Budget {
        let percent = u64::from(looks.budget_percent);
        Budget { percent, left_ns: CAPACITY_NS * percent / 100, filled: 0 }
    }

    /// What may be watched from `now` on.
    fn at(&mut self, now: u64) -> u64 {
        let filled = (now - self.filled) * self.percent / 100;
        self.left_ns = (self.left_ns + filled).min(CAPACITY_NS * self.percent / 100);
        self.filled = now;
        if self.left_ns < QUANTUM_NS { 0 } else { self.left_ns }
    }
}

impl Totals {
    fn add(&mut self, wait: Wait) {
        self.waits += 1;
        self.late += u64::from(wait.late);
        self.added_ns.push(wait.added_ns);
        self.watched_ns += wait.watched_ns;
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
        self.watched_ns as f64 * 100.0 / self.all_ns.max(1) as f64
    }
}
