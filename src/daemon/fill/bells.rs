//! Reading bells, and having the kernel wait on them.
//!
//! A bell that moved is always acted on by its count, never by the event alone: events come late
//! and twice. A bell is *armed* while a wait of the kernel's stands on it; it is armed with the
//! count that was acted on, so that a ring in between ends the wait at once.
//!
//! A client can wake a word through a read-only mapping as often as it likes. One whose bells ring
//! more than `SESSION_RINGS_PER_SECOND_MAX` times in a second is *muted* until the second is over:
//! its bells are not armed, and are read at least every park instead. So are, for as long as they
//! last, sessions whose bells are futexes where those cannot be relied on.

use std::io;

use super::Fill;
use super::seats::Seated;
use super::token::{Named, Who};
use crate::core::time::{DurNs, MonoNs};
use crate::host::fill::{FillHost, Watch};
use crate::proto::limits::SESSION_RINGS_PER_SECOND_MAX;

const SECOND: DurNs = DurNs(1_000_000_000);

/// Sessions to come back to: those with a bell to arm, and the muted ones.
#[derive(Default)]
pub struct Owed {
    /// Slots with bells that are not armed; each at most a few times.
    unarmed: Vec<u16>,
    muted: Vec<u16>,
}

impl Owed {
    /// Whether any session is muted.
    pub fn any_muted(&self) -> bool {
        !self.muted.is_empty()
    }

    /// A session has bells to arm.
    pub fn arm(&mut self, slot: u16) {
        if self.unarmed.last() != Some(&slot) {
            self.unarmed.push(slot);
        }
    }
}

impl<H: FillHost> Fill<H> {
    /// Reads every bell and acts on those that moved; `true` when any did.
    pub(super) fn read_bells(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.seats.taken().len() {
            let slot = self.seats.taken()[at];
            any |= self.read_bells_of(slot);
        }
        any
    }

    /// Reads a session's bells and acts on those that moved; `true` when any did.
    pub(super) fn read_bells_of(&mut self, slot: u16) -> bool {
        let Some(seated) = self.seats.at(slot) else { return false };
        let Some(memory) = self.engine.ports(slot) else { return false };
        let (mut doorbell, mut devices) = (false, 0u64);
        for watch in &mut seated.bells {
            if let Some(count) = memory.bells.moved(watch.bell, watch.seen) {
                watch.seen = count;
                match watch.bell {
                    0 => doorbell = true,
                    bell => devices |= 1 << (bell - 1),
                }
            }
        }
        if doorbell {
            seated.doorbell.ring();
        }
        for device in (0..u64::BITS).filter(|device| devices & 1 << device != 0) {
            self.engine.look(slot, Some(device), self.now);
        }
        doorbell || devices != 0
    }

    /// Reads the bells of muted sessions, and lets those be heard again whose second is over.
    pub(super) fn read_muted(&mut self) {
        for at in (0..self.owed.muted.len()).rev() {
            let slot = self.owed.muted[at];
            self.read_bells_of(slot);
            let over = match self.seats.at(slot) {
                Some(seated) => self.now.since(seated.second) >= SECOND,
                None => true,
            };
            if over {
                self.owed.muted.swap_remove(at);
                if let Some(seated) = self.seats.at(slot) {
                    seated.muted = false;
                    self.owed.arm(slot);
                }
            }
        }
    }

    /// Mutes a session for good whose bells this host cannot watch, or not rely on, and which were
    /// made futexes before that was so.
    pub(super) fn hear_of(&mut self, slot: u16) {
        let Some(seated) = self.seats.at(slot) else { return };
        if seated.bell_fd().is_none() && !self.words {
            seated.second = MonoNs::MAX;
            if !std::mem::replace(&mut seated.muted, true) {
                self.owed.muted.push(slot);
            }
        }
    }

    /// Futex wakes are in doubt from now on: the waits that stand may be woken or not.
    pub(super) fn doubt_words(&mut self) {
        self.words = false;
        for at in 0..self.seats.taken().len() {
            self.hear_of(self.seats.taken()[at]);
        }
    }

    /// A bell's word moved, or its wait was woken for nothing.
    pub(super) fn bell_event(&mut self, who: Who, bell: u32) -> io::Result<()> {
        let Some(seated) = self.seats.who(who) else { return Ok(()) };
        if let Some(watch) = seated.bells.iter_mut().find(|watch| watch.bell == bell) {
            watch.armed = false;
        }
        self.rang(who.slot)
    }

    /// A session's bell eventfd was written, or the kernel has dropped its watch (`lost`).
    pub(super) fn bell_eventfd_event(&mut self, who: Who, lost: bool) -> io::Result<()> {
        let Some(seated) = self.seats.who(who) else { return Ok(()) };
        seated.bell_armed &= !lost;
        self.rang(who.slot)
    }

    /// Counts a bell event, mutes a session that has too many, and reads its bells.
    fn rang(&mut self, slot: u16) -> io::Result<()> {
        let now = self.now;
        let Some(seated) = self.seats.at(slot) else { return Ok(()) };
        if count_ring(seated, now) && !std::mem::replace(&mut seated.muted, true) {
            self.owed.muted.push(slot);
            if std::mem::take(&mut seated.bell_armed) {
                let token = Named::BellEventfd(seated.who()).token();
                self.host.cancel(Watch::Eventfd, token)?;
            }
        }
        if !seated.bell_armed {
            self.owed.arm(slot);
        }
        self.read_bells_of(slot);
        Ok(())
    }

    /// Has the kernel watch every bell that it does not: an eventfd stands for all bells of its
    /// session.
    pub(super) fn watch_bells(&mut self) -> io::Result<()> {
        while let Some(slot) = self.owed.unarmed.pop() {
            let Some(seated) = self.seats.at(slot).filter(|seated| !seated.muted) else { continue };
            let Some(memory) = self.engine.ports(slot) else { continue };
            let who = seated.who();
            if let Some(fd) = seated.bell_fd() {
                if !std::mem::replace(&mut seated.bell_armed, true) {
                    self.host.watch_eventfd(Named::BellEventfd(who).token(), fd)?;
                }
                continue;
            }
            for watch in seated.bells.iter_mut().filter(|watch| !watch.armed) {
                let token = Named::Bell(who, watch.bell).token();
                self.host.watch_word(token, memory.bell_futex(watch.bell), watch.seen)?;
                watch.armed = true;
            }
        }
        Ok(())
    }

    /// Takes the waits on a session's bells back.
    pub(super) fn forget_bells(&mut self, slot: u16) -> io::Result<()> {
        let Some(seated) = self.seats.at(slot) else { return Ok(()) };
        let who = seated.who();
        if seated.bell_armed {
            self.host.cancel(Watch::Eventfd, Named::BellEventfd(who).token())?;
        }
        for watch in seated.bells.iter().filter(|watch| watch.armed) {
            self.host.cancel(Watch::Word, Named::Bell(who, watch.bell).token())?;
        }
        self.owed.muted.retain(|&muted| muted != slot);
        Ok(())
    }
}

/// Counts a bell event; `true` when there were too many in this second.
fn count_ring(seated: &mut Seated, now: MonoNs) -> bool {
    if now.since(seated.second) >= SECOND {
        seated.second = now;
        seated.rings = 0;
    }
    seated.rings += 1;
    seated.rings > SESSION_RINGS_PER_SECOND_MAX
}
