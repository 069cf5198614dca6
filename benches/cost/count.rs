//! Counting: this program again under callgrind, once for each stage.

use std::path::Path;
use std::process::Command;

use crate::stages::{STAGES, Stage};

/// The argument with which the program runs one stage.
pub const RUN: &str = "--run";

/// What one stage has cost.
pub struct Count {
    pub stage: &'static str,
    /// Instructions in the stage's function.
    pub instructions: u64,
    /// How many it has done of what it does.
    pub done: u64,
}

impl Count {
    /// Instructions for one.
    pub fn each(&self) -> f64 {
        self.instructions as f64 / self.done as f64
    }
}

/// Counts every stage; none where there is no callgrind, with why.
pub fn all() -> Result<Result<Vec<Count>, String>, String> {
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        return Ok(Err(format!("valgrind: {error}")));
    }
    STAGES.iter().map(one).collect::<Result<_, _>>().map(Ok)
}

fn one(stage: &'static Stage) -> Result<Count, String> {
    let Stage { name, function, .. } = stage;
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let out = std::env::temp_dir().join(format!("parkd-cost-{}-{name}", std::process::id()));
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect=*stages::{function}"))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(me)
        .args([RUN, name]);
    let ran = valgrind.output().map_err(|error| format!("valgrind: {error}"))?;
    let instructions = summary(&out);
    let _ = std::fs::remove_file(&out);
    if !ran.status.success() {
        return Err(format!("valgrind: {}", String::from_utf8_lossy(&ran.stderr)));
    }
    let done = String::from_utf8_lossy(&ran.stdout).trim().parse();
    let done = done.map_err(|_| format!("{name}: it did not say how many it has done"))?;
    match instructions {
        Some(0) | None => Err(format!("{name}: callgrind has counted nothing")),
        Some(instructions) => Ok(Count { stage: name, instructions, done }),
    }
}

/// The sum at the end of callgrind's file.
fn summary(file: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let of = |line: &str| line.strip_prefix("totals: ").and_then(|sum| sum.trim().parse().ok());
    text.lines().rev().find_map(of)
}
