//! Who is to be called when something ended, and how the daemon is asked to tell of it.

use super::ledger::Ledger;
use super::slots::SlotId;
use super::waiter::Waiter;
use crate::core::time::MonoNs;
use crate::proto::layout::armed;
use crate::shm::region::{ReadWrite, Region};

/// A result tail to sleep on, kept mapped for as long as somebody may.
#[derive(Debug)]
pub(super) struct Tail {
    /// The rings that it is a word of.
    pub(super) rings: Region<ReadWrite>,
    /// Its value when nothing was there.
    pub(super) seen: u32,
}

impl Ledger {
    pub(super) fn call(&mut self, waiter: Waiter) {
        self.driver.tasks -= usize::from(waiter.is_task());
        self.calls.wake.push(waiter);
    }

    pub(super) fn call_tag_watches(&mut self) {
        while let Some((_, waiter)) = self.tag_watches.pop() {
            self.call(waiter);
        }
    }

    /// Calls `waiter` when the ticket ends, in place of whom it called until now.
    pub(super) fn watch(&mut self, id: SlotId, waiter: Waiter) {
        self.driver.tasks += usize::from(waiter.is_task());
        let old = self.slots.watch(id, Some(waiter));
        self.discard(old);
    }

    /// Calls nobody when the ticket ends.
    pub(super) fn unwatch(&mut self, id: SlotId) {
        let old = self.slots.watch(id, None);
        self.discard(old);
    }

    /// Calls `waiter` at the next tagged result. `key` takes the wish back.
    pub(super) fn watch_tags(&mut self, key: u64, waiter: Waiter) {
        self.unwatch_tags(key);
        self.driver.tasks += usize::from(waiter.is_task());
        self.tag_watches.push((key, waiter));
    }

    /// Takes the wish under `key` back.
    pub(super) fn unwatch_tags(&mut self, key: u64) {
        if let Some(at) = self.tag_watches.iter().position(|(k, _)| *k == key) {
            let (_, old) = self.tag_watches.swap_remove(at);
            self.discard(Some(old));
        }
    }

    fn discard(&mut self, waiter: Option<Waiter>) {
        if let Some(waiter) = waiter {
            self.driver.tasks -= usize::from(waiter.is_task());
            self.calls.drop.push(waiter);
        }
    }

    /// Asks to be told by these means too, and answers the tail to sleep on: none where a result
    /// is there already.
    pub(super) fn arm(&mut self, how: u32) -> Option<Tail> {
        self.armed |= how;
        let seen = self.results.arm(self.armed);
        (!self.results.ready()).then(|| Tail { rings: self.rings.clone(), seen })
    }

    /// Until when a completion is awaited any moment, if it is; answered once. Look here after
    /// [`Ledger::arm`].
    pub(super) fn imminent(&mut self, now: MonoNs) -> Option<MonoNs> {
        let until = MonoNs(self.results.announced());
        let news = std::mem::replace(&mut self.imminent, until) != until;
        (news && now < until).then_some(until)
    }

    /// Whether the daemon was asked to tell by these means.
    pub(super) fn is_armed(&self, how: u32) -> bool {
        self.armed & how == how
    }

    /// Takes a wish to be told back.
    pub(super) fn disarm(&mut self, how: u32) {
        self.armed &= !how;
        match self.armed {
            armed::NOT => self.results.disarm(),
            rest => {
                self.results.arm(rest);
            }
        }
    }
}
