//! One lane of a session as the engine sees it: the tickets that wait for its number, and how the
//! first of them is waited for.
//!
//! The tickets are kept in the order in which the number reaches them. Only the *head*, the first,
//! is waited for by its plan: no other can complete before it. The next becomes head when the head
//! completes, and its wait starts at the later of its submit and that moment.

use super::heap::{Heap, Link};
use super::ports::Ports;
use super::publish::End;
use crate::core::anchored::Begun;
use crate::core::error::ErrorCode;
use crate::core::line::Width;
use crate::core::plan::{Plan, Predict};
use crate::core::step::Wait;
use crate::core::time::{DurNs, MonoNs};
use crate::proto::entry::Status;

/// How a lane's head is waited for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No ticket waits.
    Idle,
    /// Nothing to look at before the due time: a predicted sleep.
    Cold,
    /// A look every due time.
    Warm,
    /// A look every turn.
    Hot,
    /// By its bell, and a look every backstop.
    Blocked,
}

/// Marks a lane that stands in no list.
pub const NOWHERE: u32 = u32::MAX;

/// Why no number of a lane comes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Its producer posted this code.
    Failed(u32),
    /// The session that owns it is gone, or has closed it.
    OwnerDied,
    /// Its owner has revoked it.
    Revoked,
}

impl Over {
    /// How tickets end whose number was not reached; `last` is the lane's.
    pub fn end(self, last: u64) -> End {
        match self {
            Over::Failed(code) => End::without(Status::DeviceFailed, code),
            Over::OwnerDied => End { seen: last, ..End::without(Status::ProducerDied, 0) },
            Over::Revoked => End::without(Status::Refused, ErrorCode::LaneRevoked.number().into()),
        }
    }
}

/// Where a lane comes from that was redeemed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redeemed {
    /// The number of its owner's session.
    pub owner: u32,
    /// Its index there.
    pub lane: u32,
    /// What it was redeemed with.
    pub capability: u128,
    /// An earlier life of the daemon left it, and its owner has not been looked for yet.
    pub absent: bool,
}

/// A lane.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// Whether the session has opened it.
    pub open: bool,
    /// How much of the word the device writes.
    pub width: Width,
    /// Index of its device.
    pub device: u32,
    /// Why no number comes any more.
    pub over: Option<Over>,
    /// Where it comes from, if it is not the session's own.
    pub redeemed: Option<Redeemed>,
    /// Of a redeemed lane: its last number, once its word is out of reach.
    pub last: Option<u64>,
    /// What shares it.
    pub shared: Option<u128>,
    /// Its tickets, first to be reached first.
    pub order: Heap,
    /// The number from which the order counts: the lane's when the first ticket joined.
    pub base: u64,
    /// The head's target: what a look compares with.
    pub head_target: u64,
    /// The head's wait.
    pub wait: Wait,
    /// The head's point, for the estimator.
    pub point: u64,
    /// The head's prediction fields.
    pub predict: Option<Predict>,
    /// How the head is waited for.
    pub mode: Mode,
    /// When its wait goes on by itself.
    pub due: MonoNs,
    /// From when on it may, if others are due.
    pub may_look: MonoNs,
    /// When hot looking begins, where the end of the head's wait is foreseen.
    pub hot_from: MonoNs,
    /// When hot looking ends.
    pub hot_until: MonoNs,
    /// When the predicted sleep of a cold lane ends.
    pub sleep_until: MonoNs,
    /// Whether what is done ahead of the head's completion was done.
    pub opened: bool,
    /// Whether its completion is expected so soon that CPUs should be awake.
    pub imminent: bool,
    /// When the head was last looked at and its number not reached.
    pub not_yet: MonoNs,
    /// When a ticket of this lane last completed: the middle of the time between the look that
    /// found it done and the look before.
    pub last_done: MonoNs,
    /// The earliest time at which it can have completed.
    pub last_done_min: MonoNs,
    /// From when the head's residual is learned: the later of its submit and `last_done_min`. A
    /// coarse look can only make a residual longer so, and the least of several stays what it
    /// is; measured from look to look it would come out short, the next look be too early, and
    /// the time for hot looking be spent before the number lands.
    pub learn_from: MonoNs,
    /// Where the head's wait began.
    pub begun: Begun,
    /// Place in the order of due times.
    pub due_link: Link,
    /// Whether it stands in the engine's list of hot lanes.
    pub hot_listed: bool,
    /// Place in the session's list of lanes with tickets, or [`NOWHERE`].
    pub waiting_at: u32,
}

impl Lane {
    /// A lane that is not open.
    pub fn closed() -> Lane {
        Lane {
            open: false,
            width: Width::W64,
            device: 0,
            over: None,
            redeemed: None,
            last: None,
            shared: None,
            order: Heap::default(),
            base: 0,
            head_target: 0,
            wait: Wait::new(&Plan::BLOCK, MonoNs(0), None, None),
            point: 0,
            predict: None,
            mode: Mode::Idle,
            due: MonoNs::MAX,
            may_look: MonoNs::MAX,
            hot_from: MonoNs::MAX,
            hot_until: MonoNs(0),
            sleep_until: MonoNs(0),
            opened: false,
            imminent: false,
            not_yet: MonoNs(0),
            last_done: MonoNs(0),
            last_done_min: MonoNs(0),
            learn_from: MonoNs(0),
            begun: Begun::default(),
            due_link: Link::default(),
            hot_listed: false,
            waiting_at: NOWHERE,
        }
    }

    /// The bits of a word that count.
    pub fn mask(&self) -> u64 {
        match self.width {
            Width::W64 => u64::MAX,
            Width::W32 => u64::from(u32::MAX),
        }
    }

    /// Whether the head's client is to be woken early.
    pub fn wakes_early(&self) -> bool {
        self.predict.is_some_and(|predict| predict.wake_early)
    }

    /// Its number now.
    pub fn word(&self, ports: &impl Ports, index: u32) -> u64 {
        self.last.unwrap_or_else(|| ports.lane_word(index))
    }

    /// One look at `now`: the word, if it has reached the head's target.
    pub fn look(&mut self, ports: &impl Ports, index: u32, now: MonoNs) -> Option<u64> {
        let word = self.word(ports, index);
        if self.width.reached(word, self.head_target) {
            return Some(word);
        }
        self.not_yet = now;
        None
    }

    /// The head was found done at `now`, since the look before or, where that lies more than
    /// `park` back (it was slept through), shortly before.
    pub fn done(&mut self, now: MonoNs, park: DurNs) {
        let since = now.since(self.not_yet.max(self.last_done_min)).0.min(park.0);
        self.last_done_min = MonoNs(now.0 - since);
        self.last_done = MonoNs(now.0 - since / 2);
    }
}
