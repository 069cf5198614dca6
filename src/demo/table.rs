//! The demo's table, for people.

use std::fmt::Write;

use super::report::{Record, WakeNs};

/// The record as a table.
pub(super) fn of(record: &Record, seconds: u64) -> String {
    let mut text = String::new();
    let Record { executor, clients, tickets, completed, lost, duplicated, early, .. } = record;
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "{clients} client{}, {seconds} s each way, executor {executor}\n\
         {tickets} tickets, {completed} completed, {lost} lost, {duplicated} duplicated, \
         {early} early\n\n\
         {:<12}{:>11}{:>11}{:>11}{:>11}{:>12}{:>12}{:>12}\n",
        if *clients == 1 { "" } else { "s" },
        "way",
        "completed",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "clients %",
        "daemon %",
        "device %"
    );
    let cpu = &record.cpu;
    row(&mut text, "parkd", *completed, record.wake_ns, cpu.clients_percent);
    let _ = write!(text, "{:>12.1}{:>12.1}", cpu.daemon_percent, cpu.device_percent);
    for baseline in &record.baselines {
        text.push('\n');
        row(&mut text, baseline.name, baseline.completed, baseline.wake_ns, baseline.cpu_percent);
    }
    text.push_str("\n\nus: from the device's store to the client running. %: 100 is one core.");
    text
}

fn row(text: &mut String, name: &str, completed: u64, wake: WakeNs, clients: f64) {
    let us = |ns: u64| ns as f64 / 1000.0;
    let [p50, p99, p999] = [us(wake.p50), us(wake.p99), us(wake.p999)];
    let _ =
        write!(text, "{name:<12}{completed:>11}{p50:>11.1}{p99:>11.1}{p999:>11.1}{clients:>12.1}");
}
