use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::core::estimator::EstimatorKind;
use crate::engine::bench_tests::*;
use crate::engine::table::{self, Table};
use crate::proto::entry::ResultEntry;
use crate::proto::layout::armed;

fn status(result: &ResultEntry) -> Status {
    Status::from_number(result.status).unwrap()
}

#[test]
fn a_silent_store_is_found_within_a_park() {
    let mut bench = bench_with(PLAN);
    bench.submit(word(7, 1));
    assert_eq!(bench.wait(500), []);
    bench.shared.store(0, 1);
    let found = bench.wait(60);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].user_data, status(&found[0]), found[0].seen), (7, Status::Done, 1));
    assert_eq!(found[0].waited, 3);
    assert_eq!(bench.engine.next_due(), MonoNs::MAX, "nothing is left to look at");
    assert_eq!(bench.engine.outstanding(), 0);
}

#[test]
fn a_park_shorter_than_what_is_looked_at_early_is_looked_at_once_a_turn() {
    let mut bench = bench_with("flag:park_us=1,backstop_us=1");
    bench.submit(word(7, 1));
    let looks = bench.engine.stats().due_looks;
    for turn in 1..=5 {
        bench.pass(2);
        bench.engine.run_due(bench.now);
        assert_eq!(bench.engine.stats().due_looks, looks + turn);
    }
}

#[test]
fn a_landed_ticket_is_immediate_and_one_behind_the_word_too() {
    let mut bench = bench_with(PLAN);
    bench.shared.store(0, 5);
    bench.submit(word(1, 5));
    bench.submit(word(2, 3));
    let read = bench.shared.read();
    assert_eq!(read.iter().map(|r| (r.user_data, r.waited)).collect::<Vec<_>>(), [(1, 1), (2, 1)]);
}

#[test]
fn a_learned_wait_sleeps_then_looks_hot() {
    let mut bench = bench_with(PLAN);
    for n in 1..=9 {
        bench.submit(word(n, n));
        assert_eq!(bench.wait(1000), []);
        bench.shared.store(0, n);
        assert_eq!(bench.wait(60).len(), 1, "wait {n}");
    }
    let submitted = bench.now;
    bench.submit(word(10, 10));
    let due = bench.engine.next_due().since(submitted);
    assert!((DurNs::from_us(800)..DurNs::from_us(900)).contains(&due), "{due:?}");
    assert!(!bench.engine.is_hot());
    bench.pass(due.as_us() + 1);
    bench.turn();
    assert!(bench.engine.is_hot(), "inside the predicted window");
    bench.pass(50);
    bench.shared.store(0, 10);
    bench.turn();
    let read = bench.shared.read();
    assert_eq!((read.len(), read[0].waited), (1, 3));
    bench.turn();
    assert!(!bench.engine.is_hot());
}

#[test]
fn what_is_near_is_watched_for_at_once_and_what_is_unknown_is_not() {
    for (estimator, hot) in [(EstimatorKind::Adaptive, true), (EstimatorKind::Min, false)] {
        let mut bench = bench_by(estimator, PLAN);
        bench.submit(word(1, 1));
        assert!(!bench.engine.is_hot(), "nothing is known");
        bench.pass(30);
        bench.shared.store(0, 1);
        assert_eq!(bench.wait(60).len(), 1);
        bench.submit(word(2, 2));
        assert_eq!(bench.engine.is_hot(), hot, "{estimator:?}");
        bench.pass(bench.config.spin.as_us() + 1);
        bench.turn();
        bench.turn();
        assert!(!bench.engine.is_hot(), "not for longer than spin_us");
    }
}

const AHEAD: Ahead = Ahead { by: DurNs::from_us(80), keeps_awake: true };

/// Has the point learn that its work takes a millisecond, and sends the next ticket off.
fn foreseen(bench: &mut Bench) -> u64 {
    let first = bench.shared.words.borrow()[0] + 1;
    for n in first..first + 9 {
        bench.submit(word(n, n));
        bench.wait(1000);
        bench.shared.store(0, n);
        bench.wait(60);
    }
    bench.submit(word(first + 9, first + 9));
    first + 9
}

