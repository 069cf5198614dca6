//! A soak: rounds of kills and of one long life each.
//!
//! In the long life of a round all clients go twice: ten seconds after its start, and in its end.
//! What the daemon holds then, without a single client, is compared: that is *growth*.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use parkd::core::time::DurNs;
use parkd::host::clock;
use serde::Serialize;

use super::crew::Crew;
use super::held::{Growth, Held};
use super::load::counts::Counts;
use super::load::figures::Figures;
use super::load::keeper::{Keeper, executor, store_is_empty, supervised};
use super::load::probe::Probe;
use super::load::{Dice, idle, tail};
use super::supervisor::Supervisor;
use super::support::{Executor, Folder, IO_URING, raw, until};

/// The most that a daemon may grow.
const RSS_GROWTH_MAX: i64 = 4 << 20;
/// As many fds more are no growth.
const FD_GROWTH_MAX: i64 = 2;

/// A round lasts so long at most.
const ROUND: Duration = Duration::from_secs(60);
/// When in a life it is looked at what the daemon holds.
const SETTLED: Duration = Duration::from_secs(10);
/// Between two kills at most.
const SERVES_MS: u64 = 1500;
/// One of so many lives is asked to end.
const ASKED: u64 = 4;
/// Between two looks at the clients.
const TURN: Duration = Duration::from_millis(20);

/// What a soak is told.
#[derive(Args, Clone, Debug)]
pub struct Orders {
    /// How long it lasts, about: at least 15.
    #[arg(long, value_parser = clap::value_parser!(u64).range(15..))]
    seconds: u64,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// What drives the daemon.
    #[arg(long, value_parser = executor, default_value = IO_URING.name)]
    executor: Executor,
    /// Chooses the moments [default: the time]
    #[arg(long)]
    seed: Option<u64>,
}

/// What it came to.
#[derive(Serialize)]
struct Record {
    #[serde(flatten)]
    figures: Figures,
    rss_growth_bytes: i64,
    fd_growth: i64,
}

impl Orders {
    /// A soak that lasts so long.
    pub fn new(seconds: u64, executor: Executor) -> Orders {
        Orders { seconds, json: false, executor, seed: None }
    }

    /// Soaks, prints what that came to, and answers whether all was well.
    pub fn run(&self) -> ExitCode {
        let seed = self.seed.unwrap_or_else(|| clock::now().0);
        eprintln!("seed {seed}");
        let mut soak = Soak::start(seed, &self.executor);
        let end = Instant::now() + Duration::from_secs(self.seconds);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // No round is too short for its long life.
            soak.round(if left < 2 * ROUND { left } else { ROUND });
            if left < 2 * ROUND || !soak.counts.is_clean() {
                break;
            }
        }
        self.print(soak)
    }

    fn print(&self, mut soak: Soak) -> ExitCode {
        let left = soak.supervisor.left_alone();
        left.into_iter().for_each(|complaint| soak.counts.error(complaint));
        let Growth { rss_bytes, fds } = soak.growth.unwrap_or_default();
        let figures = Figures::new(soak.kills, &soak.counts, soak.pauses);
        let text = format!("{}; grown by {rss_bytes} bytes and {fds} fds", figures.text());
        let record = Record { figures, rss_growth_bytes: rss_bytes, fd_growth: fds };
        if self.json {
            println!("{}", serde_json::to_string(&record).expect("JSON"));
        } else {
            println!("{text}");
        }
        if soak.counts.is_clean() && rss_bytes <= RSS_GROWTH_MAX && fds <= FD_GROWTH_MAX {
            return ExitCode::SUCCESS;
        }
        soak.counts.complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
        eprintln!("{}", tail(&Keeper::log(&soak.supervisor)));
        ExitCode::FAILURE
    }
}

struct Soak {
    supervisor: Supervisor,
    crew: Crew,
    dice: Dice,
    counts: Counts,
    kills: u32,
    pauses: Vec<DurNs>,
    /// That of the round with the most of it.
    growth: Option<Growth>,
}

impl Soak {
    fn start(seed: u64, executor: &Executor) -> Soak {
        let supervisor = supervised(&Folder::new(), true, executor);
        supervisor.ready(1);
        let crew = Crew::new(&Supervisor::socket(&supervisor), seed);
        let (counts, pauses, growth) = (Counts::default(), Vec::new(), None);
        Soak { supervisor, crew, dice: Dice::new(!seed), counts, kills: 0, pauses, growth }
    }

    /// Kills for a third of this time, but leaves enough for a life that settles.
    fn round(&mut self, lasts: Duration) {
        let began = Instant::now();
        let most = lasts.saturating_sub(SETTLED + SETTLED / 5);
        self.kill_until(began + (lasts / 3).min(most));
        // The last of the kills began the long life.
        let life = Instant::now();
        self.work_until(life + SETTLED);
        let settled = self.calm();
        self.work_until((began + lasts).max(Instant::now() + SETTLED / 10));
        let growth = self.calm().since(&settled);
        self.growth = Some(self.growth.map_or(growth, |other| other.max(growth)));
    }

    /// Ends lives until `end`, at least one.
    fn kill_until(&mut self, end: Instant) {
        let socket = Supervisor::socket(&self.supervisor);
        let probe = match Probe::start(&socket) {
            Ok(probe) => probe,
            Err(error) => return self.counts.error(format_args!("probe: {error}")),
        };
        loop {
            let serves = Duration::from_millis(self.dice.below(SERVES_MS));
            self.work_until(Instant::now() + serves);
            let asked = self.dice.below(ASKED) == 0;
            let ended =
                if asked { self.supervisor.restart() } else { Supervisor::kill(&self.supervisor) };
            self.kills += 1;
            match probe.first_after(ended.sent, ended.dead) {
                Some(pause) => self.pauses.push(pause),
                None => {
                    self.counts.error(format_args!("no result after life {}", ended.life));
                    break;
                }
            }
            Supervisor::ready(&self.supervisor, ended.life + 1);
            if Instant::now() >= end {
                break;
            }
        }
        self.counts.add(probe.stop());
    }

    fn work_until(&mut self, end: Instant) {
        while Instant::now() < end {
            self.crew.turn();
            idle(TURN);
        }
    }

    /// Has all clients go; answers what the daemon holds once it knows.
    fn calm(&mut self) -> Held {
        self.counts.add(self.crew.disband());
        let observer = raw::control(&Supervisor::socket(&self.supervisor));
        until("all sessions are gone", || (observer.status()["sessions"] == 0).then_some(()));
        let left = store_is_empty(|| self.supervisor.stored().len());
        left.into_iter().for_each(|complaint| self.counts.error(complaint));
        // While the observer is there, which it was the other time too.
        Held::by(self.supervisor.pid())
    }
}
