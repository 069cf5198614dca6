//! Keeping a new session: what it is made of is left with the service manager before its client is
//! welcomed, so that a client that was welcomed is never forgotten.
//!
//! Where there is no fd store a session is welcomed at once.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::Desk;
use super::peer::{Phase, Session};
use super::poller::Source;
use crate::core::error::{Error, ErrorCode};
use crate::core::time::DurNs;
use crate::daemon::command::{Arrival, Command};
use crate::daemon::store::Part;
use crate::host::clock;

/// How long the service manager may take before its answer is not waited for any longer.
const MANAGER: DurNs = DurNs(2_000_000_000);

/// A session whose client is not welcomed yet.
pub struct Keeping {
    pub session: Session,
    pub arrival: Box<Arrival>,
    /// The WELCOME message, and the fds that go with it.
    pub welcome: Vec<u8>,
    pub fds: Vec<OwnedFd>,
    /// Hangs up when the manager has the session.
    pub barrier: Option<OwnedFd>,
}

impl Desk {
    /// Leaves a session's parts with the manager, the connection among them, and answers what hangs
    /// up when it has them; none where there is no store, or it cannot be reached.
    pub(super) fn leave_with_manager(
        &mut self,
        serial: u32,
        parts: &[(Part, BorrowedFd<'_>)],
    ) -> Option<OwnedFd> {
        let store = &self.setup.store;
        let peer = self.peers.get(&serial).filter(|_| store.is_used())?;
        let connection = (Part::Connection, peer.socket.as_fd());
        let left = parts
            .iter()
            .chain([&connection])
            .try_for_each(|(part, fd)| store.keep(serial, *part, *fd))
            .and_then(|()| store.barrier())
            .and_then(|barrier| {
                self.poller.watch(Source::Barrier(serial), &barrier).map(|()| barrier)
            });
        left.inspect_err(|error| self.complaints.about("", error)).ok()
    }

    /// Welcomes a session's client when the manager has the session.
    pub(super) fn keep(&mut self, serial: u32, keeping: Keeping) {
        let Some(peer) = self.peers.get_mut(&serial) else { return };
        let waits = keeping.barrier.is_some();
        peer.phase = Phase::Keeping(Box::new(keeping));
        if waits {
            peer.deadline = clock::now() + MANAGER;
            self.keeping.push_back(serial);
        } else {
            self.kept(serial);
        }
    }

    /// The manager has the session, or does not answer: its client is welcomed, and FILL serves it.
    pub(super) fn kept(&mut self, serial: u32) {
        let Some(peer) = self.peers.get_mut(&serial) else { return };
        let phase = std::mem::replace(&mut peer.phase, Phase::Parting);
        let Phase::Keeping(keeping) = phase else {
            peer.phase = phase;
            return;
        };
        let Keeping { session, mut arrival, welcome, fds, barrier } = *keeping;
        if let Some(barrier) = barrier {
            self.poller.forget(&barrier);
        }
        let seat = session.seat;
        tracing::debug!(peer = peer.label(), slot = seat.slot, "session");
        peer.phase = Phase::Session(Box::new(session));
        self.send(serial, welcome, fds);
        // After the WELCOME: one that dies between the two sends it twice, and not never.
        arrival.session.header().set_welcomed();
        match self.peers.get(&serial) {
            Some(_) => self.command(Command::Attach(seat, arrival)),
            // It went away, and its session was let go before FILL had it.
            None => self.vacate(seat),
        }
    }

    /// Ends the waits for a manager that does not answer.
    pub(super) fn end_overdue_keeping(&mut self) {
        while let Some(&serial) = self.keeping.front() {
            match self.peers.get(&serial) {
                Some(peer) if matches!(peer.phase, Phase::Keeping(_)) => {
                    if peer.deadline > clock::now() {
                        break;
                    }
                    let text = "service manager: BARRIER: no answer, the session is not kept";
                    self.complaints.about("", &Error::new(ErrorCode::SystemFailed, text));
                    self.kept(serial);
                }
                _ => {}
            }
            self.keeping.pop_front();
        }
    }
}
