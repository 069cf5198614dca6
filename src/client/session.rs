//! A session: one connection to the daemon, with its memory.
//!
//! A [`Session`] is a handle; clones are the same session, and every thread may use it. The last
//! handle (lanes and tickets hold one too) ends it. What always holds: as many tickets as the
//! result ring has entries, at most, are outstanding, or tagged and not taken; a submission beyond
//! that is refused whole with `CreditExceeded` and the free count.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::core::error::{Error, ErrorCode, Result};
use crate::core::line::Width;
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;
use crate::proto::limits::PLAN_TEXT_BYTES_MAX;
use crate::proto::message::{LaneOpened, Opcode, OpenLane, Plan, PlanKnown, name_field};

use super::connect::SessionBuilder;
use super::lane::Lane;
use super::leader::Goal;
use super::ledger::Ledger;
use super::remembered::KeptLane;
use super::shared::Shared;
use super::wire::{self, Answer};

/// The device of [`Session::lane`]: the one that a daemon has where none is configured.
pub const DEFAULT_DEVICE: &str = "default";

/// A connection to the daemon; clones are the same session, and every thread may use it.
///
/// It outlives its daemon. Where the next one goes on with it (an fd store), nothing is to be seen
/// but a longer wait. Where the connection ends, it looks for another daemon, for as long as
/// [`SessionBuilder::reconnect`] says: it takes its lanes and eventfds along, opens what was open,
/// registers its plans, and submits again what has no result. Meanwhile waits go on, tickets can be
/// submitted, and calls that need an answer wait for it. It is over (`Disconnected`) when nobody
/// comes back in time, or when the daemon closed it for what this process did.
///
/// What is different with another daemon: [`Session::number`], [`Session::status_fd`] and
/// [`Session::bell_fd`], which are to be handed to producers in other processes again; times of
/// results count from when that daemon took the ticket; a lane whose device it does not have
/// refuses tickets, and a named plan that it does not have is the device's. A daemon that was told
/// to end has ended its tickets with `ShuttingDown` before. Devices are expected in the same order,
/// since a bell is known by its number.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

/// A registered plan's id within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanId(u16);

impl PlanId {
    /// The id as tickets carry it.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl Session {
    /// Connects to the daemon that PARKD_SOCKET names, else to the default one.
    ///
    /// # Errors
    /// As [`SessionBuilder::connect_to`].
    pub fn connect() -> Result<Session> {
        SessionBuilder::default().connect()
    }

    /// Connects to the daemon whose socket is `path`.
    ///
    /// # Errors
    /// As [`SessionBuilder::connect_to`].
    pub fn connect_to(path: &Path) -> Result<Session> {
        SessionBuilder::default().connect_to(path)
    }

    /// A session with sizes of your choice.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    pub(super) fn over(shared: Arc<Shared>) -> Session {
        Session { shared }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Opens a lane for the device that is there where none is configured.
    ///
    /// # Errors
    /// As [`Session::lane_on_device`].
    pub fn lane(&self) -> Result<Lane> {
        self.lane_on_device(DEFAULT_DEVICE, Width::W64)
    }

    /// Opens a lane for a device by its name in the configuration, as wide as the device stores.
    ///
    /// # Errors
    /// `NoSuchDevice`, `NoFreeLane`, `Forked`, the session's end.
    pub fn lane_on_device(&self, device: &str, width: Width) -> Result<Lane> {
        let Some(name) = name_field(device) else {
            let text = format!("device {device} is not configured: its name is too long");
            return Err(Error::new(ErrorCode::NoSuchDevice, text));
        };
        self.live()?;
        Lane::close_idle(self)?;
        let open = OpenLane { lane: u32::MAX, width: u32::from(width.bits()), device: name };
        let opened = self.shared.request(Opcode::OpenLane, &open, &[], |answer, ledger| {
            let opened: LaneOpened = answer?.whole()?;
            let kept = KeptLane { width, device: name, failed: None, secret: None, shared: false };
            ledger.remembered.lanes.insert(opened.lane, kept);
            Ok(opened)
        })?;
        Lane::opened(self, width, &opened)
    }

    /// Registers a plan by its text.
    ///
    /// # Errors
    /// `InvalidPlan` with the key, its bound and the column; `LimitExceeded`; the session's end.
    pub fn plan(&self, text: &str) -> Result<PlanId> {
        self.register_plan(0, text)
    }

    /// Registers a plan by its name in the configuration.
    ///
    /// # Errors
    /// `NoSuchPlan`, `LimitExceeded`, the session's end.
    pub fn plan_named(&self, name: &str) -> Result<PlanId> {
        self.register_plan(1, name)
    }

    fn register_plan(&self, by_name: u32, text: &str) -> Result<PlanId> {
        self.live()?;
        if text.len() > PLAN_TEXT_BYTES_MAX {
            let text = format!("plan: {} bytes, at most {PLAN_TEXT_BYTES_MAX}", text.len());
            return Err(Error::new(ErrorCode::LimitExceeded, text));
        }
        let body = Plan { by_name, bytes: text.len() as u32 };
        self.shared.request(Opcode::Plan, &body, text.as_bytes(), |answer, ledger| {
            let wire = plan_id(&answer?)?;
            Ok(PlanId(ledger.remembered.plan(by_name, text, wire)))
        })
    }

