use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;
use crate::core::executor::{Executor, run_inline, yield_now};
use crate::core::line::{CompletionLine, MemoryDescriptor, Slot, Width};
use crate::core::manual::{ManualClock, ManualIdle, ManualTimer};
use crate::core::plan::tests::any_plan;
use crate::core::port::WordPort;
use crate::core::reactor::Reactor;
use crate::core::step::Waited;
use crate::core::time::MonoNs;

/// A device's work that is done at `done_at`, whose word is written at `flagged_at`, and that
/// fails from its `fails_at`-th call on. Each call takes `call_ns`, and pends once before.
struct Device<'c> {
    clock: &'c ManualClock,
    done_at: MonoNs,
    flagged_at: MonoNs,
    call_ns: u64,
    fails_at: usize,
    calls: RefCell<Vec<&'static str>>,
    in_call: Cell<i32>,
    armed: Cell<i32>,
}

impl<'c> Device<'c> {
    fn new(clock: &'c ManualClock, done_at: u64) -> Device<'c> {
        Device {
            clock,
            done_at: MonoNs(done_at),
            flagged_at: MonoNs(done_at),
            call_ns: 10,
            fails_at: usize::MAX,
            calls: RefCell::default(),
            in_call: Cell::new(0),
            armed: Cell::new(0),
        }
    }

    /// One call, which may last until `until` and ends early when `ends` comes.
    async fn call(&self, name: &'static str, ends: MonoNs, until: MonoNs) -> Result<bool> {
        struct InCall<'i>(&'i Cell<i32>);
        impl Drop for InCall<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() - 1);
            }
        }
        self.in_call.set(self.in_call.get() + 1);
        let _in_call = InCall(&self.in_call);
        self.calls.borrow_mut().push(name);
        yield_now().await;
        self.clock.advance(DurNs(self.call_ns));
        if self.calls.borrow().len() > self.fails_at {
            return Err(Error::new(ErrorCode::Backend, "device: query: 719"));
        }
        self.clock.advance_to(ends.min(until));
        Ok(self.clock.now() >= ends)
    }
}

struct Port<'d, 'c>(&'d Device<'c>);

impl CompletionPort for Port<'_, '_> {
    async fn query(&mut self) -> Result<bool> {
        self.0.call("query", self.0.done_at, MonoNs(0)).await
    }

    async fn block(&mut self, until: Option<MonoNs>) -> Result<bool> {
        self.0.call("block", self.0.done_at, until.unwrap_or(MonoNs::MAX)).await
    }

    async fn arm(&mut self) -> Result<()> {
        self.0.armed.set(self.0.armed.get() + 1);
        self.0.call("arm", MonoNs::MAX, MonoNs(0)).await.map(|_| ())
    }

    async fn park(&mut self, until: MonoNs) -> Result<bool> {
        self.0.call("park", self.0.flagged_at, until).await
    }

    async fn poll(&mut self, until: Option<MonoNs>) -> Result<bool> {
        self.0.call("poll", self.0.done_at, until.unwrap_or(MonoNs::MAX)).await
    }

    fn disarm(&mut self) {
        self.0.armed.set(self.0.armed.get() - 1);
    }
}

/// Polls until ready, at most `most` times.
fn poll_times<F: Future>(mut future: Pin<&mut F>, most: usize) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    (0..most).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

fn wait_on(
    device: &Device<'_>,
    plan: &Plan,
    estimate: Option<u64>,
    deadline: Option<u64>,
) -> Result<Outcome> {
    let timer = ManualTimer::new(device.clock);
    let (estimate, deadline) = (estimate.map(DurNs), deadline.map(MonoNs));
    let mut port = Port(device);
    let wait = pin!(wait(&mut port, device.clock, &timer, plan, estimate, deadline));
    poll_times(wait, 1_000_000).expect("the wait ends")
}

fn plan(text: &str) -> Plan {
    Plan::parse(text).unwrap()
}

const PREDICTED: &str = "flag:park_us=50,backstop_us=100+predict:\
                         margin_us=0,min_sleep_us=0,max_sleep_us=1000,window=1";

