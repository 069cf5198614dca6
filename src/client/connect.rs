//! From a socket path to a session: HELLO, WELCOME, and the areas that come with it.
//!
//! Nothing that arrives is used before it is checked: the version, the number of fds, each area's
//! seals, header and size, and that they agree with WELCOME.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::DurNs;
use crate::host::clock;
use crate::proto::VERSIONS;
use crate::proto::layout::BellKind;
use crate::proto::message::{Hello, Opcode, Role, Welcome};
use crate::shm::area;

use super::session::Session;
use super::shared::{Fds, Memory, Shared};
use super::socket_path::socket_path;
use super::wire::{Answer, Wire};

/// How long a daemon may take for its WELCOME: longer than it waits for a HELLO, and than a
/// restart takes.
const WELCOME_TIMEOUT: DurNs = DurNs(10_000_000_000);

/// The longest sleep of a thread that waits, between two looks at the socket. A daemon that was
/// killed moves no tail and wakes nobody; its socket's end is all there is to see.
const LOOK_AT_SOCKET: DurNs = DurNs(250_000_000);

/// What to ask for in HELLO. Every size is a power of two; unset, it is the daemon's default.
#[derive(Clone, Debug)]
pub struct SessionBuilder {
    submit_entries: u32,
    result_entries: u32,
    lanes: u32,
    look_at_socket: DurNs,
}

impl Default for SessionBuilder {
    fn default() -> SessionBuilder {
        let (submit_entries, result_entries, lanes) = (0, 0, 0);
        SessionBuilder { submit_entries, result_entries, lanes, look_at_socket: LOOK_AT_SOCKET }
    }
}

impl SessionBuilder {
    /// Entries of the submission ring, 64..=65_536: how far submissions can run ahead of the
    /// daemon.
    pub fn submit_entries(mut self, entries: u32) -> SessionBuilder {
        self.submit_entries = entries;
        self
    }

    /// Entries of the result ring, 64..=65_536: tickets that can be outstanding or unread.
    pub fn result_entries(mut self, entries: u32) -> SessionBuilder {
        self.result_entries = entries;
        self
    }

    /// Lanes, 64..=4096.
    pub fn lanes(mut self, lanes: u32) -> SessionBuilder {
        self.lanes = lanes;
        self
    }

    /// Looks at the socket this often while a thread waits: in tests, never, so that a lost wake
    /// is not made good by the look.
    #[cfg(test)]
    pub(super) fn look_at_socket(mut self, every: DurNs) -> SessionBuilder {
        self.look_at_socket = every;
        self
    }

    /// Connects to the daemon that PARKD_SOCKET names, else to the default one.
    ///
    /// # Errors
    /// As [`SessionBuilder::connect_to`].
    pub fn connect(&self) -> Result<Session> {
        self.connect_to(&socket_path(None))
    }

    /// Connects to the daemon whose socket is `path`.
    ///
    /// # Errors
    /// `SocketUnavailable` where nobody listens there; the daemon's refusals: `PermissionDenied`,
    /// `QuotaExceeded`, `LimitExceeded`, `VersionMismatch`; `SessionMemory` where what it sent
    /// makes no sense.
    pub fn connect_to(&self, path: &Path) -> Result<Session> {
        self.greet(Wire::connect(path)?)
    }

    /// Says HELLO over a connected socket.
    pub(super) fn greet(&self, wire: Wire) -> Result<Session> {
        let hello = hello(Role::Client);
        let hello = Hello {
            submit_entries: self.submit_entries,
            result_entries: self.result_entries,
            lanes: self.lanes,
            ..hello
        };
        let (welcome, fds) = exchange(&wire, &hello)?;
        let (memory, fds) = take_memory(&welcome, fds)?;
        let number = welcome.session;
        let shared = Shared::new(wire, number, memory, fds, self.look_at_socket)?;
        Ok(Session::over(Arc::new(shared)))
    }
}

/// A HELLO in this role that asks for nothing.
fn hello(role: Role) -> Hello {
    Hello {
        version_min: VERSIONS.0,
        version_max: VERSIONS.1,
        role: role as u32,
        features: 0,
        submit_entries: 0,
        result_entries: 0,
        lanes: 0,
        adopt: 0,
        now_ns: clock::now().0,
    }
}

fn exchange(wire: &Wire, hello: &Hello) -> Result<(Welcome, Vec<OwnedFd>)> {
    let until = clock::now() + WELCOME_TIMEOUT;
    let answer = wire.request(Opcode::Hello, hello, &[], Some(until))?;
    let welcome: Welcome = answer.whole()?;
    if !(VERSIONS.0..=VERSIONS.1).contains(&welcome.version) {
        let (low, high, theirs) = (VERSIONS.0, VERSIONS.1, welcome.version);
        let text = format!("client speaks {low}..={high}, the daemon {theirs}");
        return Err(Error::new(ErrorCode::VersionMismatch, text));
    }
    let Answer { fds, .. } = answer;
    Ok((welcome, fds))
}

/// Opens a control session: no memory, no tickets.
pub(super) fn greet_control(wire: &Wire) -> Result<()> {
    exchange(wire, &hello(Role::Control)).map(drop)
}

fn take_memory(welcome: &Welcome, fds: Vec<OwnedFd>) -> Result<(Memory, Fds)> {
    let count = fds.len();
    let mut fds = fds.into_iter();
    let (Some(rings), Some(lanes), Some(status), Some(events), bell, None) =
        (fds.next(), fds.next(), fds.next(), fds.next(), fds.next(), fds.next())
    else {
        return Err(nonsense(format!("{count} file descriptors, 4 or 5 expected")));
    };
    let by_eventfd = welcome.bell_kind == BellKind::Eventfd as u8;
    if bell.is_some() != by_eventfd || !by_eventfd && welcome.bell_kind != BellKind::Futex as u8 {
        let kind = welcome.bell_kind;
        return Err(nonsense(format!("bell kind {kind} with {count} file descriptors")));
    }
    let (rings, sizes) = area::open_rings(&rings)?;
    let (mapped_lanes, lane_count) = area::open_lanes(&lanes)?;
    let mapped_status = area::open_status(&status)?;
    let told = (welcome.submit_entries, welcome.result_entries, welcome.lanes);
    if told != (sizes.submit(), sizes.result(), lane_count) {
        return Err(nonsense("its sizes are not those of the areas".to_owned()));
    }
    let memory = Memory { rings, sizes, lanes: mapped_lanes, lane_count, status: mapped_status };
    Ok((memory, Fds { lanes, status, events, bell }))
}

fn nonsense(what: String) -> Error {
    Error::new(ErrorCode::BadMessage, format!("WELCOME: {what}"))
}
