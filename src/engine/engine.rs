//! All sessions of a daemon, and what is due when.
//!
//! A *slot* is a session's place; the caller gives slots out. A *turn* is: what came in (bells,
//! commands), [`Engine::run_due`], [`Engine::look_hot`], then [`Engine::publish`] once, and the
//! effects done. [`Engine::next_due`] says how long the caller may sleep when nothing is hot.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::account::Accounts;
use super::ahead::Ahead;
use super::budget::Sharers;
use super::config::Config;
use super::heap::{Heap, Link, Links};
use super::lane::Mode;
use super::ports::{Effect, Ports};
use super::prepared::{Prepared, Retired};
use super::publish::End;
use super::session::{Context, HotLane, Session};
use super::sharing::Shares;
use super::stats::Stats;
use crate::core::bands::Bands;
use crate::core::error::{Error, ErrorCode};
use crate::core::line::Width;
use crate::core::time::{DurNs, MonoNs};
use crate::proto::entry::{Status, SubmitEntry};

/// A refusal, and the number that goes with its code in an ERROR message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is refused and why.
    pub error: Error,
    /// The number; 0 where there is none.
    pub value: u64,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal { error, value: 0 }
    }
}

/// The engine.
pub struct Engine<P: Ports> {
    config: Config,
    pub(super) sessions: Vec<Option<Box<Session<P>>>>,
    schedule: Heap,
    hot: Vec<HotLane>,
    hot_since: MonoNs,
    dirty: Vec<u16>,
    published: Vec<u16>,
    effects: Vec<Effect>,
    accounts: Accounts,
    pub(super) shares: Shares,
    sharers: Sharers,
    pub(super) lead: DurNs,
    pub(super) ahead: Ahead,
    pub(super) imminent: u32,
    stats: Stats,
}

struct Schedule<'a, P: Ports>(&'a mut [Option<Box<Session<P>>>], Link);

impl<P: Ports> Links for Schedule<'_, P> {
    fn link(&mut self, node: u32) -> &mut Link {
        match &mut self.0[node as usize] {
            Some(session) => &mut session.schedule_link,
            None => &mut self.1,
        }
    }
    fn key(&self, node: u32) -> u64 {
        self.0[node as usize].as_ref().map_or(u64::MAX, |session| session.scheduled.0)
    }
}

impl<P: Ports> Engine<P> {
    /// An engine without sessions, for at most `slots` of them.
    pub fn new(config: Config, slots: u16) -> Engine<P> {
        Engine {
            config,
            sessions: (0..slots).map(|_| None).collect(),
            schedule: Heap::default(),
            hot: Vec::with_capacity(64),
            hot_since: MonoNs::MAX,
            dirty: Vec::with_capacity(slots as usize),
            published: Vec::with_capacity(slots as usize),
            effects: Vec::with_capacity(256),
            accounts: Accounts::default(),
            shares: Shares::default(),
            sharers: Sharers::default(),
            lead: DurNs::ZERO,
            ahead: Ahead::default(),
            imminent: 0,
            stats: Stats::default(),
        }
    }

    /// Puts a session into its slot; gives it back when that is not free.
    pub fn attach(&mut self, session: Prepared<P>) -> core::result::Result<(), Retired<P>> {
        let Prepared(mut session) = session;
        match self.sessions.get_mut(session.slot as usize) {
            Some(slot) if slot.is_none() => {
                session.account = self.accounts.open(session.uid);
                *slot = Some(session);
                Ok(())
            }
            _ => Err(Retired(session)),
        }
    }

    /// Lets the tickets of a recovered session wait, and has its client told of what was
    /// published since it last was.
    pub fn resume(&mut self, slot: u16, now: MonoNs) {
        self.with(slot, now, |session, cx| session.resume(cx));
    }

    /// A recovered session has been served: what comes now is not its recovery's fault.
    pub fn recovered(&mut self, slot: u16, now: MonoNs) {
        self.with(slot, now, |session, _| session.recovered());
    }

