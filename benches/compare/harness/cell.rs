//! One run: a contender waits through a cell, in real processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use parkd::core::time::{DurNs, MonoNs};
use parkd::host::clock;

use super::accounts::Other;
use super::arithmetic::Round;
use super::contender::{Contender, Way};
use super::daemon::{Daemon, Daemons};
use super::member::{Member, PATIENCE};
use super::orders::{Answer, Done, Order, Run};
use super::producer::sleep_until;
use super::wake::WakeKind;
use super::workload::{Cell, PROCESSES_MAX, Times};
use super::{Doing, Result};

/// Members that play all parts of a run.
#[derive(Debug)]
pub struct Pool {
    pub waiters: Vec<Member>,
    producer: Member,
    relay: Member,
}

impl Pool {
    /// Starts them by this program.
    pub fn start(program: &Path) -> Result<Pool> {
        let start = |name: String| Member::start(program, name);
        let waiters = (0..PROCESSES_MAX).map(|at| start(format!("waiter {at}")));
        Ok(Pool {
            waiters: waiters.collect::<Result<_>>()?,
            producer: start("producer".into())?,
            relay: start("relay".into())?,
        })
    }
}

/// What a run is made in.
#[derive(Debug)]
pub struct Bench {
    pub folder: PathBuf,
    pub pool: Pool,
    /// The same members with a peer, where there is one.
    pub peers: Option<Pool>,
    pub daemons: Daemons,
    pub cpus: usize,
    pub runs: u64,
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    pub round: Round,
    /// From the stores until what the daemon found was there to be seen.
    pub detected: Vec<u32>,
}

/// Who does not wait and is charged: the daemon or a relay, and for how long CPUs were kept awake.
#[derive(Clone, Copy)]
struct Charged {
    spent: Option<Other>,
    awake_ns: u64,
    at: MonoNs,
}

impl Bench {
    /// Runs `contender` through `cell` at the times that `times` makes of now. The daemon that it
    /// needs is started where it does not run.
    pub fn run(
        &mut self,
        contender: &Contender,
        cell: &Cell,
        seed: u64,
        times: impl Fn(MonoNs) -> Times,
    ) -> Result<Outcome> {
        self.runs += 1;
        let daemon = match contender.is_parkd() {
            true => Some(self.daemons.with(contender.changes)?),
            false => None,
        };
        let pool = match contender.way {
            Way::Peer => self.peers.as_ref().ok_or("no peers")?,
            _ => &self.pool,
        };
        let relay = (contender.wake == WakeKind::Relay)
            .then(|| self.folder.join(format!("relay-{}", self.runs)));
        // Asked only where it matters, since it costs the daemon something.
        let measured = daemon.filter(|_| contender.way == Way::Results);
        let daemon_cpu = measured.map(Daemon::cpu).transpose()?.flatten();
        let run = Run {
            way: contender.way,
            wake: contender.wake,
            workload: cell.workload,
            seed,
            waiters: cell.shape.waiters,
            processes: cell.shape.processes,
            daemon: daemon.map(|daemon| daemon.socket().to_owned()),
            daemon_cpu,
            relay,
            name: format!("parkd-compare/{}/{}", std::process::id(), self.runs),
        };
        let stage = Stage { run, pool, daemon, cpus: self.cpus };
        let outcome = stage.play(times).doing(&contender.name)?;
        if contender.alone {
            self.daemons.end(contender.changes);
        }
        Ok(outcome)
    }
}

/// A run with who takes part.
struct Stage<'a> {
    run: Run,
    pool: &'a Pool,
    daemon: Option<&'a Daemon>,
    cpus: usize,
}

impl Stage<'_> {
    fn waiters(&self) -> &[Member] {
        &self.pool.waiters[..self.run.processes as usize]
    }

    fn relay(&self) -> Option<&Member> {
        self.run.relay.as_ref().map(|_| &self.pool.relay)
    }

    /// The producer, where it is a process of its own.
    fn producer(&self) -> Option<&Member> {
        (self.run.wake != WakeKind::Condvar).then_some(&self.pool.producer)
    }

    fn play(&self, times: impl Fn(MonoNs) -> Times) -> Result<Outcome> {
        self.ready()?;
        let times = times(clock::now());
        for member in self.waiters().iter().chain(self.producer()) {
            member.tell(&Order::Start(times), &[])?;
        }
        sleep_until(times.count);
        let begin = self.charged(true)?;
        sleep_until(times.end);
        let end = self.charged(false)?;
        self.collect(&times, begin, end)
    }

    /// Has everybody ready to start.
    fn ready(&self) -> Result<()> {
        if let Some(relay) = self.relay() {
            relay.tell(&Order::Relay { run: self.run.clone() }, &[])?;
            relay.ready()?;
        }
        for (process, member) in (0..).zip(self.waiters()) {
            member.tell(&Order::Wait { run: self.run.clone(), process }, &[])?;
        }
        let handed = self.waiters().iter().map(Member::ready).collect::<Result<Vec<_>>>()?;
        if let Some(producer) = self.producer() {
            producer.tell(&Order::Produce { run: self.run.clone() }, &[])?;
            for fds in handed {
                producer.tell(&Order::Hand, &fds)?;
            }
            producer.ready()?;
        }
        Ok(())
    }

    fn charged(&self, begin: bool) -> Result<Charged> {
        let pid = self.daemon.map(Daemon::pid).or(self.relay().map(Member::pid));
        let spent = || pid.map(Other::of).transpose();
        // Asking the daemon costs it something: outside of what is counted.
        let first = if begin { None } else { spent()? };
        let awake = self.daemon.map(|daemon| daemon.count("/fill/awake_ns")).transpose()?;
        let at = clock::now();
        let spent = if begin { spent()? } else { first };
        Ok(Charged { spent, awake_ns: awake.flatten().unwrap_or(0), at })
    }

    fn collect(&self, times: &Times, begin: Charged, end: Charged) -> Result<Outcome> {
        let patience = Duration::from_nanos(times.stop.since(clock::now()).0) + PATIENCE;
        let (mut wakes, mut detected, mut sum) = (Vec::new(), Vec::new(), Done::default());
        for member in self.waiters() {
            let done = loop {
                match member.hear(patience)?.0 {
                    Answer::Wakes(part) => wakes.extend(part),
                    Answer::Detected(part) => detected.extend(part),
                    Answer::Done(done) => break done,
                    odd => return Err(format!("a waiter said {odd:?}")),
                }
            };
            sum.late += done.late;
            sum.cpu_share += done.cpu_share;
            sum.switches_per_s += done.switches_per_s;
        }
        for member in self.producer().into_iter().chain(self.relay()) {
            member.hear(patience)?;
        }
        if let (Some(begin), Some(end)) = (begin.spent, end.spent) {
            let others = end.since(begin);
            sum.cpu_share += others.cpu_share;
            sum.switches_per_s += others.switches_per_s;
        }
        sum.cpu_share += self.kept_awake(begin, end);
        let window = times.window_ns();
        let round = Round::new(wakes, sum.late, sum.cpu_share, sum.switches_per_s, window);
        Ok(Outcome { round, detected })
    }

    /// The time for which idle CPUs were kept from sleeping is CPU that somebody pays for: that of
    /// all but the daemon's own.
    fn kept_awake(&self, begin: Charged, end: Charged) -> f64 {
        let held = end.awake_ns.saturating_sub(begin.awake_ns) as f64;
        let DurNs(wall) = end.at.since(begin.at);
        held / wall.max(1) as f64 * self.cpus.saturating_sub(1) as f64
    }
}
