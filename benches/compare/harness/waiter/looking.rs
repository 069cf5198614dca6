//! Waiters that look at the word, whoever stores it.

use std::time::Duration;

use parkd::core::time::MonoNs;
use parkd::host::clock;

use super::super::Result;
use super::Wait;
use super::watch::{Found, Watch};

/// Pause between two looks.
const POLL: Duration = Duration::from_micros(100);

/// Loads between two looks at the clock.
const LOADS: u32 = 1024;

/// Without a pause.
pub struct Spin;

/// With the CPU's.
pub struct SpinPause;

/// Every 100 us.
pub struct Poll;

fn spin(watch: &Watch, number: u64, until: MonoNs, pause: impl Fn()) -> Found {
    loop {
        for _ in 0..LOADS {
            if watch.reached(number) {
                return Found::default();
            }
            pause();
        }
        if clock::now() >= until {
            return Found::default();
        }
    }
}

impl Wait for Spin {
    fn wait(&mut self, watch: &Watch, number: u64, until: MonoNs) -> Result<Found> {
        Ok(spin(watch, number, until, || ()))
    }
}

impl Wait for SpinPause {
    fn wait(&mut self, watch: &Watch, number: u64, until: MonoNs) -> Result<Found> {
        Ok(spin(watch, number, until, std::hint::spin_loop))
    }
}

impl Wait for Poll {
    fn wait(&mut self, watch: &Watch, number: u64, until: MonoNs) -> Result<Found> {
        let mut found = Found::default();
        while !watch.reached(number) && clock::now() < until {
            std::thread::sleep(POLL);
            found.late = true;
        }
        Ok(found)
    }
}
