//! Lanes that other sessions wait on: SHARE, REDEEM and REVOKE.
//!
//! A lane belongs to the session that opened it, its *owner*. A *capability* lets another session
//! *redeem* it: the lane gets an index there too and is waited on like any other, and its number is
//! the owner's word, at which only the daemon looks. What ends the owner's lane ends the redeemed
//! ones: a failure, a revocation, or the owner's end, each after one last look.
//!
//! What always holds: a redeemed lane whose `last` is unset has its word borrowed, and is counted
//! in [`Shares`] under its owner's number. The owner's table changes first, then the redeemers'. A
//! daemon that dies in between finds the difference in its next life ([`Engine::relink`]).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use super::engine::{Engine, Refusal};
use super::lane::{Lane, Over, Redeemed};
use super::ports::Ports;
use super::session::{Context, Session};
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::line::Width;
use crate::core::time::MonoNs;
use crate::proto::limits::SESSION_SHARES_MAX;

/// Who waits on whose lanes, and what is still to be told.
#[derive(Default)]
pub struct Shares {
    /// By owner's number and redeemer's slot: how many lanes.
    held: BTreeMap<(u32, u16), u32>,
    /// What ended, oldest first: the owner's number, its lane or all of them, and why.
    news: Vec<(u32, Option<u32>, Over)>,
}

impl Shares {
    /// A session has redeemed a lane of `owner`.
    fn join(&mut self, owner: u32, slot: u16) {
        *self.held.entry((owner, slot)).or_default() += 1;
    }

    /// A session has let one go.
    fn leave(&mut self, owner: u32, slot: u16) {
        if let Some(lanes) = self.held.get_mut(&(owner, slot)) {
            *lanes -= 1;
            if *lanes == 0 {
                self.held.remove(&(owner, slot));
            }
        }
    }

    /// The first session from `slot` on that has redeemed lanes of `owner`.
    fn next(&self, owner: u32, slot: u16) -> Option<u16> {
        self.held.range((owner, slot)..=(owner, u16::MAX)).next().map(|((_, slot), _)| *slot)
    }

    /// Notes what the redeemers of a lane are to be told.
    pub fn tell(&mut self, owner: u32, lane: impl Into<Option<u32>>, over: Over) {
        if self.next(owner, 0).is_some() {
            self.news.push((owner, lane.into(), over));
        }
    }

    /// Whether any redeemer is to be told something.
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }
}

/// A redeemed lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redemption {
    /// Its index in the session that redeemed it.
    pub lane: u32,
    /// How wide its device stores.
    pub width: Width,
    /// Its device.
    pub device: u32,
    /// Its number now.
    pub value: u64,
}

impl<P: Ports> Session<P> {
    /// The open lane of this index, which the session itself has opened.
    ///
    /// # Errors
    /// `NoSuchLane`, `NotOwner`.
    pub fn own_lane_at(&mut self, lane: u32, message: &str) -> Result<&mut Lane> {
        let found = self.open_lane_at(lane)?;
        if found.redeemed.is_none() {
            return Ok(found);
        }
        let text = format!("{message}: lane {lane} was redeemed, it is its owner's");
        Err(Error::new(ErrorCode::NotOwner, text))
    }

    /// Shares a lane under `fresh`, or answers what shares it already.
    fn share(&mut self, lane: u32, fresh: u128) -> Result<u128> {
        let shares = self.lanes.iter().filter(|lane| lane.shared.is_some()).count();
        let entry = self.own_lane_at(lane, "SHARE")?;
        if let Some(capability) = entry.shared {
            return Ok(capability);
        }
        if shares >= SESSION_SHARES_MAX as usize {
            let text = format!("shared lanes: {}, at most {SESSION_SHARES_MAX}", shares + 1);
            return Err(Error::new(ErrorCode::LimitExceeded, text));
        }
        entry.shared = Some(fresh);
        self.table.parts().lanes[lane as usize].share(fresh);
        Ok(fresh)
    }

    fn revoke(&mut self, cx: &mut Context<'_>, lane: u32) -> Result<Option<u128>> {
        let capability = self.own_lane_at(lane, "REVOKE")?.shared.take();
        if capability.is_some() {
            self.table.parts().lanes[lane as usize].unshare();
            cx.shares.tell(self.number, lane, Over::Revoked);
        }
        Ok(capability)
    }

    /// Notes why no number of a lane comes any more: what has been reached is done, the other
    /// tickets end.
    pub fn end_lane(&mut self, cx: &mut Context<'_>, lane: u32, over: Over) {
        let last = self.lanes[lane as usize].word(&self.ports, lane);
        if over == Over::OwnerDied || over == Over::Revoked {
            self.let_go(cx, lane, last);
        }
        self.lanes[lane as usize].over = Some(over);
        self.table.parts().lanes[lane as usize].end(over, last);
        self.look_at_lane(cx, lane);
        self.finish_lane(cx, lane, over.end(last));
    }

