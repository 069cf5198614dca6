use alloc::string::String;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::core::plan::tests::any_plan;

const PREDICT: &str = "+predict:margin_us=150,min_sleep_us=20,max_sleep_us=50000,window=8";
const START: MonoNs = MonoNs(1_000_000);

fn plan(park: &str, predicts: bool) -> Plan {
    let text = String::from(park) + if predicts { PREDICT } else { "" };
    Plan::parse(&text).unwrap()
}

fn flag(predicts: bool) -> Plan {
    plan("flag:park_us=50,backstop_us=120", predicts)
}

/// `us` microseconds after the start.
fn at(us: u64) -> MonoNs {
    START + DurNs::from_us(us)
}

fn us(us: u64) -> DurNs {
    DurNs::from_us(us)
}

fn done(waited: Waited, sample: Option<Sample>, residual: DurNs) -> Action {
    Action::Finish(Outcome { waited, sample, residual })
}

/// Steps `wait` through `script`: when, what happened, what must follow.
fn follow(mut wait: Wait, script: &[(u64, Event, Action)]) -> Wait {
    for (step, &(when, event, action)) in script.iter().enumerate() {
        assert_eq!(wait.step(at(when), event), action, "step {step}: {event:?} at {when} us");
    }
    wait
}

#[test]
fn block_is_the_blocking_wait_and_nothing_else() {
    let wait = Wait::new(&plan("block", false), START, Some(us(500)), Some(at(900)));
    let block = Action::Block { until: Some(at(900)) };
    let end = done(Waited::Blocked, None, us(700));
    follow(
        wait,
        &[
            (0, Event::Begin, block),
            (300, Event::Blocked(false), block),
            (700, Event::Blocked(true), end),
        ],
    );
    follow(wait, &[(0, Event::Begin, block), (700, Event::Seen, end)]);
    let late = Action::Expire;
    follow(wait, &[(0, Event::Begin, block), (900, Event::Blocked(false), late)]);
    // Begun after its deadline, it still looks once.
    let end = done(Waited::Blocked, None, us(950));
    follow(wait, &[(950, Event::Begin, block), (950, Event::Blocked(true), end)]);
}

#[test]
fn what_is_done_at_the_first_query_is_immediate() {
    for plan in [plan("poll", true), flag(true)] {
        let wait = Wait::new(&plan, START, Some(us(500)), None);
        let sample = Some(Sample::Immediate(us(2)));
        follow(
            wait,
            &[
                (1, Event::Begin, Action::Query),
                (2, Event::Queried(true), done(Waited::Immediate, sample, us(2))),
            ],
        );
    }
}

#[test]
fn flag_arms_sleeps_queries_and_then_parks_with_a_backstop() {
    let wait = Wait::new(&flag(true), START, Some(us(500)), None);
    let until = |us| Action::ParkUntil(at(us));
    let sample = Some(Sample::Exact(us(700)));
    let script = [
        (0, Event::Begin, Action::Query),
        (1, Event::Queried(false), Action::Arm),
        (2, Event::Armed, Action::SleepUntil(at(500))),
        (501, Event::Woke, Action::Query),
        (502, Event::Queried(false), until(552)),
        (552, Event::Parked, until(602)),
        (602, Event::Parked, until(652)),
        (652, Event::Parked, Action::Query), // 150 us after the last: the backstop is due
        (653, Event::Queried(false), until(703)),
        (690, Event::Flagged, Action::Poll { until: None }),
        (695, Event::Polled(false), Action::Poll { until: None }),
        (700, Event::Polled(true), done(Waited::Parked, sample, us(700))),
    ];
    follow(wait, &script);
    let sample = Some(Sample::Exact(us(654)));
    let backstop = (654, Event::Queried(true), done(Waited::Parked, sample, us(654)));
    follow(wait, &[&script[..8], &[backstop]].concat());
}

#[test]
fn done_after_the_sleep_is_late_and_censored() {
    let wait = Wait::new(&plan("poll", true), START, Some(us(500)), None);
    let sample = Some(Sample::Late { woke_after: us(510) });
    follow(
        wait,
        &[
            (0, Event::Begin, Action::Query),
            (1, Event::Queried(false), Action::SleepUntil(at(500))),
            (499, Event::Woke, Action::SleepUntil(at(500))), // too early: its time has not come
            (505, Event::Woke, Action::Query),
            (510, Event::Queried(true), done(Waited::Late, sample, us(510))),
        ],
    );
}