#[test]
fn the_port_is_called_in_the_order_of_one_wait() {
    for (text, done_at, waited, calls) in [
        ("block", 400_000, Waited::Blocked, &["block"][..]),
        ("poll", 5, Waited::Immediate, &["query"]),
        ("poll", 400_000, Waited::Parked, &["query", "poll"]),
        (PREDICTED, 50_000, Waited::Late, &["query", "arm", "query"]),
        (PREDICTED, 120_000, Waited::Parked, &["query", "arm", "query", "park", "poll"]),
        (
            "flag:park_us=50,backstop_us=100",
            220_000,
            Waited::Parked,
            &["query", "arm", "park", "park", "query", "park", "park", "query", "park", "poll"],
        ),
    ] {
        let clock = ManualClock::default();
        let device = Device::new(&clock, done_at);
        let outcome = wait_on(&device, &plan(text), Some(100_000), None).unwrap();
        assert_eq!((outcome.waited, device.calls.borrow().as_slice()), (waited, calls), "{text}");
        assert_eq!(outcome.residual.0, clock.now().0, "from the first look at the clock");
    }
}

#[test]
fn the_backstop_finds_what_the_word_never_says() {
    let clock = ManualClock::default();
    let device = Device { flagged_at: MonoNs::MAX, ..Device::new(&clock, 220_000) };
    let outcome = wait_on(&device, &plan("flag:park_us=50,backstop_us=100"), None, None).unwrap();
    assert_eq!(outcome.waited, Waited::Parked);
    assert_eq!(device.calls.borrow().last(), Some(&"query"));
    assert!(outcome.residual <= DurNs(220_000 + 100_000 + 50_000 + 100));
}

#[test]
fn a_port_error_ends_the_wait_as_it_is() {
    for text in ["block", "poll", PREDICTED] {
        for fails_at in 0..4 {
            let clock = ManualClock::default();
            let device = Device { fails_at, ..Device::new(&clock, 900_000) };
            let error = match wait_on(&device, &plan(text), None, None) {
                Err(error) => error,
                Ok(_) => {
                    assert!(device.calls.borrow().len() <= fails_at, "{text}");
                    continue;
                }
            };
            assert_eq!(
                (error.code, error.detail.as_str()),
                (ErrorCode::Backend, "device: query: 719")
            );
            assert_eq!(device.calls.borrow().len(), fails_at + 1);
            assert_eq!(device.armed.get(), 0, "a failed wait is disarmed");
        }
    }
}

#[test]
fn a_wait_dropped_at_any_await_leaves_nothing_behind() {
    for text in ["block", "poll", PREDICTED] {
        for polls in 0..12 {
            let clock = ManualClock::default();
            let device = Device::new(&clock, 320_000);
            let (timer, plan, mut port) = (ManualTimer::new(&clock), plan(text), Port(&device));
            {
                let estimate = Some(DurNs(100_000));
                let wait = pin!(wait(&mut port, &clock, &timer, &plan, estimate, None));
                let _ = poll_times(wait, polls);
            }
            assert_eq!((device.armed.get(), device.in_call.get()), (0, 0), "{text}, {polls} polls");
        }
    }
}

#[test]
fn a_wait_whose_port_never_pends_completes_inline() {
    let (clock, line) = (ManualClock::default(), CompletionLine::new());
    let reactor = Reactor::new(&clock, ManualIdle::new(&clock), DurNs(50_000));
    let slot = Slot::new(0).unwrap();
    line.store(slot, 3);
    let word = MemoryDescriptor { line: &line, slot, target: 3, width: Width::W64 };
    let mut port = WordPort::new(&reactor, word);
    let poll = plan("poll");
    let wait = wait(&mut port, &clock, &reactor, &poll, None, None);
    assert_eq!(run_inline("test", wait).unwrap().unwrap().waited, Waited::Immediate);
}

/// Notes the sleeps it is asked for.
struct Noting<'c>(ManualTimer<'c>, RefCell<Vec<MonoNs>>);

impl Timer for Noting<'_> {
    fn sleep_until(&self, at: MonoNs) -> impl Future<Output = ()> {
        self.1.borrow_mut().push(at);
        self.0.sleep_until(at)
    }
}

