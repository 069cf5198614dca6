use std::rc::Rc;

use super::*;
use crate::core::time::DurNs;
use crate::engine::bench_tests::{Bench, LANES, Memory, PLAN, RING, Shared, bench_with, word};
use crate::engine::table::{Table, TableLayout, over};
use crate::engine::{Prepared, SessionParams, recovery};
use crate::proto::entry::{ResultEntry, Status, SubmitEntry};

const SECRET: u128 = 0x1234_5678_9abc_def0_0fed_cba9_8765_4321;

/// An owner in slot 0 with lane 0, which it shares, and a waiter in slot 1.
struct Pair {
    bench: Bench,
    waiter: Rc<Shared>,
    /// The waiter's.
    slot: u16,
    cookie: u64,
}

impl Pair {
    fn new() -> Pair {
        Pair::with(PLAN)
    }

    fn with(plan: &str) -> Pair {
        let bench = bench_with(plan);
        let waiter = Shared::new();
        let mut pair = Pair { bench, waiter, slot: 1, cookie: 0 };
        pair.attach_waiter(1);
        let now = pair.bench.now;
        assert_eq!(pair.bench.engine.share(0, 0, SECRET, now), Ok(SECRET));
        pair
    }

    fn attach_waiter(&mut self, slot: u16) {
        let params = SessionParams {
            submit_entries: RING,
            result_entries: RING,
            lanes: LANES,
            pid: 2,
            uid: 1001,
            clock_offset_ns: 0,
        };
        let memory = Memory(vec![0; TableLayout::new(LANES, RING).bytes() / 8]);
        let shared = Rc::clone(&self.waiter);
        let session = Prepared::new(slot, &params, shared, memory, &self.bench.config).unwrap();
        assert!(self.bench.engine.attach(session).is_ok());
    }

    fn redeem(&mut self) -> core::result::Result<Redemption, ErrorCode> {
        let now = self.bench.now;
        let redeemed = self.bench.engine.redeem(1, 77, (0, 0), SECRET, now);
        redeemed.map_err(|refusal| refusal.error.code)
    }

    fn submit(&mut self, entries: &[SubmitEntry]) {
        self.cookie += 1;
        self.bench.engine.submit(self.slot, self.cookie, entries, self.bench.now).unwrap();
    }

    /// The waiter's results so far: name, status, code, number seen.
    fn ended(&mut self) -> Vec<(u64, Status, u32, u64)> {
        self.bench.engine.publish(self.bench.now);
        let of =
            |r: &ResultEntry| (r.user_data, Status::from_number(r.status).unwrap(), r.code, r.seen);
        self.waiter.read().iter().map(of).collect()
    }

    fn code<T>(&self, refused: core::result::Result<T, Refusal>) -> ErrorCode {
        refused.err().expect("a refusal").error.code
    }
}

fn on(lane: u32, name: u64, target: u64) -> SubmitEntry {
    SubmitEntry { source: lane, ..word(name, target) }
}

#[test]
fn a_redeemed_lane_shows_its_owners_word() {
    let mut pair = Pair::new();
    pair.bench.shared.store(0, 5);
    // The waiter's own word of that index does not count.
    pair.waiter.store(0, 99);
    let redeemed = pair.redeem().unwrap();
    assert_eq!(redeemed, Redemption { lane: 0, width: Width::W64, device: 0, value: 5 });
    assert_eq!(pair.bench.engine.redeemed_by(1, 77, pair.bench.now), Some(redeemed));
    pair.submit(&[on(0, 1, 5), on(0, 2, 6), on(0, 3, 7)]);
    assert_eq!(pair.ended(), [(1, Status::Done, 0, 5)]);
    pair.bench.shared.store(0, 6);
    // The owner's bell stands for its redeemers too.
    pair.bench.engine.look(0, Some(0), pair.bench.now);
    assert_eq!(pair.ended(), [(2, Status::Done, 0, 6)]);
    pair.bench.shared.store(0, 7);
    pair.bench.engine.look(0, Some(1), pair.bench.now);
    assert_eq!(pair.ended(), [], "another device's bell");
    // And the plan's looks are made as on any lane.
    pair.bench.now = pair.bench.now + DurNs::from_us(100);
    pair.bench.engine.run_due(pair.bench.now);
    assert_eq!(pair.ended(), [(3, Status::Done, 0, 7)]);
}

