//! What is tested end to end is tested on every executor.

use super::source::rust;
use super::{Allowed, less, none};

/// Files that start daemons on less than all of them, or leave that to others.
const MAY_CHOOSE: &[Allowed] = &[
    ("tests/fallback.rs", "Daemon::start_in", "futex bells and their trial are the ring's alone"),
    ("tests/forbidding/mod.rs", "Daemon::launch_as", "it asks for the one that is forbidden"),
    ("tests/hostile/main.rs", "Daemon::start", "what every part of that program starts with"),
    ("tests/load/keeper.rs", "supervised(", "it is told which, by the programs of a load"),
    ("tests/load/keeper.rs", "Supervisor::start", "the same"),
    ("tests/million/main.rs", "Daemon::start", "three tests by name, under a harness of its own"),
    ("tests/restart/main.rs", "supervised(", "the same"),
    ("tests/restart/quarantine.rs", "supervised(", "a part of it"),
    ("tests/soak/soak.rs", "supervised(", "three tests by name, as well"),
    ("tests/supervisor/main.rs", "Supervisor::start", "what it starts is not the daemon"),
];

#[test]
fn every_end_to_end_test_runs_on_every_executor() {
    let mut found = Vec::new();
    let mut seen = 0;
    for file in rust(&["tests/"]) {
        if file.path.starts_with("tests/support/") {
            continue;
        }
        let starts = ["Daemon::start", "Daemon::launch", "Supervisor::start", "supervised("];
        let lines = file.code.lines().enumerate();
        let lines = lines.filter(|(_, line)| starts.iter().any(|start| line.contains(start)));
        if file.code.contains("for_each_executor!") {
            seen += lines.count();
        } else {
            found.extend(lines.map(|(at, line)| (file.path.clone(), at + 1, line.to_owned())));
        }
    }
    assert!(seen > 50, "only {seen} daemons found: the check sees too little");
    none("a daemon on one executor alone", less(found, MAY_CHOOSE));
}
