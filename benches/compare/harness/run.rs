//! The whole comparison: which runs, in which order, and what is written in the end.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use parkd::demo::Folder;

use super::arithmetic::Round;
use super::cell::{Bench, Pool};
use super::cli::Orders;
use super::contender::{self, Contender, Way};
use super::daemon::{Daemon, Daemons};
use super::plan::Plan;
use super::record::{Record, Row};
use super::throughput::{self, Span};
use super::workload::{self, Cell};
use super::{Doing, Result, header, peers, picture, scale, table};

/// How long the runs of a comparison take together, in seconds.
const QUICK_SECONDS: u64 = 42;
const FULL_SECONDS: u64 = 40 * 60;

const QUICK_ROUNDS: u32 = 3;
const FULL_ROUNDS: u32 = 5;

/// Workloads of their own kind.
const THROUGHPUT: &str = "throughput";
const SCALE: &str = "scale";

/// Chooses the jobs of a round.
const SEED: u64 = 0x0063_6f6d_7061_7265;

/// Runs it.
pub fn all(orders: &Orders) -> Result<()> {
    let folder = Folder::new().doing("folder")?;
    let mut comparison = Comparison::new(orders, &folder)?;
    let rows = comparison.rows()?;
    let mut record = Record { rows, ..Record::default() };
    comparison.rest(&mut record)?;
    let executor = comparison.bench.daemons.with(&[])?.status()?;
    let executor = executor["executor"].as_str().unwrap_or("unknown").to_owned();
    record.header = header::of(executor, comparison.skipped);
    if let Some(file) = &orders.json {
        let json = serde_json::to_string_pretty(&record).doing("JSON")?;
        std::fs::write(file, json + "\n").doing(&file.to_string_lossy())?;
    }
    if let Some(file) = &orders.plot {
        std::fs::write(file, picture::of(&record)).doing(&file.to_string_lossy())?;
    }
    write!(std::io::stdout(), "{}", table::of(&record)).doing("stdout")
}

/// Refuses names that nothing has.
fn check_names(orders: &Orders) -> Result<()> {
    let all = contender::all();
    let known = |name: &&String| all.iter().any(|one| one.name == **name);
    if let Some(odd) = orders.contenders.iter().find(|name| !known(name)) {
        let names: Vec<_> = all.into_iter().map(|one| one.name).collect();
        return Err(format!("--contender {odd}: none of {}", names.join(", ")));
    }
    let cells = workload::cells(orders.quick, &orders.workloads);
    let known = |name: &&String| {
        [THROUGHPUT, SCALE].contains(&name.as_str())
            || cells.iter().any(|cell| cell.workload.is(name))
    };
    if let Some(odd) = orders.workloads.iter().find(|name| !known(name)) {
        let names: Vec<_> = workload::PATTERNS.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        return Err(format!("--workload {odd}: none of {names}, {THROUGHPUT}, {SCALE}"));
    }
    Ok(())
}

struct Comparison<'a> {
    orders: &'a Orders,
    bench: Bench,
    contenders: Vec<Contender>,
    skipped: Vec<String>,
    cells: Vec<Cell>,
}

