//! The record for people.

use std::fmt::Write;

use super::record::{Record, Row};
use super::targets::{self, Bound, Target};

/// As text. (Writing to a string does not fail.)
pub fn of(record: &Record) -> String {
    let mut text = String::new();
    let header = &record.header;
    let _ = writeln!(
        text,
        "executor {}, Linux {}, {}, governor {}, idle driver {}",
        header.executor, header.kernel, header.cpu, header.governor, header.idle_driver
    );
    let mut rows = record.rows.as_slice();
    while let Some(first) = rows.first() {
        let cell = rows.iter().take_while(|row| same_cell(row, first)).count();
        let (of_cell, rest) = rows.split_at(cell);
        cell_of(&mut text, of_cell);
        rows = rest;
    }
    counted(&mut text, record);
    let _ = writeln!(text);
    for target in targets::of(record) {
        target_of(&mut text, &target);
    }
    if !header.skipped.is_empty() {
        let _ = writeln!(text);
    }
    for skipped in &header.skipped {
        let _ = writeln!(text, "skipped: {skipped}");
    }
    text
}

fn same_cell(row: &Row, other: &Row) -> bool {
    let of = |row: &Row| (row.work_us, row.waiters, row.processes);
    row.workload == other.workload && of(row) == of(other)
}

fn cell_of(text: &mut String, rows: &[Row]) {
    let Some(Row { workload, work_us, waiters, processes, .. }) = rows.first() else { return };
    let _ = writeln!(
        text,
        "\n{:<26}{:>10}{:>10}{:>10}{:>10}{:>8}{:>10}{:>9}{:>10}",
        format!("{workload} {work_us} us, {waiters} in {processes}"),
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "late %",
        "CPU us",
        "count",
        "switches"
    );
    for row in rows {
        let us = |ns: u64| ns as f64 / 1000.0;
        let wake = &row.wake_ns;
        let _ = writeln!(
            text,
            "{:<26}{:>10.1}{:>10.1}{:>10.1}{:>10.1}{:>8.2}{:>10.2}{:>9}{:>10.2}",
            row.contender,
            us(wake.p50),
            us(wake.p99),
            us(wake.p999),
            us(wake.max),
            row.late_percent,
            row.cpu_ns_per_completion / 1000.0,
            row.completions,
            row.ctx_switches as f64 / row.completions.max(1) as f64,
        );
    }
}

fn counted(text: &mut String, record: &Record) {
    if !record.throughput.is_empty() {
        let _ = writeln!(
            text,
            "\n{:<26}{:>10}{:>14}{:>18}",
            "throughput, depth 256", "clients", "tickets/s", "calls/completion"
        );
    }
    for row in &record.throughput {
        let calls = row.syscalls_per_completion.map_or("-".into(), |calls| format!("{calls:.4}"));
        let (path, clients, rate) = (&row.path, row.clients, row.tickets_per_s);
        let _ = writeln!(text, "{path:<26}{clients:>10}{rate:>14.0}{calls:>18}");
    }
    if !record.scale.is_empty() {
        let _ = writeln!(
            text,
            "\n{:<26}{:>10}{:>14}{:>18}",
            "scale", "waiting", "detect ns", "bytes/ticket"
        );
    }
    for row in &record.scale {
        let (waiting, detect) = (row.outstanding, row.detect_ns_p50);
        let bytes = row.daemon_bytes_per_ticket;
        let _ = writeln!(text, "{:<26}{waiting:>10}{detect:>14}{bytes:>18.0}", "");
    }
}

fn target_of(text: &mut String, target: &Target) {
    let Some(value) = target.value else { return };
    let (sign, bound) = match target.bound {
        Bound::AtMost(bound) => ("<=", bound),
        Bound::AtLeast(bound) => (">=", bound),
    };
    let met = if target.met() == Some(true) { "met" } else { "MISSED" };
    let number = |value: f64| match value {
        large if large >= 1000.0 => format!("{large:.0}"),
        small => format!("{small:.3}"),
    };
    let (what, value, bound) = (&target.what, number(value), number(bound));
    let _ = writeln!(text, "{what:<70}{value:>10} {sign} {bound:<10}{met}");
}
