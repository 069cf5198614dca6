//! What all handles of one session share, and the way to its ledger.
//!
//! A session's memory outlives every handle that reads or writes it: lanes, tickets and producers
//! in this process hold it through [`Shared`]. The last handle ends the session in order. A forked
//! child shares the pages, not the session: [`Shared::open`] refuses it before it takes the lock,
//! which the fork may have copied while a thread of the parent held it.

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::Shutdown;

use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::DurNs;
use crate::host::fork::Home;
use crate::host::futex::{self, FutexAddr};
use crate::proto::layout::rings;
use crate::proto::message::Opcode;
use crate::shm::bells::{Bell, Ring};
use crate::shm::lanes::{LanesView, LanesWriter};
use crate::shm::region::{ReadOnly, ReadWrite, Region};
use crate::shm::ring::RingSizes;
use crate::shm::status::StatusReader;
use crate::shm::words::ReadWords;

use super::ledger::{Ledger, Telling};
use super::waiter::Calls;
use super::wire::Wire;

/// The fds of a session, as WELCOME brings them.
#[derive(Debug)]
pub(super) struct Fds {
    pub(super) lanes: OwnedFd,
    pub(super) status: OwnedFd,
    pub(super) events: OwnedFd,
    /// Where bells are rung through an eventfd.
    pub(super) bell: Option<OwnedFd>,
}

/// The memory of a session, mapped and checked.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) rings: Region<ReadWrite>,
    pub(super) sizes: RingSizes,
    pub(super) lanes: Region<ReadWrite>,
    pub(super) lane_count: u32,
    pub(super) status: Region<ReadOnly>,
}

/// A session's bell, as this process rings it.
pub(super) type SessionBell = Bell<Region<ReadWrite>, Region<ReadOnly>>;

/// A connected session.
pub(super) struct Shared {
    home: Home,
    wire: Wire,
    ledger: Mutex<Ledger>,
    memory: Memory,
    lanes: LanesView<Region<ReadWrite>>,
    lanes_writer: LanesWriter<Region<ReadWrite>>,
    status: StatusReader<Region<ReadOnly>>,
    doorbell: SessionBell,
    fds: Fds,
    number: u32,
    look_at_socket: DurNs,
    /// Lanes whose last handle is gone: closed before the next is opened.
    idle_lanes: Mutex<Vec<u32>>,
}

impl Shared {
    /// A session that said HELLO over `wire` and got these.
    pub(super) fn new(
        wire: Wire,
        number: u32,
        memory: Memory,
        fds: Fds,
        look_at_socket: DurNs,
    ) -> Result<Shared> {
        let ledger = Ledger::new(memory.rings.clone(), memory.sizes)?;
        Ok(Shared {
            home: Home::here(),
            wire,
            ledger: Mutex::new(ledger),
            lanes: LanesView::new(memory.lanes.clone(), memory.lane_count)?,
            lanes_writer: LanesWriter::new(memory.lanes.clone(), memory.lane_count)?,
            status: StatusReader::new(memory.status.clone())?,
            doorbell: Bell::new(memory.lanes.clone(), memory.status.clone(), 0)?,
            memory,
            fds,
            number,
            look_at_socket,
            idle_lanes: Mutex::default(),
        })
    }

    /// Refuses a forked child.
    pub(super) fn at_home(&self) -> Result<()> {
        if self.home.is_here() {
            return Ok(());
        }
        let text = format!("this session belongs to process {}", self.home.pid());
        Err(Error::new(ErrorCode::Forked, text))
    }

    /// The ledger, for a moment.
    ///
    /// # Errors
    /// `Forked`.
    pub(super) fn open(&self) -> Result<Access<'_>> {
        self.at_home()?;
        Ok(self.reopen())
    }

    /// The ledger again, for a thread that had it before.
    pub(super) fn reopen(&self) -> Access<'_> {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        Access { ledger, after: After { shared: self, calls: Calls::default(), wake: false } }
    }

    pub(super) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(super) fn lanes(&self) -> &LanesView<Region<ReadWrite>> {
        &self.lanes
    }

    pub(super) fn lanes_writer(&self) -> &LanesWriter<Region<ReadWrite>> {
        &self.lanes_writer
    }

    pub(super) fn status(&self) -> &StatusReader<Region<ReadOnly>> {
        &self.status
    }

    pub(super) fn sizes(&self) -> RingSizes {
        self.memory.sizes
    }

    /// The bell of this number.
    pub(super) fn bell(&self, number: u32) -> Result<SessionBell> {
        Bell::new(self.memory.lanes.clone(), self.memory.status.clone(), number)
    }

    pub(super) fn fds(&self) -> &Fds {
        &self.fds
    }

    /// The session's number at the daemon.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The longest sleep of a waiting thread between two looks at the socket.
    pub(super) fn look_at_socket(&self) -> DurNs {
        self.look_at_socket
    }

    pub(super) fn idle_lanes(&self) -> MutexGuard<'_, Vec<u32>> {
        self.idle_lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The futex word of a thread that waits for results.
    pub(super) fn result_tail(&self) -> FutexAddr {
        FutexAddr::new(self.memory.rings.address(rings::RESULT_TAIL))
    }

    /// Rings a bell, and wakes the daemon where it sleeps.
    pub(super) fn ring(&self, bell: &SessionBell) {
        if bell.ring() == Ring::Awake {
            return;
        }
        // Neither can fail but for a daemon that is gone, which waiting finds out.
        match &self.fds.bell {
            None => drop(futex::wake_one(FutexAddr::new(bell.address()))),
            Some(bell) => drop(rustix::io::write(bell, &1u64.to_ne_bytes())),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let ledger = self.ledger.get_mut().unwrap_or_else(PoisonError::into_inner);
        ledger.driver.stop();
        if self.home.is_here() {
            if ledger.live().is_ok() {
                self.wire.last_words(Opcode::Bye);
            }
            // Forked children hold the socket too: closing it here would not end the session.
            let _ = rustix::net::shutdown(self.wire.as_fd(), Shutdown::Both);
        }
    }
}

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

/// The locked ledger. Dropping it unlocks, then rings and calls what the ledger notes.
pub(super) struct Access<'a> {
    // Unlocks first: fields are dropped in this order.
    ledger: MutexGuard<'a, Ledger>,
    after: After<'a>,
}

/// What is done once the lock is free.
struct After<'a> {
    shared: &'a Shared,
    calls: Calls,
    wake: bool,
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        self.after.calls = std::mem::take(&mut self.ledger.calls);
        self.after.wake = match std::mem::take(&mut self.ledger.bell) {
            Telling::Nothing => false,
            Telling::Wake => true,
            // The bell's fence stands between our entry and this look at the results, the daemon's
            // between its results and its look at the bell: where the ticket ahead has ended and
            // the daemon has gone to sleep without seeing our entry, its result is here.
            Telling::Quiet => {
                self.after.shared.doorbell.ring() == Ring::MustWake && self.ledger.has_result()
            }
        };
    }
}

impl Drop for After<'_> {
    fn drop(&mut self) {
        if self.wake {
            self.shared.ring(&self.shared.doorbell);
        }
        self.calls.make();
    }
}

impl Access<'_> {
    /// Calls the first follower, who may lead now.
    pub(super) fn call_heir(&mut self) {
        let heir = self.leadership.followers().next().cloned();
        self.calls.wake.extend(heir.map(super::waiter::Waiter::Thread));
    }
}

impl Deref for Access<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        &self.ledger
    }
}

impl DerefMut for Access<'_> {
    fn deref_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}
