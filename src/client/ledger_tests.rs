use super::*;
use crate::proto::entry::{ResultEntry, Status, TicketKind};
use crate::shm::result_ring::ResultProducer;
use crate::shm::submit_ring::SubmitConsumer;

/// A ledger, and the daemon's sides of its rings.
struct Rings {
    ledger: Ledger,
    submit: SubmitConsumer<Region<ReadWrite>>,
    results: ResultProducer<Region<ReadWrite>>,
}

fn rings(submit: u32, result: u32) -> Rings {
    let sizes = RingSizes::new(submit, result).unwrap();
    let memory = Region::heap(sizes.bytes()).unwrap();
    Rings {
        ledger: Ledger::new(memory.clone(), sizes).unwrap(),
        submit: SubmitConsumer::new(memory.clone(), sizes).unwrap(),
        results: ResultProducer::new(memory, sizes).unwrap(),
    }
}

fn ticket() -> Outgoing {
    let (op, kind) = (Op::Ticket as u8, TicketKind::Word as u8);
    Outgoing { entry: SubmitEntry { op, kind, ..SubmitEntry::default() }, tag: None }
}

fn done(id: SlotId) -> ResultEntry {
    ResultEntry { user_data: id.user_data(), status: Status::Done as u8, ..ResultEntry::default() }
}

fn armed_at(ledger: &mut Ledger) -> Option<u32> {
    ledger.arm(armed::TAIL).map(|tail| tail.seen)
}

#[test]
fn what_is_pushed_is_published_and_rung() {
    let Rings { mut ledger, submit, .. } = rings(64, 64);
    assert_eq!(ledger.bell, Telling::Nothing);
    let id = ledger.submit(&ticket()).unwrap();
    assert_eq!(std::mem::take(&mut ledger.bell), Telling::Wake);
    assert_eq!(submit.pending(0), Ok(1));
    assert_eq!(SubmitEntry::from_words(submit.entry(0)).user_data, id.user_data());
    ledger.submit_all(&[ticket(); 3], |_| {}).unwrap();
    assert_eq!(std::mem::take(&mut ledger.bell), Telling::Quiet, "they wait behind the first");
    assert_eq!(submit.pending(0), Ok(4));
    ledger.cancel(id);
    assert_eq!(std::mem::take(&mut ledger.bell), Telling::Wake);
    assert_eq!(SubmitEntry::from_words(submit.entry(4)).op, Op::Cancel as u8);
    assert_eq!(ledger.fail(7, 700), Ok(true));
    assert_eq!(std::mem::take(&mut ledger.bell), Telling::Wake);
    let fail = SubmitEntry::from_words(submit.entry(5));
    assert_eq!((fail.source, fail.target, fail.check().unwrap().0), (7, 700, Op::Fail));
}

#[test]
fn a_result_that_came_before_the_arming_is_not_slept_over() {
    let Rings { mut ledger, results, .. } = rings(64, 64);
    let id = ledger.submit(&ticket()).unwrap();
    ledger.collect();
    assert_eq!(armed_at(&mut ledger), Some(0));
    // Written, but its tail not published yet: the arming looks at the entry itself.
    results.write(0, done(id));
    assert_eq!(armed_at(&mut ledger), None);
    results.publish(1);
    assert_eq!(armed_at(&mut ledger), None);
    ledger.collect();
    assert_eq!(armed_at(&mut ledger), Some(1));
    assert!(ledger.take(id).is_some());
}

#[test]
fn one_way_of_being_told_does_not_end_the_other() {
    let Rings { mut ledger, results, .. } = rings(64, 64);
    ledger.arm(armed::NOTIFY);
    ledger.arm(armed::TAIL);
    assert_eq!(results.armed() & armed::HOW, armed::BOTH);
    ledger.disarm(armed::TAIL);
    assert_eq!(results.armed() & armed::HOW, armed::NOTIFY);
    assert!(ledger.is_armed(armed::NOTIFY) && !ledger.is_armed(armed::TAIL));
    ledger.disarm(armed::NOTIFY);
    assert_eq!(results.armed() & armed::HOW, armed::NOT);
}

#[test]
fn a_head_that_makes_no_sense_ends_the_session() {
    let Rings { mut ledger, submit, .. } = rings(64, 64);
    submit.set_head(1000);
    assert_eq!(ledger.room().unwrap_err().code, ErrorCode::RingIndex);
    assert_eq!(ledger.submit(&ticket()).map(drop).unwrap_err().code, ErrorCode::RingIndex);
    assert!(ledger.live().is_err());
}