#[test]
fn a_client_is_woken_early_once_and_looks_until_the_window_ends() {
    for keeps_awake in [false, true] {
        let mut bench = bench_with(&format!("{PLAN},wake=early"));
        bench.engine.set_ahead(Ahead { keeps_awake, ..AHEAD });
        let target = foreseen(&mut bench);
        bench.shared.armed.set(armed::word(9, armed::TAIL));
        bench.shared.announced.set(0);
        let opens = bench.engine.next_due();
        bench.pass(opens.since(bench.now).as_us() + 1);
        assert_eq!(bench.turn(), [Effect::WakeTail { slot: 0 }]);
        assert!(!bench.engine.is_imminent(), "its CPU is awake already");
        let window_ends = bench.engine.next_due() + bench.config.spin;
        assert_eq!(bench.shared.announced.get(), window_ends.0);
        assert_eq!(bench.turn(), [], "once");
        // It is told of the completion all the same.
        bench.pass(81);
        bench.shared.store(0, target);
        assert_eq!(bench.turn(), [Effect::WakeTail { slot: 0 }]);
        assert_eq!((bench.engine.stats().early_wakes, bench.shared.read().len()), (1, 1));
    }
}

#[test]
fn who_cannot_look_itself_finds_its_cpu_awake() {
    let mut bench = bench_with(&format!("{PLAN},wake=early"));
    bench.engine.set_ahead(AHEAD);
    foreseen(&mut bench);
    bench.shared.armed.set(armed::word(9, armed::NOTIFY));
    bench.pass(bench.engine.next_due().since(bench.now).as_us() + 1);
    assert_eq!(bench.turn(), []);
    assert!(bench.engine.is_imminent());
}

#[test]
fn a_foreseen_completion_is_imminent_until_it_was_told() {
    let mut bench = bench_with(PLAN);
    bench.engine.set_ahead(AHEAD);
    foreseen(&mut bench);
    assert!(!bench.engine.is_imminent());
    let submitted = bench.now;
    let opens = bench.engine.next_due().since(submitted);
    assert!((DurNs::from_us(720)..DurNs::from_us(820)).contains(&opens), "{opens:?}");
    bench.pass(opens.as_us() + 1);
    bench.turn();
    assert!(bench.engine.is_imminent() && !bench.engine.is_hot(), "it sleeps on");
    let sleeps = bench.engine.next_due().since(submitted).0 - opens.0;
    assert_eq!(sleeps, 80_000);
    bench.pass(81);
    bench.turn();
    assert!(bench.engine.is_imminent() && bench.engine.is_hot());
    bench.shared.store(0, 10);
    bench.turn();
    assert!(!bench.engine.is_imminent(), "told");
    // One that does not come is not imminent for ever.
    bench.submit(word(11, 11));
    bench.wait(5000);
    assert!(!bench.engine.is_imminent());
    // One whose session goes is not either.
    bench.shared.store(0, 11);
    bench.wait(200);
    bench.submit(word(12, 12));
    bench.pass(bench.engine.next_due().since(bench.now).as_us() + 1);
    bench.turn();
    assert!(bench.engine.is_imminent());
    bench.engine.detach(0, bench.now);
    assert!(!bench.engine.is_imminent());
}

#[test]
fn a_late_wake_is_late() {
    let mut bench = bench_with(PLAN);
    for n in 1..=3 {
        bench.submit(word(n, n));
        bench.wait(1000);
        bench.shared.store(0, n);
        bench.wait(60);
    }
    bench.submit(word(4, 4));
    bench.pass(500);
    bench.shared.store(0, 4);
    let read = bench.wait(2000);
    assert_eq!(read[0].waited, 2);
}

#[test]
fn hot_looking_ends_when_the_budget_is_spent() {
    let mut bench = bench_with("poll");
    bench.submit(word(1, 1));
    assert!(bench.engine.is_hot());
    let hot = |bench: &mut Bench, us: u64| {
        let mut hot_us = 0;
        for _ in 0..us / 5 {
            bench.pass(5);
            hot_us += 5 * u64::from(bench.engine.is_hot());
            bench.turn();
        }
        hot_us
    };
    hot(&mut bench, 50_000);
    let spent = hot(&mut bench, 100_000);
    assert!((40_000..=60_000).contains(&spent), "{spent} us of 100 ms at 50 percent");
    bench.shared.store(0, 1);
    assert_eq!(bench.wait(60).len(), 1);
}

