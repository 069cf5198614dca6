use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use super::*;
use crate::core::line::{CompletionLine, MemoryDescriptor, Slot, Width};
use crate::core::manual::{ManualClock, ManualIdle};
use crate::core::time::{DurNs, MonoNs};

const PARK: DurNs = DurNs(50);

fn reactor<'l>(
    clock: &'l ManualClock,
    idle: &'l ManualIdle<'l>,
) -> Reactor<'l, &'l ManualClock, &'l ManualIdle<'l>> {
    Reactor::new(clock, idle, PARK)
}

fn descriptor(line: &CompletionLine, target: u64) -> MemoryDescriptor<'_> {
    MemoryDescriptor { line, slot: Slot::new(0).unwrap(), target, width: Width::W64 }
}

#[test]
fn a_task_is_polled_at_spawn_and_then_only_when_woken() {
    let clock = ManualClock::default();
    let idle = ManualIdle::new(&clock);
    let reactor = reactor(&clock, &idle);
    let polls = Cell::new(0);
    let mut executor = Executor::new();
    executor.spawn(async {
        polls.set(polls.get() + 1);
        reactor.sleep(MonoNs(100)).await;
        polls.set(polls.get() + 1);
    });
    assert_eq!((polls.get(), executor.tasks()), (1, 1));
    assert_eq!(executor.run_ready(&reactor, 10), 0);
    let stats = executor.run(&reactor).unwrap();
    let expected = RunStats { polls: 2, woke: 1, slept: 1, parked: 0, idle_ns: 100 };
    assert_eq!((stats, polls.get(), executor.tasks()), (expected, 2, 0));
    assert_eq!(executor.stats(), expected);
}

#[test]
fn a_landed_completion_is_ready_work_before_the_next_idle() {
    let clock = ManualClock::default();
    let idle = ManualIdle::new(&clock);
    let line = CompletionLine::new();
    let reactor = reactor(&clock, &idle);
    let order = RefCell::new(Vec::new());
    let mut executor = Executor::new();
    let task = async |name: u8| {
        if name == 0 {
            reactor.watch(descriptor(&line, 1), None).await;
        } else {
            yield_now().await;
            line.store(Slot::new(0).unwrap(), 1);
            order.borrow_mut().push(name);
            for _ in 0..3 {
                yield_now().await;
            }
        }
        order.borrow_mut().push(name);
    };
    executor.spawn(task(0));
    executor.spawn(task(1));
    let stats = executor.run(&reactor).unwrap();
    assert_eq!(*order.borrow(), [1, 0, 1], "the watch does not wait for the other to be done");
    assert_eq!((stats.woke, stats.slept, stats.parked), (1, 0, 0));
}

#[test]
fn tasks_that_wake_themselves_take_turns() {
    let clock = ManualClock::default();
    let idle = ManualIdle::new(&clock);
    let reactor = reactor(&clock, &idle);
    let order = RefCell::new(Vec::new());
    let mut executor = Executor::new();
    for name in 0..70 {
        let order = &order;
        executor.spawn(async move {
            for _ in 0..3 {
                order.borrow_mut().push(name);
                yield_now().await;
            }
        });
    }
    let stats = executor.run(&reactor).unwrap();
    assert!(order.borrow().iter().copied().eq((0..3).flat_map(|_| 0..70)));
    assert_eq!(stats, RunStats { polls: 280, ..RunStats::default() });
}

#[test]
fn words_are_parked_on_and_times_slept_to() {
    let clock = ManualClock::default();
    let idle = ManualIdle::new(&clock);
    let lines: [CompletionLine; 2] = Default::default();
    idle.store_at(MonoNs(120), &lines[1], Slot::new(0).unwrap(), 1);
    let reactor = reactor(&clock, &idle);
    let landed = Cell::new(MonoNs(0));
    let mut executor = Executor::new();
    let task = async |name: usize| match name {
        0 => assert!(!reactor.watch(descriptor(&lines[0], 1), Some(MonoNs(300))).await),
        _ => {
            assert!(reactor.watch(descriptor(&lines[1], 1), None).await);
            landed.set(reactor.clock().now());
        }
    };
    executor.spawn(task(0));
    executor.spawn(task(1));
    let stats = executor.run(&reactor).unwrap();
    // Parked on line 0 to 50, on line 1 to 100, on line 0 past the store of 120 to 150.
    assert_eq!(landed.get(), MonoNs(150), "found within one bound of the park");
    assert_eq!((stats.parked, stats.slept, stats.idle_ns), (6, 0, 300));
}