proptest! {
    #[test]
    fn never_early_never_overslept_never_past_the_deadline(
        plan in any_plan(),
        start in 0..1_000_000u64,
        estimate in prop::option::of(0..3_000_000u64),
        deadline in prop::option::of(0..4_000_000u64),
        done_at in prop_oneof![0..4_000_000u64, Just(u64::MAX)],
        flag_delay in prop_oneof![Just(0), 0..100_000u64, Just(u64::MAX)],
        call_ns in 1..2_000u64,
    ) {
        // The work ends or the wait does, in so many steps that a test can take.
        let deadline = deadline.or((done_at == u64::MAX).then_some(2_000_000));
        let clock = ManualClock::new(MonoNs(start));
        let flagged_at = MonoNs(done_at.saturating_add(flag_delay));
        let device = Device { flagged_at, call_ns, ..Device::new(&clock, done_at) };
        let timer = Noting(ManualTimer::new(&clock), RefCell::default());
        let mut port = Port(&device);
        let ended = {
            let (estimate, deadline) = (estimate.map(DurNs), deadline.map(MonoNs));
            let wait = pin!(wait(&mut port, &clock, &timer, &plan, estimate, deadline));
            poll_times(wait, 1_000_000)
        };
        let ended = ended.expect("the wait ends");
        match ended {
            Ok(outcome) => {
                prop_assert!(clock.now() >= device.done_at, "early");
                prop_assert_eq!(outcome.residual, clock.now().since(MonoNs(start)));
            }
            Err(error) => {
                prop_assert_eq!(error.code, ErrorCode::DeadlineExpired);
                let deadline = deadline.unwrap();
                prop_assert!(clock.now().0 >= deadline, "expired early");
                // The call that runs across it, and the last look.
                prop_assert!(clock.now().0 <= deadline.max(start) + 2 * call_ns, "expired late");
                prop_assert!(clock.now() < device.done_at + DurNs(2 * call_ns));
            }
        }
        for &at in timer.1.borrow().iter() {
            prop_assert!(plan.predict.is_some());
            prop_assert!(at.0 <= start + estimate.unwrap() && at.0 <= deadline.unwrap_or(u64::MAX));
        }
        prop_assert_eq!((device.armed.get(), device.in_call.get()), (0, 0));
    }

    #[test]
    fn waits_on_words_all_end_and_leave_the_reactor_empty(
        waits in prop::collection::vec(
            (any_plan(), prop::option::of(0..900_000u64), 1..9u64, prop::option::of(0..900_000u64)),
            1..20,
        ),
        stored_us in prop::collection::vec(0..1_000u64, 8),
        stop_after in prop::option::of(0..30usize),
    ) {
        let clock = ManualClock::default();
        let line = CompletionLine::new();
        let slot = Slot::new(5).unwrap();
        let idle = ManualIdle::new(&clock);
        let mut stored_ns: Vec<u64> = stored_us.iter().map(|us| us * 1000).collect();
        stored_ns.sort_unstable();
        for (index, &ns) in stored_ns.iter().enumerate() {
            idle.store_at(MonoNs(ns), &line, slot, index as u64 + 1);
        }
        let reactor = Reactor::new(&clock, &idle, DurNs(50_000));
        let ended = Cell::new(0);
        let mut executor = Executor::new();
        for &(plan, estimate, target, deadline) in &waits {
            let (reactor, clock, ended, stored_ns) = (&reactor, &clock, &ended, &stored_ns);
            let line = &line;
            executor.spawn(async move {
                let word = MemoryDescriptor { line, slot, target, width: Width::W64 };
                let mut port = WordPort::new(reactor, word);
                let (estimate, deadline) = (estimate.map(DurNs), deadline.map(MonoNs));
                let outcome = wait(&mut port, clock, reactor, &plan, estimate, deadline).await;
                let stored = stored_ns[target as usize - 1];
                match outcome {
                    Ok(_) => assert!(clock.now().0 >= stored && line.load(slot) >= target),
                    Err(_) => assert!(deadline.is_some_and(|at| at <= clock.now())),
                }
                ended.set(ended.get() + 1);
            });
        }
        match stop_after {
            Some(turns) => {
                for _ in 0..turns {
                    executor.run_ready(&reactor, usize::MAX);
                    reactor.turn();
                }
            }
            None => {
                executor.run(&reactor).unwrap();
                prop_assert_eq!(ended.get(), waits.len());
            }
        }
        drop(executor);
        prop_assert_eq!(reactor.registered(), 0);
    }
}