#[test]
fn entries_past_the_credit_are_taken_in_batches_and_given_back() {
    let Rings { mut ledger, submit, results } = rings(1024, 1024);
    let mut ids = Vec::new();
    ledger.submit_all(&[ticket(); 1000], |id| ids.push(id)).unwrap();
    submit.set_head(1000);
    ids.iter().zip(0..).for_each(|(id, position)| results.write(position, done(*id)));
    results.publish(1000);
    let mut rounds = 0;
    while results.unread(1000).unwrap() > 0 {
        ledger.collect();
        rounds += 1;
    }
    assert_eq!(rounds, 1000_usize.div_ceil(COLLECT_BATCH));
    assert!(ids.iter().all(|id| ledger.has_ended(*id)));
    assert_eq!(ledger.room(), Ok(1024));
}

/// What a ticket on a lane tells the daemon after one for number 5 that has no result yet.
fn telling_behind(next: SubmitEntry) -> Telling {
    let Rings { mut ledger, .. } = rings(64, 64);
    let ticket = |target| SubmitEntry { target, ..ticket().entry };
    ledger.submit(&Outgoing { entry: ticket(5), tag: None }).unwrap();
    ledger.bell = Telling::Nothing;
    ledger.submit(&Outgoing { entry: next, tag: None }).unwrap();
    ledger.bell
}

#[test]
fn only_what_waits_behind_another_of_its_lane_needs_no_wake() {
    let of = |target| SubmitEntry { target, ..ticket().entry };
    assert_eq!(telling_behind(of(6)), Telling::Quiet);
    assert_eq!(telling_behind(of(5)), Telling::Quiet);
    assert_eq!(telling_behind(of(4)), Telling::Wake, "it may come first");
    assert_eq!(telling_behind(SubmitEntry { source: 1, ..of(6) }), Telling::Wake);
    assert_eq!(telling_behind(SubmitEntry { deadline_ns: 1, ..of(6) }), Telling::Wake);
}

#[test]
fn what_waits_behind_one_that_has_ended_needs_a_wake_and_so_do_many() {
    let Rings { mut ledger, results, .. } = rings(64, 64);
    let first = ledger.submit(&ticket()).unwrap();
    results.write(0, ResultEntry { phase: 1, ..done(first) });
    results.publish(1);
    ledger.collect();
    ledger.bell = Telling::Nothing;
    ledger.submit(&ticket()).unwrap();
    assert_eq!(std::mem::take(&mut ledger.bell), Telling::Wake);
    let mut tellings = Vec::new();
    for _ in 0..2 * QUIET_MAX {
        ledger.submit(&ticket()).unwrap();
        tellings.push(std::mem::take(&mut ledger.bell));
    }
    assert_eq!(tellings[0], Telling::Quiet);
    assert_eq!(tellings.last(), Some(&Telling::Wake), "the daemon takes none of them here");
}

#[test]
fn a_tagged_ticket_is_ahead_of_others_like_any() {
    let Rings { mut ledger, results, .. } = rings(64, 64);
    let tagged = |source, target| Outgoing {
        entry: SubmitEntry { source, target, ..ticket().entry },
        tag: Some(target),
    };
    let first = ledger.submit(&tagged(0, 1)).unwrap();
    assert_eq!(std::mem::take(&mut ledger.bell), Telling::Wake);
    let second = ledger.submit(&tagged(0, 2)).unwrap();
    assert_eq!(std::mem::take(&mut ledger.bell), Telling::Quiet);
    // One that must be seen is told, whatever it came with.
    ledger.submit_all(&[tagged(0, 3), tagged(1, 1), tagged(0, 4)], |_| {}).unwrap();
    assert_eq!(std::mem::take(&mut ledger.bell), Telling::Wake);

    // What is ahead has ended and its result was not taken: the look at the results says so.
    assert!(!ledger.has_result());
    results.write(0, done(first));
    ledger.submit(&tagged(0, 5)).unwrap();
    assert_eq!(std::mem::take(&mut ledger.bell), Telling::Quiet);
    assert!(ledger.has_result());
    results.write(1, done(second));
    ledger.collect();
    let tags = [ledger.take_tagged(), ledger.take_tagged()];
    assert_eq!(tags.map(|taken| taken.map(|(tag, _)| tag)), [Some(1), Some(2)]);
}
