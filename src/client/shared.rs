//! What all handles of one session share, and the way to its ledger.
//!
//! A session's memory outlives every handle that reads or writes it: lanes, tickets and producers
//! in this process hold it through [`Shared`]. The last handle ends the session in order. A forked
//! child shares the pages, not the session: [`Shared::open`] refuses it before it takes the lock,
//! which the fork may have copied while a thread of the parent held it.

use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::DurNs;
use crate::host::fork::Home;
use crate::proto::message::Opcode;
use crate::shm::bells::{Bell, Ring};
use crate::shm::lanes::{LanesView, LanesWriter};
use crate::shm::region::{ReadOnly, ReadWrite, Region};
use crate::shm::ring::RingSizes;
use crate::shm::status::StatusReader;

use super::connect::Way;
use super::ledger::{Ledger, Telling};
use super::page::{Page, Present};
use super::renewal::Link;
use super::tending;
use super::waiter::{Calls, Waiter};
use super::wire::Wire;

/// The fds of a session that stay while it lasts.
#[derive(Debug)]
pub(super) struct Fds {
    pub(super) lanes: OwnedFd,
    pub(super) events: OwnedFd,
}

/// What WELCOME brought, mapped and checked.
#[derive(Debug)]
pub(super) struct Arrived {
    /// The session's number at the daemon.
    pub(super) number: u32,
    pub(super) rings: Region<ReadWrite>,
    pub(super) sizes: RingSizes,
    pub(super) lanes: Region<ReadWrite>,
    pub(super) lane_count: u32,
    pub(super) page: Region<ReadOnly>,
    pub(super) status: OwnedFd,
    pub(super) bell: Option<Arc<OwnedFd>>,
    pub(super) fds: Fds,
}

/// A session's bell, as this process rings it.
pub(super) type SessionBell = Bell<Region<ReadWrite>, Page>;

/// A connected session.
pub(super) struct Shared {
    home: Home,
    wire: Wire,
    ledger: Mutex<Ledger>,
    /// Called when the link is up again, and at the session's end.
    link_changed: Condvar,
    lanes_memory: Region<ReadWrite>,
    lanes: LanesView<Region<ReadWrite>>,
    lanes_writer: LanesWriter<Region<ReadWrite>>,
    page: Page,
    status: StatusReader<Page>,
    doorbell: SessionBell,
    fds: Fds,
    number: AtomicU32,
    sizes: RingSizes,
    way: Way,
    look_at_socket: DurNs,
    /// Lanes whose last handle is gone: closed before the next is opened.
    idle_lanes: Mutex<Vec<u32>>,
    me: OnceLock<Weak<Shared>>,
}

impl Shared {
    /// A session that said HELLO over `wire` and got this. `way` leads to another daemon.
    pub(super) fn new(
        wire: Wire,
        arrived: Arrived,
        way: Way,
        look_at_socket: DurNs,
    ) -> Result<Arc<Shared>> {
        let Arrived { rings, sizes, lanes, lane_count, page, status, bell, .. } = arrived;
        let mut ledger = Ledger::new(rings, sizes)?;
        ledger.renewable = way.leads_on();
        let page = Page::new(Present { region: page, status, bell });
        let shared = Arc::new(Shared {
            home: Home::here(),
            wire,
            ledger: Mutex::new(ledger),
            link_changed: Condvar::new(),
            lanes: LanesView::new(lanes.clone(), lane_count)?,
            lanes_writer: LanesWriter::new(lanes.clone(), lane_count)?,
            status: StatusReader::new(page.clone())?,
            doorbell: Bell::new(lanes.clone(), page.clone(), 0)?,
            lanes_memory: lanes,
            page,
            fds: arrived.fds,
            number: AtomicU32::new(arrived.number),
            sizes,
            way,
            look_at_socket,
            idle_lanes: Mutex::default(),
            me: OnceLock::new(),
        });
        let _ = shared.me.set(Arc::downgrade(&shared));
        Ok(shared)
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
        let after = After { shared: self, calls: Calls::default(), wake: false, tend: false };
        Access { ledger: self.lock(), after }
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the session has no daemon.
    ///
    /// # Errors
    /// The session's end.
    pub(super) fn await_link(&self) -> Result<()> {
        let mut ledger = self.lock();
        loop {
            ledger.live()?;
            if ledger.link != Link::Down {
                return Ok(());
            }
            let waited = self.link_changed.wait(ledger);
            ledger = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Calls those that wait for the link.
    pub(super) fn call_link(&self) {
        self.link_changed.notify_all();
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

    /// The daemon's page and bells, as they are now.
    pub(super) fn page(&self) -> &Page {
        &self.page
    }

    pub(super) fn status(&self) -> &StatusReader<Page> {
        &self.status
    }

    pub(super) fn sizes(&self) -> RingSizes {
        self.sizes
    }

    /// How another daemon is found.
    pub(super) fn way(&self) -> &Way {
        &self.way
    }

    /// The bell of this number.
    pub(super) fn bell(&self, number: u32) -> Result<SessionBell> {
        Bell::new(self.lanes_memory.clone(), self.page.clone(), number)
    }

    pub(super) fn fds(&self) -> &Fds {
        &self.fds
    }

    /// The session's number at the daemon.
    pub(super) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Another daemon knows it by another number.
    pub(super) fn renumber(&self, number: u32) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// The longest sleep of a waiting thread between two looks at the socket.
    pub(super) fn look_at_socket(&self) -> DurNs {
        self.look_at_socket
    }

    pub(super) fn idle_lanes(&self) -> MutexGuard<'_, Vec<u32>> {
        self.idle_lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings a bell, and wakes the daemon where it sleeps.
    pub(super) fn ring(&self, bell: &SessionBell) {
        if bell.ring() == Ring::MustWake {
            self.page.wake(bell.address());
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let ledger = self.ledger.get_mut().unwrap_or_else(PoisonError::into_inner);
        ledger.driver.stop();
        if self.home.is_here() {
            if ledger.live().is_ok() && ledger.link != Link::Down {
                self.wire.last_words(Opcode::Bye);
            }
            self.wire.hang_up();
        }
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
    tend: bool,
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        self.after.calls = std::mem::take(&mut self.ledger.calls);
        if !self.ledger.tended && self.ledger.duty().is_some() {
            self.ledger.tended = true;
            self.after.tend = true;
        }
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
        if self.tend {
            tending::start(self.shared, self.shared.me.get());
        }
        if self.calls.rouse.is_some() {
            // The session's end, or another daemon's rings.
            self.shared.call_link();
        }
        if self.calls.listen {
            self.shared.wire.listen();
        }
        if self.calls.look_at_socket {
            self.shared.look_at_socket_now();
        }
        self.calls.make();
    }
}

impl Access<'_> {
    /// Calls the first follower, who may lead now.
    pub(super) fn call_heir(&mut self) {
        let heir = self.leadership.followers().next().cloned();
        self.calls.wake.extend(heir.map(Waiter::Thread));
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
