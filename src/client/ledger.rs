//! What a session's threads share under one lock: the client's sides of both rings, the slots,
//! and who waits for what.
//!
//! What always holds, under the lock:
//! - Whoever holds it is the result ring's one consumer: [`Ledger::collect`] takes what is there,
//!   files it and hands the ring's entries back, in one step.
//! - A ticket has a slot before its entry is pushed, and its slot is held until its result was
//!   taken from the ring, so the session keeps within its credit without asking the daemon.
//! - Nobody is called and no bell is rung under the lock: [`Ledger::calls`] and [`Ledger::bell`]
//!   note what [`super::shared::Access`] does once it is free.
//! - While the session has no daemon (see [`super::renewal`]), tickets go into their slots and no
//!   further.

use std::collections::VecDeque;

use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::MonoNs;
use crate::proto::entry::{Op, SubmitEntry};
use crate::proto::layout::armed;
use crate::shm::control::ControlReader;
use crate::shm::region::{ReadWrite, Region};
use crate::shm::result_ring::ResultConsumer;
use crate::shm::ring::RingSizes;
use crate::shm::submit_ring::SubmitProducer;

use super::completion::Completion;
use super::driver::Driver;
use super::leader::Leadership;
use super::redeeming::lane_of;
use super::remembered::{Remembered, is_redeemed};
use super::renewal::{Link, Owed};
use super::slots::{Delivered, SlotId, Slots};
use super::socket_watch::SocketWatch;
use super::waiter::{Calls, Waiter};

/// Entries that may lie in the submission ring without the daemon having been woken for them.
const QUIET_MAX: u32 = 8;

/// What the daemon has to be told of the submission ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Telling {
    /// Nothing new.
    #[default]
    Nothing,
    /// There are entries, and none that it must see before it next ends a ticket of this session:
    /// after that it looks at the doorbell by itself.
    Quiet,
    /// There are entries that it must see now.
    Wake,
}

/// Results taken in one go.
const COLLECT_BATCH: usize = 256;

/// A ticket as it goes out: its entry (without `user_data`), and its tag where it has no owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) entry: SubmitEntry,
    pub(super) tag: Option<u64>,
}

/// The shared state of a session. See the file's head.
pub(super) struct Ledger {
    /// Where the rings lie.
    pub(super) rings: Region<ReadWrite>,
    pub(super) sizes: RingSizes,
    pub(super) control: ControlReader<Region<ReadWrite>>,
    pub(super) submit: SubmitProducer<Region<ReadWrite>>,
    pub(super) results: ResultConsumer<Region<ReadWrite>>,
    pub(super) slots: Slots,
    /// Who wants tagged results: a key to take the wish back with, and whom to call.
    pub(super) tag_watches: Vec<(u64, Waiter)>,
    pub(super) leadership: Leadership,
    pub(super) driver: Driver,
    /// What is to go into the submission ring as soon as it can, in order.
    pub(super) owed: VecDeque<Owed>,
    /// How the daemon was last asked to tell.
    pub(super) armed: u32,
    /// Until when a completion was last said to be imminent.
    pub(super) imminent: MonoNs,
    strays: u64,
    pub(super) ended: Option<Error>,
    keys: u64,
    /// Whom to call once the lock is free.
    pub(super) calls: Calls,
    /// What the daemon was not told of the submission ring.
    pub(super) bell: Telling,
    /// By lane: the ticket that was sent off last, and its target.
    last: Vec<Option<(SlotId, u64)>>,
    /// What a daemon that knows nothing has to be told.
    pub(super) remembered: Remembered,
    /// How the session stands with its daemon.
    pub(super) link: Link,
    /// Which connection `link` is about.
    pub(super) epoch: u32,
    /// Which life of the daemon serves the rings.
    pub(super) life: u32,
    /// Fds of tickets have to go to this life of the daemon.
    pub(super) resuming: bool,
    /// Whether another daemon may take the place of one that is gone.
    pub(super) renewable: bool,
    /// For event loops, where there are some: says that the connection hung up.
    pub(super) socket_watch: Option<SocketWatch>,
    /// A thread of the library sees to the link.
    pub(super) tended: bool,
    /// Another one looks for the connection's end.
    pub(super) watched: bool,
    /// Looks that found nothing, and when the socket was looked at for their sake.
    pub(super) looks: u32,
    pub(super) looked_at_socket: MonoNs,
}

