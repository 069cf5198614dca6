//! The service manager's fd store: what a daemon leaves with its manager for its next life.
//!
//! A *part* is one fd of a session. Each is kept under a *name* of its own, the session's number in
//! hex and the part's letter: at most 9 bytes, so that the names of all parts of all sessions fit
//! the environment of the next life. A session is *whole* when all its parts came back. Sends are
//! datagrams to the manager; [`Store::barrier`] says when it has dealt with those before.
//! (sd_notify(3): FDSTORE, FDNAME, FDSTOREREMOVE, BARRIER.)

use std::collections::BTreeMap;
use std::env;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, fstat};
use rustix::net::sockopt::socket_acceptconn;
use rustix::pipe::{PipeFlags, pipe_with};
use sd_notify::NotifyState;

use crate::core::error::{Error, ErrorCode, Result};
use crate::host::inherited;

/// Name of the listening socket in the manager's unit.
pub const LISTENER: &str = "listen";
/// Name of the status page.
const STATUS: &str = "status";
/// Bytes that a name may have.
const NAME_BYTES_MAX: usize = 12;

const _: () = assert!(2 * size_of::<u32>() < NAME_BYTES_MAX);

/// One fd of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The socket to the client.
    Connection,
    /// The rings area.
    Rings,
    /// The lanes area.
    Lanes,
    /// The ticket table.
    Table,
    /// The eventfd by which the client is told.
    Events,
    /// The eventfd that producers ring, where bells are eventfds.
    Bell,
}

impl Part {
    const ALL: [Part; 6] =
        [Part::Connection, Part::Rings, Part::Lanes, Part::Table, Part::Events, Part::Bell];

    /// Not a hex digit, so that a name can be read back.
    const fn letter(self) -> char {
        match self {
            Part::Connection => 's',
            Part::Rings => 'r',
            Part::Lanes => 'l',
            Part::Table => 't',
            Part::Events => 'n',
            Part::Bell => 'g',
        }
    }

    fn name(self, serial: u32) -> String {
        format!("{serial:x}{}", self.letter())
    }

    fn of_name(name: &str) -> Option<(u32, Part)> {
        let part = Part::ALL.into_iter().find(|part| name.ends_with(part.letter()))?;
        let digits = name.strip_suffix(part.letter())?;
        // Only what `name` writes: no signs, no leading zeros.
        let serial = u32::from_str_radix(digits, 16).ok()?;
        (part.name(serial) == name).then_some((serial, part))
    }
}

/// A whole session that the manager kept.
#[derive(Debug)]
pub struct Kept {
    /// Its number.
    pub serial: u32,
    /// The socket to its client.
    pub connection: OwnedFd,
    /// The rings area.
    pub rings: OwnedFd,
    /// The lanes area.
    pub lanes: OwnedFd,
    /// The ticket table.
    pub table: OwnedFd,
    /// The eventfd by which its client is told.
    pub events: OwnedFd,
    /// The eventfd that its producers ring, where its bells are eventfds.
    pub bell: Option<OwnedFd>,
}

/// What the manager started this life with.
#[derive(Debug, Default)]
pub struct Inherited {
    /// The listening socket.
    pub listener: Option<OwnedFd>,
    /// The status page.
    pub status: Option<OwnedFd>,
    /// Sessions, oldest first.
    pub sessions: Vec<Kept>,
    /// Numbers of sessions of which parts are missing: their clients were never welcomed.
    pub broken: Vec<u32>,
}

impl Inherited {
    /// Takes what this process was started with.
    ///
    /// # Errors
    /// `SystemFailed` where the manager's variables make no sense.
    pub fn take() -> Result<Inherited> {
        let named = inherited::take().map_err(|e| {
            Error::new(ErrorCode::SystemFailed, format!("LISTEN_FDS, LISTEN_FDNAMES: {e}"))
        })?;
        Ok(Inherited::sort(named))
    }

