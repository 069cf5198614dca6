use core::pin::pin;
use core::task::{Context, Poll, Waker};

use super::*;

#[test]
fn the_clock_stands_and_never_goes_back() {
    let clock = ManualClock::new(MonoNs(100));
    assert_eq!((clock.now(), clock.now()), (MonoNs(100), MonoNs(100)));
    clock.advance(DurNs(50));
    clock.advance_to(MonoNs(120));
    assert_eq!(clock.now(), MonoNs(150));
}

#[test]
fn a_sleep_moves_the_clock_only_when_it_is_awaited() {
    let clock = ManualClock::default();
    let timer = ManualTimer::new(&clock);
    let mut sleep = pin!(timer.sleep_until(MonoNs(70)));
    assert_eq!(clock.now(), MonoNs(0));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(sleep.as_mut().poll(&mut context), Poll::Ready(()));
    assert_eq!(clock.now(), MonoNs(70));
}

#[test]
fn a_park_ends_with_the_first_change_of_its_line() {
    let clock = ManualClock::default();
    let (line, other) = (CompletionLine::new(), CompletionLine::new());
    let idle = ManualIdle::new(&clock);
    let [first, second, ..] = Slot::all().collect::<alloc::vec::Vec<_>>()[..] else { panic!() };
    idle.store_at(MonoNs(60), &line, second, 9);
    idle.store_at(MonoNs(30), &other, first, 5);
    idle.store_at(MonoNs(60), &line, second, 10);

    let seen = line.values();
    idle.park_line(&line, &seen, MonoNs(40));
    assert_eq!((clock.now(), other.load(first)), (MonoNs(40), 5), "another line's stores land");
    idle.park_line(&line, &seen, MonoNs(90));
    assert_eq!((clock.now(), line.load(second)), (MonoNs(60), 9));
    idle.park_line(&line, &seen, MonoNs(90));
    assert_eq!(
        (clock.now(), line.load(second)),
        (MonoNs(60), 9),
        "what has changed is not parked on"
    );
    idle.sleep_until(MonoNs(80));
    assert_eq!((clock.now(), line.load(second)), (MonoNs(80), 10));
}
