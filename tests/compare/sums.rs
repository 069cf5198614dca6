//! The comparison's own arithmetic.

use std::path::Path;
use std::time::Duration;

use parkd::core::time::MonoNs;

use crate::harness::arithmetic::{Round, median, quantile, ratio};
use crate::harness::contender;
use crate::harness::crowd;
use crate::harness::plan::Plan;
use crate::harness::record::{Record, Row, Scale, Throughput, WakeNs};
use crate::harness::settings::{self, VARIANTS};
use crate::harness::syscalls;
use crate::harness::targets::{self, Bound};
use crate::harness::workload::{Cell, EIGHT, ONE, Pattern, Times, Workload, cells};

pub const TESTS: &[(&str, fn())] = &[
    ("quantiles_are_nearest_ranks", quantiles),
    ("medians_are_those_of_rounds", medians),
    ("a_round_is_what_its_run_counted", rounds),
    ("targets_are_ratios_of_rows", ratios),
    ("streams_are_known_beforehand", streams),
    ("runs_take_no_longer_than_they_may", plans),
    ("every_variant_changes_the_shipped_configuration", variants),
    ("contenders_have_names_of_their_own", names),
    ("memory_is_what_is_private_tables_and_rings", memory),
    ("a_crowd_fills_its_rings", rings),
    ("calls_are_read_from_straces_table", calls),
];

fn quantiles() {
    let hundred: Vec<u32> = (1..=100).collect();
    for (share, value) in [(0.0, 1), (0.01, 1), (0.5, 50), (0.505, 51), (0.99, 99), (1.0, 100)] {
        assert_eq!(quantile(&hundred, share), value, "{share}");
    }
    assert_eq!(quantile(&hundred, 0.999), 100);
    assert_eq!((quantile(&[7], 0.5), quantile(&[], 0.5)), (7, 0));
}

fn medians() {
    assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median([4.0, 1.0, 3.0, 2.0]), 2.5);
    assert_eq!(median([]), 0.0);
    assert_eq!((ratio(3.0, 2.0), ratio(3.0, 0.0)), (Some(1.5), None));
    let round = |p50, max, cpu_ns_per_completion| Round {
        wake_ns: WakeNs { p50, p99: 10 * p50, p999: 100 * p50, max },
        cpu_ns_per_completion,
        completions: 10,
        ctx_switches: 3,
        late_percent: cpu_ns_per_completion / 10.0,
    };
    // Each figure has its own median, whichever round it is of.
    let all = Round::median(&[round(5, 900, 1.0), round(1, 700, 9.0), round(3, 800, 4.0)]);
    assert_eq!(all.wake_ns, WakeNs { p50: 3, p99: 30, p999: 300, max: 900 });
    assert_eq!((all.cpu_ns_per_completion, all.late_percent), (4.0, 0.4));
    assert_eq!((all.completions, all.ctx_switches), (30, 9));
}

fn rounds() {
    let wakes: Vec<u32> = (1..=200).rev().collect();
    // Half a CPU for a millisecond, over 200 completions; 4 of them late.
    let round = Round::new(wakes, 4, 0.5, 3_000_000.0, 1_000_000);
    assert_eq!(round.wake_ns, WakeNs { p50: 100, p99: 198, p999: 200, max: 200 });
    assert_eq!((round.late_percent, round.cpu_ns_per_completion), (2.0, 2500.0));
    assert_eq!((round.completions, round.ctx_switches), (200, 3000));
    assert_eq!(Round::new(Vec::new(), 0, 0.5, 0.0, 1000).completions, 0);
}

fn row(contender: &str, workload: &str, waiters: u32, p50: u64, cpu_us: f64) -> Row {
    Row {
        contender: contender.into(),
        workload: workload.into(),
        work_us: 1000,
        processes: waiters,
        waiters,
        wake_ns: WakeNs { p50, p99: 2 * p50, p999: 3 * p50, max: 4 * p50 },
        late_percent: 0.5,
        cpu_ns_per_completion: cpu_us * 1000.0,
        completions: 1000,
        ctx_switches: 0,
    }
}

