use super::super::completion::Completion;
use super::super::ledger::Outgoing;
use super::super::remembered::KeptLane;
use super::*;
use crate::core::line::Width;
use crate::host::futex::{self, FutexAddr, WaitOutcome};
use crate::proto::entry::{ResultEntry, TicketKind};
use crate::proto::layout::rings::RESULT_TAIL;
use crate::proto::message;
use crate::proto::request::parse_reply;
use crate::shm::control::Control;
use crate::shm::result_ring::ResultProducer;
use crate::shm::ring::RingSizes;
use crate::shm::submit_ring::SubmitConsumer;
use crate::shm::words::ReadWords;

/// A daemon's sides of its rings, and how far it has come.
struct Daemon {
    memory: Region<ReadWrite>,
    submit: SubmitConsumer<Region<ReadWrite>>,
    results: ResultProducer<Region<ReadWrite>>,
    control: Control<Region<ReadWrite>>,
    head: u32,
    tail: u32,
}

const SIZES: (u32, u32) = (64, 256);

impl Daemon {
    fn new() -> Daemon {
        let sizes = RingSizes::new(SIZES.0, SIZES.1).unwrap();
        let memory: Region<ReadWrite> = Region::heap(sizes.bytes()).unwrap();
        let control = Control::new(memory.clone(), sizes).unwrap();
        control.serve(1, SessionState::Live);
        Daemon {
            submit: SubmitConsumer::new(memory.clone(), sizes).unwrap(),
            results: ResultProducer::new(memory.clone(), sizes).unwrap(),
            control,
            memory,
            head: 0,
            tail: 0,
        }
    }

    fn session(&self) -> Ledger {
        let sizes = RingSizes::new(SIZES.0, SIZES.1).unwrap();
        let mut ledger = Ledger::new(self.memory.clone(), sizes).unwrap();
        ledger.renewable = true;
        ledger
    }

    /// What lies in the submission ring: op, name or lane, target.
    fn take(&mut self) -> Vec<(Op, u64, u64)> {
        let pending = self.submit.pending(self.head).unwrap();
        let positions = (0..pending).map(|ahead| self.head.wrapping_add(ahead));
        let entries = positions.map(|at| SubmitEntry::from_words(self.submit.entry(at)));
        let taken = entries.map(|entry| match entry.check().unwrap().0 {
            Op::Fail => (Op::Fail, u64::from(entry.source), entry.target),
            op => (op, entry.user_data, entry.target),
        });
        let taken = taken.collect();
        self.head = self.head.wrapping_add(pending);
        self.submit.set_head(self.head);
        taken
    }

    fn end(&mut self, id: SlotId) {
        let (user_data, status) = (id.user_data(), Status::Done as u8);
        self.results.write(self.tail, ResultEntry { user_data, status, ..ResultEntry::default() });
        self.tail += 1;
        self.results.publish(self.tail);
    }
}

fn ticket(target: u64) -> Outgoing {
    let (op, kind) = (Op::Ticket as u8, TicketKind::Word as u8);
    Outgoing { entry: SubmitEntry { op, kind, target, ..SubmitEntry::default() }, tag: None }
}

fn open_lane(ledger: &mut Ledger, lane: u32) {
    let kept =
        KeptLane { width: Width::W64, device: [0; 32], failed: None, secret: None, shared: false };
    ledger.remembered.lanes.insert(lane, kept);
}

/// Another daemon takes the place of one that was lost.
fn renew(ledger: &mut Ledger) -> Daemon {
    ledger.lose(&Gone::of(ledger.epoch));
    assert_eq!((ledger.link, ledger.duty()), (Link::Down, Some(Duty::Renew)));
    let next = Daemon::new();
    ledger.renew(next.memory.clone(), &[]).unwrap();
    ledger.epoch += 1;
    next
}

fn catch_up(ledger: &mut Ledger) {
    assert_eq!((ledger.link, ledger.duty()), (Link::Submitting, Some(Duty::CatchUp)));
    ledger.fds_are_submitted();
    ledger.pay_owed();
}