    /// Has an outstanding fd ticket wait for a fd that its client sent again after a restart, by
    /// the caller's handle for it; `false` where no ticket of this name lacks one.
    pub fn give_fd(&mut self, slot: u16, user_data: u64, fd: u32, now: MonoNs) -> bool {
        self.with(slot, now, |session, cx| session.give_fd(cx, user_data, fd)).unwrap_or(false)
    }

    /// Tickets that a session may still hand in before it reads results.
    pub fn free(&mut self, slot: u16, now: MonoNs) -> u32 {
        self.with(slot, now, |session, _| session.credit().unwrap_or(0)).unwrap_or(0)
    }

    /// Cookie of the last SUBMIT message that was accepted from a session; 0 before the first.
    pub fn last_cookie(&mut self, slot: u16, now: MonoNs) -> u64 {
        let last = self.with(slot, now, |session, _| session.table.header().last_cookie);
        last.unwrap_or(0)
    }

    /// Takes a session out, whatever it has outstanding.
    pub fn detach(&mut self, slot: u16, now: MonoNs) -> Option<Retired<P>> {
        self.with(slot, now, |session, cx| session.detach(cx));
        let linked = |s: &Session<P>| s.schedule_link.is_linked();
        if self.sessions.get(slot as usize)?.as_deref().is_some_and(linked) {
            let mut schedule = Schedule(&mut self.sessions, Link::default());
            self.schedule.remove(&mut schedule, slot.into());
        }
        self.hot.retain(|hot| hot.slot != slot);
        self.dirty.retain(|&dirty| dirty != slot);
        self.sessions[slot as usize].take().map(Retired)
    }