#[test]
fn a_park_much_shorter_than_the_configured_one_does_not_hold_a_turn_up() {
    let mut bench = bench_with("flag:park_us=1,backstop_us=1");
    bench.submit(word(1, 1));
    assert_eq!(bench.wait(500), []);
    bench.shared.store(0, 1);
    assert_eq!(bench.wait(10).len(), 1);
}

#[test]
fn the_shortest_parks_on_many_lanes_take_no_more_than_the_sessions_share() {
    // What a turn takes: FILL wakes, looks and sleeps.
    const TURN_US: u64 = 5;
    let mut bench = bench_with("flag:park_us=1,backstop_us=1");
    for lane in 0..LANES {
        bench.engine.open_lane(0, Some(lane), Width::W64, 0, 0, bench.now).ok();
        bench.submit(SubmitEntry { source: lane, ..word(lane.into(), 1) });
        bench.pass(1);
    }
    let busy_us = |bench: &mut Bench, us: u64| {
        let (mut turns, end) = (0, bench.now + DurNs::from_us(us));
        while bench.now < end {
            bench.now = bench.now.max(bench.engine.next_due());
            bench.turn();
            bench.pass(TURN_US);
            turns += 1;
        }
        turns * TURN_US
    };
    // What was saved up is spent first.
    busy_us(&mut bench, 50_000);
    let busy = busy_us(&mut bench, 100_000);
    // Half of the time is to be had for looking, and every 50 us there is a look anyway.
    assert!((1..=62_000).contains(&busy), "{busy} us of 100 ms");
    assert_eq!(bench.shared.read(), []);
}

#[test]
fn looks_that_are_nearly_due_share_a_turn() {
    let mut bench = bench_with("flag:park_us=100,backstop_us=1000");
    bench.engine.open_lane(0, Some(1), Width::W64, 0, 0, bench.now).unwrap();
    bench.submit(word(1, 1));
    bench.pass(20);
    bench.submit(SubmitEntry { source: 1, ..word(2, 1) });
    bench.shared.store(1, 1);
    bench.pass(80);
    bench.turn();
    assert_eq!(bench.shared.read().len(), 1, "the second lane is looked at with the first");
}

#[test]
fn block_looks_on_its_bell_and_at_the_backstop_only() {
    let mut bench = bench_with("block");
    bench.submit(word(1, 1));
    bench.shared.store(0, 1);
    assert_eq!(bench.wait(900), []);
    let read = bench.wait(200);
    assert_eq!((read.len(), read[0].waited), (1, 4));
    bench.submit(word(2, 2));
    bench.shared.store(0, 2);
    bench.engine.look(0, Some(0), bench.now);
    bench.turn();
    assert_eq!(bench.shared.read().len(), 1);
}

#[test]
fn tickets_of_a_lane_complete_in_the_order_of_their_targets() {
    let mut bench = bench_with(PLAN);
    for target in [5u64, 2, 9, 3, 2] {
        bench.submit(word(target, target));
    }
    bench.shared.store(0, 4);
    let found: Vec<u64> = bench.wait(100).iter().map(|r| r.user_data).collect();
    assert_eq!(found, [2, 2, 3]);
    bench.shared.store(0, 9);
    let found: Vec<u64> = bench.wait(1500).iter().map(|r| r.user_data).collect();
    assert_eq!(found, [5, 9]);
}

#[test]
fn deadlines_cancel_and_fail_end_tickets_each_with_its_status() {
    let mut bench = bench_with(PLAN);
    let deadline_ns = (bench.now + DurNs::from_us(300)).0;
    bench.submit(SubmitEntry { deadline_ns, ..word(1, 1) });
    let read = bench.wait(400);
    assert_eq!((read.len(), status(&read[0])), (1, Status::DeadlineExpired));

    bench.submit(word(2, 1));
    bench.submit(SubmitEntry { op: 2, kind: 0, ..word(2, 0) });
    let read = bench.shared.read();
    assert_eq!((read.len(), status(&read[0])), (1, Status::Cancelled));
    let gone = bench.engine.cancel(0, 2, bench.now).unwrap_err().error.code;
    assert_eq!(gone, ErrorCode::NoSuchTicket);

    bench.shared.store(0, 3);
    bench.submit(word(3, 4));
    bench.shared.store(0, 4);
    bench.submit(word(4, 5));
    bench.submit(SubmitEntry { op: 3, kind: 0, target: 700, ..SubmitEntry::default() });
    bench.submit(word(5, 6));
    let read = bench.shared.read();
    let ends: Vec<_> = read.iter().map(|r| (r.user_data, status(r), r.code)).collect();
    let failed = Status::DeviceFailed;
    assert_eq!(ends, [(3, Status::Done, 0), (4, failed, 700), (5, failed, 700)]);
}