#[test]
fn nobody_sleeps_without_both_prediction_and_estimate() {
    let park = Action::ParkUntil(at(52));
    for (plan, sleep) in [(flag(false), Some(us(500))), (flag(true), None)] {
        let wait = Wait::new(&plan, START, sleep, None);
        follow(
            wait,
            &[
                (0, Event::Begin, Action::Query),
                (1, Event::Queried(false), Action::Arm),
                (2, Event::Armed, park),
            ],
        );
    }
}

#[test]
fn a_sleep_whose_end_has_passed_is_left_out() {
    let wait = Wait::new(&flag(true), START, Some(us(30)), None);
    follow(
        wait,
        &[
            (0, Event::Begin, Action::Query),
            (40, Event::Queried(false), Action::Arm),
            (41, Event::Armed, Action::ParkUntil(at(91))),
        ],
    );
}

#[test]
fn seen_ends_any_phase_with_an_exact_sample() {
    let script = [
        (0, Event::Begin),
        (1, Event::Queried(false)),
        (2, Event::Armed),
        (500, Event::Woke),
        (501, Event::Queried(false)),
        (700, Event::Parked),
        (701, Event::Queried(false)),
        (702, Event::Flagged),
    ];
    for steps in 0..=script.len() {
        let mut wait = Wait::new(&flag(true), START, Some(us(500)), None);
        for &(when, event) in &script[..steps] {
            wait.step(at(when), event);
        }
        let end = done(Waited::Parked, Some(Sample::Exact(us(800))), us(800));
        assert_eq!(wait.step(at(800), Event::Seen), end, "after {steps} steps");
        let again = done(Waited::Parked, None, us(800));
        assert_eq!(wait.step(at(900), Event::Queried(false)), again, "and learned once");
    }
}

#[test]
fn the_deadline_bounds_every_step_and_is_followed_by_one_last_look() {
    let wait = |sleep| Wait::new(&flag(true), START, sleep, Some(at(80)));
    let sleeping = [
        (0, Event::Begin, Action::Query),
        (1, Event::Queried(false), Action::Arm),
        (2, Event::Armed, Action::SleepUntil(at(80))),
        (80, Event::Woke, Action::Query),
    ];
    let late = done(Waited::Late, Some(Sample::Late { woke_after: us(81) }), us(81));
    let woken = follow(wait(Some(us(500))), &sleeping);
    follow(woken, &[(81, Event::Queried(true), late)]);
    follow(
        woken,
        &[(81, Event::Queried(false), Action::Expire), (82, Event::Seen, Action::Expire)],
    );

    let parking = [
        (0, Event::Begin, Action::Query),
        (1, Event::Queried(false), Action::Arm),
        (2, Event::Armed, Action::ParkUntil(at(52))),
        (52, Event::Parked, Action::ParkUntil(at(80))),
        (80, Event::Parked, Action::Query),
    ];
    let parked = done(Waited::Parked, Some(Sample::Exact(us(81))), us(81));
    let looking = follow(wait(None), &parking);
    follow(looking, &[(81, Event::Queried(true), parked)]);
    follow(looking, &[(81, Event::Queried(false), Action::Expire)]);

    let polling = Wait::new(&plan("poll", false), START, None, Some(at(80)));
    let poll = Action::Poll { until: Some(at(80)) };
    follow(
        polling,
        &[
            (0, Event::Begin, Action::Query),
            (1, Event::Queried(false), poll),
            (80, Event::Polled(false), Action::Expire),
        ],
    );
}

#[test]
fn a_deadline_that_has_passed_leaves_one_query() {
    let wait = Wait::new(&flag(true), START, Some(us(500)), Some(MonoNs(0)));
    let begin = (0, Event::Begin, Action::Query);
    follow(wait, &[begin, (1, Event::Queried(false), Action::Expire)]);
    let immediate = done(Waited::Immediate, Some(Sample::Immediate(us(1))), us(1));
    follow(wait, &[begin, (1, Event::Queried(true), immediate)]);
}

#[test]
fn an_event_of_another_action_is_no_news() {
    let strays = [Event::Begin, Event::Armed, Event::Parked, Event::Flagged, Event::Polled(true)];
    let mut wait = Wait::new(&flag(true), START, Some(us(500)), None);
    wait.step(at(0), Event::Begin);
    wait.step(at(1), Event::Queried(false));
    wait.step(at(2), Event::Armed);
    for stray in strays {
        assert_eq!(wait.step(at(3), stray), Action::SleepUntil(at(500)), "{stray:?}");
    }
}