    /// Runs `work` on a session, then files it under its next due time.
    pub(super) fn with<R>(
        &mut self,
        slot: u16,
        now: MonoNs,
        work: impl FnOnce(&mut Session<P>, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let session = self.sessions.get_mut(slot as usize)?.as_deref_mut()?;
        let mut cx = Context {
            now,
            config: &self.config,
            lead: self.lead,
            ahead: self.ahead,
            imminent: &mut self.imminent,
            effects: &mut self.effects,
            stats: &mut self.stats,
            accounts: &mut self.accounts,
            hot: &mut self.hot,
            dirty: &mut self.dirty,
            shares: &mut self.shares,
            sharers: &mut self.sharers,
        };
        let result = work(session, &mut cx);
        let (due, scheduled) = (session.next_due(), session.scheduled);
        if due != scheduled {
            self.reschedule(slot, due);
        }
        if self.shares.has_news() {
            self.spread(now);
        }
        Some(result)
    }

    fn reschedule(&mut self, slot: u16, due: MonoNs) {
        let mut schedule = Schedule(&mut self.sessions, Link::default());
        if schedule.link(slot.into()).is_linked() {
            self.schedule.remove(&mut schedule, slot.into());
        }
        if let Some(session) = schedule.0[slot as usize].as_mut() {
            session.scheduled = due;
        }
        if due != MonoNs::MAX {
            self.schedule.push(&mut schedule, slot.into());
        }
    }

    /// Runs `work` on a session; `Disconnected` when the slot has none.
    pub(super) fn command<R>(
        &mut self,
        slot: u16,
        now: MonoNs,
        work: impl FnOnce(&mut Session<P>, &mut Context<'_>) -> core::result::Result<R, Refusal>,
    ) -> core::result::Result<R, Refusal> {
        let gone = || Error::new(ErrorCode::Disconnected, "the session is closed").into();
        self.with(slot, now, work).unwrap_or_else(|| Err(gone()))
    }

    /// Opens a lane, asked for under this cookie, and answers its index and present number.
    ///
    /// # Errors
    /// `NoFreeLane`, `NoSuchLane`, `BadMessage` for one that is open.
    pub fn open_lane(
        &mut self,
        slot: u16,
        lane: Option<u32>,
        width: Width,
        device: u32,
        cookie: u64,
        now: MonoNs,
    ) -> core::result::Result<(u32, u64), Refusal> {
        self.command(slot, now, |session, _| Ok(session.open_lane(lane, width, device, cookie)?))
    }

    /// The lane that the session's last OPEN_LANE opened, if this was its cookie: index, device
    /// and present number. It is open still.
    pub fn opened_by(&mut self, slot: u16, cookie: u64, now: MonoNs) -> Option<(u32, u32, u64)> {
        self.with(slot, now, |session, _| session.opened_by(cookie)).flatten()
    }

    /// Closes a lane; its tickets end with `Cancelled`, those of lanes that were redeemed from it
    /// with `ProducerDied`.
    ///
    /// # Errors
    /// `NoSuchLane`.
    pub fn close_lane(
        &mut self,
        slot: u16,
        lane: u32,
        now: MonoNs,
    ) -> core::result::Result<(), Refusal> {
        self.command(slot, now, |session, cx| Ok(session.close_lane(cx, lane)?))
    }

    /// Registers a plan and answers its id.
    ///
    /// # Errors
    /// `LimitExceeded`.
    pub fn add_plan(
        &mut self,
        slot: u16,
        bands: Bands,
        now: MonoNs,
    ) -> core::result::Result<u16, Refusal> {
        let label = bands.label();
        self.command(slot, now, |session, _| Ok(session.add_plan(bands, &label)?))
    }

    /// Takes the tickets of a SUBMIT message, all or none; answers what is free after them. The
    /// `source` of an fd ticket is the caller's handle for the fd.
    ///
    /// # Errors
    /// `CookieOutOfOrder`, `CreditExceeded`, `NoSuchLane`, `NoSuchPlan`, quotas.
    pub fn submit(
        &mut self,
        slot: u16,
        cookie: u64,
        entries: &[SubmitEntry],
        now: MonoNs,
    ) -> core::result::Result<u32, Refusal> {
        self.command(slot, now, |session, cx| session.submit(cx, cookie, entries))
    }

    /// Cancels a ticket by its `user_data`.
    ///
    /// # Errors
    /// `NoSuchTicket`.
    pub fn cancel(
        &mut self,
        slot: u16,
        user_data: u64,
        now: MonoNs,
    ) -> core::result::Result<(), Refusal> {
        self.command(slot, now, |session, cx| Ok(session.cancel(cx, user_data)?))
    }

    /// Posts a producer's failure on a lane, and on those that were redeemed from it.
    ///
    /// # Errors
    /// `NoSuchLane`, `NotOwner`.
    pub fn fail(
        &mut self,
        slot: u16,
        lane: u32,
        code: u32,
        now: MonoNs,
    ) -> core::result::Result<(), Refusal> {
        self.command(slot, now, |session, cx| Ok(session.fail_lane(cx, lane, code)?))
    }

    /// The session's doorbell rang: takes a batch of submissions; `true` when there are more.
    pub fn drain(&mut self, slot: u16, now: MonoNs) -> bool {
        self.with(slot, now, |session, cx| session.drain(cx)).unwrap_or(false)
    }

    /// The session's bell of a device rang, or all its lanes should be looked at (`None`); so are
    /// those that others have redeemed from it.
    pub fn look(&mut self, slot: u16, device: Option<u32>, now: MonoNs) {
        self.with(slot, now, |session, cx| session.look_at_device(cx, device));
        self.look_at_redeemed(slot, device, now);
    }

    /// An fd ticket's poll ended: `code` 0 is done with the events `seen`, else the fd's error.
    /// A poll of a ticket that is over is ignored.
    pub fn fd_ready(&mut self, slot: u16, row: u32, fd: u32, code: u32, seen: u64, now: MonoNs) {
        self.with(slot, now, |session, cx| {
            let rows = session.table.rows();
            let Some(found) = rows.get(row as usize) else { return };
            if found.is_fd_wait() && found.source == fd {
                let status = if code == 0 { Status::Done } else { Status::DeviceFailed };
                session.finish(cx, row, End { status, waited: None, code, seen });
            }
        });
    }

    /// Ends every ticket of a session, after one last look, with `ShuttingDown` and refuses new
    /// ones.
    pub fn shut_down(&mut self, slot: u16, now: MonoNs) {
        self.with(slot, now, |session, cx| {
            session.draining = true;
            session.look_at_device(cx, None);
            session.finish_all(cx, End::without(Status::ShuttingDown, 0));
        });
    }

    /// Refuses new tickets of a session; those outstanding go on.
    pub fn set_draining(&mut self, slot: u16, now: MonoNs) {
        self.with(slot, now, |session, _| session.draining = true);
    }

    /// Does what is due at `now`.
    pub fn run_due(&mut self, now: MonoNs) {
        let slack = now + DurNs(self.config.park.0);
        while let Some(slot) = self.schedule.first() {
            let due = self.next_due();
            if due > slack {
                break;
            }
            self.with(slot as u16, now, |session, cx| session.run_due(cx));
            // Not before its time after all.
            if due > now && self.next_due() == due {
                break;
            }
        }
    }

    /// Whether any lane is to be looked at in the next turn, without sleeping.
    pub fn is_hot(&self) -> bool {
        !self.hot.is_empty()
    }

    /// Looks at every hot lane once.
    pub fn look_hot(&mut self, now: MonoNs) {
        let elapsed = now.since(self.hot_since);
        self.stats.hot_ns += elapsed.0;
        let share = DurNs(elapsed.0 / self.hot.len().max(1) as u64);
        let mut at = 0;
        while let Some(&HotLane { slot, lane }) = self.hot.get(at) {
            let hot = self.with(slot, now, |session, cx| {
                if session.lanes[lane as usize].mode == Mode::Hot {
                    session.look_hot(cx, lane, share);
                }
                let entry = &mut session.lanes[lane as usize];
                entry.hot_listed = entry.mode == Mode::Hot;
                entry.hot_listed
            });
            if hot == Some(true) {
                at += 1;
            } else {
                self.hot.swap_remove(at);
            }
        }
        self.hot_since = if self.hot.is_empty() { MonoNs::MAX } else { now };
    }

    /// When something is due by itself; `MAX` for never.
    pub fn next_due(&self) -> MonoNs {
        let first = self.schedule.first().and_then(|slot| self.sessions[slot as usize].as_ref());
        first.map_or(MonoNs::MAX, |session| session.scheduled)
    }

    /// Publishes what the turn has written: every tail, one fence, then the wakes.
    pub fn publish(&mut self, now: MonoNs) {
        self.published.clear();
        if self.dirty.is_empty() {
            return;
        }
        core::mem::swap(&mut self.published, &mut self.dirty);
        let dirty = core::mem::take(&mut self.published);
        for &slot in &dirty {
            self.with(slot, now, |session, _| session.publish_tail());
        }
        // Pairs with the client's fence between arming and its last look: one of the two sees
        // what the other wrote.
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        for &slot in &dirty {
            self.with(slot, now, |session, cx| session.tell(cx));
        }
        self.published = dirty;
    }

    /// The sessions for which the last [`Engine::publish`] had results.
    pub fn published(&self) -> &[u16] {
        &self.published
    }

    /// What is to be done, oldest first; taken out.
    pub fn effects(&mut self) -> impl Iterator<Item = Effect> + '_ {
        self.effects.drain(..)
    }

    /// The memory of a session.
    pub fn ports(&self, slot: u16) -> Option<&P> {
        self.sessions.get(slot as usize)?.as_ref().map(|session| &session.ports)
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Tickets outstanding in all sessions.
    pub fn outstanding(&self) -> u32 {
        self.accounts.tickets()
    }

    /// Tickets outstanding in one session.
    pub fn outstanding_of(&self, slot: u16) -> u32 {
        let session = self.sessions.get(slot as usize).and_then(Option::as_ref);
        session.map_or(0, |session| session.tickets.outstanding())
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