impl Ledger {
    /// The ledger of a fresh session over its rings.
    ///
    /// # Errors
    /// As the rings' own constructors.
    pub(super) fn new(rings: Region<ReadWrite>, sizes: RingSizes) -> Result<Ledger> {
        let control = ControlReader::new(rings.clone())?;
        Ok(Ledger {
            submit: SubmitProducer::new(rings.clone(), sizes)?,
            results: ResultConsumer::new(rings.clone(), sizes)?,
            life: control.generation(),
            control,
            rings,
            sizes,
            slots: Slots::new(sizes.result()),
            tag_watches: Vec::new(),
            leadership: Leadership::default(),
            driver: Driver::default(),
            owed: VecDeque::new(),
            armed: armed::NOT,
            imminent: MonoNs(0),
            strays: 0,
            ended: None,
            keys: 0,
            calls: Calls::default(),
            bell: Telling::Nothing,
            last: Vec::new(),
            remembered: Remembered::default(),
            link: Link::Up,
            epoch: 0,
            resuming: false,
            renewable: false,
            socket_watch: None,
            tended: false,
            watched: false,
            looks: 0,
            looked_at_socket: MonoNs(0),
        })
    }

    /// Refuses what needs a living session.
    pub(super) fn live(&self) -> Result<()> {
        self.ended.clone().map_or(Ok(()), Err)
    }

    /// The session is over for this reason, unless it is already: calls everybody.
    pub(super) fn end(&mut self, error: Error) {
        if self.ended.is_none() {
            self.ended = Some(error);
            self.driver.tasks = 0;
            self.calls.wake.extend(self.slots.watchers());
            self.calls.wake.extend(self.tag_watches.drain(..).map(|(_, waiter)| waiter));
            self.calls.wake.extend(self.leadership.followers().cloned().map(Waiter::Thread));
            self.calls.rouse = Some(self.rings.clone());
        }
    }

    /// Results that named no outstanding ticket.
    pub(super) fn strays(&self) -> u64 {
        self.strays
    }

    /// A number that nobody else in the session has.
    pub(super) fn key(&mut self) -> u64 {
        self.keys += 1;
        self.keys
    }

    /// Takes the results that are there (at most a batch) and files them. Where there are none, it
    /// looks how the daemon stands.
    pub(super) fn collect(&mut self) {
        self.pay_owed();
        if self.take_results() == 0 && self.link != Link::Down {
            self.look_at_daemon();
        }
    }

    pub(super) fn take_results(&mut self) -> usize {
        let mut taken = 0;
        while taken < COLLECT_BATCH
            && let Some(entry) = self.results.next()
        {
            taken += 1;
            self.file(entry.user_data, Completion::from_entry(&entry));
        }
        if taken > 0 {
            self.results.advance();
        }
        taken
    }

    /// Files the result of the ticket that `user_data` names.
    pub(super) fn file(&mut self, user_data: u64, completion: Completion) {
        match self.slots.deliver(user_data, completion) {
            Delivered::Ticket(None) | Delivered::Dropped => {}
            Delivered::Ticket(Some(waiter)) => self.call(waiter),
            Delivered::Tagged => self.call_tag_watches(),
            Delivered::Stray => self.strays += 1,
        }
        if let Some(kept) = self.remembered.fds.remove(&SlotId::of(user_data)) {
            self.calls.close.push(kept.fd);
        }
    }

    /// Sends one ticket off.
    ///
    /// # Errors
    /// `CreditExceeded` where no slot is free or the submission ring is full; the session's end.
    pub(super) fn submit(&mut self, ticket: &Outgoing) -> Result<SlotId> {
        self.live()?;
        if self.slots.room() == 0 {
            self.collect();
        }
        let (id, telling) = self.push_ticket(ticket)?;
        self.publish(telling);
        Ok(id)
    }