    /// Tickets that could go out now: what is free of the result ring and of the submission ring.
    ///
    /// # Errors
    /// `Forked`, the session's end.
    pub fn room(&self) -> Result<u32> {
        let mut at = self.shared.open()?;
        at.collect();
        at.room()
    }

    /// Waits until `tickets` tickets could go out, for at most `timeout`; false when that passed.
    /// What is free is whoever comes first's: other threads may take it.
    ///
    /// # Errors
    /// `CreditExceeded` where the rings are smaller than that, `Forked`, the session's end.
    pub fn wait_for_room(&self, tickets: u32, timeout: Option<Duration>) -> Result<bool> {
        let sizes = self.shared.sizes();
        let most = sizes.submit().min(sizes.result());
        if tickets > most {
            let text = format!("{tickets} tickets asked for, {most} is all the rings have");
            return Err(Error::new(ErrorCode::CreditExceeded, text));
        }
        let room = self.shared.block(&mut Room(tickets), timeout.map(from_now))?;
        Ok(room.is_some())
    }

    /// An error where the session has ended: what to ask a session that has nothing to wait for.
    ///
    /// # Errors
    /// `Forked`, `Disconnected` with the daemon's reason.
    pub fn live(&self) -> Result<()> {
        let mut at = self.shared.open()?;
        at.collect();
        at.live()?;
        drop(at);
        self.shared.look_at_socket_now();
        self.shared.open()?.live()
    }

    /// The session's number at the present daemon.
    pub fn number(&self) -> u32 {
        self.shared.number()
    }

    /// Which life of the daemon this is; it rises with every restart by which sessions are carried,
    /// and begins anew with a daemon that carries none.
    pub fn generation(&self) -> u32 {
        self.shared.status().generation()
    }

    /// The label of the daemon's executor.
    pub fn executor(&self) -> String {
        self.shared.status().executor()
    }

    /// Results that named no outstanding ticket: always 0, unless the daemon sent one twice.
    pub fn strays(&self) -> u64 {
        self.shared.open().map_or(0, |at| at.strays())
    }

    /// The memfd of the lanes, to hand to a producer process. [`Lane::offset`] and
    /// [`Lane::bell_offset`] are offsets into it.
    ///
    /// # Errors
    /// `SystemFailed` where no fd is free.
    pub fn lanes_fd(&self) -> Result<OwnedFd> {
        duplicate(&self.shared.fds().lanes)
    }

    /// The daemon's status page, read-only: where a producer sees whether a bell has to wake.
    ///
    /// # Errors
    /// `SystemFailed` where no fd is free.
    pub fn status_fd(&self) -> Result<OwnedFd> {
        self.shared.page().status_fd()
    }

    /// The eventfd that a producer writes 1 to in place of a futex wake, where the daemon's bells
    /// are of that kind.
    ///
    /// # Errors
    /// `SystemFailed` where no fd is free.
    pub fn bell_fd(&self) -> Result<Option<OwnedFd>> {
        self.shared.page().bell_fd()
    }
}

/// The daemon's id of a plan, from its answer to PLAN.
pub(super) fn plan_id(answer: &Answer) -> Result<u16> {
    let known: PlanKnown = answer.whole()?;
    match u16::try_from(known.plan) {
        Ok(id) if id > 0 => Ok(id),
        _ => Err(Error::new(ErrorCode::BadMessage, format!("PLAN: id {}", known.plan))),
    }
}

/// How long a thread that waits for room sleeps between two looks: room comes from results taken
/// and from the daemon's pace, neither of which calls anybody. Only a full ring costs this.
const LOOK_FOR_ROOM: DurNs = DurNs(1_000_000);

/// Room for so many tickets.
struct Room(u32);

impl Goal for Room {
    type Out = ();

    fn ready(&mut self, ledger: &mut Ledger) -> Option<()> {
        ledger.room().is_ok_and(|room| room >= self.0).then_some(())
    }

    fn look_again(&self) -> DurNs {
        LOOK_FOR_ROOM
    }
}

/// Room for an entry of the submission ring.
pub(super) struct RingRoom;

impl Goal for RingRoom {
    type Out = ();

    fn ready(&mut self, ledger: &mut Ledger) -> Option<()> {
        ledger.ring_room().is_ok_and(|room| room > 0).then_some(())
    }

    fn look_again(&self) -> DurNs {
        LOOK_FOR_ROOM
    }
}

/// The instant `after` from now.
pub(super) fn from_now(after: Duration) -> MonoNs {
    clock::now() + DurNs(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
}

/// A second fd of the same file.
pub(super) fn duplicate(fd: impl AsFd) -> Result<OwnedFd> {
    let fd: BorrowedFd<'_> = fd.as_fd();
    fd.try_clone_to_owned().map_err(|error| wire::system("dup", error))
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("number", &self.number()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