#[test]
fn what_has_no_result_goes_out_again_and_nothing_else() {
    let mut old = Daemon::new();
    let mut ledger = old.session();
    let ids: Vec<_> = (0..6).map(|target| ledger.submit(&ticket(target)).unwrap()).collect();
    ledger.cancel(ids[4]);
    // Taken before; there and not taken; not ended; nobody's; cancelled.
    old.end(ids[0]);
    ledger.collect();
    old.end(ids[1]);
    old.end(ids[2]);
    assert!(ledger.abandon(ids[3]));
    let mut next = renew(&mut ledger);
    assert!([ids[0], ids[1], ids[2]].iter().all(|id| ledger.has_ended(*id)));
    catch_up(&mut ledger);
    let of = |op, id: SlotId, target| (op, id.user_data(), target);
    let sent = [of(Op::Ticket, ids[4], 4), of(Op::Ticket, ids[5], 5), of(Op::Cancel, ids[4], 0)];
    assert_eq!(next.take(), sent);
    assert_eq!((ledger.link, ledger.duty()), (Link::Up, None));
    assert_eq!(ledger.slots.room(), SIZES.1 - 2, "what was nobody's is free");
    // The old rings are nobody's any more, whatever comes there.
    old.end(ids[5]);
    ledger.collect();
    assert!(!ledger.has_ended(ids[5]));
    next.end(ids[5]);
    ledger.collect();
    assert!(ledger.has_ended(ids[5]));
    assert_eq!(ledger.strays(), 0);
}

#[test]
fn while_there_is_no_daemon_everything_has_a_place() {
    let mut old = Daemon::new();
    let mut ledger = old.session();
    open_lane(&mut ledger, 3);
    let before = ledger.submit(&ticket(1)).unwrap();
    assert_eq!(old.take().len(), 1);
    ledger.lose(&Gone::of(0));
    ledger.bell = Telling::Nothing;
    let tagged = Outgoing { tag: Some(8), ..ticket(3) };
    let after = ledger.submit(&ticket(2)).unwrap();
    let with_tag = ledger.submit(&tagged).unwrap();
    ledger.cancel(before);
    assert_eq!(ledger.fail(3, 700), Ok(true));
    let mut more = Vec::new();
    let room = ledger.room().unwrap() as usize;
    assert_eq!(room, SIZES.1 as usize - 3, "more than the submission ring has");
    ledger.submit_all(&vec![ticket(4); room], |id| more.push(id)).unwrap();
    assert_eq!(ledger.submit(&ticket(5)).unwrap_err().code, ErrorCode::CreditExceeded);
    assert_eq!((old.take(), ledger.bell), (vec![], Telling::Nothing));

    let mut next = Daemon::new();
    ledger.renew(next.memory.clone(), &[]).unwrap();
    catch_up(&mut ledger);
    let mut sent = Vec::new();
    while ledger.link != Link::Up {
        assert_eq!(ledger.bell, Telling::Wake);
        let some = next.take();
        assert!(some.len() <= SIZES.0 as usize && !some.is_empty());
        sent.extend(some);
        ledger.pay_owed();
    }
    sent.extend(next.take());
    let tickets = [before, after, with_tag].into_iter().chain(more);
    let mut expected: Vec<_> = tickets.map(|id| (Op::Ticket, id.user_data())).collect();
    expected.extend([(Op::Fail, 3), (Op::Cancel, before.user_data())]);
    let sent: Vec<_> = sent.into_iter().map(|(op, name, _)| (op, name)).collect();
    assert_eq!(sent, expected, "failures and CANCELs overtake no ticket");
}

#[test]
fn what_comes_while_the_ring_catches_up_goes_behind() {
    let mut old = Daemon::new();
    let mut ledger = old.session();
    open_lane(&mut ledger, 0);
    for target in 0..100 {
        ledger.submit(&ticket(target)).unwrap();
        old.take();
    }
    let mut next = renew(&mut ledger);
    let early = ledger.submit(&ticket(100)).unwrap();
    assert_eq!(next.take(), [], "tickets on fds go first");
    catch_up(&mut ledger);
    assert_eq!(ledger.link, Link::CatchingUp);
    let late = ledger.submit(&ticket(101)).unwrap();
    ledger.cancel(late);
    assert_eq!(ledger.fail(0, 5), Ok(true));
    let mut sent = next.take();
    ledger.collect();
    sent.extend(next.take());
    assert_eq!(ledger.link, Link::Up);
    let targets: Vec<_> = sent[..102].iter().map(|(_, _, target)| *target).collect();
    assert_eq!(targets, (0..102).collect::<Vec<_>>());
    assert_eq!((sent[100].1, sent[101].1), (early.user_data(), late.user_data()));
    assert_eq!(sent[102..], [(Op::Cancel, late.user_data(), 0), (Op::Fail, 0, 5)]);
    // Another one, in the middle of it, and the lane is still failed.
    let mut third = renew(&mut ledger);
    drop(next);
    catch_up(&mut ledger);
    let mut fourth = renew(&mut ledger);
    third.take();
    catch_up(&mut ledger);
    let mut sent = fourth.take();
    while ledger.link != Link::Up {
        ledger.pay_owed();
        sent.extend(fourth.take());
    }
    assert_eq!(sent.len(), 104, "each of them once");
    assert_eq!(sent[102..], [(Op::Fail, 0, 5), (Op::Cancel, late.user_data(), 0)]);
}

