//! System calls of a daemon's threads beside FILL, which counts its own: by strace, where there is
//! one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Doing, Result};

/// The name of the thread that counts its own.
const FILL: &str = "parkd-fill";

/// How long strace may take to attach.
const PATIENCE: Duration = Duration::from_secs(5);

/// A count under way.
#[derive(Debug)]
pub struct Count {
    strace: Child,
    file: PathBuf,
}

fn threads(pid: u32) -> Result<Vec<String>> {
    let mut threads = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).doing("threads")? {
        let task = task.doing("threads")?;
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.trim() != FILL {
            threads.push(task.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(threads)
}

fn traced(pid: u32, thread: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status"));
    let status = status.unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

impl Count {
    /// Begins to count; none where there is no strace, or it may not.
    pub fn start(pid: u32, folder: &Path) -> Result<Option<Count>> {
        let (file, threads) = (folder.join("syscalls"), threads(pid)?);
        let mut command = Command::new("strace");
        command.args(["-c", "-o"]).arg(&file);
        for thread in &threads {
            command.args(["-p", thread]);
        }
        let started = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(mut strace) = started else { return Ok(None) };
        let end = Instant::now() + PATIENCE;
        while !threads.iter().all(|thread| traced(pid, thread)) {
            let ended = strace.try_wait().doing("strace")?.is_some();
            if ended || Instant::now() > end {
                let _ = strace.kill().and_then(|()| strace.wait());
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Some(Count { strace, file }))
    }

    /// How many there were.
    pub fn end(mut self) -> Result<u64> {
        kill_process(Pid::from_child(&self.strace), Signal::INT).doing("strace")?;
        self.strace.wait().doing("strace")?;
        let table = fs::read_to_string(&self.file).doing("strace")?;
        total(&table).ok_or_else(|| format!("strace said {table:?}"))
    }
}

/// The calls in strace's table: in the last line but for an empty one, behind time and usecs.
pub fn total(table: &str) -> Option<u64> {
    let line = table.lines().rev().find(|line| line.trim().ends_with("total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}
