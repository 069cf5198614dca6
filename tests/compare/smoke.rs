//! A comparison as a user runs it, as short as can be.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::COMPARE;
use crate::harness::contender;
use crate::support::{Folder, skipped};

pub const TESTS: &[(&str, fn())] = &[
    ("every_contender_runs_and_the_record_is_whole", every_contender),
    ("throughput_and_scale_are_counted", throughput_and_scale),
    ("what_is_not_known_is_refused", refused),
];

/// Runs a comparison; answers its record and what it printed.
fn compare(args: &[&str], json: &Path) -> (Value, String) {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .arg(COMPARE)
        .args(args)
        .arg("--json")
        .arg(json)
        .stdin(Stdio::null())
        .output()
        .expect("the comparison");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record = std::fs::read(json).expect("a record");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    (serde_json::from_slice(&record).expect("JSON"), text)
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn every_contender() {
    let folder = Folder::new();
    let picture = folder.file("picture.svg");
    let plot = picture.to_str().expect("UTF-8");
    let args = ["--quick", "--seconds", "1", "--workload", "steady/1000", "--plot", plot];
    let (record, text) = compare(&args, &folder.file("record.json"));
    assert_eq!(keys(&record), BTreeSet::from(["header", "rows", "throughput", "scale"]));
    let header =
        BTreeSet::from(["executor", "kernel", "cpu", "governor", "idle_driver", "skipped"]);
    assert_eq!(keys(&record["header"]), header);
    let missing = record["header"]["skipped"].as_array().expect("a list");
    missing.iter().for_each(|why| skipped(why.as_str().expect("a text")));
    let rows = record["rows"].as_array().expect("a list");
    for one in contender::all().iter().filter(|one| one.quick) {
        let has = rows.iter().any(|row| row["contender"] == one.name);
        let why = missing.iter().any(|why| why.as_str().is_some_and(|why| why.contains(&one.name)));
        assert!(has || why, "{} is neither a row nor skipped", one.name);
    }
    for row in rows {
        check_row(row);
        let name = row["contender"].as_str().expect("a name");
        assert!(text.contains(name), "{name} is not in the table");
    }
    let svg = std::fs::read_to_string(picture).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.contains("futex-cooperating"), "{svg}");
}

fn check_row(row: &Value) {
    let expected = BTreeSet::from([
        "contender",
        "workload",
        "work_us",
        "processes",
        "waiters",
        "wake_ns",
        "late_percent",
        "cpu_ns_per_completion",
        "completions",
        "ctx_switches",
    ]);
    assert_eq!(keys(row), expected);
    let wake = |name: &str| row["wake_ns"][name].as_u64().expect("a number");
    assert!(wake("p50") <= wake("p99") && wake("p99") <= wake("p999"), "{row}");
    assert!(wake("p999") <= wake("max") && wake("max") > 0, "{row}");
    assert!(row["completions"].as_u64() > Some(5), "{row}");
    assert!(row["cpu_ns_per_completion"].as_f64() > Some(0.0), "{row}");
}

fn throughput_and_scale() {
    let folder = Folder::new();
    let args = ["--quick", "--seconds", "1", "--workload", "throughput", "--workload", "scale"];
    let (record, _) = compare(&args, &folder.file("record.json"));
    assert_eq!(record["rows"].as_array().map(Vec::len), Some(0));
    let throughput = record["throughput"].as_array().expect("a list");
    let paths: Vec<_> = throughput.iter().map(|row| (&row["path"], &row["clients"])).collect();
    let expected = [("ring", 1), ("ring", 8), ("socket", 1), ("socket", 8)];
    assert!(
        paths
            .iter()
            .zip(expected)
            .all(|((path, clients), (own, number))| { **path == own && **clients == number })
    );
    for row in throughput {
        assert!(row["tickets_per_s"].as_f64() > Some(1000.0), "{row}");
        if row["syscalls_per_completion"].is_null() {
            skipped("system calls over the socket: strace cannot count them here");
        }
    }
    let scale = record["scale"].as_array().expect("a list");
    assert_eq!(scale.len(), 2);
    assert_eq!((&scale[0]["outstanding"], &scale[1]["outstanding"]), (&1.into(), &100_000.into()));
    assert!(scale.iter().all(|row| row["detect_ns_p50"].as_u64() > Some(0)), "{scale:?}");
    let bytes = scale[1]["daemon_bytes_per_ticket"].as_f64();
    assert!(bytes > Some(64.0) && bytes < Some(4096.0), "{scale:?}");
}

fn refused() {
    for args in [["--contender", "spinn"], ["--workload", "unsteady"]] {
        let mut program = Command::new(std::env::current_exe().expect("this program"));
        let output = program.arg(COMPARE).args(args).output().expect("the comparison");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(args[1]) && said.contains("none of"), "{said}");
    }
}
