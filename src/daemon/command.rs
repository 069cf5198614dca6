//! What the desk and FILL say to each other, and the two queues between them.
//!
//! A *command* goes to FILL, a *reply* comes back. A session is named by its *seat*: its slot and
//! a serial number that no other session of this daemon has, so that what is said of a session
//! that has left is recognised. Both queues are bounded and neither side ever waits for the
//! other: the desk stops reading sockets while FILL's queue is full, FILL keeps replies for a
//! later turn.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use rustix::event::EventfdFlags;

use super::memory::Memory;
use crate::core::bands::Bands;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::line::Width;
use crate::core::time::MonoNs;
use crate::engine::{Prepared, Redemption, Refusal, Retired, Stats};
use crate::host::fds::FdKind;
use crate::proto::entry::SubmitEntry;
use crate::proto::limits::COMMANDS_MAX;
use crate::proto::message::Opcode;
use crate::shm::region::{ReadOnly, Region};
use crate::shm::status::StatusReader;

/// The slot of a peer that has no session.
pub const NO_SLOT: u16 = u16::MAX;

/// A session, as desk and FILL name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    /// Its place, below `SESSIONS_MAX`; [`NO_SLOT`] for a peer without a session.
    pub slot: u16,
    /// Its number, never used twice.
    pub serial: u32,
}

/// Which request is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What was asked.
    pub opcode: Opcode,
    /// Under which cookie the answer goes.
    pub cookie: u64,
    /// Whether an earlier life of the daemon may have done it.
    pub again: bool,
}

/// A fd that a ticket waits for.
pub struct TicketFd {
    /// The fd.
    pub fd: OwnedFd,
    /// What it is.
    pub kind: FdKind,
}

/// A new session, all of it made.
pub struct Arrival {
    /// For the engine.
    pub session: Prepared<Memory>,
    /// The eventfd by which its client is told.
    pub notify: OwnedFd,
    /// The eventfd that its producers ring, where bells are eventfds.
    pub bell: Option<OwnedFd>,
    /// Whether an earlier life of the daemon made it.
    pub recovered: bool,
}

/// What a client asks of FILL.
pub enum Ask {
    /// OPEN_LANE.
    OpenLane(Option<u32>, Width, u32),
    /// CLOSE_LANE.
    CloseLane(u32),
    /// PLAN, read.
    Plan(Box<Bands>),
    /// SUBMIT; `source` of an fd ticket is an index into the fds.
    Submit(Vec<SubmitEntry>, Vec<TicketFd>),
    /// CANCEL.
    Cancel(u64),
    /// FAIL.
    Fail(u32, u32),
    /// SHARE: lane, and the capability that it gets if it has none.
    Share(u32, u128),
    /// REDEEM: the owner and its lane, where the capability is known, and the capability.
    Redeem(Option<(Seat, u32)>, u128),
    /// REVOKE.
    Revoke(u32),
    /// STATUS.
    Counters,
}

/// To FILL.
pub enum Command {
    /// Serve a new session.
    Attach(Seat, Box<Arrival>),
    /// Let a session go.
    Detach(Seat),
    /// Answer a request.
    Request(Seat, Asked, Ask),
    /// Take no new tickets; answer once none is outstanding, or end the rest at this time.
    Drain(Seat, Asked, MonoNs),
    /// Every recovered session is there: look for the owners of redeemed lanes.
    Relink,
    /// Futex wakes are in doubt: look at the bells that are futexes.
    Doubt,
    /// End every ticket with `ShuttingDown`, then yourself.
    Stop,
    /// End yourself; a next life goes on.
    Leave,
}

/// What FILL answers to an [`Ask`].
pub enum Answer {
    /// The lane, its device and its present number.
    LaneOpened(u32, u32, u64),
    /// The lane, and the capability that it has.
    Shared(u32, u128),
    /// What was redeemed.
    Redeemed(Redemption),
    /// The lane, whose capability is dead.
    Revoked(u32),
    /// CLOSE_LANE, CANCEL or FAIL was done.
    Done,
    /// The plan's id.
    Plan(u16),
    /// All tickets were taken, and what is free after them.
    Submitted(u32, u32),
    /// DRAIN: tickets that finished, and tickets that were ended.
    Drained(u32, u32),
    /// The counters, tickets outstanding in all, and by session.
    Counters(Box<Counters>),
    /// It was refused.
    Refused(Refusal),
}

/// What FILL knows that others ask for.
pub struct Counters {
    /// The engine's.
    pub stats: Stats,
    /// Tickets outstanding in all.
    pub outstanding: u32,
    /// Tickets outstanding, by slot.
    pub by_slot: Vec<(u16, u32)>,
    /// Turns so far.
    pub turns: u64,
    /// System calls made through the host so far.
    pub syscalls: u64,
    /// Nanoseconds of CPU that FILL has burnt.
    pub cpu_ns: u64,
    /// Nanoseconds for which idle CPUs were kept awake.
    pub awake_ns: u64,
    /// Requests made and taken back for that.
    pub awake_writes: u64,
}