#[test]
fn submit_messages_are_all_or_none_in_the_order_of_their_cookies() {
    let mut bench = bench_with(PLAN);
    let refuse = |bench: &mut Bench, cookie, entries: &[SubmitEntry]| {
        let refusal = bench.engine.submit(0, cookie, entries, bench.now).unwrap_err();
        (refusal.error.code, refusal.value)
    };
    let two = [word(1, 1), word(2, 2)];
    assert_eq!(refuse(&mut bench, 2, &two), (ErrorCode::CookieOutOfOrder, 1));
    assert_eq!(bench.engine.submit(0, 1, &two, bench.now), Ok(RING - 2));
    assert_eq!(refuse(&mut bench, 1, &two), (ErrorCode::CookieOutOfOrder, 2));
    let bad = [word(3, 3), SubmitEntry { source: 9, ..word(4, 4) }];
    assert_eq!(refuse(&mut bench, 2, &bad).0, ErrorCode::NoSuchLane);
    let bad = [SubmitEntry { plan: 7, ..word(4, 4) }];
    assert_eq!(refuse(&mut bench, 2, &bad).0, ErrorCode::NoSuchPlan);
    assert_eq!(bench.engine.outstanding(), 2);
    let many: Vec<_> = (0..RING as u64).map(|n| word(n, n + 10)).collect();
    assert_eq!(refuse(&mut bench, 2, &many), (ErrorCode::CreditExceeded, 62));
}

#[test]
fn results_unread_count_against_the_credit() {
    let mut bench = bench_with(PLAN);
    bench.shared.store(0, 1);
    for n in 0..u64::from(RING) {
        assert_eq!(bench.submit(word(n, 1)), [], "nothing closes the session");
    }
    assert_eq!(bench.engine.submit(0, 1, &[word(1, 1)], bench.now).unwrap_err().value, 0);
    let effects = bench.submit(word(1, 1));
    let code = match &effects[..] {
        [Effect::Close { error, .. }] => error.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code, ErrorCode::CreditExceeded);
    assert_eq!(bench.shared.read().len(), RING as usize);
}

#[test]
fn nonsense_in_the_rings_closes_the_session_once() {
    for spoil in [
        |shared: &Shared| shared.submit_tail.set(RING + 1),
        |shared: &Shared| shared.push(SubmitEntry { op: 9, ..word(1, 1) }),
        |shared: &Shared| {
            shared.result_head.set(5);
            shared.push(word(1, 1));
        },
    ] {
        let mut bench = bench_with(PLAN);
        spoil(&bench.shared);
        bench.engine.drain(0, bench.now);
        bench.engine.drain(0, bench.now);
        let effects = bench.turn();
        assert!(matches!(effects[..], [Effect::Close { slot: 0, .. }]), "{effects:?}");
    }
}

#[test]
fn a_ticket_that_cannot_be_taken_is_refused_by_a_result() {
    let mut bench = bench_with(PLAN);
    bench.submit(SubmitEntry { source: 5, ..word(1, 1) });
    bench.submit(SubmitEntry { plan: 3, ..word(2, 1) });
    bench.submit(SubmitEntry { flags: 1, ..word(3, 1) });
    bench.submit(SubmitEntry { kind: 3, ..word(4, 1) });
    let ends: Vec<_> =
        bench.shared.read().iter().map(|r| (r.user_data, status(r), r.code)).collect();
    let refused = |n, code: ErrorCode| (n, Status::Refused, u32::from(code.number()));
    assert_eq!(ends[0], refused(1, ErrorCode::NoSuchLane));
    assert_eq!(ends[1], refused(2, ErrorCode::NoSuchPlan));
    assert_eq!(ends[2], refused(3, ErrorCode::UnknownFlags));
    assert_eq!(ends[3], refused(4, ErrorCode::NotSupported));
}