    /// Gives the word of a redeemed lane back, whose number stays `last`.
    fn let_go(&mut self, cx: &mut Context<'_>, lane: u32, last: u64) {
        let entry = &mut self.lanes[lane as usize];
        if let Some(redeemed) = &mut entry.redeemed
            && entry.last.replace(last).is_none()
        {
            self.ports.give_back_lane(lane);
            cx.shares.leave(redeemed.owner, self.slot);
        }
    }

    /// A lane was closed: if it was redeemed it is let go, if it was shared its redeemers' end.
    pub fn close_share(&mut self, cx: &mut Context<'_>, lane: u32) {
        let last = self.lanes[lane as usize].word(&self.ports, lane);
        self.let_go(cx, lane, last);
        if self.lanes[lane as usize].shared.take().is_some() {
            cx.shares.tell(self.number, lane, Over::OwnerDied);
        }
    }

    /// The session ends: so do the lanes that were redeemed from it, and its own part in others'.
    pub fn close_shares(&mut self, cx: &mut Context<'_>) {
        cx.shares.tell(self.number, None, Over::OwnerDied);
        for lane in self.lanes.iter().filter(|lane| lane.open && lane.last.is_none()) {
            if let Some(redeemed) = lane.redeemed {
                cx.shares.leave(redeemed.owner, self.slot);
            }
        }
    }

    /// The open lanes that were redeemed from `owner` (its lane, or all), and have their word.
    fn lanes_of(&self, owner: u32, lane: Option<u32>) -> impl Fn(&Lane) -> bool + use<P> {
        move |entry| {
            let redeemed = entry.redeemed.filter(|_| entry.open && entry.last.is_none());
            redeemed.is_some_and(|r| r.owner == owner && lane.is_none_or(|lane| r.lane == lane))
        }
    }

    fn end_lanes_of(&mut self, cx: &mut Context<'_>, owner: u32, lane: Option<u32>, over: Over) {
        let is_of = self.lanes_of(owner, lane);
        for at in 0..self.lanes.len() {
            if is_of(&self.lanes[at]) {
                self.end_lane(cx, at as u32, over);
            }
        }
    }

    /// A redeemed lane's word has just been borrowed.
    fn borrowed(&mut self, cx: &mut Context<'_>, lane: u32) {
        let entry = &mut self.lanes[lane as usize];
        entry.last = None;
        if let Some(redeemed) = entry.redeemed {
            cx.shares.join(redeemed.owner, self.slot);
        }
    }

    /// The owner of a lane was looked for, and the word is borrowed where there is one: what the
    /// lane's tickets wait for is known again.
    fn relinked(&mut self, cx: &mut Context<'_>, lane: u32, over: Option<Over>) {
        if let Some(redeemed) = &mut self.lanes[lane as usize].redeemed {
            redeemed.absent = false;
        }
        for at in 0..self.table.rows().len() {
            let rows = self.table.rows();
            if rows[at].is_word_wait() && rows[at].source == lane {
                self.tickets.resume_deadline(rows, at as u32);
            }
        }
        match over {
            Some(over) => self.end_lane(cx, lane, over),
            None => self.look_at_lane(cx, lane),
        }
    }

    /// What a redeemed lane is.
    fn redemption(&self, lane: u32) -> Redemption {
        let entry = &self.lanes[lane as usize];
        let Lane { width, device, .. } = *entry;
        Redemption { lane, width, device, value: entry.word(&self.ports, lane) }
    }
}

impl<P: Ports> Engine<P> {
    /// Shares a lane under the capability `fresh`, or answers the one that shares it already.
    ///
    /// # Errors
    /// `NoSuchLane`, `NotOwner`, `LimitExceeded`.
    pub fn share(
        &mut self,
        slot: u16,
        lane: u32,
        fresh: u128,
        now: MonoNs,
    ) -> core::result::Result<u128, Refusal> {
        self.command(slot, now, |session, _| Ok(session.share(lane, fresh)?))
    }

    /// Takes a lane's capability back, and ends the waits on the lanes that were redeemed with it;
    /// answers the capability, if there was one.
    ///
    /// # Errors
    /// `NoSuchLane`, `NotOwner`.
    pub fn revoke(
        &mut self,
        slot: u16,
        lane: u32,
        now: MonoNs,
    ) -> core::result::Result<Option<u128>, Refusal> {
        self.command(slot, now, |session, cx| Ok(session.revoke(cx, lane)?))
    }

