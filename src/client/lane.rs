//! A lane: one completion word of a session, what one producer stream writes.
//!
//! A [`Lane`] is a handle; clones are the same lane. Tickets hold one, so a lane whose handle is
//! dropped stays open until its last ticket is. Its number only rises: it starts at what a former
//! owner left, and [`Lane::next_target`] counts on from there.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::core::error::{Error, ErrorCode, Result};
use crate::core::line::Width;
use crate::proto::entry::Status;
use crate::proto::layout::lanes;
use crate::proto::message::{CloseLane, LaneOpened, Opcode, encode};

use super::ledger::Ledger;
use super::remembered::is_redeemed;
use super::session::{RingRoom, Session};
use super::shared::SessionBell;
use super::ticket::TicketBuilder;

/// One completion word of a session. See the file's head.
#[derive(Clone)]
pub struct Lane {
    lane: Arc<Inner>,
}

struct Inner {
    session: Session,
    index: u32,
    bell_number: u32,
    bell: SessionBell,
    width: Width,
    /// The highest target given out by `next_target`.
    issued: AtomicU64,
    closed: AtomicBool,
}

impl Lane {
    pub(super) fn opened(session: &Session, width: Width, lane: &LaneOpened) -> Result<Lane> {
        if lane.lane >= session.shared().lanes().lanes() && !is_redeemed(lane.lane) {
            let what = format!("lane {} is none of the session's", lane.lane);
            return Err(nonsense("the daemon's answer", what));
        }
        let inner = Inner {
            session: session.clone(),
            index: lane.lane,
            bell_number: lane.bell,
            bell: session.shared().bell(lane.bell)?,
            width,
            issued: AtomicU64::new(lane.value),
            closed: AtomicBool::new(false),
        };
        Ok(Lane { lane: Arc::new(inner) })
    }

    /// Closes the lanes whose last handle is gone.
    pub(super) fn close_idle(session: &Session) -> Result<()> {
        loop {
            let Some(index) = session.shared().idle_lanes().pop() else { return Ok(()) };
            close(session, index)?;
        }
    }

    /// Its number now, where it lies in this session's memory.
    pub(super) fn seen(&self) -> Option<u64> {
        (!is_redeemed(self.lane.index)).then(|| self.value())
    }

    /// The session it belongs to.
    pub fn session(&self) -> &Session {
        &self.lane.session
    }

    /// Its index in the session.
    pub fn index(&self) -> u32 {
        self.lane.index
    }

    /// How much of the word its device stores.
    pub fn width(&self) -> Width {
        self.lane.width
    }

    /// Its number now, with Acquire: what the producer wrote before it is visible. For a lane 32
    /// bits wide, the low half.
    pub fn value(&self) -> u64 {
        let word = self.lane.session.shared().lanes().load(self.lane.index);
        match self.lane.width {
            Width::W64 => word,
            Width::W32 => word & u64::from(u32::MAX),
        }
    }

    /// Whether it has reached `target`.
    pub fn reached(&self, target: u64) -> bool {
        self.lane.width.reached(self.value(), target)
    }

    /// The number after the last one given out here: what to submit a ticket for, and then to have
    /// the producer store.
    pub fn next_target(&self) -> u64 {
        self.lane.issued.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// A ticket on the number `target`.
    pub fn ticket(&self, target: u64) -> TicketBuilder<'_> {
        TicketBuilder::new(self, target)
    }

    /// Stores a number, with Release, as a device does: nobody is told.
    pub fn store(&self, number: u64) {
        let writer = self.lane.session.shared().lanes_writer();
        match self.lane.width {
            Width::W64 => writer.store(self.lane.index, number),
            Width::W32 => writer.store_low(self.lane.index, number as u32),
        }
    }

    /// Rings the device's bell: a daemon that sleeps looks at the session's lanes. No system call
    /// while it is awake.
    pub fn ring(&self) {
        self.lane.session.shared().ring(&self.lane.bell);
    }

    /// Stores a number and rings, as a producer on a CPU does.
    pub fn store_and_ring(&self, number: u64) {
        self.store(number);
        self.ring();
    }

    /// Where its word lies in the file of [`Session::lanes_fd`]: bytes from the start.
    pub fn offset(&self) -> usize {
        lanes::lane(self.lane.index)
    }

    /// Where its bell lies in the same file.
    pub fn bell_offset(&self) -> usize {
        lanes::bell(self.lane.bell_number)
    }

    /// Posts a device error: the lane's tickets end with `DeviceFailed(code)` where their number
    /// was not reached, those sent off later too, until the lane is opened anew. Goes the way of
    /// the tickets, so it overtakes none; waits for room where the submission ring is full.
    ///
    /// # Errors
    /// `NoSuchLane` where it was closed, `Forked`, the session's end.
    pub fn fail(&self, code: u32) -> Result<()> {
        self.must_be_open()?;
        let shared = self.lane.session.shared();
        while !shared.open()?.fail(self.lane.index, code)? {
            shared.block(&mut RingRoom, None)?;
        }
        Ok(())
    }

    /// Closes it now; its outstanding tickets end with `Cancelled`, or as refused where the daemon
    /// had not taken them yet. (Dropping the last handle
    /// closes it too, no later than the session opens another lane.)
    ///
    /// # Errors
    /// `NoSuchLane` where it was closed already, `Forked`, the session's end.
    pub fn close(self) -> Result<()> {
        if self.lane.closed.swap(true, Ordering::Relaxed) {
            return Err(self.not_open());
        }
        self.lane.session.live()?;
        close(&self.lane.session, self.lane.index)
    }

    pub(super) fn must_be_open(&self) -> Result<()> {
        match self.lane.closed.load(Ordering::Relaxed) {
            true => Err(self.not_open()),
            false => Ok(()),
        }
    }

    fn not_open(&self) -> Error {
        let text = format!("lane {} is not open", self.lane.index);
        Error::new(ErrorCode::NoSuchLane, text)
    }
}

/// The error of an answer that makes no sense.
pub(super) fn nonsense(message: &str, what: String) -> Error {
    Error::new(ErrorCode::BadMessage, format!("{message}: {what}"))
}

fn close(session: &Session, lane: u32) -> Result<()> {
    let say = |ledger: &Ledger| {
        let body = CloseLane { lane: ledger.index_at_daemon(lane)?, reserved: 0 };
        Ok(encode(Opcode::CloseLane as u16, 0, &body, &[]))
    };
    session.shared().request_of(Opcode::CloseLane, say, |answer, ledger| {
        ledger.remembered.lanes.remove(&lane);
        ledger.forget_redeemed(lane, Status::Cancelled, 0);
        match answer {
            // It was done before, and the answer was lost with an earlier life of the daemon; or
            // the daemon that knew it is gone, and this one was not asked for it yet.
            Err(error)
                if matches!(error.code, ErrorCode::NoSuchLane | ErrorCode::NoSuchCapability) =>
            {
                Ok(())
            }
            answer => answer?.whole::<()>(),
        }
    })
}

impl Drop for Inner {
    fn drop(&mut self) {
        // No request here: a drop must not wait for anybody.
        if !*self.closed.get_mut() && self.session.shared().at_home().is_ok() {
            self.session.shared().idle_lanes().push(self.index);
        }
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("session", &self.lane.session.number())
            .field("index", &self.lane.index)
            .field("width", &self.lane.width)
            .finish_non_exhaustive()
    }
}
