//! The ratios that parkd is held to, from one record.

use super::arithmetic::ratio;
use super::record::{Record, Row};

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub what: String,
    /// None where the record lacks what it is made of.
    pub value: Option<f64>,
    pub bound: Bound,
}

/// What it has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    /// Whether it is; none where there is no value.
    pub fn met(&self) -> Option<bool> {
        self.value.map(|value| match self.bound {
            Bound::AtMost(most) => value <= most,
            Bound::AtLeast(least) => value >= least,
        })
    }
}

fn target(what: impl Into<String>, value: Option<f64>, bound: Bound) -> Target {
    Target { what: what.into(), value, bound }
}

const PARKD: &str = "parkd-futex";
const COOPERATING: &str = "futex-cooperating";

/// All of them.
pub fn of(record: &Record) -> Vec<Target> {
    let mut all = wakes(record);
    all.extend(looking(record));
    all.extend(cpu(record));
    all.push(target(
        "silent, 200 us and more: contenders better in both p50 and CPU",
        beaten(record),
        Bound::AtMost(0.0),
    ));
    all.extend(counted(record));
    all
}

type Figure = fn(&Row) -> f64;

/// A figure of one row over that of another, in the cell of one waiter.
fn over(record: &Record, workload: &str, figure: Figure, of: &str, to: &str) -> Option<f64> {
    let row = |name| record.row(name, workload, 1000, 1).map(figure);
    ratio(row(of)?, row(to)?)
}

fn wakes(record: &Record) -> Vec<Target> {
    let p50: Figure = |row| row.wake_ns.p50 as f64;
    let p99: Figure = |row| row.wake_ns.p99 as f64;
    let early = format!("{PARKD}/early");
    let never = format!("{PARKD}/never");
    let bell = format!("{PARKD}/bell");
    let list: [(&str, Figure, &str, f64); 6] = [
        ("p50", p50, PARKD, 0.3),
        ("p50", p50, &early, 0.1),
        ("p50", p50, &never, 1.2),
        ("p99", p99, PARKD, 0.6),
        ("p99", p99, &never, 1.5),
        ("p50", p50, &bell, 2.2),
    ];
    let one = |(name, figure, of, most): (&str, Figure, &str, f64)| {
        let what = format!("wake {name}, steady 1 ms: {of} / {COOPERATING}");
        target(what, over(record, "steady", figure, of, COOPERATING), Bound::AtMost(most))
    };
    list.into_iter().map(one).collect()
}

fn looking(record: &Record) -> Option<Target> {
    let row = |name| record.row(name, "steady", 1000, 1).map(|row| row.wake_ns.p50 as f64);
    let (ring, spin) = (row("parkd-ring"), row("spin"));
    // Five times as much, or a microsecond more, whichever lets more pass.
    let most = spin.map(|spin| (5.0 * spin).max(spin + 1000.0));
    let value = ring.zip(most).and_then(|(ring, most)| ratio(ring, most));
    Some(target(
        "wake p50, steady 1 ms: parkd-ring / (5 x spin, or spin + 1 us)",
        value,
        Bound::AtMost(1.0),
    ))
}

fn cpu(record: &Record) -> Vec<Target> {
    let row = |name, waiters| record.row(name, "jitter-5", 1000, waiters);
    let cpu = |name, waiters| row(name, waiters).map(|row: &Row| row.cpu_ns_per_completion);
    let mut all = Vec::new();
    for (waiters, most) in [(1, 0.20), (8, 0.12)] {
        // Each of several would need a spinner of its own: one's price is what each saves.
        let value = cpu(PARKD, waiters).zip(cpu("spin", 1)).and_then(|(of, to)| ratio(of, to));
        let what = format!("CPU, jitter-5 1 ms, {waiters} in {waiters}: {PARKD} / spin");
        all.push(target(what, value, Bound::AtMost(most)));
        let late = row(PARKD, waiters).map(|row| row.late_percent);
        let what = format!("late percent, jitter-5 1 ms, {waiters} in {waiters}: {PARKD}");
        all.push(target(what, late, Bound::AtMost(1.0)));
    }
    all
}

/// How many rows of silent contenders have both a lower p50 and a lower CPU than both of parkd's.
fn beaten(record: &Record) -> Option<f64> {
    let silent = |row: &&Row| {
        let others = !row.contender.contains("cooperating") && !row.contender.starts_with("parkd");
        others && row.work_us >= 200
    };
    let beats = |row: &&Row| {
        let own = |name: &str| {
            record.rows.iter().find(|own| {
                own.contender == name
                    && own.workload == row.workload
                    && own.work_us == row.work_us
                    && own.waiters == row.waiters
                    && own.processes == row.processes
            })
        };
        [PARKD, "parkd-eventfd"].into_iter().filter_map(own).all(|own| {
            row.wake_ns.p50 < own.wake_ns.p50
                && row.cpu_ns_per_completion < own.cpu_ns_per_completion
        })
    };
    let has = |name: &str| record.rows.iter().any(|row| row.contender == name);
    let enough = has(PARKD) && has("parkd-eventfd") && record.rows.iter().any(|row| silent(&row));
    enough.then(|| record.rows.iter().filter(silent).filter(beats).count() as f64)
}

/// Throughput and scale.
fn counted(record: &Record) -> Vec<Target> {
    let rows = &record.throughput;
    let of = |path, clients| rows.iter().find(|row| row.path == path && row.clients == clients);
    let rate = |path, clients| of(path, clients).map(|row| row.tickets_per_s);
    let calls = of("ring", 1).and_then(|row| row.syscalls_per_completion);
    let together = |path| rate(path, 8).zip(rate(path, 1)).and_then(|(of, to)| ratio(of, to));
    let scale = |outstanding| record.scale.iter().find(|row| row.outstanding == outstanding);
    let (one, many) = (scale(1), scale(100_000));
    let detect = many
        .zip(one)
        .and_then(|(many, one)| ratio(many.detect_ns_p50 as f64, one.detect_ns_p50 as f64));
    // 8 MiB may go into what does not grow with the tickets.
    let fixed = 8.0 * 1024.0 * 1024.0;
    let bytes = many.map(|many| many.daemon_bytes_per_ticket - fixed / many.outstanding as f64);
    let (most, least) = (Bound::AtMost, Bound::AtLeast);
    vec![
        target("tickets/s, ring, 1 client", rate("ring", 1), least(3_000_000.0)),
        target("tickets/s, socket in batches of 64, 1 client", rate("socket", 1), least(500_000.0)),
        target("tickets/s, ring: 8 clients together / 1", together("ring"), least(0.9)),
        target("tickets/s, socket: 8 clients together / 1", together("socket"), least(0.9)),
        target("system calls per completion, ring, depth 256", calls, most(0.1)),
        target("detection p50: 100,000 outstanding / 1", detect, most(2.0)),
        target(
            "daemon bytes per waiting ticket, less 8 MiB",
            bytes.map(|b| b.max(0.0)),
            most(256.0),
        ),
    ]
}
