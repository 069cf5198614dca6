//! HELLO: from a connection to a session.

use std::os::fd::{AsFd, OwnedFd};

use super::Desk;
use super::adopt::Adopted;
use super::closer::Strangers;
use super::keep::Keeping;
use super::peer::{Credentials, Phase, Session};
use crate::core::error::{Error, ErrorCode, Result};
use crate::daemon::command::{Arrival, Seat, eventfd};
use crate::daemon::memory::Made;
use crate::daemon::store::Part;
use crate::engine::{Prepared, SessionParams};
use crate::host::clock;
use crate::proto::VERSIONS;
use crate::proto::layout::BellKind;
use crate::proto::limits::{
    LANES_DEFAULT, LANES_MIN, RING_ENTRIES_DEFAULT, RING_ENTRIES_MAX, RING_ENTRIES_MIN,
    SUBMIT_FDS_MAX, SUBMIT_TICKETS_MAX,
};
use crate::proto::message::{self, Hello, Opcode, Role, Welcome};

impl Desk {
    /// Answers HELLO, or says why not.
    ///
    /// # Errors
    /// Whatever WELCOME cannot be given for; the connection is then closed.
    pub(super) fn hello(
        &mut self,
        serial: u32,
        cookie: u64,
        hello: &Hello,
        fds: Strangers,
    ) -> Result<()> {
        let version = common_version(hello)?;
        let adopted = self.adopted(hello, fds)?;
        let Some(peer) = self.peers.get(&serial) else { return Ok(()) };
        let who = peer.who;
        if hello.role == Role::Control as u32 {
            if let Some(peer) = self.peers.get_mut(&serial) {
                peer.phase = Phase::Control;
            }
            let welcome = self.welcome(version, 0, 0, None);
            self.send(serial, message::reply(Opcode::Hello, cookie, &welcome), Vec::new());
            Ok(())
        } else if hello.role == Role::Client as u32 || hello.role == Role::Agent as u32 {
            self.takes_sessions()?;
            let params = self.params(hello, who)?;
            self.seat(serial, cookie, version, params, adopted)
        } else {
            let text = format!("HELLO: role {} is none of 0, 1, 2", hello.role);
            Err(Error::new(ErrorCode::BadMessage, text))
        }
    }

    /// WELCOME's body; without `params` for a control session.
    pub(super) fn welcome(
        &self,
        version: u16,
        session: u32,
        bell_kind: u8,
        params: Option<&SessionParams>,
    ) -> Welcome {
        Welcome {
            version,
            bell_kind,
            reserved0: 0,
            session,
            features: 0,
            generation: self.setup.generation,
            submit_entries: params.map_or(0, |params| params.submit_entries),
            result_entries: params.map_or(0, |params| params.result_entries),
            lanes: params.map_or(0, |params| params.lanes),
            submit_tickets_max: SUBMIT_TICKETS_MAX,
            submit_fds_max: SUBMIT_FDS_MAX,
            now_ns: clock::now().0,
            clock_offset_ns: params.map_or(0, |params| params.clock_offset_ns),
        }
    }

    /// Copies of the fds that go with WELCOME.
    pub(super) fn welcome_fds(
        &self,
        rings: &OwnedFd,
        lanes: &OwnedFd,
        events: &OwnedFd,
        bell: Option<&OwnedFd>,
    ) -> Result<Vec<OwnedFd>> {
        let mut fds = vec![duplicate(rings)?, duplicate(lanes)?];
        fds.push(self.setup.status.readonly_fd()?);
        fds.push(duplicate(events)?);
        bell.map(|bell| duplicate(bell).map(|bell| fds.push(bell))).transpose()?;
        Ok(fds)
    }

    fn params(&self, hello: &Hello, who: Credentials) -> Result<SessionParams> {
        let limits = &self.setup.config.limits;
        let entries = |what, asked, ceiling: u32, key| {
            let default = RING_ENTRIES_DEFAULT.min(ceiling);
            size(what, asked, default, RING_ENTRIES_MIN, ceiling.min(RING_ENTRIES_MAX), key)
        };
        let tickets = limits.session_tickets;
        Ok(SessionParams {
            submit_entries: entries(
                "submit_entries",
                hello.submit_entries,
                tickets,
                "session_tickets",
            )?,
            result_entries: entries(
                "result_entries",
                hello.result_entries,
                tickets,
                "session_tickets",
            )?,
            lanes: size(
                "lanes",
                hello.lanes,
                LANES_DEFAULT.min(limits.session_lanes),
                LANES_MIN,
                limits.session_lanes,
                "session_lanes",
            )?,
            pid: who.pid,
            uid: who.uid,
            clock_offset_ns: clock_offset(who.pid, hello.now_ns),
        })
    }