fn ratios() {
    let rows = vec![
        row("parkd-futex", "steady", 1, 10_000, 100.0),
        row("parkd-eventfd", "steady", 1, 12_000, 110.0),
        row("parkd-futex/never", "steady", 1, 48_000, 90.0),
        row("futex-cooperating", "steady", 1, 40_000, 20.0),
        row("parkd-ring", "steady", 1, 1_150, 1000.0),
        row("spin", "steady", 1, 200, 1000.0),
        row("poll-100us", "steady", 1, 11_000, 50.0),
        row("spin", "jitter-5", 1, 200, 1000.0),
        row("parkd-futex", "jitter-5", 1, 10_000, 150.0),
        row("parkd-futex", "jitter-5", 8, 10_000, 150.0),
    ];
    let rate = |path: &str, clients, tickets_per_s| Throughput {
        path: path.into(),
        clients,
        tickets_per_s,
        syscalls_per_completion: Some(0.05),
    };
    let throughput = vec![rate("ring", 1, 4e6), rate("ring", 8, 3e6)];
    let scale = [(1, 1000, 500_000.0), (100_000, 1500, 300.0)].map(|(outstanding, ns, bytes)| {
        Scale { outstanding, detect_ns_p50: ns, daemon_bytes_per_ticket: bytes }
    });
    let record = Record { rows, throughput, scale: scale.to_vec(), ..Record::default() };
    let targets = targets::of(&record);
    let value = |part: &str| {
        let found = targets.iter().find(|target| target.what.contains(part));
        found.unwrap_or_else(|| panic!("no target {part}"))
    };
    let near = |part: &str, expected: f64, met: bool| {
        let target = value(part);
        let is = target.value.unwrap_or(f64::NAN);
        assert!((is - expected).abs() < 1e-9, "{part}: {is}, not {expected}");
        assert_eq!(target.met(), Some(met), "{part}");
    };
    near("wake p50, steady 1 ms: parkd-futex / ", 0.25, true);
    near("wake p99, steady 1 ms: parkd-futex / ", 0.25, true);
    near("wake p50, steady 1 ms: parkd-futex/never", 1.2, true);
    // A microsecond more than 200 ns is more than five times them.
    near("parkd-ring", 1150.0 / 1200.0, true);
    near("CPU, jitter-5 1 ms, 1 in 1", 0.15, true);
    near("CPU, jitter-5 1 ms, 8 in 8", 0.15, false);
    // Polling is quicker than one of parkd's two and not than the other.
    near("better in both", 0.0, true);
    near("tickets/s, ring, 1 client", 4e6, true);
    near("ring: 8 clients together", 0.75, false);
    near("system calls", 0.05, true);
    near("detection", 1.5, true);
    near("bytes", 300.0 - 8.0 * 1024.0 * 1024.0 / 1e5, true);
    assert_eq!(value("parkd-futex/early").met(), None);
    assert_eq!(value("parkd-futex/early").bound, Bound::AtMost(0.1));
}

fn times() -> Times {
    let at = |ms: u64| MonoNs(1_000_000_000 + ms * 1_000_000);
    Times { start: at(0), count: at(95), begin: at(100), end: at(300), stop: at(310) }
}

fn streams() {
    let steady = Workload { pattern: Pattern::Steady, work_us: 1000 };
    let all: Vec<MonoNs> = steady.schedule(7, 3, &times()).collect();
    assert_eq!(all, steady.schedule(7, 3, &times()).collect::<Vec<_>>());
    assert_ne!(all[0], steady.schedule(7, 4, &times()).next().unwrap());
    assert!(all.windows(2).all(|pair| pair[1].0 - pair[0].0 == 1_000_000));
    assert_eq!(all.iter().filter(|at| times().holds(**at)).count(), 200);
    assert!(all.last() < Some(&times().stop));
    let step = Workload { pattern: Pattern::Step, work_us: 1000 };
    let lengths = |from: u64, to: u64| -> Vec<u64> {
        let all: Vec<MonoNs> = step.schedule(7, 3, &times()).collect();
        let inside =
            |pair: &&[MonoNs]| (from..to).contains(&((pair[0].0 - times().start.0) / 1_000_000));
        all.windows(2).filter(inside).map(|pair| pair[1].0 - pair[0].0).collect()
    };
    assert!(lengths(10, 199).iter().all(|ns| *ns == 1_000_000));
    assert!(lengths(200, 300).iter().all(|ns| *ns == 2_000_000));
    assert_eq!((step.longest_ns(), steady.longest_ns()), (2_000_000, 1_000_000));
    let jitter = Workload { pattern: Pattern::Jitter(500), work_us: 200 };
    let all: Vec<MonoNs> = jitter.schedule(7, 3, &times()).collect();
    assert!(all.windows(2).all(|pair| (100_000..=300_000).contains(&(pair[1].0 - pair[0].0))));
}

fn plans() {
    let all = cells(true, &[]);
    assert_eq!(all.len(), 8);
    assert_eq!(cells(false, &["steady/50".into()]).len(), 5);
    let with: Vec<(Cell, usize)> = all.iter().map(|cell| (*cell, 13)).collect();
    let seconds = |plan: &Plan| {
        let one = |(cell, runs): &(Cell, usize)| {
            let times = plan.times(cell, MonoNs(0));
            assert!(times.start < times.count && times.count < times.begin);
            assert!(times.begin < times.end && times.end < times.stop);
            *runs as f64 * (times.stop.0 as f64 / 1e9)
        };
        with.iter().map(one).sum::<f64>() * f64::from(plan.rounds)
    };
    let plan = Plan::new(3, &with, Duration::from_secs(60));
    assert_eq!(plan.rounds, 3);
    assert!(seconds(&plan) > 45.0 && seconds(&plan) <= 60.0, "{}", seconds(&plan));
    let short = Plan::new(3, &with, Duration::from_secs(1));
    assert!(short.rounds == 1 && seconds(&short) < 12.0, "{}", seconds(&short));
    let cell = |shape| Cell { workload: Workload { pattern: Pattern::Steady, work_us: 50 }, shape };
    assert!(cell(ONE).can_run() && !cell(EIGHT).can_run());
}

