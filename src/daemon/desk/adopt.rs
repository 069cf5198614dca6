//! Adoption: a client whose daemon is gone brings the lanes that it had, and its eventfds, so that
//! whatever stores there or listens to them need not know.
//!
//! All of it is a stranger's until it is checked: the lanes have to be a memfd of fixed size that
//! says of itself what HELLO says, the eventfds have to be eventfds. A client that made them itself
//! gains nothing: the daemon reads lanes and never writes them, as ever.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstat};

use super::Desk;
use super::closer::Strangers;
use super::peer::Phase;
use crate::core::error::{Error, ErrorCode, Result};
use crate::host::fds::{self, FdKind};
use crate::proto::message::{Hello, Role};
use crate::shm::area::open_fixed_lanes;

/// File descriptors of a HELLO: lanes, eventfd, bell eventfd.
const FDS: std::ops::RangeInclusive<usize> = 2..=3;

/// What is adopted.
pub struct Adopted {
    pub lanes: OwnedFd,
    pub events: OwnedFd,
    /// What bells were rung through, where they were.
    pub bell: Option<OwnedFd>,
}

/// Which file an fd is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(u64, u64);

impl FileId {
    /// Of this fd.
    ///
    /// # Errors
    /// `SystemFailed`.
    pub fn of(fd: impl AsFd) -> Result<FileId> {
        let stat = fstat(fd)
            .map_err(|errno| Error::new(ErrorCode::SystemFailed, format!("fstat: {errno}")))?;
        Ok(FileId(stat.st_dev, stat.st_ino))
    }
}

impl Desk {
    /// Checks what came with HELLO; none where nothing is to be adopted.
    ///
    /// # Errors
    /// `BadMessage`, `TooManyFds`, `SessionMemory`, `VersionMismatch` for the lanes,
    /// `FdKindRefused` for what is no eventfd, `LimitExceeded` for lanes that a session has.
    pub(super) fn adopted(&self, hello: &Hello, fds: Strangers) -> Result<Option<Adopted>> {
        match hello.adopt {
            0 => return Ok(None),
            1 if hello.role != Role::Control as u32 => {}
            1 => return Err(bad("a control session has no lanes")),
            other => return Err(bad(&format!("{other} is neither 0 nor 1"))),
        }
        let count = fds.as_slice().len();
        if count > *FDS.end() {
            let text = format!("HELLO: {count} file descriptors, at most {}", FDS.end());
            return Err(Error::new(ErrorCode::TooManyFds, text));
        }
        let too_few = || bad(&format!("{count} file descriptors, at least {}", FDS.start()));
        let [lanes, eventfds @ ..] = fds.as_slice() else { return Err(too_few()) };
        if eventfds.is_empty() {
            return Err(too_few());
        }
        self.check_lanes(hello, lanes)?;
        eventfds.iter().try_for_each(check_eventfd)?;
        let mut fds = fds.take().into_iter();
        let (Some(lanes), Some(events), bell) = (fds.next(), fds.next(), fds.next()) else {
            return Err(too_few());
        };
        Ok(Some(Adopted { lanes, events, bell }))
    }

    fn check_lanes(&self, hello: &Hello, lanes: &OwnedFd) -> Result<()> {
        let count = open_fixed_lanes(lanes)?;
        if count != hello.lanes {
            let text =
                format!("session memory: lanes area: {count} lanes, {} asked for", hello.lanes);
            return Err(Error::new(ErrorCode::SessionMemory, text));
        }
        let file = FileId::of(lanes)?;
        let has = |phase: &Phase| match phase {
            Phase::Session(session) => session.lanes == file,
            Phase::Keeping(keeping) => keeping.session.lanes == file,
            _ => false,
        };
        match self.peers.values().find(|peer| has(&peer.phase)) {
            None => Ok(()),
            Some(peer) => {
                let text = format!(
                    "HELLO: adopt: sessions of these lanes: 2, at most 1 (session {} has them)",
                    peer.serial
                );
                Err(Error::new(ErrorCode::LimitExceeded, text))
            }
        }
    }
}

/// Lets in eventfds alone, and has them block nobody.
fn check_eventfd(fd: &OwnedFd) -> Result<()> {
    let kind = fds::classify(fd.as_fd())?;
    if kind != FdKind::Eventfd {
        let text = format!("HELLO: adopt: a {kind}: only an eventfd can be adopted");
        return Err(Error::new(ErrorCode::FdKindRefused, text));
    }
    fcntl_getfl(fd)
        .and_then(|flags| fcntl_setfl(fd, flags | OFlags::NONBLOCK))
        .map_err(|errno| Error::new(ErrorCode::SystemFailed, format!("fcntl: {errno}")))
}

fn bad(what: &str) -> Error {
    Error::new(ErrorCode::BadMessage, format!("HELLO: adopt: {what}"))
}