#[test]
fn plans_go_out_under_the_present_daemons_ids() {
    let mut old = Daemon::new();
    let mut ledger = old.session();
    assert_eq!(
        (ledger.remembered.plan(0, "block", 1), ledger.remembered.plan(0, "poll", 2)),
        (1, 2)
    );
    let with = |plan| {
        let entry = SubmitEntry { plan, ..ticket(1).entry };
        Outgoing { entry, tag: None }
    };
    for plan in 0..=2 {
        ledger.submit(&with(plan)).unwrap();
    }
    ledger.lose(&Gone::of(0));
    let next = Daemon::new();
    ledger.renew(next.memory.clone(), &[0, 1]).unwrap();
    catch_up(&mut ledger);
    ledger.submit(&with(2)).unwrap();
    let plan = |at| SubmitEntry::from_words(next.submit.entry(at)).plan;
    assert_eq!([0, 1, 2, 3].map(plan), [0, 0, 1, 1]);
    old.take();
}

#[test]
fn who_sleeps_on_the_old_tail_is_roused_and_arms_anew() {
    let old = Daemon::new();
    let mut ledger = old.session();
    let tail = ledger.arm(armed::BOTH).unwrap();
    let next = renew(&mut ledger);
    assert_eq!(
        next.results.armed() & armed::HOW,
        armed::BOTH,
        "the next daemon is to tell as well"
    );
    ledger.calls.make();
    let word = FutexAddr::new(tail.rings.address(RESULT_TAIL));
    let slept = futex::wait(word, tail.seen, Some(clock::now() + DurNs(20_000_000_000))).unwrap();
    assert_ne!(slept, WaitOutcome::TimedOut);
    assert_eq!(next.memory.load32(RESULT_TAIL), 0);
}

/// How a session stands after its daemon closed it with this code in its rings, or in an ERROR.
fn closed_with(code: Option<ErrorCode>, record: Option<&[u8]>, renewable: bool) -> Option<Error> {
    let daemon = Daemon::new();
    let mut ledger = daemon.session();
    ledger.renewable = renewable;
    if let Some(code) = code {
        daemon.control.close(code);
    }
    match record {
        Some(record) => {
            let refusal = parse_reply(record).unwrap().1.unwrap_err();
            ledger.lose(&Gone::with(0, refusal));
        }
        None => ledger.collect(),
    }
    assert_eq!(ledger.link == Link::Down, ledger.ended.is_none());
    ledger.ended
}

#[test]
fn a_session_that_was_closed_for_what_the_client_did_is_over() {
    let over = |code| {
        let error = closed_with(Some(code), None, true).expect("it is over");
        assert_eq!(error.code, ErrorCode::Disconnected);
        assert!(error.detail.contains(code.name()), "{error}");
        let said = message::error(0, &Error::new(code, "what was wrong"), 0, true);
        let error = closed_with(Some(code), Some(&said), true).expect("it is over");
        assert!(error.detail.contains("what was wrong"), "{error}");
    };
    over(ErrorCode::RingIndex);
    over(ErrorCode::SlowReader);
    over(ErrorCode::SessionMemory);
    over(ErrorCode::Quarantined);
    over(ErrorCode::PermissionDenied);
    // A newer daemon's.
    let mut newer = message::error(0, &Error::new(ErrorCode::Disconnected, "news"), 0, true);
    newer[16..18].copy_from_slice(&9999u16.to_le_bytes());
    assert!(closed_with(None, Some(&newer), true).is_some());
    for passing in [ErrorCode::Disconnected, ErrorCode::SystemFailed, ErrorCode::Draining] {
        assert_eq!(closed_with(Some(passing), None, true), None);
        assert!(closed_with(Some(passing), None, false).is_some(), "where it is to be so");
    }
}

#[test]
fn what_is_said_of_an_earlier_connection_is_over() {
    let old = Daemon::new();
    let mut ledger = old.session();
    let before = Gone::of(ledger.epoch);
    renew(&mut ledger);
    ledger.lose(&before);
    assert_eq!(ledger.link, Link::Submitting);
}

#[test]
fn a_ticket_that_the_next_daemon_refuses_ends_so() {
    let old = Daemon::new();
    let mut ledger = old.session();
    let id = ledger.submit(&ticket(1)).unwrap();
    ledger.refuse(id, ErrorCode::QuotaExceeded);
    ledger.refuse(id, ErrorCode::QuotaExceeded);
    let Completion { status, code, .. } = ledger.take(id).unwrap();
    assert_eq!((status, code), (Status::Refused, u32::from(ErrorCode::QuotaExceeded.number())));
    assert_eq!(ledger.strays(), 0);
}
