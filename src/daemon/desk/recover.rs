//! Going on with the sessions that an earlier life of the daemon left with the service manager.
//!
//! They are taken over one after another, each marked in its table before and unmarked by FILL
//! after its first turn, so that it is known which one a daemon died of. Nobody new is accepted
//! meanwhile. Their clients hold the same socket and the same memory, and are sent RESUMED.

use std::os::fd::{AsFd, OwnedFd};

use super::Desk;
use super::greet::bell_kind;
use super::peer::{Credentials, Peer, Phase, Session};
use super::poller::Source;
use super::wire;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::MonoNs;
use crate::daemon::command::{Arrival, Command, Seat};
use crate::daemon::memory::Made;
use crate::daemon::store::Kept;
use crate::engine::{Prepared, recovery};
use crate::host::{fds, identity};
use crate::proto::VERSIONS;
use crate::proto::layout::SessionState;
use crate::proto::message::{self, Opcode};
use crate::shm::area::open_rings;
use crate::shm::control::{Control, ControlReader};
use crate::shm::table::Table;

impl Desk {
    /// Takes over the next session that can be; with the last one the daemon is ready.
    pub(super) fn recover_next(&mut self) -> Result<()> {
        while let Some(kept) = self.to_recover.pop_front() {
            let serial = kept.serial;
            match self.recover(kept) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    self.complaints.about(&format!("session {serial}"), &error);
                    self.setup.store.forget(serial);
                }
            }
        }
        self.ready()
    }

    /// Takes a session over. What cannot be is told to its client, which then connects anew.
    fn recover(&mut self, kept: Kept) -> Result<()> {
        let Kept { serial, connection, rings, lanes, table, events, bell } = kept;
        let (region, sizes) = open_rings(&rings)?;
        if ControlReader::new(region.clone())?.state() == Some(SessionState::Closed) {
            return Err(Error::new(ErrorCode::Disconnected, "it was closed"));
        }
        let control = Control::new(region, sizes)?;
        let refuse = |error: Error| {
            control.close(error.code);
            let record = message::error(0, &error, 0, true);
            let _ = wire::send(connection.as_fd(), &record, &[]);
            error
        };
        let mut table = Table::adopt(table)?;
        let params = recovery::begin(table.as_mut()).map_err(refuse)?;
        let generation = self.setup.generation;
        let made = Made::recover(&params, rings, lanes, table, generation).map_err(refuse)?;
        let Some(&slot) = self.slots.last() else {
            return Err(refuse(Error::new(ErrorCode::LimitExceeded, "sessions: no slot is free")));
        };
        let engine = &self.setup.engine;
        let prepared = Prepared::recover(slot, made.memory, made.table, engine);
        let mut prepared = prepared.map_err(refuse)?.numbered(serial);
        let seat = Seat { slot, serial };
        let header = *prepared.header();
        let mut record = message::resumed(generation, header.last_cookie);
        let mut fds = Vec::new();
        if header.welcomed == 0 {
            let welcome =
                self.welcome(VERSIONS.1, serial, bell_kind(bell.is_some()), Some(&params));
            record = message::reply(Opcode::Hello, header.hello_cookie, &welcome);
            fds = self.welcome_fds(&made.rings_fd, &made.lanes_fd, &events, bell.as_ref())?;
        }
        let mut peer = known_peer(serial, connection)?;
        let session = Session::new(seat, params.clone(), made.control, &made.lanes_fd, true)?;
        peer.phase = Phase::Session(Box::new(session));
        self.poller.watch(Source::Peer(serial), &peer.socket)?;
        peer.pidfd.iter().try_for_each(|fd| self.poller.watch(Source::Process(serial), fd))?;

        self.quotas.reopen(params.uid, params.lanes);
        for (lane, capability) in prepared.shared() {
            self.capabilities.note(seat, lane, capability);
        }
        self.slots.pop();
        self.peers.insert(serial, peer);
        self.send(serial, record, fds);
        prepared.header().set_welcomed();
        let arrival = Arrival { session: prepared, notify: events, bell, recovered: true };
        self.attach(serial, seat, Box::new(arrival))
    }

    fn attach(&mut self, serial: u32, seat: Seat, arrival: Box<Arrival>) -> Result<()> {
        if !self.peers.contains_key(&serial) {
            self.vacate(seat);
            return Err(Error::new(ErrorCode::Disconnected, "its client has gone"));
        }
        self.command(Command::Attach(seat, arrival));
        Ok(())
    }
}

/// The peer at a connection's other end.
fn known_peer(serial: u32, connection: OwnedFd) -> Result<Peer> {
    let who = identity::Peer::of(connection.as_fd())
        .map_err(|e| Error::new(ErrorCode::SystemFailed, format!("SO_PEERCRED: {e}")))?;
    let pidfd = match fds::pidfd_of_peer(connection.as_fd()) {
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {
            return Err(Error::new(ErrorCode::Disconnected, "its process has ended"));
        }
        pidfd => pidfd.ok(),
    };
    let pid = who.pid.map_or(0, i32::unsigned_abs);
    let who = Credentials { pid, uid: who.uid };
    Ok(Peer::new(serial, connection, who, pidfd, MonoNs::MAX))
}
