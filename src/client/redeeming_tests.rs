use super::*;
use crate::proto::entry::Op;
use crate::shm::region::{ReadWrite, Region};
use crate::shm::ring::RingSizes;
use crate::shm::submit_ring::SubmitConsumer;

use super::super::ledger::Outgoing;
use super::super::renewal::Duty;

const CAPABILITY: [u8; 16] = [7; 16];
/// Entries of the submission ring.
const SUBMIT: u32 = 64;

fn sizes() -> RingSizes {
    RingSizes::new(SUBMIT, 64).unwrap()
}

fn memory() -> Region<ReadWrite> {
    Region::heap(sizes().bytes()).unwrap()
}

/// Names and lanes of what lies in a submission ring.
fn sent(memory: &Region<ReadWrite>) -> Vec<(u64, u32)> {
    let submit = SubmitConsumer::new(memory.clone(), sizes()).unwrap();
    let entries = 0..submit.pending(0).unwrap();
    let entries = entries.map(|at| SubmitEntry::from_words(submit.entry(at)));
    entries.map(|entry| (entry.user_data, entry.source)).collect()
}

fn on(source: u32) -> Outgoing {
    let (op, kind) = (Op::Ticket as u8, TicketKind::Word as u8);
    Outgoing { entry: SubmitEntry { op, kind, source, ..SubmitEntry::default() }, tag: None }
}

/// A session with a redeemed lane, which the daemon knew by index 3; and its next rings, into which
/// what is the session's own has gone.
fn renewed(submitted: u32) -> (Ledger, u32, Vec<SlotId>, Region<ReadWrite>) {
    let (old, new) = (memory(), memory());
    let mut ledger = Ledger::new(old.clone(), sizes()).unwrap();
    let lane = ledger.remembered.redeem(Capability::from_bytes(CAPABILITY), 3);
    let ids: Vec<_> = (0..submitted).map(|_| ledger.submit(&on(lane)).unwrap()).collect();
    let known = sent(&old);
    assert!(known.iter().all(|(_, source)| *source == 3), "the daemon's index");
    ledger.renew(new.clone(), &[]).unwrap();
    assert_eq!(ledger.duty(), Some(Duty::CatchUp), "what is its own goes first");
    ledger.fds_are_submitted();
    ledger.pay_owed();
    assert_eq!((ledger.duty(), sent(&new)), (Some(Duty::Redeem), vec![]));
    (ledger, lane, ids, new)
}

#[test]
fn tickets_go_out_once_their_lane_is_found() {
    let (mut ledger, lane, ids, rings) = renewed(1);
    let later = ledger.submit(&on(lane)).unwrap();
    // The daemon's index 3 is another lane's by now.
    let own = ledger.submit(&on(3)).unwrap();
    assert_eq!(sent(&rings), [(own.user_data(), 3)]);
    ledger.found(lane, 5);
    assert_eq!(ledger.duty(), None);
    let mut found = sent(&rings).split_off(1);
    found.sort_unstable();
    let mut expected = [(ids[0].user_data(), 5), (later.user_data(), 5)];
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(ledger.index_at_daemon(lane), Ok(5));
}

#[test]
fn who_is_cancelled_while_the_lane_is_missed_ends_at_home() {
    let (mut ledger, lane, ids, rings) = renewed(2);
    ledger.cancel(ids[0]);
    assert_eq!(ledger.take(ids[0]).unwrap().status, Status::Cancelled);
    ledger.found(lane, 0);
    assert_eq!(sent(&rings), [(ids[1].user_data(), 0)]);
    // One that is cancelled between two daemons does not go to the next.
    ledger.link = Link::Down;
    ledger.cancel(ids[1]);
    assert!(ledger.take(ids[1]).is_none());
    ledger.renew(memory(), &[]).unwrap();
    assert_eq!(ledger.take(ids[1]).unwrap().status, Status::Cancelled);
}

#[test]
fn what_is_given_up_is_refused_for_good() {
    let (mut ledger, lane, ids, rings) = renewed(1);
    let code = u32::from(ErrorCode::NoSuchCapability.number());
    ledger.forget_redeemed(lane, Status::Refused, code);
    let ended = ledger.take(ids[0]).unwrap();
    assert_eq!((ended.status, ended.code), (Status::Refused, code));
    assert_eq!((ledger.duty(), sent(&rings)), (None, vec![]));
    assert_eq!(ledger.submit(&on(lane)).unwrap_err().code, ErrorCode::NoSuchCapability);
    // No other lane gets its number.
    assert_ne!(ledger.remembered.redeem(Capability::from_bytes(CAPABILITY), 3), lane);
}

#[test]
fn what_the_ring_has_no_room_for_is_still_a_duty() {
    let (mut ledger, lane, ids, rings) = renewed(8);
    let full = SUBMIT as usize - 1;
    for lane in 0..SUBMIT - 1 {
        ledger.owe(Owed::Fail(lane, 1));
    }
    ledger.pay_owed();
    ledger.found(lane, 5);
    assert_eq!((sent(&rings).len(), ledger.duty()), (full + 1, Some(Duty::CatchUp)));
    assert_eq!(ids.len(), 8);
}

#[test]
fn a_ticket_on_a_lane_that_was_closed_goes_out_to_be_refused() {
    let (mut ledger, lane, ids, _) = renewed(1);
    ledger.found(lane, 5);
    ledger.forget_redeemed(lane, Status::Cancelled, 0);
    assert!(ledger.take(ids[0]).is_none(), "the daemon has it");
    let rings = memory();
    ledger.renew(rings.clone(), &[]).unwrap();
    ledger.fds_are_submitted();
    ledger.pay_owed();
    assert_eq!(sent(&rings), [(ids[0].user_data(), lane)], "an index that no lane has");
}

#[test]
fn who_is_found_by_a_daemon_that_is_gone_stays_missed() {
    let (mut ledger, lane, ids, rings) = renewed(1);
    ledger.link = Link::Down;
    ledger.found(lane, 5);
    assert_eq!((ledger.link, sent(&rings)), (Link::Down, vec![]));
    let next = memory();
    ledger.renew(next.clone(), &[]).unwrap();
    ledger.fds_are_submitted();
    ledger.pay_owed();
    assert_eq!((ledger.duty(), sent(&next)), (Some(Duty::Redeem), vec![]));
    assert!(ledger.take(ids[0]).is_none());
}