#[test]
fn a_lane_is_shared_under_one_capability_and_by_its_owner_alone() {
    let mut pair = Pair::new();
    let now = pair.bench.now;
    assert_eq!(pair.bench.engine.share(0, 0, 9, now), Ok(SECRET), "the same again");
    pair.redeem().unwrap();
    let engine = &mut pair.bench.engine;
    let refused = [
        engine.share(1, 0, 9, now).map(drop),
        engine.revoke(1, 0, now).map(drop),
        engine.fail(1, 0, 5, now),
    ];
    for refused in refused {
        assert_eq!(pair.code(refused), ErrorCode::NotOwner);
    }
    let engine = &mut pair.bench.engine;
    let refused = [
        (engine.share(0, 9, 1, now).map(drop), ErrorCode::NoSuchLane),
        (engine.redeem(0, 1, (0, 0), SECRET, now).map(drop), ErrorCode::NotSupported),
        (engine.redeem(1, 1, (0, 0), SECRET + 1, now).map(drop), ErrorCode::NoSuchCapability),
        (engine.redeem(1, 1, (0, 1), SECRET, now).map(drop), ErrorCode::NoSuchCapability),
        (engine.redeem(1, 1, (3, 0), SECRET, now).map(drop), ErrorCode::NoSuchCapability),
    ];
    for (refused, code) in refused {
        assert_eq!(pair.code(refused), code);
    }
}

