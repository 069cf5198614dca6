//! What a session remembers of what it has asked for, to ask a daemon for it again: its open
//! lanes, its plans, and the fds of its outstanding fd tickets.
//!
//! A plan is known here by an id of the session's own, which stays; the daemon's id for it is
//! another with every daemon that is told of it anew. So is a lane of another session.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::capability::Capability;
use super::slots::SlotId;
use crate::core::line::Width;
use crate::proto::limits::DEVICE_NAME_BYTES;

/// The number of the first lane that was redeemed: the daemon's indexes are lower.
const REDEEMED_FROM: u32 = 1 << 31;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// Open lanes by index.
    pub(super) lanes: BTreeMap<u32, KeptLane>,
    /// Open lanes that are other sessions', by a number of this library's own.
    pub(super) redeemed: BTreeMap<u32, KeptRedeemed>,
    /// How many there were so far: no number is used twice.
    redeemed_ever: u32,
    /// Plans by id less one.
    pub(super) plans: Vec<KeptPlan>,
    /// Fds of tickets that the daemon has accepted.
    pub(super) fds: HashMap<SlotId, KeptFd>,
}

/// An open lane.
#[derive(Clone, Debug)]
pub(super) struct KeptLane {
    pub(super) width: Width,
    /// Its device's name as in OPEN_LANE.
    pub(super) device: [u8; DEVICE_NAME_BYTES],
    /// The code that was posted on it.
    pub(super) failed: Option<u32>,
    /// The secret that it is shared by, or is to be.
    pub(super) secret: Option<u128>,
    /// Whether it is.
    pub(super) shared: bool,
}

/// An open lane of another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptRedeemed {
    pub(super) capability: Capability,
    /// The daemon's index of it; none while the daemon has still to be asked for it.
    pub(super) wire: Option<u32>,
}

/// Whether a lane is another session's.
pub(super) fn is_redeemed(lane: u32) -> bool {
    lane >= REDEEMED_FROM
}

/// A registered plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptPlan {
    /// As in PLAN.
    pub(super) by_name: u32,
    pub(super) text: String,
    /// The daemon's id; 0 where it does not know the plan any more, which is then the device's.
    pub(super) wire: u16,
}

/// The fd of an outstanding ticket.
#[derive(Clone, Debug)]
pub(super) struct KeptFd {
    pub(super) fd: Arc<OwnedFd>,
    /// Of the SUBMIT that was accepted.
    pub(super) cookie: u64,
    /// The life of the daemon that has the fd; none where no daemon has it.
    pub(super) life: Option<u32>,
}

impl Remembered {
    /// The id of a plan that the daemon knows by `wire`.
    pub(super) fn plan(&mut self, by_name: u32, text: &str, wire: u16) -> u16 {
        let known = self.plans.iter().position(|plan| plan.wire == wire);
        let at = known.unwrap_or_else(|| {
            self.plans.push(KeptPlan { by_name, text: text.to_owned(), wire });
            self.plans.len() - 1
        });
        at as u16 + 1
    }

    /// The daemon's id of a plan.
    pub(super) fn wire_plan(&self, plan: u16) -> u16 {
        match usize::from(plan).checked_sub(1).and_then(|at| self.plans.get(at)) {
            Some(known) => known.wire,
            None => plan,
        }
    }

    /// Notes a lane that the daemon has redeemed; answers its number.
    pub(super) fn redeem(&mut self, capability: Capability, wire: u32) -> u32 {
        let lane = REDEEMED_FROM + self.redeemed_ever;
        self.redeemed_ever += 1;
        self.redeemed.insert(lane, KeptRedeemed { capability, wire: Some(wire) });
        lane
    }

    /// The daemon's index of a lane, where it knows it.
    pub(super) fn wire_lane(&self, lane: u32) -> Option<u32> {
        if is_redeemed(lane) { self.redeemed.get(&lane)?.wire } else { Some(lane) }
    }

    /// The first lane that the daemon is to be asked for.
    pub(super) fn to_redeem(&self) -> Option<(u32, Capability)> {
        let mut lanes = self.redeemed.iter().filter(|(_, kept)| kept.wire.is_none());
        lanes.next().map(|(lane, kept)| (*lane, kept.capability))
    }

    /// Tickets whose fds an earlier life than `life` has, by the cookies of their SUBMITs.
    pub(super) fn fds_before(&self, life: u32) -> BTreeMap<u64, Vec<(SlotId, Arc<OwnedFd>)>> {
        let mut due = BTreeMap::<u64, Vec<_>>::new();
        for (id, kept) in &self.fds {
            if kept.life.is_some_and(|has| has < life) {
                due.entry(kept.cookie).or_default().push((*id, Arc::clone(&kept.fd)));
            }
        }
        due
    }

    /// Tickets whose fds no daemon has, `count` of them at most.
    pub(super) fn fds_of_nobody(&self, count: usize) -> Vec<(SlotId, Arc<OwnedFd>)> {
        let due = self.fds.iter().filter(|(_, kept)| kept.life.is_none());
        due.take(count).map(|(id, kept)| (*id, Arc::clone(&kept.fd))).collect()
    }
}

#[cfg(test)]
#[path = "remembered_tests.rs"]
mod tests;
