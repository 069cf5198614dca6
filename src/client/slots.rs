//! A slot for every ticket between its submission and the moment its owner takes the result.
//!
//! A ticket's `user_data` is its slot's index and the slot's *generation*, which rises whenever
//! the slot is freed: a result that comes for an earlier ticket of the slot is told apart and
//! dropped. A *tagged* ticket has no owner: its result queues, with the user's tag, for whoever
//! asks next. What always holds: *held* counts the tickets that are outstanding on the wire and
//! the tagged results that nobody has taken, and is never above the result ring's entries, so the
//! ring cannot overflow. A result that waits in its ticket's slot is its owner's to keep. A slot
//! keeps its ticket's entry, for a daemon that has to be told again.

use super::completion::Completion;
use super::waiter::Waiter;
use crate::proto::entry::SubmitEntry;

const NONE: u32 = u32::MAX;

/// A slot in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SlotId {
    index: u32,
    generation: u32,
}

impl SlotId {
    /// The ticket's name on the wire.
    pub(super) const fn user_data(self) -> u64 {
        self.index as u64 | (self.generation as u64) << 32
    }

    pub(super) const fn of(user_data: u64) -> SlotId {
        SlotId { index: user_data as u32, generation: (user_data >> 32) as u32 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// A ticket's, without a result yet.
    Outstanding,
    /// A tagged ticket's, without a result yet.
    Tagged,
    /// Its owner is gone: the result, when it comes, frees it.
    Abandoned,
    /// The result is here for its owner.
    Ended(Completion),
    /// The result of a tagged ticket is in the queue.
    Queued(Completion),
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    /// The next of the free slots, or of the ended tagged ones.
    next: u32,
    tag: u64,
    state: State,
    waiter: Option<Waiter>,
    /// The ticket as it went out, without its name.
    entry: SubmitEntry,
    /// Its end was asked for.
    cancelled: bool,
}

/// A ticket whose result is still to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToCome {
    pub(super) id: SlotId,
    pub(super) entry: SubmitEntry,
    pub(super) cancelled: bool,
    /// Nobody waits for it any more.
    pub(super) abandoned: bool,
}

impl Slot {
    fn is_to_come(&self) -> bool {
        matches!(self.state, State::Outstanding | State::Tagged | State::Abandoned)
    }

    fn fresh() -> Slot {
        Slot {
            generation: 1,
            next: NONE,
            tag: 0,
            state: State::Free,
            waiter: None,
            entry: SubmitEntry::default(),
            cancelled: false,
        }
    }
}

/// What a result led to.
#[derive(Debug)]
pub(super) enum Delivered {
    /// A ticket has its result; its owner waits like this.
    Ticket(Option<Waiter>),
    /// A tagged result queues.
    Tagged,
    /// Nobody wanted it any more.
    Dropped,
    /// It names no outstanding ticket: the daemon sent one twice.
    Stray,
}

/// A session's slots.
#[derive(Debug)]
pub(super) struct Slots {
    // Capacity for `entries` is reserved at the start: more are only there where owners keep ended
    // tickets.
    slots: Vec<Slot>,
    entries: u32,
    held: u32,
    free: u32,
    ended_first: u32,
    ended_last: u32,
    tagged: u32,
}

impl Slots {
    /// Slots for a result ring of this many entries.
    pub(super) fn new(entries: u32) -> Slots {
        Slots {
            slots: Vec::with_capacity(entries as usize),
            entries,
            held: 0,
            free: NONE,
            ended_first: NONE,
            ended_last: NONE,
            tagged: 0,
        }
    }

    /// Slots that can be held.
    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    /// Slots that can be opened.
    pub(super) fn room(&self) -> u32 {
        self.entries - self.held
    }

    /// Tagged tickets without a result, or with one that nobody has taken.
    pub(super) fn tagged(&self) -> u32 {
        self.tagged
    }

    /// Opens a slot, for a tagged ticket where there is a tag. None where all are held.
    pub(super) fn open(&mut self, tag: Option<u64>, entry: &SubmitEntry) -> Option<SlotId> {
        if self.room() == 0 {
            return None;
        }
        let index = match self.free {
            NONE => {
                self.slots.push(Slot::fresh());
                self.slots.len() as u32 - 1
            }
            index => index,
        };
        let slot = self.slots.get_mut(index as usize)?;
        self.free = std::mem::replace(&mut slot.next, NONE);
        slot.tag = tag.unwrap_or(0);
        slot.entry = *entry;
        slot.cancelled = false;
        slot.state = if tag.is_some() { State::Tagged } else { State::Outstanding };
        self.held += 1;
        self.tagged += u32::from(tag.is_some());
        Some(SlotId { index, generation: slot.generation })
    }

