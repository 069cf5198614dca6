//! What the comparison ran on.

use std::fs;

use super::record::Header;

/// This machine; the executor is what the daemon said.
pub fn of(executor: String, skipped: Vec<String>) -> Header {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let none = || "none".to_owned();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.and_then(|rest| rest.split_once(": ")).map_or("unknown", |(_, name)| name);
    Header {
        executor,
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpu: format!("{cpus} x {model}"),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            .unwrap_or_else(none),
        idle_driver: read("/sys/devices/system/cpu/cpuidle/current_driver").unwrap_or_else(none),
        skipped,
    }
}
