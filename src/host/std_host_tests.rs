use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::core::error::ErrorCode;
use crate::core::executor::{Executor, run_inline};
use crate::core::line::{MemoryDescriptor, Slot, Width};
use crate::core::plan::Plan;
use crate::core::port::WordPort;
use crate::core::reactor::Reactor;
use crate::core::time::DurNs;
use crate::core::wait::wait;

fn reactor<'l>() -> Reactor<'l, StdClock, StdIdle> {
    let clock = StdClock::new();
    Reactor::new(clock, StdIdle::new(clock), DurNs::from_us(50))
}

fn word(line: &CompletionLine, target: u64) -> MemoryDescriptor<'_> {
    MemoryDescriptor { line, slot: Slot::new(2).unwrap(), target, width: Width::W64 }
}

/// A device on a thread of its own stores numbers; waits by every kind of plan see each.
#[test]
fn waits_in_process_end_when_the_word_is_reached() {
    let (line, asked) = (CompletionLine::new(), AtomicBool::new(false));
    let plans = ["poll", "flag:park_us=50,backstop_us=500", "block"];
    let predict = "+predict:margin_us=20,min_sleep_us=1,max_sleep_us=1000,window=4";
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=4 {
                while !asked.swap(false, Ordering::AcqRel) {
                    std::thread::yield_now();
                }
                line.store(Slot::new(2).unwrap(), number);
            }
        });
        let predicted = format!("{}{predict}", plans[1]);
        for (plan, number) in plans.into_iter().chain([predicted.as_str()]).zip(1..) {
            let (plan, reactor) = (Plan::parse(plan).unwrap(), reactor());
            let done = Cell::new(false);
            let mut tasks = Executor::new();
            tasks.spawn(async {
                asked.store(true, Ordering::Release);
                let mut port = WordPort::new(&reactor, word(&line, number));
                let estimate = Some(DurNs::from_us(200));
                wait(&mut port, reactor.clock(), &reactor, &plan, estimate, None).await.unwrap();
                assert!(line.load(Slot::new(2).unwrap()) >= number);
                done.set(true);
            });
            tasks.run(&reactor).unwrap();
            assert!(done.get());
        }
    });
}

#[test]
fn a_deadline_ends_a_wait() {
    let (line, reactor) = (CompletionLine::new(), reactor());
    let plan = Plan::parse("flag:park_us=50,backstop_us=500").unwrap();
    let mut tasks = Executor::new();
    tasks.spawn(async {
        let deadline = reactor.clock().now() + DurNs::from_us(2000);
        let mut port = WordPort::new(&reactor, word(&line, 1));
        let ended = wait(&mut port, reactor.clock(), &reactor, &plan, None, Some(deadline)).await;
        assert_eq!(ended.unwrap_err().code, ErrorCode::DeadlineExpired);
        assert!(reactor.clock().now() >= deadline);
    });
    tasks.run(&reactor).unwrap();
    assert_eq!(reactor.registered(), 0);
}

#[test]
fn the_timer_never_pends_and_is_never_early() {
    let clock = StdClock::new();
    for us in [0, 200, 3000] {
        let at = clock.now() + DurNs::from_us(us);
        run_inline("test", StdTimer::new(clock).sleep_until(at)).unwrap();
        assert!(clock.now() >= at);
    }
}

#[test]
fn the_idle_parks_as_it_says() {
    let idle = StdIdle::new(StdClock::new());
    assert_eq!(idle.word_park(), WordPark::detect());
    let (line, until) = (CompletionLine::new(), idle.clock.now() + DurNs::from_us(300));
    idle.park_line(&line, &line.values(), until);
    assert!(idle.clock.now() >= until);
    idle.sleep_until(idle.clock.now() + DurNs::from_us(100));
    line.store(Slot::new(0).unwrap(), 1);
    // Differs already: it would not end by itself.
    idle.park_line(&line, &[0; 8], MonoNs::MAX);
}
