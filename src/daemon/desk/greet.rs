//! HELLO: from a connection to a session.

use std::os::fd::OwnedFd;

use super::Desk;
use super::peer::{Credentials, Phase, Session};
use crate::core::error::{Error, ErrorCode, Result};
use crate::daemon::command::{Arrival, Command, Seat, eventfd};
use crate::daemon::memory::Made;
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
    pub(super) fn hello(&mut self, serial: u32, cookie: u64, hello: &Hello) -> Result<()> {
        let version = common_version(hello)?;
        if hello.adopt != 0 {
            let text = "adopting lanes is not supported by this daemon";
            return Err(Error::new(ErrorCode::NotSupported, text));
        }
        let Some(peer) = self.peers.get(&serial) else { return Ok(()) };
        let who = peer.who;
        let (welcome, fds) = if hello.role == Role::Control as u32 {
            if let Some(peer) = self.peers.get_mut(&serial) {
                peer.phase = Phase::Control;
            }
            (self.welcome(version, None), Vec::new())
        } else if hello.role == Role::Client as u32 || hello.role == Role::Agent as u32 {
            self.takes_sessions()?;
            let params = self.params(hello, who)?;
            let fds = self.seat(serial, &params)?;
            let offset = params.clock_offset_ns;
            let welcome = Welcome {
                session: serial,
                clock_offset_ns: offset,
                ..self.welcome(version, Some(&params))
            };
            (welcome, fds)
        } else {
            let text = format!("HELLO: role {} is none of 0, 1, 2", hello.role);
            return Err(Error::new(ErrorCode::BadMessage, text));
        };
        self.send(serial, message::reply(Opcode::Hello, cookie, &welcome), fds);
        Ok(())
    }

    fn welcome(&self, version: u16, params: Option<&SessionParams>) -> Welcome {
        Welcome {
            version,
            bell_kind: params.map_or(0, |_| self.setup.bell as u8),
            reserved0: 0,
            session: 0,
            features: 0,
            generation: self.setup.generation,
            submit_entries: params.map_or(0, |params| params.submit_entries),
            result_entries: params.map_or(0, |params| params.result_entries),
            lanes: params.map_or(0, |params| params.lanes),
            submit_tickets_max: SUBMIT_TICKETS_MAX,
            submit_fds_max: SUBMIT_FDS_MAX,
            now_ns: clock::now().0,
            clock_offset_ns: 0,
        }
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

    /// Makes a session's memory, seats it with FILL, and answers WELCOME's fds.
    fn seat(&mut self, serial: u32, params: &SessionParams) -> Result<Vec<OwnedFd>> {
        let limit = self.setup.config.limits.sessions;
        let Some(&slot) = self.slots.last() else {
            let text =
                format!("sessions: {}, at most {limit} (raise [limits] sessions)", limit + 1);
            return Err(Error::new(ErrorCode::LimitExceeded, text));
        };
        let seat = Seat { slot, serial };
        let made = Made::new(params, self.setup.generation)?;
        let engine = &self.setup.engine;
        let prepared = Prepared::new(slot, params, made.memory, made.table, engine)?;
        let notify = eventfd()?;
        let eventfd_bells = self.setup.bell == BellKind::Eventfd;
        let bell = if eventfd_bells { Some(eventfd()?) } else { None };
        let mut fds = vec![made.rings_fd, made.lanes_fd, self.setup.status.readonly_fd()?];
        fds.push(duplicate(&notify)?);
        if let Some(bell) = &bell {
            fds.push(duplicate(bell)?);
        }
        self.quotas.open(params.uid, params.lanes, &self.setup.config.limits)?;
        self.slots.pop();
        let session = Session { seat, params: params.clone(), control: made.control, fds: 0 };
        if let Some(peer) = self.peers.get_mut(&serial) {
            tracing::debug!(peer = peer.label(), slot, "session");
            peer.phase = Phase::Session(Box::new(session));
        }
        self.command(Command::Attach(seat, Box::new(Arrival { session: prepared, notify, bell })));
        Ok(fds)
    }
}

fn duplicate(fd: &OwnedFd) -> Result<OwnedFd> {
    fd.try_clone().map_err(|e| Error::new(ErrorCode::SystemFailed, format!("dup: {e}")))
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