#[test]
fn tasks_that_nothing_can_wake_are_stalled_and_kept() {
    let clock = ManualClock::default();
    let idle = ManualIdle::new(&clock);
    let reactor = reactor(&clock, &idle);
    let (waker, done) = (Rc::new(RefCell::new(None)), Rc::new(Cell::new(false)));
    let mut executor = Executor::new();
    let (kept, end) = (waker.clone(), done.clone());
    executor.spawn(poll_fn(move |context| {
        kept.replace(Some(context.waker().clone()));
        if end.get() { Poll::Ready(()) } else { Poll::Pending }
    }));
    let error = executor.run(&reactor).unwrap_err();
    assert_eq!(error.code, ErrorCode::Stalled);
    assert!(error.detail.contains("1 tasks left"), "{error}");
    done.set(true);
    waker.take().unwrap().wake();
    assert_eq!(executor.run(&reactor).unwrap().polls, 2);
}

#[test]
fn a_task_may_be_woken_by_another_thread() {
    let clock = ManualClock::default();
    let idle = ManualIdle::new(&clock);
    let reactor = reactor(&clock, &idle);
    let flag = alloc::sync::Arc::new(core::sync::atomic::AtomicBool::new(false));
    let thread = RefCell::new(None);
    let mut executor = Executor::new();
    executor.spawn(poll_fn(|context| {
        if flag.load(core::sync::atomic::Ordering::Relaxed) {
            return Poll::Ready(());
        }
        let (flag, waker) = (flag.clone(), context.waker().clone());
        thread.replace(Some(std::thread::spawn(move || {
            flag.store(true, core::sync::atomic::Ordering::Relaxed);
            waker.wake();
        })));
        Poll::Pending
    }));
    thread.take().unwrap().join().unwrap();
    assert_eq!(executor.run(&reactor).unwrap().polls, 2);
}

#[test]
fn a_late_waker_does_not_poll_the_task_that_took_the_place() {
    let clock = ManualClock::default();
    let idle = ManualIdle::new(&clock);
    let reactor = reactor(&clock, &idle);
    let (late, polls) = (RefCell::new(None), Cell::new(0));
    let mut executor = Executor::new();
    let task = async |name: u8| match name {
        0 => {
            poll_fn(|context| {
                late.replace(Some(context.waker().clone()));
                Poll::Ready(())
            })
            .await
        }
        _ => {
            poll_fn(|_| {
                polls.set(polls.get() + 1);
                if polls.get() < 9 { Poll::<()>::Pending } else { Poll::Ready(()) }
            })
            .await
        }
    };
    executor.spawn(task(0));
    executor.spawn(task(1));
    late.take().unwrap().wake();
    assert_eq!(executor.run_ready(&reactor, 10), 0);
    assert_eq!(executor.run(&reactor).unwrap_err().code, ErrorCode::Stalled);
    assert_eq!(polls.get(), 1);
}

#[test]
fn run_ready_stops_at_its_bound() {
    let clock = ManualClock::default();
    let idle = ManualIdle::new(&clock);
    let reactor = reactor(&clock, &idle);
    let mut executor = Executor::new();
    executor.spawn(async {
        for _ in 0..10 {
            yield_now().await;
        }
    });
    assert_eq!(executor.run_ready(&reactor, 4), 4);
    assert_eq!(executor.run_ready(&reactor, 100), 6);
    assert_eq!(executor.tasks(), 0);
}

#[test]
fn inline_completes_at_once_or_names_its_site() {
    assert_eq!(run_inline("boot", async { 7 }), Ok(7));
    let error = run_inline("boot", yield_now()).unwrap_err();
    assert_eq!(error.code, ErrorCode::PendedInline);
    assert_eq!(error.detail, "boot: the future was pending at its only poll");
}

#[test]
fn who_yields_is_ready_again_and_polled_when_the_others_were() {
    let clock = ManualClock::default();
    let idle = ManualIdle::new(&clock);
    let reactor = reactor(&clock, &idle);
    let polls = RefCell::new([0; 2]);
    let mut executor = Executor::new();
    let task = async |at: usize| {
        loop {
            polls.borrow_mut()[at] += 1;
            yield_now().await;
        }
    };
    executor.spawn(task(0));
    executor.spawn(task(1));
    for round in 1..4 {
        for expected in [[round, round], [round + 1, round]] {
            assert!(executor.any_ready());
            assert_eq!(*polls.borrow(), expected);
            assert_eq!(executor.run_ready(&reactor, 1), 1);
        }
    }
}
