//! `parkd demo` as a user runs it: real processes, and what it says and leaves behind.

pub mod support;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use support::Executor;

for_each_executor! {
    every_number_gets_its_one_answer_and_stdout_is_one_object,
}

const PATIENCE: Duration = Duration::from_secs(120);

fn demo(args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_parkd"))
        .arg("demo")
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Pids and command lines of the children of `parent`.
fn children(parent: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, fields)) = stat.rsplit_once(')') else { continue };
        if fields.split_whitespace().nth(1) != Some(&parent.to_string()) {
            continue;
        }
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
    }
    found
}

/// Waits until the demo has a child whose command line says `what`, and answers its pid.
fn child(demo: &Child, what: &str) -> u32 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = children(demo.id());
        if let Some((pid, _)) = all.iter().find(|(_, line)| line.contains(what)) {
            return *pid;
        }
        assert!(Instant::now() < deadline, "no child {what}");
        std::thread::yield_now();
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn every_number_gets_its_one_answer_and_stdout_is_one_object(executor: &Executor) {
    let args = ["--seconds", "1", "--json", "--executor", executor.name];
    let output = demo(&args).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        keys(&record),
        BTreeSet::from([
            "executor",
            "clients",
            "tickets",
            "completed",
            "lost",
            "duplicated",
            "early",
            "wake_ns",
            "cpu",
            "baselines"
        ])
    );
    assert_eq!(record["executor"], executor.name);
    assert_eq!(record["clients"], 4);
    // 4 streams of 1 ms, one of 50 us, one of 10 ms: a second of each, give or take the jitter.
    let tickets = record["tickets"].as_u64().unwrap();
    assert!((23_800..24_400).contains(&tickets), "{tickets}");
    assert_eq!(record["completed"], record["tickets"]);
    for none in ["lost", "duplicated", "early"] {
        assert_eq!(record[none], 0, "{none}");
    }
    for baseline in record["baselines"].as_array().unwrap() {
        assert_eq!(baseline["completed"], record["tickets"]);
    }
    assert_eq!(record["baselines"][0]["name"], "spin");
    assert_eq!(record["baselines"][1]["name"], "poll-100us");
    let wake = &record["wake_ns"];
    assert!(wake["p50"].as_u64().unwrap() > 0);
    assert!(wake["p50"].as_u64() <= wake["p99"].as_u64());
    assert!(wake["p99"].as_u64() <= wake["p999"].as_u64());
    assert!(record["cpu"]["device_percent"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_table_for_people_and_any_number_of_clients() {
    let output = demo(&["--seconds", "1", "--clients", "1"]).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["1 client,", "0 lost, 0 duplicated, 0 early", "parkd ", "spin ", "poll-100us "] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // No bar where stderr is no terminal.
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

/// Kills what `victim` names, and checks that the demo says who died and takes all others along.
fn dies_with(victim: &str, name: &str) {
    let demo = demo(&["--seconds", "600", "--clients", "2"]);
    child(&demo, "--client 1");
    let pid = child(&demo, victim);
    let all: Vec<u32> = children(demo.id()).into_iter().map(|(pid, _)| pid).collect();
    assert_eq!(all.len(), 4, "device, daemon and two clients");
    signal(pid, Signal::KILL);
    let output = demo.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&format!("{name} died: signal: 9")), "{}", stderr(&output));
    // Reaped by the demo: not even zombies are left.
    assert!(all.iter().all(|pid| !fs::exists(format!("/proc/{pid}")).unwrap()));
}

#[test]
fn a_dead_client_ends_it() {
    dies_with("--client 0", "client 0");
}

#[test]
fn a_dead_daemon_ends_it() {
    dies_with("serve --config", "the daemon");
}

#[test]
fn a_dead_device_ends_it() {
    dies_with("device --listen", "the software device");
}

#[test]
fn a_signal_ends_it_and_leaves_nothing_behind() {
    let demo = demo(&["--seconds", "600", "--clients", "1"]);
    let client = child(&demo, "--client 0");
    let line = children(demo.id()).into_iter().find(|(pid, _)| *pid == client).unwrap().1;
    let socket = line.split("--device ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(fs::exists(&socket).unwrap());
    signal(demo.id(), Signal::INT);
    let output = demo.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(stderr(&output), "parkd demo: interrupted\n");
    assert!(!fs::exists(std::path::Path::new(&socket).parent().unwrap()).unwrap());
}

#[test]
fn children_do_not_outlive_a_killed_parent() {
    let mut demo = demo(&["--seconds", "600", "--clients", "2"]);
    child(&demo, "--client 1");
    let all = children(demo.id());
    let socket = all.iter().find_map(|(_, line)| line.split("--listen ").nth(1));
    let folder = std::path::Path::new(socket.unwrap().trim()).parent().unwrap().to_owned();
    demo.kill().unwrap();
    demo.wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    for (pid, line) in all {
        // Gone, or a zombie that waits for whoever inherited it.
        let gone = || match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")),
            Err(_) => true,
        };
        while !gone() {
            assert!(Instant::now() < deadline, "{line} lives on");
            std::thread::yield_now();
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn nonsense_is_refused() {
    for args in [["--seconds", "0"], ["--clients", "65"], ["--clients", "x"], ["--executor", "x"]] {
        let output = demo(&args).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}