/// From FILL.
pub enum Reply {
    /// To a request, with the entries that came with it, to be freed here.
    Answer(Seat, Asked, Answer, Vec<SubmitEntry>),
    /// A ticket's fd is not needed any more: close it here.
    Fd(Seat, OwnedFd),
    /// The client broke a rule: close its session.
    Broken(Seat, Error),
    /// A session that an earlier life made has been served.
    Recovered(Seat),
    /// The session is out of FILL; unmap and close here.
    Detached(Seat, Option<Retired<Memory>>, Box<Leftovers>),
    /// FILL has ended.
    Stopped(Option<Error>),
}

/// What FILL had of a session beside its memory.
#[derive(Default)]
pub struct Leftovers {
    /// Its eventfds.
    pub eventfds: Vec<OwnedFd>,
    /// Fds of tickets that were outstanding.
    pub fds: Vec<OwnedFd>,
}

/// The desk's end.
pub struct DeskEnd {
    commands: SyncSender<Command>,
    /// From FILL.
    pub replies: Receiver<Reply>,
    /// Readable when there are replies.
    pub doorbell: Arc<OwnedFd>,
    fill_doorbell: Arc<OwnedFd>,
    status: StatusReader<Region<ReadOnly>>,
}

/// FILL's end.
pub struct FillEnd {
    commands: Receiver<Command>,
    /// A command that was taken out to see whether there is one.
    ahead: Option<Command>,
    replies: SyncSender<Reply>,
    backlog: Vec<Reply>,
    rang: bool,
    desk_doorbell: Arc<OwnedFd>,
    /// Rung by the desk when it has sent a command to a FILL that is parked.
    pub doorbell: Arc<OwnedFd>,
}

/// Makes the two ends. `status` tells the desk whether FILL is parked.
///
/// # Errors
/// `SystemFailed` where an eventfd cannot be made.
pub fn queues(status: StatusReader<Region<ReadOnly>>) -> Result<(DeskEnd, FillEnd)> {
    let (commands, from_desk) = sync_channel(COMMANDS_MAX);
    let (replies, from_fill) = sync_channel(2 * COMMANDS_MAX);
    let desk = Arc::new(eventfd()?);
    let fill = Arc::new(eventfd()?);
    Ok((
        DeskEnd {
            commands,
            replies: from_fill,
            doorbell: desk.clone(),
            fill_doorbell: fill.clone(),
            status,
        },
        FillEnd {
            commands: from_desk,
            ahead: None,
            replies,
            backlog: Vec::with_capacity(COMMANDS_MAX),
            rang: false,
            desk_doorbell: desk,
            doorbell: fill,
        },
    ))
}

/// A new eventfd, non-blocking.
///
/// # Errors
/// `SystemFailed`.
pub fn eventfd() -> Result<OwnedFd> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|errno| Error::new(ErrorCode::SystemFailed, format!("eventfd: {errno}")))
}

fn ring(doorbell: &OwnedFd) {
    // EAGAIN: the counter is full, so the other side is told already.
    let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
}

impl DeskEnd {
    /// Sends a command, or gives it back when the queue is full or FILL is gone.
    pub fn send(&self, command: Command) -> core::result::Result<(), Command> {
        match self.commands.try_send(command) {
            Ok(()) => {}
            Err(TrySendError::Full(command) | TrySendError::Disconnected(command)) => {
                return Err(command);
            }
        }
        // Meets FILL's fence between `parked = 1` and its last look at the queue.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        if self.status.parked() {
            ring(&self.fill_doorbell);
        }
        Ok(())
    }

    /// Takes the doorbell's count: replies sent from here on ring anew.
    pub fn hear(&self) {
        let _ = rustix::io::read(&self.doorbell, &mut [0u8; 8]);
    }
}

impl FillEnd {
    /// Whether a command waits.
    pub fn has_next(&mut self) -> bool {
        if self.ahead.is_none() {
            self.ahead = self.take();
        }
        self.ahead.is_some()
    }

    /// The next command, if one waits.
    pub fn take(&mut self) -> Option<Command> {
        if let Some(command) = self.ahead.take() {
            return Some(command);
        }
        match self.commands.try_recv() {
            Ok(command) => Some(command),
            Err(TryRecvError::Empty) => None,
            // The desk outlives FILL; were it gone, FILL had nobody to serve.
            Err(TryRecvError::Disconnected) => Some(Command::Stop),
        }
    }

    /// Sends a reply, now or in a later turn, in order.
    pub fn reply(&mut self, reply: Reply) {
        self.rang = true;
        if self.backlog.is_empty() {
            match self.replies.try_send(reply) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                Err(TrySendError::Full(reply)) => self.backlog.push(reply),
            }
        } else {
            self.backlog.push(reply);
        }
    }

    /// Rings the desk for what was sent in this turn; `true` while replies are left over.
    pub fn flush(&mut self) -> bool {
        if !self.backlog.is_empty() {
            let left = std::mem::take(&mut self.backlog);
            left.into_iter().for_each(|reply| self.reply(reply));
        }
        if std::mem::take(&mut self.rang) {
            ring(&self.desk_doorbell);
        }
        !self.backlog.is_empty()
    }
}