/// A driver that answers as `noise` says: how long each step takes, and whether the work, once
/// done, is reported by a stray look or by the answer to the action.
fn drive(mut wait: Wait, done_at: MonoNs, noise: &[(u64, bool)]) -> Vec<(MonoNs, Event, Action)> {
    let mut trace = Vec::new();
    let (mut now, mut event) = (START, Event::Begin);
    for &(step_ns, stray) in noise.iter().cycle().take(100_000) {
        let action = wait.step(now, event);
        trace.push((now, event, action));
        let asleep = |until: MonoNs| until.min(done_at);
        now = now + DurNs(step_ns);
        let is_done = |now| now >= done_at;
        event = match action {
            Action::Finish(_) | Action::Expire => return trace,
            _ if stray && is_done(now) => Event::Seen,
            Action::Query => Event::Queried(is_done(now)),
            Action::Arm => Event::Armed,
            Action::SleepUntil(until) => {
                now = now.max(until);
                Event::Woke
            }
            Action::ParkUntil(until) => {
                now = now.max(asleep(until));
                if is_done(now) { Event::Flagged } else { Event::Parked }
            }
            Action::Block { until } => {
                now = now.max(asleep(until.unwrap_or(MonoNs::MAX)));
                Event::Blocked(is_done(now))
            }
            Action::Poll { until } => {
                now = now.max(asleep(until.unwrap_or(MonoNs::MAX)));
                Event::Polled(is_done(now))
            }
        };
    }
    trace
}

fn said_done(event: Event) -> bool {
    use Event::{Blocked, Polled, Queried, Seen};
    matches!(event, Queried(true) | Blocked(true) | Polled(true) | Seen)
}

proptest! {
    #[test]
    fn no_wait_is_early_oversleeps_or_outlives_its_deadline(
        plan in any_plan(),
        sleep in prop::option::of(0..80_000_000u64),
        deadline in prop::option::of(0..100_000_000u64),
        done_after in prop_oneof![0..80_000_000u64, Just(u64::MAX)],
        noise in prop::collection::vec((1_000..200_000u64, any::<bool>()), 1..20),
    ) {
        // Either the work ends or the wait does.
        let deadline = deadline.or((done_after == u64::MAX).then_some(50_000_000));
        let deadline = deadline.map(|ns| START + DurNs(ns));
        let done_at = START + DurNs(done_after);
        let sleep = sleep.map(DurNs);
        let trace = drive(Wait::new(&plan, START, sleep, deadline), done_at, &noise);
        let bound = deadline.unwrap_or(MonoNs::MAX);
        let (last, before) = trace.split_last().unwrap();
        let mut last_looks = 0;
        for &(now, event, action) in before {
            prop_assert!(!said_done(event), "{event:?} is the end");
            last_looks += u32::from(now >= bound);
            match action {
                Action::SleepUntil(until) => {
                    prop_assert!(plan.predict.is_some() && plan.park != Park::Block);
                    prop_assert!(until <= bound && Some(until) <= sleep.map(|sleep| START + sleep));
                }
                Action::ParkUntil(until) => prop_assert!(until <= bound && until > now),
                Action::Block { until } | Action::Poll { until } => {
                    prop_assert_eq!(until, deadline);
                }
                Action::Query | Action::Arm => {}
                end => prop_assert!(false, "{end:?} is not the last action"),
            }
        }
        prop_assert!(last_looks <= 1, "{last_looks} steps past the deadline");
        match *last {
            (now, event, Action::Finish(outcome)) => {
                prop_assert!(said_done(event) && now >= done_at);
                prop_assert_eq!(outcome.residual, now.since(START));
                prop_assert_eq!(outcome.sample.is_none(), outcome.waited == Waited::Blocked);
            }
            (now, event, Action::Expire) => prop_assert!(now >= bound && !said_done(event)),
            (_, _, action) => prop_assert!(false, "the wait never ends: {action:?}"),
        }
    }
}

#[test]
fn what_is_done_at_once_ends_as_the_machine_would_end_it() {
    let flag = Park::Flag { park_us: 50, backstop_us: 1000 };
    for park in [Park::Block, Park::Poll, flag] {
        let mut wait = Wait::new(&Plan { park, predict: None }, MonoNs(7), None, None);
        let done = match wait.step(MonoNs(7), Event::Begin) {
            Action::Block { .. } => Event::Blocked(true),
            _ => Event::Queried(true),
        };
        assert_eq!(wait.step(MonoNs(7), done), Action::Finish(Outcome::at_once(park)), "{park:?}");
    }
}
