//! How wakes of idle CPUs are made short: what the configuration wants, what the machine can.

use std::time::Duration;

use super::config::PmQos as When;
use super::fill::{Awake, Measured};
use crate::core::error::{Error, ErrorCode};
use crate::host::clock;
use crate::host::pm_qos::{self, PmQos};
use crate::host::wake_lead::{self, WakeLead};

/// How long after its start the daemon measures how the machine wakes: sessions of an earlier life
/// come first.
const AFTER_THE_RUSH: Duration = Duration::from_secs(1);

/// What keeps CPUs awake, where that is wanted and can be had. How long ahead that must be begun is
/// measured meanwhile; FILL runs on `fill_cpu`.
pub fn begin(when: When, fill_cpu: Option<u32>, warnings: &mut Vec<Error>) -> Awake {
    let request = if when == When::Never { None } else { open(warnings) };
    let measured = Measured::default();
    measure(fill_cpu, when == When::Hot && request.is_some(), measured.clone());
    Awake::new(request, when, measured, clock::now())
}

fn open(warnings: &mut Vec<Error>) -> Option<PmQos> {
    if !pm_qos::has_idle_states() {
        tracing::info!("pm_qos: the kernel has no idle states here, nothing is requested");
        return None;
    }
    let refused = |error: &std::io::Error| {
        let text = format!("pm_qos: {}: {error}, CPUs that idle wake slowly", pm_qos::PATH);
        warnings.push(Error::new(ErrorCode::PrivilegeMissing, text));
    };
    PmQos::open().inspect_err(refused).ok()
}

/// Measures how this machine wakes, beside what goes on and after the first rush.
fn measure(fill_cpu: Option<u32>, try_requests: bool, found: Measured) {
    let made = move || {
        std::thread::sleep(AFTER_THE_RUSH);
        match wake_lead::measure(fill_cpu, try_requests) {
            Ok(lead) => {
                let WakeLead { ahead, idle, requests } = lead;
                tracing::info!(
                    ahead_us = ahead.as_us(),
                    idle_us = idle.as_us(),
                    ?requests,
                    "wakes"
                );
                let _ = found.set(lead);
            }
            Err(error) => tracing::info!(%error, "how long idle CPUs take to wake is not known"),
        }
    };
    // Without the thread it goes on with what is true of most machines.
    let _ = std::thread::Builder::new().name("parkd-lead".to_owned()).spawn(made);
}