    /// Files the result of the ticket that `user_data` names.
    pub(super) fn deliver(&mut self, user_data: u64, completion: Completion) -> Delivered {
        let id = SlotId::of(user_data);
        let Some(slot) = self.slot(id) else { return Delivered::Stray };
        match slot.state {
            State::Outstanding => {
                slot.state = State::Ended(completion);
                let waiter = slot.waiter.take();
                self.held -= 1;
                Delivered::Ticket(waiter)
            }
            State::Tagged => {
                slot.state = State::Queued(completion);
                self.queue(id.index);
                Delivered::Tagged
            }
            State::Abandoned => {
                self.release(id);
                Delivered::Dropped
            }
            State::Free | State::Ended(_) | State::Queued(_) => Delivered::Stray,
        }
    }

    /// The ticket's result, if it is here; the slot is free then.
    pub(super) fn take(&mut self, id: SlotId) -> Option<Completion> {
        let State::Ended(completion) = self.slot(id)?.state else { return None };
        self.release(id);
        Some(completion)
    }

    /// Whether the ticket's result is here.
    pub(super) fn ended(&self, id: SlotId) -> bool {
        let slot = self.slots.get(id.index as usize);
        slot.is_some_and(|s| s.generation == id.generation && matches!(s.state, State::Ended(_)))
    }

    /// The oldest tagged result, with its tag.
    pub(super) fn take_tagged(&mut self) -> Option<(u64, Completion)> {
        let index = self.ended_first;
        let slot = self.slots.get_mut(index as usize)?;
        let State::Queued(completion) = slot.state else { return None };
        let (tag, id) = (slot.tag, SlotId { index, generation: slot.generation });
        self.ended_first = std::mem::replace(&mut slot.next, NONE);
        if self.ended_first == NONE {
            self.ended_last = NONE;
        }
        self.tagged -= 1;
        self.release(id);
        Some((tag, completion))
    }

    /// Whether the ticket's result is still to come.
    pub(super) fn outstanding(&self, id: SlotId) -> bool {
        self.entry(id).is_some()
    }

    /// The entry of a ticket whose result is still to come.
    pub(super) fn entry(&self, id: SlotId) -> Option<&SubmitEntry> {
        let slot = self.slots.get(id.index as usize)?;
        (slot.generation == id.generation && slot.is_to_come()).then_some(&slot.entry)
    }

    /// All tickets whose results are still to come.
    pub(super) fn to_come(&self) -> impl Iterator<Item = ToCome> {
        let numbered = self.slots.iter().zip(0..).filter(|(slot, _)| slot.is_to_come());
        numbered.map(|(slot, index)| ToCome {
            id: SlotId { index, generation: slot.generation },
            entry: slot.entry,
            cancelled: slot.cancelled,
            abandoned: slot.state == State::Abandoned,
        })
    }

    /// Notes that the ticket's end was asked for.
    pub(super) fn cancel(&mut self, id: SlotId) {
        if let Some(slot) = self.slot(id) {
            slot.cancelled = true;
        }
    }

    /// The owner goes. True where the result is still to come.
    pub(super) fn abandon(&mut self, id: SlotId) -> bool {
        let Some(slot) = self.slot(id) else { return false };
        match slot.state {
            State::Outstanding => {
                slot.state = State::Abandoned;
                true
            }
            State::Ended(_) => {
                self.release(id);
                false
            }
            _ => false,
        }
    }

    /// Takes back a slot whose ticket never went out.
    pub(super) fn revoke(&mut self, id: SlotId) {
        if let Some(slot) = self.slot(id) {
            let tagged = slot.state == State::Tagged;
            self.tagged -= u32::from(tagged);
            self.release(id);
        }
    }

    /// Whom to call for the ticket from now on; answers whom until now.
    pub(super) fn watch(&mut self, id: SlotId, waiter: Option<Waiter>) -> Option<Waiter> {
        match self.slot(id) {
            Some(slot) => std::mem::replace(&mut slot.waiter, waiter),
            None => waiter,
        }
    }

    /// Everybody to call for any ticket, once.
    pub(super) fn watchers(&mut self) -> impl Iterator<Item = Waiter> {
        self.slots.iter_mut().filter_map(|slot| slot.waiter.take())
    }

    fn slot(&mut self, id: SlotId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.index as usize)?;
        (slot.generation == id.generation && slot.state != State::Free).then_some(slot)
    }

    fn queue(&mut self, index: u32) {
        match self.slots.get_mut(self.ended_last as usize) {
            Some(last) => last.next = index,
            None => self.ended_first = index,
        }
        self.ended_last = index;
    }

    fn release(&mut self, id: SlotId) {
        let free = self.free;
        let Some(slot) = self.slot(id) else { return };
        debug_assert!(slot.waiter.is_none(), "a slot is freed with nobody to call");
        let held = !matches!(slot.state, State::Ended(_));
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        slot.next = free;
        self.free = id.index;
        self.held -= u32::from(held);
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