fn variants() {
    let plain = settings::config(Path::new("/x/socket"), &[]).unwrap();
    assert!(plain.contains("\nsocket = \"/x/socket\"\n"));
    for variant in VARIANTS {
        let text = settings::config(Path::new("/x/socket"), variant.changes).unwrap();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let (own, shipped) = (lines(&text), lines(&plain));
        assert_eq!(own.len(), shipped.len());
        let changed = own.iter().zip(&shipped).filter(|(own, shipped)| own != shipped).count();
        // A change may say what is shipped.
        assert!(changed <= variant.changes.len(), "{}", variant.suffix);
        assert!(
            contender::all()
                .iter()
                .any(|one| one.name == format!("{}/{}", variant.of, variant.suffix))
        );
    }
    let roomy = settings::config(Path::new("/x/socket"), settings::UNLIMITED).unwrap();
    assert_ne!(roomy, plain);
    let early = VARIANTS.iter().find(|variant| variant.suffix == "early").unwrap();
    let text = settings::config(Path::new("/x"), early.changes).unwrap();
    assert!(text.contains(",wake=early\"\n"), "{text}");
}

fn names() {
    let all = contender::all();
    let names: std::collections::BTreeSet<_> = all.iter().map(|one| one.name.clone()).collect();
    assert_eq!(names.len(), all.len());
    for name in [
        "parkd-futex",
        "parkd-eventfd",
        "parkd-tokio",
        "parkd-ring",
        "spin",
        "spin-pause",
        "poll-100us",
        "futex-cooperating",
        "eventfd-cooperating",
        "condvar-cooperating",
        "relay-cooperating",
        contender::PEER,
        "parkd-futex/never",
    ] {
        assert!(names.contains(name), "{name}");
    }
    let spinners: Vec<_> = all.iter().filter(|one| one.spins()).map(|one| &one.name).collect();
    assert_eq!(spinners, ["parkd-ring", "spin", "spin-pause"]);
    let cell =
        |shape| Cell { workload: Workload { pattern: Pattern::Steady, work_us: 1000 }, shape };
    let spin = all.iter().find(|one| one.name == "spin").unwrap();
    assert!(spin.can_run(&cell(ONE), 2) && !spin.can_run(&cell(ONE), 1));
    assert!(spin.can_run(&cell(EIGHT), 9) && !spin.can_run(&cell(EIGHT), 8));
}

fn memory() {
    let smaps = "7f00-7f01 rw-s 00000000 00:01 5   /memfd:parkd-table (deleted)\n\
                 Size: 400 kB\nRss: 300 kB\nPrivate_Clean: 0 kB\nPrivate_Dirty: 300 kB\n\
                 7f02-7f03 rw-s 00000000 00:01 6   /memfd:parkd-lanes (deleted)\n\
                 Rss: 8 kB\nPrivate_Dirty: 0 kB\n\
                 7f04-7f05 rw-p 00000000 00:00 0   [heap]\n\
                 Rss: 70 kB\nPrivate_Clean: 1 kB\nPrivate_Dirty: 60 kB\nVmFlags: rd wr mr\n\
                 7f06-7f07 rw-s 00000000 00:01 7   /memfd:parkd-rings (deleted)\nRss: 40 kB\n";
    assert_eq!(crowd::memory_in(smaps), (300 + 61 + 40) * 1024);
}

fn rings() {
    for tickets in [1, 63, 64, 65, 99_999, 100_000] {
        let rings = crowd::rings(tickets);
        assert_eq!(rings.iter().sum::<u64>(), tickets);
        // What is not full is one ring of the least size.
        assert!(rings.iter().filter(|entries| !entries.is_power_of_two()).count() <= 1);
        assert!(
            rings.iter().all(|entries| entries.is_power_of_two() || *entries < 64),
            "{rings:?}"
        );
    }
}

fn calls() {
    let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                 ------ ----------- ----------- --------- --------- ----------------\n\
                 60.00    0.000060           3        20           recvmsg\n\
                 40.00    0.000040           2        17         4 sendmsg\n\
                 ------ ----------- ----------- --------- --------- ----------------\n\
                 100.00    0.000100           2        37         4 total\n";
    assert_eq!(syscalls::total(table), Some(37));
    assert_eq!(syscalls::total("nothing"), None);
}
