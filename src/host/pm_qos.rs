//! Keeping CPUs out of their idle states: the kernel's request file `/dev/cpu_dma_latency`.
//!
//! While a request of 0 us is held every idle CPU polls, so that a wake reaches it in microseconds
//! and costs the waker one. It costs power, and needs root or a rule that opens the file. A request
//! ends with the process that made it. (Documentation/power/pm_qos_interface.rst of the kernel.)

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

use crate::core::time::MonoNs;

/// The file.
pub const PATH: &str = "/dev/cpu_dma_latency";

/// Names the driver of the CPUs' idle states.
const IDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// Whether the kernel has idle states to choose from. Without (many virtual machines) every idle
/// CPU halts, whatever is requested. True where it does not say.
pub fn has_idle_states() -> bool {
    !std::fs::read_to_string(IDLE_DRIVER).is_ok_and(|driver| driver.trim() == "none")
}

/// No idle state at all.
const AWAKE_US: i32 = 0;
/// Whatever the kernel would do.
const ANY_US: i32 = -1;

/// A request that can be made and taken back.
#[derive(Debug)]
pub struct PmQos {
    file: OwnedFd,
    since: Option<MonoNs>,
    held_ns: u64,
    writes: u64,
}

impl PmQos {
    /// Opens the file, without a request.
    ///
    /// # Errors
    /// ENOENT where the kernel has no such file, EACCES or EPERM where it may not be opened.
    pub fn open() -> io::Result<PmQos> {
        let file = rustix::fs::open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(PmQos { file, since: None, held_ns: 0, writes: 0 })
    }

    /// Makes the request, or takes it back; one system call where that changes anything.
    ///
    /// # Errors
    /// What write(2) says.
    pub fn hold(&mut self, held: bool, now: MonoNs) -> io::Result<()> {
        if held == self.since.is_some() {
            return Ok(());
        }
        let latency = if held { AWAKE_US } else { ANY_US };
        rustix::io::write(&self.file, &latency.to_ne_bytes())?;
        self.writes += 1;
        match self.since.take() {
            Some(since) => self.held_ns += now.since(since).0,
            None => self.since = Some(now),
        }
        Ok(())
    }

    /// Nanoseconds for which it was held, up to `now`.
    pub fn held_ns(&self, now: MonoNs) -> u64 {
        self.held_ns + self.since.map_or(0, |since| now.since(since).0)
    }

    /// Writes to the file.
    pub fn writes(&self) -> u64 {
        self.writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written_once_and_its_time_is_counted() {
        let mut request = match PmQos::open() {
            Ok(request) => request,
            Err(error) => return eprintln!("skipped: {PATH}: {error}"),
        };
        request.hold(false, MonoNs(5)).expect("nothing to write");
        assert_eq!((request.writes(), request.held_ns(MonoNs(9))), (0, 0));
        for from in [10, 100] {
            request.hold(true, MonoNs(from)).expect("a write");
            request.hold(true, MonoNs(from + 1)).expect("nothing to write");
            request.hold(false, MonoNs(from + 7)).expect("a write");
        }
        assert_eq!((request.writes(), request.held_ns(MonoNs(200))), (4, 14));
        request.hold(true, MonoNs(300)).expect("a write");
        assert_eq!(request.held_ns(MonoNs(306)), 20, "it is held still");
    }
}