    /// Gives a session a lane of the session at `owner`, if `capability` shares that; asked for
    /// under this cookie.
    ///
    /// # Errors
    /// `NoSuchCapability`, `NoFreeLane`, `NotSupported` for a lane of the session itself.
    pub fn redeem(
        &mut self,
        slot: u16,
        cookie: u64,
        (owner, lane): (u16, u32),
        capability: u128,
        now: MonoNs,
    ) -> core::result::Result<Redemption, Refusal> {
        if owner == slot {
            let text = "REDEEM: a lane of the session itself is not supported: it has it already";
            return Err(Error::new(ErrorCode::NotSupported, text).into());
        }
        let (at, over) = match self.pair(owner, slot) {
            Some((theirs, ours)) => {
                let source = theirs.lanes.get(lane as usize);
                let source = source.filter(|lane| lane.open && lane.shared == Some(capability));
                let source = *source.ok_or_else(no_such_capability)?;
                let origin = Redeemed { owner: theirs.number, lane, capability, absent: false };
                let value = source.word(&theirs.ports, lane);
                let at = ours.take_redeemed(source.width, source.device, cookie, origin, value)?;
                ours.ports.borrow_lane(at, &theirs.ports, lane);
                (at, source.over)
            }
            None => return Err(no_such_capability().into()),
        };
        self.command(slot, now, |session, cx| {
            session.borrowed(cx, at);
            if let Some(over) = over {
                session.end_lane(cx, at, over);
            }
            Ok(session.redemption(at))
        })
    }

    /// The lane that the session's last REDEEM redeemed, if this was its cookie and it is open.
    pub fn redeemed_by(&mut self, slot: u16, cookie: u64, now: MonoNs) -> Option<Redemption> {
        let (lane, _, _) = self.opened_by(slot, cookie, now)?;
        self.with(slot, now, |session, _| session.redemption(lane))
    }

    /// Looks for the owners of the lanes that recovered sessions had redeemed, once all of those
    /// are attached: the lanes of one that is gone end.
    pub fn relink(&mut self, now: MonoNs) {
        let sessions = self.sessions.iter().flatten();
        let owners: BTreeMap<u32, u16> = sessions.map(|s| (s.number, s.slot)).collect();
        for slot in 0..self.sessions.len() as u16 {
            let Some(session) = &self.sessions[slot as usize] else { continue };
            let absent = |lane: &Lane| lane.open && lane.redeemed.is_some_and(|r| r.absent);
            let lanes: Vec<u32> = (0..session.lanes.len() as u32)
                .filter(|&lane| absent(&session.lanes[lane as usize]))
                .collect();
            for lane in lanes {
                self.relink_lane(slot, lane, &owners, now);
            }
        }
    }

    fn relink_lane(&mut self, slot: u16, lane: u32, owners: &BTreeMap<u32, u16>, now: MonoNs) {
        let session = self.sessions[slot as usize].as_ref();
        let Some(origin) = session.and_then(|s| s.lanes[lane as usize].redeemed) else { return };
        let owner = owners.get(&origin.owner).copied();
        let source = owner.and_then(|owner| self.pair(owner, slot)).and_then(|(theirs, ours)| {
            let source = theirs.lanes.get(origin.lane as usize)?;
            // Its word counts up to an end that the daemon died in telling, a close too.
            ours.ports.borrow_lane(lane, &theirs.ports, origin.lane);
            Some(*source)
        });
        let over = match source {
            None => Some(Over::OwnerDied),
            Some(source) if !source.open => Some(Over::OwnerDied),
            Some(source) if source.shared == Some(origin.capability) => source.over,
            Some(_) => Some(Over::Revoked),
        };
        self.with(slot, now, |session, cx| {
            if source.is_some() {
                session.borrowed(cx, lane);
            }
            session.relinked(cx, lane, over);
        });
    }

    /// Two sessions at once.
    fn pair(&mut self, one: u16, other: u16) -> Option<(&mut Session<P>, &mut Session<P>)> {
        let places = [one as usize, other as usize];
        let [one, other] = self.sessions.get_disjoint_mut(places).ok()?;
        Some((one.as_deref_mut()?, other.as_deref_mut()?))
    }

    /// Looks at the lanes of a device that other sessions have redeemed from this one.
    pub(super) fn look_at_redeemed(&mut self, owner: u16, device: Option<u32>, now: MonoNs) {
        let Some(Some(session)) = self.sessions.get(owner as usize) else { return };
        let number = session.number;
        let mut from = 0;
        while let Some(slot) = self.shares.next(number, from) {
            self.with(slot, now, |session, cx| {
                let is_of = session.lanes_of(number, None);
                session.look_at(cx, |lane| {
                    is_of(lane) && device.is_none_or(|device| device == lane.device)
                });
            });
            from = slot + 1;
        }
    }

    /// Tells redeemers what has ended.
    pub(super) fn spread(&mut self, now: MonoNs) {
        let news = core::mem::take(&mut self.shares.news);
        for (owner, lane, over) in news {
            let mut from = 0;
            while let Some(slot) = self.shares.next(owner, from) {
                self.with(slot, now, |session, cx| session.end_lanes_of(cx, owner, lane, over));
                from = slot + 1;
            }
        }
    }
}

/// The refusal of a capability that shares no lane.
pub fn no_such_capability() -> Error {
    Error::new(ErrorCode::NoSuchCapability, "the capability is not known, or was revoked")
}

#[cfg(test)]
#[path = "sharing_tests.rs"]
mod tests;