/// What an owner can do to those who wait, and how their tickets end.
type Blow = (&'static str, fn(&mut Pair), (Status, u32, u64), bool);

const BLOWS: [Blow; 4] = [
    (
        "FAIL",
        |pair| pair.bench.engine.fail(0, 0, 7, pair.bench.now).unwrap(),
        (Status::DeviceFailed, 7, 0),
        true,
    ),
    (
        "REVOKE",
        |pair| {
            let revoked = pair.bench.engine.revoke(0, 0, pair.bench.now).unwrap();
            assert_eq!(revoked, Some(SECRET));
            assert_eq!(pair.bench.engine.revoke(0, 0, pair.bench.now), Ok(None));
        },
        (Status::Refused, ErrorCode::LaneRevoked as u32, 0),
        false,
    ),
    (
        "CLOSE_LANE",
        |pair| pair.bench.engine.close_lane(0, 0, pair.bench.now).unwrap(),
        (Status::ProducerDied, 0, 3),
        false,
    ),
    (
        "its end",
        |pair| drop(pair.bench.engine.detach(0, pair.bench.now).unwrap()),
        (Status::ProducerDied, 0, 3),
        false,
    ),
];

#[test]
fn what_ends_the_owners_lane_ends_the_waits_on_it() {
    for (name, blow, (status, code, seen), goes_on) in BLOWS {
        let mut pair = Pair::new();
        pair.redeem().unwrap();
        let other = pair.bench.engine.open_lane(1, None, Width::W64, 0, 0, pair.bench.now);
        let (other, _) = other.unwrap();
        pair.submit(&[on(0, 1, 3), on(0, 2, 4), on(0, 3, 5), on(other, 4, 1)]);
        // Stored, and not yet seen.
        pair.bench.shared.store(0, 3);
        blow(&mut pair);
        let mut ended = pair.ended();
        ended.sort_unstable_by_key(|(name, ..)| *name);
        let lost = |name| (name, status, code, seen);
        assert_eq!(ended, [(1, Status::Done, 0, 3), lost(2), lost(3)], "{name}");
        // What comes later ends at once, in the same way, and what was reached is done.
        pair.bench.shared.store(0, 4);
        pair.submit(&[on(0, 5, 9), on(0, 6, 3), on(0, 7, 4)]);
        let last = if goes_on { (7, Status::Done, 0, 4) } else { lost(7) };
        let now_seen = if goes_on { 4 } else { 3 };
        assert_eq!(pair.ended(), [lost(5), (6, Status::Done, 0, now_seen), last], "{name}");
        assert_eq!(pair.bench.engine.outstanding_of(1), 1, "{name}: the other lane's");
        assert_eq!(pair.waiter.borrowed.borrow().len(), usize::from(goes_on), "{name}");
        assert_eq!(pair.bench.engine.shares.held.len(), usize::from(goes_on), "{name}");
        pair.bench.engine.close_lane(1, 0, pair.bench.now).unwrap();
        assert!(pair.bench.engine.shares.held.is_empty(), "{name}");
    }
}

#[test]
fn a_revoked_lane_can_be_shared_again() {
    let mut pair = Pair::new();
    pair.redeem().unwrap();
    pair.bench.engine.revoke(0, 0, pair.bench.now).unwrap();
    assert_eq!(pair.redeem(), Err(ErrorCode::NoSuchCapability));
    assert_eq!(pair.bench.engine.share(0, 0, SECRET, pair.bench.now), Ok(SECRET));
    let again = pair.redeem().unwrap();
    assert_eq!(again.lane, 1, "the revoked one is open still");
    pair.submit(&[on(0, 1, 1), on(1, 2, 1)]);
    let revoked = (1, Status::Refused, ErrorCode::LaneRevoked as u32, 0);
    assert_eq!(pair.ended(), [revoked]);
    pair.bench.shared.store(0, 1);
    pair.bench.engine.look(0, None, pair.bench.now);
    assert_eq!(pair.ended(), [(2, Status::Done, 0, 1)]);
}

#[test]
fn whoever_lets_a_redeemed_lane_go_leaves_nothing() {
    let mut pair = Pair::new();
    for _ in 0..3 {
        pair.redeem().unwrap();
    }
    pair.submit(&[on(1, 1, 1)]);
    pair.bench.engine.close_lane(1, 1, pair.bench.now).unwrap();
    assert_eq!(pair.ended(), [(1, Status::Cancelled, 0, 0)]);
    assert_eq!(pair.bench.engine.shares.held.get(&(1, 1)), Some(&2));
    drop(pair.bench.engine.detach(1, pair.bench.now));
    assert!(pair.bench.engine.shares.held.is_empty());
    // The owner's end finds nobody to tell.
    drop(pair.bench.engine.detach(0, pair.bench.now));
    assert!(!pair.bench.engine.shares.has_news());
}

#[test]
fn a_closed_lane_is_its_sessions_own_when_it_is_opened_again() {
    let mut pair = Pair::new();
    pair.redeem().unwrap();
    pair.bench.engine.close_lane(1, 0, pair.bench.now).unwrap();
    pair.waiter.store(0, 2);
    pair.bench.shared.store(0, 9);
    let opened = pair.bench.engine.open_lane(1, Some(0), Width::W64, 0, 5, pair.bench.now);
    assert_eq!(opened, Ok((0, 2)));
    pair.submit(&[on(0, 1, 3)]);
    drop(pair.bench.engine.detach(0, pair.bench.now));
    assert_eq!(pair.ended(), []);
}

/// The daemon dies, and the next one recovers these of the two; `mend` changes the tables first.
fn next_life(pair: &mut Pair, slots: &[u16], mend: impl Fn(u16, &mut Table<'_>)) {
    let mut memories = Vec::new();
    for slot in [0, 1] {
        let session = pair.bench.engine.sessions[slot as usize].take().unwrap();
        memories.push(session.table.into_bytes());
    }
    pair.waiter.borrowed.borrow_mut().clear();
    pair.bench.engine = Engine::new(pair.bench.config.clone(), 4);
    let memories = [0, 1].into_iter().zip(memories).filter(|(slot, _)| slots.contains(slot));
    for (slot, mut memory) in memories.collect::<Vec<(u16, Memory)>>().into_iter().rev() {
        let layout = TableLayout::new(LANES, RING);
        mend(slot, &mut Table::over(layout, memory.as_mut()).unwrap());
        recovery::begin(memory.as_mut()).unwrap();
        let shared = [&pair.bench.shared, &pair.waiter][slot as usize];
        let config = &pair.bench.config;
        // Slots change over lives, numbers do not.
        let prepared = Prepared::recover(3 - slot, Rc::clone(shared), memory, config).unwrap();
        let prepared = prepared.numbered(u32::from(slot) + 1);
        let shares: Vec<_> = prepared.shared().collect();
        let still = slot == 0 && !shares.is_empty();
        assert_eq!(shares, if still { vec![(0, SECRET)] } else { vec![] });
        assert!(pair.bench.engine.attach(prepared).is_ok());
        pair.bench.engine.resume(3 - slot, pair.bench.now);
    }
    pair.slot = 2;
}

fn relinked(pair: &mut Pair) -> Vec<(u64, Status, u32, u64)> {
    assert_eq!(pair.ended(), [], "before the owner was looked for");
    pair.bench.engine.relink(pair.bench.now);
    pair.ended()
}

#[test]
fn a_next_life_finds_owners_again_whoever_comes_first() {
    let mut pair = Pair::new();
    pair.redeem().unwrap();
    let deadline_ns = pair.bench.now.0 + 10;
    pair.submit(&[on(0, 1, 3), on(0, 2, 4), SubmitEntry { deadline_ns, ..on(0, 3, 3) }]);
    pair.submit(&[SubmitEntry { deadline_ns, ..on(0, 4, 4) }]);
    pair.waiter.store(0, 99);
    next_life(&mut pair, &[0, 1], |_, _| {});
    // Reached before the deadlines, seen after them: there is one last look all the same.
    pair.bench.shared.store(0, 3);
    pair.bench.now = pair.bench.now + DurNs(20);
    pair.bench.engine.run_due(pair.bench.now);
    let mut ended = relinked(&mut pair);
    pair.bench.engine.run_due(pair.bench.now);
    ended.extend(pair.ended());
    ended.sort_unstable_by_key(|(name, ..)| *name);
    let done = |name| (name, Status::Done, 0, 3);
    assert_eq!(ended, [done(1), done(3), (4, Status::DeadlineExpired, 0, 0)]);
    pair.bench.shared.store(0, 4);
    pair.bench.engine.look(3, Some(0), pair.bench.now);
    assert_eq!(pair.ended(), [(2, Status::Done, 0, 4)]);
    drop(pair.bench.engine.detach(3, pair.bench.now).unwrap());
    assert!(pair.bench.engine.shares.held.is_empty());
}

#[test]
fn a_next_life_finishes_what_the_last_one_died_in_telling() {
    type Story = (&'static str, &'static [u16], fn(&mut Table<'_>), (Status, u32, u64));
    let stories: [Story; 5] = [
        ("the owner is gone", &[1], |_| {}, (Status::ProducerDied, 0, 2)),
        ("closed", &[0, 1], |t| t.lanes[0].close(), (Status::ProducerDied, 0, 3)),
        (
            "revoked",
            &[0, 1],
            |t| t.lanes[0].unshare(),
            (Status::Refused, ErrorCode::LaneRevoked as u32, 0),
        ),
        (
            "shared anew",
            &[0, 1],
            |t| t.lanes[0].share(SECRET + 1),
            (Status::Refused, ErrorCode::LaneRevoked as u32, 0),
        ),
        ("failed", &[0, 1], |t| t.lanes[0].end(Over::Failed(8), 0), (Status::DeviceFailed, 8, 0)),
    ];
    for (name, slots, mend, (status, code, seen)) in stories {
        let mut pair = Pair::new();
        pair.bench.shared.store(0, 2);
        pair.redeem().unwrap();
        pair.submit(&[on(0, 1, 3), on(0, 2, 4)]);
        pair.bench.shared.store(0, 3);
        let shared_anew = name == "shared anew";
        let owner = |slot: u16, table: &mut Table<'_>| {
            if slot == 0 && !shared_anew {
                mend(table);
            }
        };
        next_life(&mut pair, slots, owner);
        if shared_anew {
            pair.bench.engine.sessions[3].as_mut().unwrap().lanes[0].shared = Some(SECRET + 1);
        }
        let ended = relinked(&mut pair);
        let lost = |name| (name, status, code, seen);
        // The word of an owner that is there counts.
        let first = if slots.contains(&0) { (1, Status::Done, 0, 3) } else { lost(1) };
        assert_eq!(ended, [first, lost(2)], "{name}");
    }
}

#[test]
fn a_lane_that_was_over_stays_so_in_the_next_life() {
    for (name, blow, (status, code, seen), _) in BLOWS {
        let mut pair = Pair::new();
        pair.redeem().unwrap();
        pair.bench.shared.store(0, 3);
        blow(&mut pair);
        if pair.bench.engine.sessions[0].is_none() {
            continue; // The table went with the owner.
        }
        next_life(&mut pair, &[0, 1], |_, _| {});
        pair.bench.shared.store(0, 4);
        pair.bench.engine.relink(pair.bench.now);
        pair.submit(&[on(0, 1, 9), on(0, 2, 3)]);
        let ended = pair.ended();
        assert_eq!(ended[0], (1, status, code, seen), "{name}");
        assert_eq!((ended[1].0, ended[1].1), (2, Status::Done), "{name}");
    }
}

#[test]
fn a_record_of_a_lane_that_makes_no_sense_is_refused() {
    let mut pair = Pair::new();
    let session = pair.bench.engine.sessions[0].take().unwrap();
    let mut memory = session.table.into_bytes();
    let layout = TableLayout::new(LANES, RING);
    Table::over(layout, memory.as_mut()).unwrap().lanes[0].over = over::REVOKED + 1;
    let shared = Rc::clone(&pair.bench.shared);
    let refused = Prepared::recover(0, shared, memory, &pair.bench.config);
    assert_eq!(refused.err().map(|error| error.code), Some(ErrorCode::SessionMemory));
}