    /// Sends tickets off, all or none. `opened` is told of each slot, in order.
    ///
    /// # Errors
    /// As [`Ledger::submit`].
    pub(super) fn submit_all(
        &mut self,
        tickets: &[Outgoing],
        mut opened: impl FnMut(SlotId),
    ) -> Result<()> {
        if tickets.len() > self.room()? as usize {
            self.collect();
        }
        let room = self.room()?;
        if tickets.len() > room as usize {
            return Err(self.no_credit(tickets.len(), room));
        }
        let mut telling = Telling::Nothing;
        for ticket in tickets {
            let (id, one) = self.push_ticket(ticket)?;
            telling = telling.max(one);
            opened(id);
        }
        self.publish(telling);
        Ok(())
    }

    fn push_ticket(&mut self, ticket: &Outgoing) -> Result<(SlotId, Telling)> {
        let waits = self.waits_for_its_lane(&ticket.entry)?;
        let Some(id) = self.slots.open(ticket.tag, &ticket.entry) else {
            return Err(self.no_credit(1, 0));
        };
        if waits {
            return Ok((id, Telling::Nothing));
        }
        if self.link != Link::Up {
            self.owe(Owed::Ticket(id));
            return Ok((id, Telling::Nothing));
        }
        let pushed = self.push(self.outgoing(id, &ticket.entry));
        if !matches!(pushed, Ok(true)) {
            self.slots.revoke(id);
        }
        if pushed? { Ok((id, self.telling(id, &ticket.entry))) } else { Err(self.no_credit(1, 0)) }
    }

    /// A ticket's entry as the daemon is to read it.
    pub(super) fn outgoing(&self, id: SlotId, entry: &SubmitEntry) -> SubmitEntry {
        let plan = self.remembered.wire_plan(entry.plan);
        let source = match lane_of(entry) {
            // An index that no lane has is refused.
            Some(lane) => self.remembered.wire_lane(lane).unwrap_or(lane),
            None => entry.source,
        };
        SubmitEntry { user_data: id.user_data(), plan, source, ..*entry }
    }

    /// What the daemon has to be told of a ticket that was pushed. One that waits behind another
    /// of its lane cannot complete before that one does, so the daemon need not wake for it.
    fn telling(&mut self, id: SlotId, entry: &SubmitEntry) -> Telling {
        if is_redeemed(entry.source) {
            return Telling::Wake;
        }
        let lane = entry.source as usize;
        if self.last.len() <= lane {
            self.last.resize(lane + 1, None);
        }
        let before = self.last[lane].replace((id, entry.target));
        let is_behind = before.is_some_and(|(before, target)| {
            // Less than half the range of either width, so that the order is theirs as well.
            let ahead = entry.target.wrapping_sub(target);
            ahead < 1 << 31 && self.slots.outstanding(before)
        });
        if !is_behind || entry.deadline_ns != 0 {
            return Telling::Wake;
        }
        match self.submit.in_flight() {
            Ok(waiting) if waiting <= QUIET_MAX => Telling::Quiet,
            _ => Telling::Wake,
        }
    }

    fn no_credit(&self, asked: usize, room: u32) -> Error {
        let entries = self.slots.entries();
        let text = format!("{asked} tickets asked for, {room} free of {entries}");
        Error::new(ErrorCode::CreditExceeded, text)
    }

    pub(super) fn publish(&mut self, telling: Telling) {
        self.submit.publish();
        self.bell = self.bell.max(telling);
    }

    /// Whether a result is there that nobody has taken.
    pub(super) fn has_result(&self) -> bool {
        self.results.ready()
    }

    /// Pushes an entry; false where the ring is full.
    pub(super) fn push(&mut self, entry: SubmitEntry) -> Result<bool> {
        match self.submit.push(&entry.to_words()) {
            Ok(position) => Ok(position.is_some()),
            Err(error) => {
                self.end(error.clone());
                Err(error)
            }
        }
    }