    fn sort(named: Vec<(String, OwnedFd)>) -> Inherited {
        let mut found = Inherited::default();
        let mut parts: BTreeMap<u32, BTreeMap<Part, OwnedFd>> = BTreeMap::new();
        for (name, fd) in named {
            if let Some((serial, part)) = Part::of_name(&name) {
                parts.entry(serial).or_default().insert(part, fd);
            } else if name == STATUS {
                found.status = Some(fd);
            } else if name == LISTENER || is_listener(fd.as_fd()) {
                found.listener = Some(fd);
            }
        }
        for (serial, parts) in parts {
            match whole(serial, parts) {
                Some(kept) => found.sessions.push(kept),
                None => found.broken.push(serial),
            }
        }
        found
    }
}

fn is_listener(fd: BorrowedFd<'_>) -> bool {
    let is_socket = |mode| FileType::from_raw_mode(mode) == FileType::Socket;
    fstat(fd).is_ok_and(|stat| is_socket(stat.st_mode)) && socket_acceptconn(fd) == Ok(true)
}

fn whole(serial: u32, mut parts: BTreeMap<Part, OwnedFd>) -> Option<Kept> {
    let mut take = |part| parts.remove(&part);
    Some(Kept {
        serial,
        connection: take(Part::Connection)?,
        rings: take(Part::Rings)?,
        lanes: take(Part::Lanes)?,
        table: take(Part::Table)?,
        events: take(Part::Events)?,
        bell: take(Part::Bell),
    })
}

/// The store, where there is one.
#[derive(Debug)]
pub struct Store {
    used: bool,
}

impl Store {
    /// The store of the manager that started this process, if it has one and it is `wanted`.
    pub fn detect(wanted: bool) -> Store {
        // A manager that says how many fds it keeps, and keeps none, has no store.
        let none = env::var_os("FDSTORE").is_some_and(|max| max == "0");
        Store { used: wanted && !none && env::var_os("NOTIFY_SOCKET").is_some() }
    }

    /// Whether there is one.
    pub fn is_used(&self) -> bool {
        self.used
    }

    /// Leaves a session's part with the manager.
    ///
    /// # Errors
    /// `SystemFailed` where the manager cannot be reached.
    pub fn keep(&self, serial: u32, part: Part, fd: BorrowedFd<'_>) -> Result<()> {
        self.keep_named(&part.name(serial), fd)
    }

    /// Leaves the status page with the manager.
    ///
    /// # Errors
    /// As [`Store::keep`].
    pub fn keep_status(&self, fd: BorrowedFd<'_>) -> Result<()> {
        self.keep_named(STATUS, fd)
    }

    fn keep_named(&self, name: &str, fd: BorrowedFd<'_>) -> Result<()> {
        if !self.used {
            return Ok(());
        }
        let message = [NotifyState::FdStore, NotifyState::FdName(name)];
        sd_notify::notify_with_fds(&message, &[fd]).map_err(|e| failed("FDSTORE", e))
    }

    /// Has the manager close the parts of a session.
    pub fn forget(&self, serial: u32) {
        if !self.used {
            return;
        }
        for part in Part::ALL {
            let name = part.name(serial);
            // A manager that does not hear this keeps a session whose control line says that it is
            // closed: the next life leaves it out.
            let _ = sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(&name)]);
        }
    }

    /// Asks the manager to say when it has dealt with all that was sent before: the fd answered
    /// hangs up then.
    ///
    /// # Errors
    /// `SystemFailed` where the manager cannot be reached.
    pub fn barrier(&self) -> Result<OwnedFd> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed("pipe", e))?;
        sd_notify::notify_with_fds(&[NotifyState::Custom("BARRIER=1")], &[theirs.as_fd()])
            .map_err(|e| failed("BARRIER", e))?;
        Ok(ours)
    }
}

fn failed(what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::SystemFailed, format!("service manager: {what}: {error}"))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
