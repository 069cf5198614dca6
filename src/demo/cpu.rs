//! CPU time of another process.

use std::fs;
use std::io;

use crate::core::time::DurNs;

const NS_PER_S: u64 = 1_000_000_000;

/// CPU time that all threads of process `pid` have used, in steps of the kernel's clock tick.
///
/// # Errors
/// Where the process has gone, or /proc is not there.
pub fn of_process(pid: u32) -> io::Result<DurNs> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks =
        ticks(&stat).ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat: {stat}")))?;
    Ok(DurNs(ticks * (NS_PER_S / rustix::param::clock_ticks_per_second().max(1))))
}

/// utime and stime of a stat line. The process's name may hold blanks and parentheses: fields are
/// counted from its end.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    // proc(5): utime is field 14 and stime 15; the first one here is field 3.
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
