//! What FILL keeps of each session beside the engine: its bells, its eventfds, its tickets' fds.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use super::doorbell::Doorbell;
use super::ticket_fds::TicketFds;
use super::token::Who;
use crate::core::time::MonoNs;
use crate::daemon::command::{Leftovers, Seat};
use crate::proto::limits::SESSIONS_MAX;

/// A bell of a session that FILL reads.
#[derive(Clone, Copy, Debug)]
pub struct BellWatch {
    /// Its number: 0 the doorbell, `1 + d` device `d`.
    pub bell: u32,
    /// Its count as last read.
    pub seen: u32,
    /// Whether the kernel waits on it for us.
    pub armed: bool,
}

/// A session.
pub struct Seated {
    pub seat: Seat,
    pub bells: Vec<BellWatch>,
    notify: OwnedFd,
    bell: Option<OwnedFd>,
    /// Whether the kernel watches `bell` for us.
    pub bell_armed: bool,
    /// A write to `notify` is in flight.
    pub ringing: bool,
    /// Another one is wanted after it.
    pub ring_again: bool,
    /// What its task listens to.
    pub doorbell: Rc<Doorbell>,
    /// Bell events in the present second, which began at `second`.
    pub rings: u32,
    pub second: MonoNs,
    /// Its bells ring too often and are not armed.
    pub muted: bool,
    /// What its fd tickets wait for.
    pub fds: TicketFds,
}

impl Seated {
    pub fn who(&self) -> Who {
        Who::new(self.seat.slot, self.seat.serial)
    }

    pub fn notify_fd(&self) -> RawFd {
        self.notify.as_raw_fd()
    }

    pub fn bell_fd(&self) -> Option<RawFd> {
        self.bell.as_ref().map(AsRawFd::as_raw_fd)
    }
}

/// All of them, by slot.
pub struct Seats {
    seats: Vec<Option<Box<Seated>>>,
    taken: Vec<u16>,
}

impl Seats {
    pub fn new() -> Seats {
        Seats {
            seats: (0..SESSIONS_MAX).map(|_| None).collect(),
            taken: Vec::with_capacity(SESSIONS_MAX as usize),
        }
    }

    /// Gives a session its seat.
    pub fn take(&mut self, seat: Seat, notify: OwnedFd, bell: Option<OwnedFd>) {
        let doorbell = BellWatch { bell: 0, seen: 0, armed: false };
        let mut bells = Vec::with_capacity(2);
        bells.push(doorbell);
        self.seats[seat.slot as usize] = Some(Box::new(Seated {
            seat,
            bells,
            notify,
            bell,
            bell_armed: false,
            ringing: false,
            ring_again: false,
            doorbell: Rc::default(),
            rings: 0,
            second: MonoNs(0),
            muted: false,
            fds: TicketFds::default(),
        }));
        self.taken.push(seat.slot);
    }

    /// Takes a session's seat away and answers what was in it.
    pub fn leave(&mut self, seat: Seat) -> Option<Leftovers> {
        self.seated(seat)?;
        let gone = self.seats[seat.slot as usize].take()?;
        gone.doorbell.leave();
        self.taken.retain(|&slot| slot != seat.slot);
        let mut left = Leftovers::default();
        left.eventfds.push(gone.notify);
        left.eventfds.extend(gone.bell);
        left.fds.extend(gone.fds.into_fds());
        Some(left)
    }

    /// The slots that are taken.
    pub fn taken(&self) -> &[u16] {
        &self.taken
    }

    /// The session in a slot.
    pub fn at(&mut self, slot: u16) -> Option<&mut Seated> {
        self.seats.get_mut(slot as usize)?.as_deref_mut()
    }

    /// The session of this seat, if it still has it.
    pub fn seated(&mut self, seat: Seat) -> Option<&mut Seated> {
        self.at(seat.slot).filter(|seated| seated.seat == seat)
    }

    /// The session that a token names, if it still has its seat.
    pub fn who(&mut self, who: Who) -> Option<&mut Seated> {
        self.at(who.slot).filter(|seated| seated.who() == who)
    }
}
