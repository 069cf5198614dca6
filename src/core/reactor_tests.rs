use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::core::line::{Slot, Width};
use crate::core::manual::{ManualClock, ManualIdle};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counting() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (count.clone(), Waker::from(count))
}

fn wakes(count: &Count) -> usize {
    count.0.load(Ordering::Relaxed)
}

fn descriptor(line: &CompletionLine, slot: usize, target: u64) -> MemoryDescriptor<'_> {
    MemoryDescriptor { line, slot: Slot::new(slot).unwrap(), target, width: Width::W64 }
}

const PARK: DurNs = DurNs(50);

fn reactor<'l>(clock: &'l ManualClock) -> Reactor<'l, &'l ManualClock, ManualIdle<'l>> {
    Reactor::new(clock, ManualIdle::new(clock), PARK)
}

fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

#[test]
fn a_sleep_is_fired_at_its_time_and_not_before() {
    let clock = ManualClock::default();
    let reactor = reactor(&clock);
    let (count, waker) = counting();
    let mut sleep = pin!(reactor.sleep(MonoNs(70)));
    assert_eq!(reactor.registered(), 0, "not before it is polled");
    assert!(poll(sleep.as_mut(), &waker).is_pending());
    assert_eq!((reactor.fire(), reactor.registered()), (0, 1));
    assert_eq!(reactor.turn(), Turn::Slept(DurNs(70)));
    assert_eq!((reactor.turn(), wakes(&count)), (Turn::Woke(1), 1));
    assert!(poll(sleep.as_mut(), &waker).is_ready());
    assert_eq!((reactor.turn(), reactor.registered()), (Turn::Nothing, 0));
}

#[test]
fn every_watched_line_is_looked_at() {
    let clock = ManualClock::default();
    let reactor = reactor(&clock);
    let (count, waker) = counting();
    let lines: [CompletionLine; 5] = Default::default();
    for reached in 0..lines.len() {
        let mut watches: Vec<_> = lines
            .iter()
            .map(|line| reactor.watch(descriptor(line, 2, reached as u64 + 1), None))
            .collect();
        for watch in &mut watches {
            assert!(poll(Pin::new(watch), &waker).is_pending());
        }
        lines[reached].store(Slot::new(2).unwrap(), reached as u64 + 1);
        assert_eq!((reactor.fire(), wakes(&count)), (1, reached + 1));
        assert_eq!(poll(Pin::new(&mut watches[reached]), &waker), Poll::Ready(true));
        assert_eq!(reactor.registered(), 4);
    }
    assert_eq!(reactor.registered(), 0, "dropped watches leave nothing");
}

#[test]
fn a_thread_with_watches_parks_within_the_bound_and_the_earliest_time() {
    let clock = ManualClock::default();
    let line = CompletionLine::new();
    let reactor = reactor(&clock);
    let (_, waker) = counting();
    let mut watch = pin!(reactor.watch(descriptor(&line, 0, 9), Some(MonoNs(70))));
    assert!(poll(watch.as_mut(), &waker).is_pending());
    assert_eq!(reactor.turn(), Turn::Parked(DurNs(50)));
    assert_eq!(reactor.turn(), Turn::Parked(DurNs(20)));
    assert_eq!(reactor.turn(), Turn::Woke(1));
    assert_eq!(poll(watch.as_mut(), &waker), Poll::Ready(false), "its time came first");
}

#[test]
fn a_store_ends_a_park_at_once() {
    let clock = ManualClock::default();
    let line = CompletionLine::new();
    let reactor = reactor(&clock);
    reactor.idle.store_at(MonoNs(33), &line, Slot::new(0).unwrap(), 9);
    let (_, waker) = counting();
    let mut watch = pin!(reactor.watch(descriptor(&line, 0, 9), None));
    assert!(poll(watch.as_mut(), &waker).is_pending());
    assert_eq!(reactor.turn(), Turn::Parked(DurNs(33)));
    assert_eq!(reactor.turn(), Turn::Woke(1));
    assert_eq!(poll(watch.as_mut(), &waker), Poll::Ready(true));
}

#[test]
fn the_lines_take_turns_to_be_parked_on() {
    let clock = ManualClock::default();
    let lines: [CompletionLine; 3] = Default::default();
    let reactor = reactor(&clock);
    let (_, waker) = counting();
    let mut watches: Vec<_> =
        lines.iter().map(|line| reactor.watch(descriptor(line, 0, 9), None)).collect();
    for watch in &mut watches {
        assert!(poll(Pin::new(watch), &waker).is_pending());
    }
    let mut order = Vec::new();
    for _ in 0..5 {
        let line = reactor.next_line().unwrap();
        order.push(lines.iter().position(|known| core::ptr::eq(known, line)).unwrap());
    }
    assert_eq!(order, [0, 1, 2, 0, 1]);
}

#[test]
fn a_dropped_future_leaves_nothing_registered() {
    let clock = ManualClock::default();
    let line = CompletionLine::new();
    let reactor = reactor(&clock);
    let (count, waker) = counting();
    {
        let mut watch = pin!(reactor.watch(descriptor(&line, 0, 9), Some(MonoNs(70))));
        let mut sleep = pin!(reactor.sleep(MonoNs(60)));
        assert!(poll(watch.as_mut(), &waker).is_pending());
        assert!(poll(sleep.as_mut(), &waker).is_pending());
        // A second poll replaces the waker and adds nothing.
        assert!(poll(watch.as_mut(), Waker::noop()).is_pending());
        assert_eq!(reactor.registered(), 3);
    }
    assert_eq!(reactor.registered(), 0);
    clock.advance_to(MonoNs(100));
    assert_eq!((reactor.fire(), wakes(&count)), (0, 0));
    assert_eq!(Arc::strong_count(&count), 2, "no waker is kept");
}

#[test]
fn never_comes_never() {
    let clock = ManualClock::new(MonoNs::MAX);
    let reactor = reactor(&clock);
    let mut sleep = pin!(reactor.sleep(MonoNs::MAX));
    assert!(poll(sleep.as_mut(), Waker::noop()).is_pending());
    assert_eq!((reactor.registered(), reactor.turn()), (0, Turn::Nothing));
}

#[test]
fn what_is_dropped_may_use_the_registry() {
    let registry = Rc::new(RefCell::new(BTreeMap::new()));
    register(&registry, 1, Rude(registry.clone()));
    register(&registry, 1, Rude(registry.clone()));
    unregister(&registry, 1);
    assert_eq!(Rc::strong_count(&registry), 1);
}

/// Borrows the registry that it stands in when it is dropped.
struct Rude(Rc<RefCell<BTreeMap<u64, Rude>>>);

impl Drop for Rude {
    fn drop(&mut self) {
        let _ = self.0.borrow_mut().len();
    }
}