#[test]
fn an_arming_is_told_once_and_in_its_way() {
    let mut bench = bench_with(PLAN);
    bench.shared.store(0, 9);
    assert_eq!(bench.submit(word(1, 1)), [], "not armed");
    bench.shared.armed.set(armed::word(1, armed::TAIL));
    assert_eq!(bench.submit(word(2, 2)), [Effect::WakeTail { slot: 0 }]);
    assert_eq!(bench.submit(word(3, 3)), [], "told already");
    bench.shared.armed.set(armed::word(4, armed::BOTH));
    let both = [Effect::WakeTail { slot: 0 }, Effect::Notify { slot: 0 }];
    assert_eq!(bench.submit(word(4, 4)), both, "taken before it armed, but told");
    assert_eq!(bench.submit(word(5, 5)), both, "that did not count");
    assert_eq!(bench.submit(word(6, 6)), [], "this did");
}

#[test]
fn an_fd_ticket_is_polled_and_its_fd_given_back() {
    let mut bench = bench_with(PLAN);
    let fd = SubmitEntry { kind: 2, source: 40, ..word(1, 0) };
    bench.engine.submit(0, 1, &[fd, fd, fd, fd], bench.now).unwrap();
    let rows: Vec<u32> = bench
        .turn()
        .iter()
        .map(|effect| match effect {
            Effect::PollFd { slot: 0, row, fd: 40 } => *row,
            other => panic!("{other:?}"),
        })
        .collect();
    let release = |row, polling| Effect::ReleaseFd { slot: 0, row, fd: 40, polling };
    bench.engine.fd_ready(0, rows[0], 40, 0, 1, bench.now);
    assert_eq!(bench.turn(), [release(rows[0], false)]);
    bench.engine.fd_ready(0, rows[0], 40, 0, 1, bench.now);
    assert_eq!(bench.turn(), [], "a stale poll is ignored");
    bench.engine.fd_ready(0, rows[3], 40, 5, 0, bench.now);
    assert_eq!(bench.turn(), [release(rows[3], false)], "a poll that failed is over too");
    bench.engine.shut_down(0, bench.now);
    assert_eq!(bench.turn(), [release(rows[1], true), release(rows[2], true)]);
    let ends: Vec<_> = bench.shared.read().iter().map(status).collect();
    let shut = Status::ShuttingDown;
    assert_eq!(ends, [Status::Done, Status::DeviceFailed, shut, shut]);
}

#[test]
fn a_detached_session_leaves_nothing_behind() {
    let mut bench = bench_with(PLAN);
    for n in 1..10 {
        bench.submit(word(n, n));
    }
    assert!(bench.engine.detach(0, bench.now).is_some());
    assert_eq!(bench.engine.outstanding(), 0);
    assert_eq!(bench.engine.next_due(), MonoNs::MAX);
    assert!(!bench.engine.is_hot());
    assert_eq!(bench.turn(), []);
    assert!(bench.engine.detach(0, bench.now).is_none());
}

#[test]
fn a_recorded_row_says_where_it_came_from() {
    let mut bench = bench_with(PLAN);
    bench.submit(word(1, 100));
    bench.engine.submit(0, 1, &[word(2, 100)], bench.now).unwrap();
    let session = bench.engine.sessions[0].as_mut().unwrap();
    let Table { header, rows, .. } = session.table.parts();
    assert_eq!((header.submit_head, header.last_cookie, header.result_tail), (1, 1, 0));
    let pending: Vec<_> = rows
        .iter()
        .filter(|row| row.state == table::PENDING)
        .map(|row| (row.user_data, row.origin, row.flags))
        .collect();
    assert_eq!(pending, [(1, 0, 0), (2, 1, table::BY_SOCKET)]);
}