    /// Makes a session, and has it kept and its client welcomed.
    fn seat(
        &mut self,
        serial: u32,
        cookie: u64,
        version: u16,
        params: SessionParams,
        adopted: Option<Adopted>,
    ) -> Result<()> {
        let limits = &self.setup.config.limits;
        let Some(&slot) = self.slots.last() else {
            let (limit, next) = (limits.sessions, limits.sessions + 1);
            let text = format!("sessions: {next}, at most {limit} (raise [limits] sessions)");
            return Err(Error::new(ErrorCode::LimitExceeded, text));
        };
        let (uid, lanes) = (params.uid, params.lanes);
        self.quotas.open(uid, lanes, limits)?;
        let keeping = self
            .make(Seat { slot, serial }, cookie, version, params, adopted)
            .inspect_err(|_| self.quotas.close(uid, lanes))?;
        self.slots.pop();
        self.keep(serial, keeping);
        Ok(())
    }

    fn make(
        &mut self,
        seat: Seat,
        cookie: u64,
        version: u16,
        params: SessionParams,
        adopted: Option<Adopted>,
    ) -> Result<Keeping> {
        let (lanes, events, bell) = match adopted {
            Some(Adopted { lanes, events, bell }) => (Some(lanes), events, bell),
            None => (None, eventfd()?, None),
        };
        let Made { memory, table, control, rings_fd, lanes_fd } =
            Made::new(&params, lanes, self.setup.generation)?;
        let bell = match self.setup.bell {
            BellKind::Eventfd => Some(bell.map_or_else(eventfd, Ok)?),
            BellKind::Futex => None,
        };
        let fds = self.welcome_fds(&rings_fd, &lanes_fd, &events, bell.as_ref())?;
        let table_fd = table.fd().map(duplicate).transpose()?;
        // Before the manager has the table: a life that dies right then leaves a whole one.
        let mut session = Prepared::new(seat.slot, &params, memory, table, &self.setup.engine)?
            .numbered(seat.serial);
        session.header().hello_cookie = cookie;
        let mut parts = vec![
            (Part::Rings, rings_fd.as_fd()),
            (Part::Lanes, lanes_fd.as_fd()),
            (Part::Events, events.as_fd()),
        ];
        parts.extend(table_fd.iter().map(|table| (Part::Table, table.as_fd())));
        parts.extend(bell.iter().map(|bell| (Part::Bell, bell.as_fd())));
        let barrier = self.leave_with_manager(seat.serial, &parts);
        let kind = bell_kind(bell.is_some());
        let welcome = self.welcome(version, seat.serial, kind, Some(&params));
        Ok(Keeping {
            session: Session::new(seat, params, control, &lanes_fd, false)?,
            arrival: Box::new(Arrival { session, notify: events, bell, recovered: false }),
            welcome: message::reply(Opcode::Hello, cookie, &welcome),
            fds,
            barrier,
        })
    }
}

/// How the bells of a session are rung.
pub(super) fn bell_kind(by_eventfd: bool) -> u8 {
    if by_eventfd { BellKind::Eventfd as u8 } else { BellKind::Futex as u8 }
}

fn duplicate(fd: impl AsFd) -> Result<OwnedFd> {
    fd.as_fd()
        .try_clone_to_owned()
        .map_err(|e| Error::new(ErrorCode::SystemFailed, format!("dup: {e}")))
}

fn common_version(hello: &Hello) -> Result<u16> {
    let (low, high) = VERSIONS;
    let (from, to) = (hello.version_min, hello.version_max);
    let version = to.min(high);
    if from <= version && low <= version && from <= to {
        return Ok(version);
    }
    let text = format!("client speaks {from}..={to}, the daemon {low}..={high}");
    Err(Error::new(ErrorCode::VersionMismatch, text))
}

/// A size asked for in HELLO: 0 is the default, else a power of two within bounds.
fn size(what: &str, asked: u32, default: u32, low: u32, high: u32, key: &str) -> Result<u32> {
    if asked == 0 {
        return Ok(prev_power_of_two(default).max(low));
    }
    if asked.is_power_of_two() && (low..=high).contains(&asked) {
        return Ok(asked);
    }
    let code = if asked > high { ErrorCode::LimitExceeded } else { ErrorCode::BadMessage };
    let text = format!(
        "HELLO: {what}: {asked}, at most {high}, at least {low}, a power of two \
         (raise [limits] {key})"
    );
    Err(Error::new(code, text))
}

fn prev_power_of_two(n: u32) -> u32 {
    1 << (31 - n.max(1).leading_zeros())
}

/// What to add to a client's times: 0 unless it lives in another time namespace.
fn clock_offset(pid: u32, their_now_ns: u64) -> i64 {
    let namespace = |pid: &str| rustix::fs::readlink(format!("/proc/{pid}/ns/time"), Vec::new());
    let ours = clock::now().0;
    let offset = ours.wrapping_sub(their_now_ns) as i64;
    match (namespace("self"), namespace(&pid.to_string())) {
        (Ok(mine), Ok(theirs)) if mine != theirs => offset,
        (Ok(_), Ok(_)) => 0,
        // Not to be seen from here: a second is more than a message takes, and less than a
        // namespace is offset by in practice.
        _ if offset.unsigned_abs() < 1_000_000_000 => 0,
        _ => offset,
    }
}