    /// Tickets that can go out now.
    ///
    /// # Errors
    /// As [`Ledger::ring_room`].
    pub(super) fn room(&mut self) -> Result<u32> {
        Ok(self.ring_room()?.min(self.slots.room()))
    }

    /// Entries that the submission ring can take now.
    ///
    /// # Errors
    /// The session's end, also where the daemon's head makes no sense.
    pub(super) fn ring_room(&mut self) -> Result<u32> {
        self.live()?;
        if self.link != Link::Up {
            // What does not go into the ring now has room in its slot.
            return Ok(self.submit.entries().max(self.slots.entries()));
        }
        match self.submit.in_flight() {
            Ok(in_flight) => Ok(self.submit.entries() - in_flight),
            Err(error) => {
                self.end(error.clone());
                Err(error)
            }
        }
    }

    /// Posts a device error on a lane, behind the tickets sent off before; false where the ring is
    /// full.
    ///
    /// # Errors
    /// The session's end.
    pub(super) fn fail(&mut self, lane: u32, code: u32) -> Result<bool> {
        self.live()?;
        if self.link == Link::Up && !self.push(fail_entry(lane, code))? {
            return Ok(false);
        }
        if let Some(kept) = self.remembered.lanes.get_mut(&lane) {
            kept.failed = Some(code);
        }
        match self.link {
            Link::Up => self.publish(Telling::Wake),
            _ => self.owe(Owed::Fail(lane, code)),
        }
        Ok(true)
    }

    /// Opens a slot for a ticket that goes out over the socket.
    ///
    /// # Errors
    /// `CreditExceeded`, the session's end.
    pub(super) fn open_slot(&mut self, entry: &SubmitEntry) -> Result<SlotId> {
        self.collect();
        self.live()?;
        self.slots.open(None, entry).ok_or_else(|| self.no_credit(1, 0))
    }

    /// Takes a slot back whose ticket the daemon did not take.
    pub(super) fn revoke_slot(&mut self, id: SlotId) {
        self.slots.revoke(id);
    }

    /// Files the result of a tagged ticket that needed no daemon. False where no slot is free, or
    /// where a thread sleeps on the ring for tagged results: only the ring wakes that one.
    pub(super) fn land_tagged(&mut self, tag: u64, completion: Completion) -> bool {
        if self.leadership.leads_for_tags() {
            return false;
        }
        let Some(id) = self.slots.open(Some(tag), &SubmitEntry::default()) else { return false };
        self.slots.deliver(id.user_data(), completion);
        self.call_tag_watches();
        true
    }

    /// Asks the daemon to end a ticket.
    pub(super) fn cancel(&mut self, id: SlotId) {
        if self.ended.is_none() {
            self.slots.cancel(id);
            if !self.cancel_at_home(id) {
                self.owe(Owed::Cancel(id));
                self.pay_owed();
            }
        }
    }

    /// The ticket's result, if it is here; its slot is free then.
    pub(super) fn take(&mut self, id: SlotId) -> Option<Completion> {
        self.slots.take(id)
    }

    /// Whether the ticket's result is here.
    pub(super) fn has_ended(&self, id: SlotId) -> bool {
        self.slots.ended(id)
    }

    /// The oldest tagged result.
    pub(super) fn take_tagged(&mut self) -> Option<(u64, Completion)> {
        self.slots.take_tagged()
    }

    /// Tagged tickets whose result nobody has taken.
    pub(super) fn tagged(&self) -> u32 {
        self.slots.tagged()
    }

    /// The ticket's owner goes. True where its result is still to come.
    pub(super) fn abandon(&mut self, id: SlotId) -> bool {
        self.unwatch(id);
        self.slots.abandon(id)
    }
}

/// The entry that posts a device error.
pub(super) fn fail_entry(lane: u32, code: u32) -> SubmitEntry {
    let (op, target) = (Op::Fail as u8, u64::from(code));
    SubmitEntry { op, source: lane, target, ..SubmitEntry::default() }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
