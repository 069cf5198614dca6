//! What /proc says of the threads of a process: CPU, and how often the kernel switched them.

use std::fs;
use std::io;
use std::path::PathBuf;

fn tasks(pid: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/task"))
}

/// CPU time of the threads that process `pid` has now, in nanoseconds. Of a thread that runs, up to
/// a tick of the kernel's clock may be missing.
///
/// # Errors
/// Where the process has gone, or the kernel keeps no such count.
pub fn cpu_ns(pid: &str) -> io::Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(tasks(pid))? {
        // A thread may end between the list and the look.
        let Ok(line) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        // Time on a CPU, time held up, slices.
        let first = line.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok());
        sum += first.ok_or_else(|| io::Error::other(format!("schedstat: {line:?}")))?;
    }
    Ok(sum)
}

/// Context switches, voluntary and not, of the threads that process `pid` has now.
///
/// # Errors
/// Where the process has gone.
pub fn switches(pid: &str) -> io::Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(tasks(pid))? {
        sum += fs::read_to_string(task?.path().join("status")).map_or(0, |text| switches_in(&text));
    }
    // A process that runs has been switched in: none counted means that nothing was read.
    if sum == 0 { Err(io::Error::other("no context switches to be read")) } else { Ok(sum) }
}

/// Context switches of one thread of process `pid`.
///
/// # Errors
/// Where it has gone.
pub fn switches_of(pid: &str, thread: &str) -> io::Result<u64> {
    fs::read_to_string(tasks(pid).join(thread).join("status")).map(|text| switches_in(&text))
}

fn switches_in(status: &str) -> u64 {
    let counts = status
        .lines()
        .filter_map(|line| line.split_once("voluntary_ctxt_switches:"))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok());
    counts.sum()
}
