use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::core::line::Slot;
use crate::core::time::DurNs;
use crate::host::clock::{MonoClock, now};
use crate::host::fill::tests::patience;

/// The kernel reads CPUID too, and says what it found.
#[cfg(target_arch = "x86_64")]
#[test]
fn what_is_detected_is_what_the_kernel_sees() {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags = info.lines().find(|line| line.starts_with("flags")).unwrap();
    let has = |flag| flags.split_whitespace().any(|f| f == flag);
    let expected = match () {
        () if has("waitpkg") => "umwait",
        () if has("monitorx") => "mwaitx",
        () => "pause",
    };
    assert_eq!(WordPark::detect().label(), expected);
}

#[test]
fn a_park_ends_at_its_bound() {
    let (park, line) = (WordPark::detect(), CompletionLine::new());
    for us in [0, 1, 50, 2000] {
        let until = now() + DurNs::from_us(us);
        park.park(&line, || true, &MonoClock, until);
        assert!(now() >= until);
    }
}

#[test]
fn a_changed_line_is_not_parked_on() {
    let (park, line) = (WordPark::detect(), CompletionLine::new());
    let seen = line.values();
    line.store(Slot::new(7).unwrap(), 1);
    park.park(&line, || line.values() == seen, &MonoClock, MonoNs::MAX);
}

#[test]
fn a_store_by_another_core_ends_the_park() {
    let (park, line) = (WordPark::detect(), CompletionLine::new());
    let (slot, stop) = (Slot::new(3).unwrap(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                line.store(slot, line.load(slot) + 1);
                std::thread::yield_now();
            }
        });
        let until = patience();
        for _ in 0..200 {
            let seen = line.values();
            park.park(&line, || line.values() == seen, &MonoClock, until);
            assert_ne!(line.values(), seen);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(now() < until);
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn slices_are_bounded() {
    assert_eq!(ticks(5), 5);
    assert_eq!(ticks(u64::MAX), 100_000);
}
