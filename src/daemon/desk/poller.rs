//! The desk's epoll set: level-triggered, each source with a name that is never used twice.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::MonoNs;
use crate::host::clock;

/// Events taken at once.
const BATCH: usize = 64;

/// What an event is about. Peers go by serial number, so that an event of one that has left is
/// not taken for another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Listener,
    Fill,
    Signals,
    /// The futex trial is over.
    Trial,
    Peer(u32),
    /// The process behind a peer.
    Process(u32),
    /// The service manager's answer about a peer's session.
    Barrier(u32),
}

impl Source {
    fn data(self) -> EventData {
        let (kind, serial) = match self {
            Source::Listener => (0, 0),
            Source::Fill => (1, 0),
            Source::Signals => (2, 0),
            Source::Peer(serial) => (3, serial),
            Source::Process(serial) => (4, serial),
            Source::Barrier(serial) => (5, serial),
            Source::Trial => (6, 0),
        };
        EventData::new_u64(kind << 32 | u64::from(serial))
    }

    fn of(data: EventData) -> Option<Source> {
        let serial = data.u64() as u32;
        Some(match data.u64() >> 32 {
            0 => Source::Listener,
            1 => Source::Fill,
            2 => Source::Signals,
            3 => Source::Peer(serial),
            4 => Source::Process(serial),
            5 => Source::Barrier(serial),
            6 => Source::Trial,
            _ => return None,
        })
    }
}

/// The set.
pub struct Poller {
    epoll: OwnedFd,
}

fn failed(errno: Errno) -> Error {
    Error::new(ErrorCode::SystemFailed, format!("epoll: {errno}"))
}

impl Poller {
    pub fn new() -> Result<Poller> {
        Ok(Poller { epoll: epoll::create(CreateFlags::CLOEXEC).map_err(failed)? })
    }

    /// Watches a source for input.
    pub fn watch(&self, source: Source, fd: impl AsFd) -> Result<()> {
        epoll::add(&self.epoll, fd, source.data(), EventFlags::IN).map_err(failed)
    }

    /// Changes what a source is watched for. It cannot fail for a fd that is in the set.
    pub fn change(&self, source: Source, fd: impl AsFd, flags: EventFlags) {
        let _ = epoll::modify(&self.epoll, fd, source.data(), flags);
    }

    /// Takes a source out. It cannot fail for a fd that is in the set.
    pub fn forget(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits for events, to `until` at most.
    pub fn wait(&self, until: Option<MonoNs>) -> Result<Vec<(Source, EventFlags)>> {
        let timeout = until.map(|until| {
            let left = until.since(clock::now()).0;
            let (tv_sec, tv_nsec) = ((left / 1_000_000_000) as i64, (left % 1_000_000_000) as i64);
            Timespec { tv_sec, tv_nsec }
        });
        let empty = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [empty; BATCH];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok(count) => Ok(events[..count]
                .iter()
                .filter_map(|event| Some((Source::of(event.data)?, event.flags)))
                .collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(errno) => Err(failed(errno)),
        }
    }
}
