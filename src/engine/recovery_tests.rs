use std::rc::Rc;

use super::*;
use crate::engine::bench_tests::{Bench, LANES, Memory, PLAN, RING, Shared, bench_with, word};
use crate::engine::table::Table;
use crate::engine::{Effect, Engine, Prepared};
use crate::proto::entry::SubmitEntry;

fn bench() -> Bench {
    let mut bench = bench_with(PLAN);
    let _ = bench.turn();
    bench
}

/// The bench's daemon dies, and what it left is changed by `mend`.
fn die(bench: &mut Bench, mend: impl FnOnce(&mut Table<'_>)) -> Memory {
    let retired = bench.engine.detach(0, bench.now).unwrap();
    let mut memory = retired.into_session().table.into_bytes();
    let layout = TableLayout::new(LANES, RING);
    mend(&mut Table::over(layout, memory.as_mut()).unwrap());
    memory
}

fn recover(bench: &mut Bench, mut memory: Memory) -> Result<()> {
    let config = bench.config.clone();
    begin(memory.as_mut())?;
    let prepared = Prepared::recover(0, Rc::clone(&bench.shared), memory, &config)?;
    bench.engine = Engine::new(config, 4);
    assert!(bench.engine.attach(prepared).is_ok());
    bench.engine.resume(0, bench.now);
    bench.engine.publish(bench.now);
    Ok(())
}

fn look(bench: &mut Bench) {
    bench.engine.look(0, None, bench.now);
    bench.engine.publish(bench.now);
}

fn results(shared: &Shared) -> Vec<(u64, u8, u32)> {
    shared.read().iter().map(|entry| (entry.user_data, entry.status, entry.code)).collect()
}

const DONE: u8 = Status::Done as u8;

#[test]
fn tickets_wait_on_and_those_that_landed_meanwhile_are_done() {
    let mut bench = bench();
    for (name, target) in [(1, 1), (2, 2), (3, 3)] {
        bench.submit(word(name, target));
    }
    bench.shared.store(0, 1);
    look(&mut bench);
    assert_eq!(results(&bench.shared), [(1, DONE, 0)]);
    let memory = die(&mut bench, |_| {});
    bench.shared.store(0, 2);
    recover(&mut bench, memory).unwrap();
    assert_eq!(results(&bench.shared), [(2, DONE, 0)]);
    let effects: Vec<Effect> = bench.engine.effects().collect();
    assert_eq!(effects, [Effect::WakeTail { slot: 0 }, Effect::Notify { slot: 0 }], "told once");
    assert_eq!(bench.engine.outstanding(), 1);
    bench.shared.store(0, 3);
    look(&mut bench);
    assert_eq!(results(&bench.shared), [(3, DONE, 0)]);
    assert_eq!(bench.engine.effects().count(), 0, "nobody armed");
}

#[test]
fn a_result_under_way_arrives_once() {
    for tail_moved in [false, true] {
        let mut bench = bench();
        bench.submit(word(1, 1));
        bench.submit(word(2, 2));
        let memory = die(&mut bench, |table| {
            let tail = table.header.result_tail;
            let row = table.rows.iter_mut().find(|row| row.user_data == 1).unwrap();
            row.status = DONE;
            row.result_pos = tail;
            row.set_state(PUBLISHING);
            if tail_moved {
                table.header.advance_result_tail();
            }
        });
        recover(&mut bench, memory).unwrap();
        let read = results(&bench.shared);
        // Where the tail had moved, the entry had been written: the zeroes stand for it.
        assert_eq!(read, if tail_moved { vec![(0, 0, 0)] } else { vec![(1, DONE, 0)] });
        assert_eq!(bench.engine.outstanding(), 1);
    }
}

#[test]
fn what_was_recorded_and_not_accepted_was_never_taken() {
    let mut bench = bench();
    bench.submit(word(1, 1));
    let entry = word(2, 2);
    bench.engine.submit(0, 1, &[entry], bench.now).unwrap();
    let memory = die(&mut bench, |table| {
        table.header.submit_head = table.header.submit_head.wrapping_sub(1);
        table.header.last_cookie = 0;
    });
    recover(&mut bench, memory).unwrap();
    assert_eq!(bench.engine.outstanding(), 0);
    assert!(!bench.engine.drain(0, bench.now), "taken from the ring again");
    bench.engine.submit(0, 1, &[entry], bench.now).unwrap();
    bench.shared.store(0, 2);
    look(&mut bench);
    assert_eq!(results(&bench.shared), [(1, DONE, 0), (2, DONE, 0)]);
}

#[test]
fn a_refused_ticket_stays_refused_and_a_failed_lane_failed() {
    let mut bench = bench();
    bench.submit(word(1, 5));
    let memory = die(&mut bench, |table| {
        let refused = table.rows.iter_mut().find(|row| row.state == FREE).unwrap();
        *refused = Row { flags: REFUSED, code: 43, user_data: 2, origin: 77, ..*refused };
        refused.set_state(PENDING);
        table.lanes[0].end(Over::Failed(9), 0);
    });
    recover(&mut bench, memory).unwrap();
    let mut read = results(&bench.shared);
    read.sort_unstable();
    let failed = (1, Status::DeviceFailed as u8, 9);
    assert_eq!(read, [failed, (2, Status::Refused as u8, 43)]);
}

#[test]
fn an_fd_ticket_waits_until_its_fd_comes_again() {
    let mut bench = bench();
    let entry = SubmitEntry { kind: TicketKind::Fd as u8, source: 3, ..word(8, 0) };
    bench.engine.submit(0, 1, &[entry], bench.now).unwrap();
    assert_eq!(bench.engine.effects().count(), 1, "its poll");
    let memory = die(&mut bench, |_| {});
    recover(&mut bench, memory).unwrap();
    assert_eq!(bench.engine.effects().count(), 2, "the client is told, no fd is polled");
    assert!(!bench.engine.give_fd(0, 9, 4, bench.now), "no such ticket");
    assert!(bench.engine.give_fd(0, 8, 4, bench.now));
    assert!(!bench.engine.give_fd(0, 8, 5, bench.now), "it has one");
    let effects: Vec<Effect> = bench.engine.effects().collect();
    let [Effect::PollFd { row, fd: 4, .. }] = effects[..] else { panic!("{effects:?}") };
    bench.engine.fd_ready(0, row, 4, 0, 1, bench.now);
    bench.engine.publish(bench.now);
    assert_eq!(results(&bench.shared), [(8, DONE, 0)]);
    assert_eq!(bench.engine.last_cookie(0, bench.now), 1);
}

#[test]
fn plans_lanes_and_the_last_open_lane_are_remembered() {
    let mut bench = bench();
    let plan = Bands::parse("block").unwrap();
    assert_eq!(bench.engine.add_plan(0, plan, bench.now).unwrap(), 1);
    let opened = bench.engine.open_lane(0, Some(7), Width::W32, 0, 1234, bench.now).unwrap();
    assert_eq!(opened, (7, 0));
    let memory = die(&mut bench, |_| {});
    bench.shared.store(7, 5);
    recover(&mut bench, memory).unwrap();
    assert_eq!(bench.engine.add_plan(0, plan, bench.now).unwrap(), 1, "the same id");
    assert_eq!(bench.engine.opened_by(0, 1234, bench.now), Some((7, 0, 5)));
    assert_eq!(bench.engine.opened_by(0, 1235, bench.now), None);
}

#[test]
fn a_session_that_daemons_die_of_is_left_out() {
    let mut bench = bench();
    let mut memory = die(&mut bench, |_| {});
    begin(memory.as_mut()).unwrap();
    begin(memory.as_mut()).expect("one death is forgiven");
    let error = begin(memory.as_mut()).unwrap_err();
    assert_eq!(error.code, ErrorCode::Quarantined);
}

#[test]
fn a_daemon_that_lives_forgives() {
    let mut bench = bench();
    for _ in 0..4 {
        let mut memory = die(&mut bench, |_| {});
        begin(memory.as_mut()).unwrap();
        recover(&mut bench, memory).expect("one death");
        bench.engine.recovered(0, bench.now);
    }
}

#[test]
fn a_table_that_makes_no_sense_is_refused() {
    type Harm = fn(&mut Table<'_>);
    let harms: [Harm; 9] = [
        |table| table.header.area.magic[0] ^= 1,
        |table| table.header.area.version += 1,
        |table| table.header.area.lanes = 4096,
        |table| table.header.area.result_entries = 63,
        |table| table.rows[5].state = 3,
        |table| table.lanes[3].width = 16,
        |table| table.lanes[0].device = 64,
        |table| table.plans[0].bytes = u32::MAX,
        |table| {
            table.rows[4].state = PUBLISHING;
            table.rows[4].status = DONE;
            table.rows[4].result_pos = table.header.result_tail.wrapping_add(1);
        },
    ];
    for (at, harm) in harms.into_iter().enumerate() {
        let mut bench = bench();
        let memory = die(&mut bench, harm);
        let error = recover(&mut bench, memory).unwrap_err();
        assert_eq!(error.code, ErrorCode::SessionMemory, "harm {at}");
    }
}
