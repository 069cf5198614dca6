//! CPUs: which ones this process may use, pinning a thread to one, and thread names.
//!
//! An *allowed* CPU is one in the calling thread's affinity mask, which cpusets, the unit's
//! CPUAffinity= and taskset all narrow. Numbers run from 0 to 1023. A pinned thread's children
//! inherit its mask, so every other thread is started first.

use std::ffi::CString;
use std::fmt::Write;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::core::error::{Error, ErrorCode};

/// Lists the CPUs that the boot line took from the scheduler (isolcpus=).
const ISOLATED: &str = "/sys/devices/system/cpu/isolated";

/// CPUs that the calling thread may run on, rising. Fails with EINVAL on machines with more than
/// 1024 possible CPUs.
pub fn allowed() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

/// Keeps the calling thread on `cpu`. CpuUnavailable if that is not an allowed CPU.
pub fn pin_current(cpu: u32) -> Result<(), Error> {
    let allowed = allowed().map_err(|e| failed("sched_getaffinity", &e))?;
    if !allowed.contains(&cpu) {
        let mask = ranges(&allowed);
        let text = format!("cpu {cpu} is not in this process's affinity mask {mask}");
        return Err(Error::new(ErrorCode::CpuUnavailable, text));
    }
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).map_err(|e| failed("sched_setaffinity", &e.into()))
}

/// The CPU that `cpu = "auto"` means: the highest allowed one that is isolated from the
/// scheduler, where there is one; else the highest allowed one, because interrupts and boot-time
/// services gather on the low ones.
pub fn choose_auto() -> Result<u32, Error> {
    let allowed = allowed().map_err(|e| failed("sched_getaffinity", &e))?;
    let isolated = std::fs::read_to_string(ISOLATED).unwrap_or_default();
    choose(&allowed, &parse_list(&isolated)).ok_or_else(|| {
        Error::new(
            ErrorCode::CpuUnavailable,
            "cpu auto is not in this process's affinity mask (empty)",
        )
    })
}

fn choose(allowed: &[u32], isolated: &[u32]) -> Option<u32> {
    let isolated = allowed.iter().filter(|cpu| isolated.contains(cpu)).max();
    isolated.or(allowed.iter().max()).copied()
}

/// The kernel's list format, as in "0-3,8". What cannot be read is left out.
fn parse_list(text: &str) -> Vec<u32> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|&n| n < CpuSet::MAX_CPU as u32);
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(number(first)?..=number(last)?),
        None => number(part).map(|n| n..=n),
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// The kernel's list format of rising numbers.
fn ranges(cpus: &[u32]) -> String {
    let mut text = String::new();
    for run in cpus.chunk_by(|a, b| a + 1 == *b) {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = match run {
            [first, .., last] => write!(text, "{comma}{first}-{last}"),
            [only] => write!(text, "{comma}{only}"),
            [] => Ok(()),
        };
    }
    text
}

/// Names the calling thread, for ps and top. At most 15 bytes are kept.
pub fn name_current(name: &str) -> io::Result<()> {
    let name = CString::new(name)?;
    Ok(rustix::thread::set_name(&name)?)
}

fn failed(call: &str, error: &io::Error) -> Error {
    Error::new(ErrorCode::SystemFailed, format!("{call}: {error}"))
}

#[cfg(test)]
#[path = "affinity_tests.rs"]
mod tests;
