//! From a socket path to a session: HELLO, WELCOME, and the areas that come with it.
//!
//! Nothing that arrives is used before it is checked: the version, the number of fds, each area's
//! seals, header and size, and that they agree with WELCOME.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::core::error::{Blame, Error, ErrorCode, Result};
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;
use crate::proto::VERSIONS;
use crate::proto::layout::BellKind;
use crate::proto::message::{Hello, Opcode, Role, Welcome, encode};
use crate::shm::area;

use super::session::Session;
use super::shared::{Arrived, Fds, Shared};
use super::socket_path::socket_path;
use super::wire::{Fault, Gone, Wire};

/// How long a daemon may take for its WELCOME: longer than it waits for a HELLO, and than a
/// restart takes.
const WELCOME_TIMEOUT: DurNs = DurNs(10_000_000_000);

/// The pause between two attempts to connect to a daemon that ended in the middle of the first.
const RETRY: Duration = Duration::from_millis(2);

/// The longest sleep of a thread that waits, between two looks at the socket. A daemon that was
/// killed moves no tail and wakes nobody; its socket's end is all there is to see.
const LOOK_AT_SOCKET: DurNs = DurNs(250_000_000);

/// How long a session looks for another daemon where nothing else is asked for.
const PATIENCE: DurNs = DurNs(10_000_000_000);

/// How a session finds another daemon.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    path: Option<PathBuf>,
    patience: DurNs,
}

impl Way {
    /// Whether it leads to one at all.
    pub(super) fn leads_on(&self) -> bool {
        self.path.is_some() && self.patience.0 > 0
    }

    /// How long to look for one.
    pub(super) fn patience(&self) -> DurNs {
        self.patience
    }

    /// A connection to whoever is there now.
    ///
    /// # Errors
    /// `SocketUnavailable`.
    pub(super) fn follow(&self) -> Result<Wire> {
        match &self.path {
            Some(path) => Wire::connect(path),
            None => Err(Error::new(ErrorCode::SocketUnavailable, "a socket without a path")),
        }
    }
}

/// What to ask for in HELLO. Every size is a power of two; unset, it is the daemon's default.
#[derive(Clone, Debug)]
pub struct SessionBuilder {
    submit_entries: u32,
    result_entries: u32,
    lanes: u32,
    look_at_socket: DurNs,
    patience: DurNs,
}