impl<'a> Comparison<'a> {
    fn new(orders: &'a Orders, folder: &Folder) -> Result<Comparison<'a>> {
        check_names(orders)?;
        let program = std::env::current_exe().doing("this program")?;
        let bench = Bench {
            folder: folder.path().to_owned(),
            pool: Pool::start(&program)?,
            peers: None,
            daemons: Daemons::new(folder.path()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            runs: 0,
        };
        let (contenders, skipped, cells) = (Vec::new(), Vec::new(), Vec::new());
        let mut comparison = Comparison { orders, bench, contenders, skipped, cells };
        comparison.choose_contenders()?;
        comparison.choose_cells();
        Ok(comparison)
    }

    /// Keeps those who can run here, and says why others cannot.
    fn choose_contenders(&mut self) -> Result<()> {
        for contender in contender::all() {
            let asked = self.orders.contenders.contains(&contender.name);
            let wanted = match self.orders.contenders.is_empty() {
                true => contender.quick || !self.orders.quick,
                false => asked,
            };
            if !wanted {
                continue;
            }
            match self.why_not(&contender)? {
                Some(why) => self.skipped.push(format!("{}: {why}", contender.name)),
                None => self.contenders.push(contender),
            }
        }
        Ok(())
    }

    /// Why a contender cannot run here, where it cannot.
    fn why_not(&mut self, contender: &Contender) -> Result<Option<String>> {
        if cfg!(not(feature = "tokio")) && contender.way == Way::ParkdTokio {
            return Ok(Some("built without tokio".into()));
        }
        if contender.way == Way::Peer {
            let peers = peers::program(self.orders.quick).and_then(|program| Pool::start(&program));
            return match peers {
                Ok(pool) => {
                    self.bench.peers = Some(pool);
                    Ok(None)
                }
                Err(why) => Ok(Some(why)),
            };
        }
        if contender.changes.is_empty() {
            return Ok(None);
        }
        Daemon::refuses(&self.bench.folder, contender.changes)
    }

    fn choose_cells(&mut self) {
        let cells = workload::cells(self.orders.quick, &self.orders.workloads);
        let cpus = self.bench.cpus;
        for cell in cells {
            if !cell.can_run() {
                let (title, stores) = (cell.title(), cell.stores_per_s());
                self.skipped.push(format!("{title}: {stores} stores a second, too many to make"));
                continue;
            }
            let spinners = self.contenders.iter().filter(|one| !one.can_run(&cell, cpus));
            let names: Vec<_> = spinners.map(|one| one.name.as_str()).collect();
            if !names.is_empty() {
                let (title, names) = (cell.title(), names.join(", "));
                self.skipped.push(format!("{title}: {names}: not fewer than {cpus} CPUs"));
            }
            self.cells.push(cell);
        }
    }

    fn of_cell(&self, cell: &Cell) -> Vec<Contender> {
        let cpus = self.bench.cpus;
        self.contenders.iter().filter(|one| one.can_run(cell, cpus)).cloned().collect()
    }

    fn plan(&self) -> Plan {
        let runs = self.cells.iter().map(|cell| (*cell, self.of_cell(cell).len()));
        let runs: Vec<_> = runs.collect();
        let (rounds, seconds) = match self.orders.quick {
            true => (QUICK_ROUNDS, QUICK_SECONDS),
            false => (FULL_ROUNDS, FULL_SECONDS),
        };
        Plan::new(rounds, &runs, Duration::from_secs(self.orders.seconds.unwrap_or(seconds)))
    }

    /// All cells in turn.
    fn rows(&mut self) -> Result<Vec<Row>> {
        let plan = self.plan();
        let mut rows = Vec::new();
        for cell in self.cells.clone() {
            self.say(&cell.title());
            let contenders = self.of_cell(&cell);
            let mut rounds: Vec<Vec<Round>> = contenders.iter().map(|_| Vec::new()).collect();
            for round in 0..plan.rounds as usize {
                for turn in 0..contenders.len() {
                    // The order turns from round to round, by less than all at once.
                    let at = (turn + round * contenders.len().div_ceil(3)) % contenders.len();
                    let times = |now| plan.times(&cell, now);
                    let seed = SEED + round as u64;
                    let outcome = self.bench.run(&contenders[at], &cell, seed, times);
                    rounds[at].push(outcome.doing(&cell.title())?.round);
                }
            }
            let of_cell = contenders.iter().zip(&rounds);
            rows.extend(of_cell.map(|(one, rounds)| Row::new(&one.name, &cell, rounds)));
        }
        Ok(rows)
    }

    /// Throughput and scale.
    fn rest(&mut self, record: &mut Record) -> Result<()> {
        let (rounds, window_ms) = match (self.orders.quick, self.orders.seconds) {
            (_, Some(_)) => (1, 100),
            (true, None) => (2, 250),
            (false, None) => (5, 1000),
        };
        if self.orders.wants(THROUGHPUT) {
            self.say(THROUGHPUT);
            record.throughput = throughput::measure(&mut self.bench, Span { rounds, window_ms })?;
        }
        if !self.orders.wants(SCALE) {
            return Ok(());
        }
        self.say(SCALE);
        record.scale = scale::measure(&mut self.bench, rounds, window_ms * 1_000_000)?;
        Ok(())
    }

    /// Says where the comparison is, to somebody who watches.
    fn say(&self, what: &str) {
        let mut stderr = std::io::stderr();
        if stderr.is_terminal() {
            let _ = writeln!(stderr, "{what}");
        }
    }
}
