use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::host::{affinity, clock};

#[test]
fn a_thread_that_shares_its_cpu_is_held_up() {
    if !std::fs::exists("/proc/thread-self/schedstat").unwrap() {
        return;
    }
    let cpu = affinity::allowed().unwrap()[0];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            affinity::pin_current(cpu).unwrap();
            while !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        scope.spawn(|| {
            affinity::pin_current(cpu).unwrap();
            let held = Held::of_current();
            let (before, end) = (held.so_far(), clock::now() + DurNs(20_000_000_000));
            while held.so_far().saturating_sub(before) < DurNs(1_000_000) && clock::now() < end {}
            done.store(true, Ordering::Relaxed);
            assert!(clock::now() < end, "two threads on one CPU, and this one was never held up");
        });
    });
}

#[test]
fn a_count_that_cannot_be_had_is_none() {
    assert_eq!(Held { schedstat: None }.so_far(), DurNs(0));
}