#[derive(Clone, Debug)]
enum Step {
    Submit { lane: u32, ahead: u64, deadline_us: u64 },
    Store { lane: u32, ahead: u64 },
    Cancel { nth: usize },
    Ring,
    Pass { us: u64 },
    Fail { lane: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0u32..3, 0u64..6, 0u64..3000).prop_map(|(lane, ahead, deadline_us)| Step::Submit {
            lane, ahead, deadline_us: if deadline_us > 1500 { 0 } else { deadline_us } }),
        4 => (0u32..3, 1u64..4).prop_map(|(lane, ahead)| Step::Store { lane, ahead }),
        1 => (0usize..64).prop_map(|nth| Step::Cancel { nth }),
        1 => Just(Step::Ring),
        4 => (1u64..400).prop_map(|us| Step::Pass { us }),
        1 => (20u32..60).prop_map(|lane| Step::Fail { lane }),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever happens, every ticket has exactly one result, and none is Done early or wrongly.
    #[test]
    fn every_ticket_has_exactly_one_true_result(
        steps in steps(),
        plan in prop_oneof![Just(PLAN), Just("poll"), Just("block"),
            Just("flag:park_us=20,backstop_us=200")],
    ) {
        let mut bench = bench_with(plan);
        for lane in 1..3 {
            let width = if lane == 2 { Width::W32 } else { Width::W64 };
            bench.engine.open_lane(0, Some(lane), width, 0, 0, bench.now).unwrap();
        }
        // Numbers that run over the end of both widths.
        for lane in 0..3 {
            let last = if lane == 2 { u64::from(u32::MAX) } else { u64::MAX };
            bench.shared.store(lane, last - 3);
        }
        let mut open: HashMap<u64, (u32, u64, u64)> = HashMap::new();
        let mut next = 0u64;
        for step in steps {
            match step {
                Step::Submit { lane, ahead, deadline_us } if open.len() < 60 => {
                    let number = bench.shared.lane_word(lane);
                    let target = match lane {
                        2 => u64::from((number as u32).wrapping_add(ahead as u32)),
                        _ => number.wrapping_add(ahead),
                    };
                    let deadline_ns = match deadline_us {
                        0 => 0,
                        us => (bench.now + DurNs::from_us(us)).0,
                    };
                    next += 1;
                    open.insert(next, (lane, target, deadline_ns));
                    bench.submit(SubmitEntry { source: lane, deadline_ns, ..word(next, target) });
                }
                Step::Submit { .. } => {}
                Step::Store { lane, ahead } => {
                    let number = bench.shared.lane_word(lane);
                    bench.shared.store(lane, match lane {
                        2 => u64::from((number as u32).wrapping_add(ahead as u32)),
                        _ => number.wrapping_add(ahead),
                    });
                }
                Step::Cancel { nth } => {
                    let name = open.keys().copied().nth(nth % open.len().max(1));
                    bench.submit(SubmitEntry { op: 2, kind: 0, ..word(name.unwrap_or(0), 0) });
                }
                Step::Ring => bench.engine.look(0, None, bench.now),
                Step::Pass { us } => bench.pass(us),
                Step::Fail { lane } => {
                    let _ = bench.engine.fail(0, lane, 1, bench.now);
                }
            }
            let closed = bench.turn().iter().any(|e| matches!(e, Effect::Close { .. }));
            prop_assert!(!closed);
            check(&mut bench, &mut open)?;
        }
        bench.engine.shut_down(0, bench.now);
        bench.turn();
        check(&mut bench, &mut open)?;
        prop_assert!(open.is_empty(), "lost: {open:?}");
        prop_assert_eq!(bench.engine.outstanding(), 0);
        prop_assert_eq!(bench.engine.next_due(), MonoNs::MAX);
    }
}

fn check(
    bench: &mut Bench,
    open: &mut HashMap<u64, (u32, u64, u64)>,
) -> std::result::Result<(), TestCaseError> {
    for result in bench.shared.read() {
        let ticket = open.remove(&result.user_data);
        prop_assert!(ticket.is_some(), "a second result of {}", result.user_data);
        let (lane, target, deadline_ns) = ticket.unwrap();
        let width = if lane == 2 { Width::W32 } else { Width::W64 };
        let reached = width.reached(bench.shared.lane_word(lane), target);
        match status(&result) {
            Status::Done => prop_assert!(reached && width.reached(result.seen, target)),
            Status::DeadlineExpired => {
                prop_assert!(!reached && deadline_ns != 0 && deadline_ns <= bench.now.0)
            }
            Status::Cancelled | Status::ShuttingDown => {}
            other => prop_assert!(false, "{other:?}"),
        }
    }
    Ok(())
}
