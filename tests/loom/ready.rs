//! Wakers and the executor: no wake is lost, and none reaches another task.
//!
//! What the checker cannot show: a read-modify-write that takes its place before one which has run
//! already. So the ordering of the ready bits, by which a bit is never seen before its `fired`, is
//! run here, but an error in it would stay unseen.

use std::sync::Arc;
use std::task::Waker;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use parkd_loom::check;
use parkd_loom::core::ready::{ReadySet, Signal};

/// Polls what is ready, as the executor does; each poll reads what the wakers did before.
fn poll_ready(set: &mut ReadySet, signal: &Signal, deeds: &[AtomicU64]) -> Option<u64> {
    let mut seen = None;
    while set.take().is_some() {
        if signal.take_fired() {
            seen = Some(deeds.iter().map(|deed| deed.load(Ordering::Relaxed)).sum());
        }
    }
    seen
}

#[test]
fn the_last_poll_sees_what_every_waker_did() {
    check(3, || {
        let mut set = ReadySet::default();
        let signal = set.signal(0);
        signal.take_fired();
        let deeds: Arc<[AtomicU64; 2]> = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let wakers = [0, 1].map(|which| {
            let (waker, deeds) = (Waker::from(signal.clone()), deeds.clone());
            thread::spawn(move || {
                deeds[which].store(1, Ordering::Relaxed);
                waker.wake();
            })
        });
        let mut last = poll_ready(&mut set, &signal, &*deeds);
        for waker in wakers {
            waker.join().unwrap();
        }
        // The joins show this thread both deeds, but only a poll that a wake led to counts.
        last = poll_ready(&mut set, &signal, &*deeds).or(last);
        assert_eq!(last, Some(2));
    });
}

#[test]
fn a_wake_of_the_task_before_is_not_one_of_its_successor() {
    check(3, || {
        let mut set = ReadySet::default();
        let gone = set.signal(0);
        gone.take_fired();
        let late = Waker::from(gone);
        let waker = thread::spawn(move || late.wake());
        let heir = set.signal(0);
        assert!(heir.take_fired(), "a new task is polled at once");
        while set.take().is_some() {
            assert!(!heir.take_fired());
        }
        waker.join().unwrap();
        while set.take().is_some() {
            assert!(!heir.take_fired());
        }
        Waker::from(heir.clone()).wake();
        assert!(set.take().is_some() && heir.take_fired());
    });
}