impl Default for SessionBuilder {
    fn default() -> SessionBuilder {
        let (submit_entries, result_entries, lanes) = (0, 0, 0);
        SessionBuilder {
            submit_entries,
            result_entries,
            lanes,
            look_at_socket: LOOK_AT_SOCKET,
            patience: PATIENCE,
        }
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

    /// For how long the session looks for another daemon when its own is gone; unset, 10 seconds.
    /// Zero: the session ends with its daemon. What that other daemon gets, see [`Session`].
    pub fn reconnect(mut self, patience: Duration) -> SessionBuilder {
        self.patience = DurNs(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
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

    /// Connects to the daemon whose socket is `path`. One that ends in the middle of it is waited
    /// for as [`SessionBuilder::reconnect`] says.
    ///
    /// # Errors
    /// `SocketUnavailable` where nobody listens there; the daemon's refusals: `PermissionDenied`,
    /// `QuotaExceeded`, `LimitExceeded`, `RateExceeded`, `VersionMismatch`; `SessionMemory` where
    /// what it sent makes no sense.
    pub fn connect_to(&self, path: &Path) -> Result<Session> {
        let way = Way { path: Some(path.to_owned()), patience: self.patience };
        let until = clock::now() + self.patience;
        let mut wire = way.follow()?;
        loop {
            let fault = match self.session(wire, &way) {
                Ok(session) => return Ok(session),
                Err(fault) => fault,
            };
            let ended = matches!(&fault, Fault::Gone(gone) if ends_in_passing(gone));
            let error = fault.into_refusal();
            if !ended || clock::now() >= until {
                return Err(error);
            }
            std::thread::sleep(RETRY);
            wire = loop {
                // Whoever was there a moment ago has to come back.
                match way.follow() {
                    Err(_) if clock::now() < until => std::thread::sleep(RETRY),
                    done => break done?,
                }
            };
        }
    }

    /// Says HELLO over a connected socket, which leads to no other.
    #[cfg(test)]
    pub(super) fn greet(&self, wire: Wire) -> Result<Session> {
        self.session(wire, &Way::default()).map_err(Fault::into_refusal)
    }

    fn session(&self, wire: Wire, way: &Way) -> core::result::Result<Session, Fault> {
        let hello = Hello {
            submit_entries: self.submit_entries,
            result_entries: self.result_entries,
            lanes: self.lanes,
            ..hello(Role::Client)
        };
        let arrived = arrive(&wire, &hello, &[], clock::now() + WELCOME_TIMEOUT)?;
        Ok(Session::over(Shared::new(wire, arrived, way.clone(), self.look_at_socket)?))
    }
}

/// Whether a daemon that hung up during the greeting has ended itself, as one does that is started
/// anew. One that says that it is the greeter's doing has answered.
fn ends_in_passing(gone: &Gone) -> bool {
    gone.farewell().is_none_or(|refusal| match refusal.code {
        // Others that greeted took its place.
        Some(ErrorCode::HelloTimeout) => true,
        code => code.is_some_and(|code| code.blame() == Blame::Daemon),
    })
}

/// Says HELLO in a session's name and takes what WELCOME brings.
pub(super) fn arrive(
    wire: &Wire,
    hello: &Hello,
    fds: &[BorrowedFd<'_>],
    until: MonoNs,
) -> core::result::Result<Arrived, Fault> {
    let (welcome, fds) = exchange(wire, hello, fds, until)?;
    Ok(take_memory(&welcome, fds)?)
}

/// A HELLO in this role that asks for nothing.
pub(super) fn hello(role: Role) -> Hello {
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

fn exchange(
    wire: &Wire,
    hello: &Hello,
    fds: &[BorrowedFd<'_>],
    until: MonoNs,
) -> core::result::Result<(Welcome, Vec<OwnedFd>), Fault> {
    let mut turn = wire.turn();
    let request = encode(Opcode::Hello as u16, 0, hello, &[]);
    let answer = turn.request(Opcode::Hello, request, fds, Some(until))?;
    let welcome: Welcome = answer.whole()?;
    if !(VERSIONS.0..=VERSIONS.1).contains(&welcome.version) {
        let (low, high, theirs) = (VERSIONS.0, VERSIONS.1, welcome.version);
        let text = format!("client speaks {low}..={high}, the daemon {theirs}");
        return Err(Error::new(ErrorCode::VersionMismatch, text).into());
    }
    turn.begin_life(welcome.generation);
    Ok((welcome, answer.fds))
}

/// Opens a control session: no memory, no tickets.
pub(super) fn greet_control(wire: &Wire) -> Result<()> {
    let until = clock::now() + WELCOME_TIMEOUT;
    exchange(wire, &hello(Role::Control), &[], until).map(drop).map_err(Fault::into_refusal)
}

fn take_memory(welcome: &Welcome, fds: Vec<OwnedFd>) -> Result<Arrived> {
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
    let page = area::open_status(&status)?;
    let told = (welcome.submit_entries, welcome.result_entries, welcome.lanes);
    if told != (sizes.submit(), sizes.result(), lane_count) {
        return Err(nonsense("its sizes are not those of the areas".to_owned()));
    }
    Ok(Arrived {
        number: welcome.session,
        rings,
        sizes,
        lanes: mapped_lanes,
        lane_count,
        page,
        status,
        bell: bell.map(Arc::new),
        fds: Fds { lanes, events },
    })
}

fn nonsense(what: String) -> Error {
    Error::new(ErrorCode::BadMessage, format!("WELCOME: {what}"))
}
