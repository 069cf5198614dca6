//! Where the waiters of a process wait: words, stamps, and what wakes them.

use std::os::fd::OwnedFd;

use parkd::client::{Lane, Session};
use parkd::shm::area::{Area, open_lanes};
use parkd::shm::lanes::LanesView;
use parkd::shm::region::{ReadOnly, Region};
use rustix::event::{EventfdFlags, eventfd};

use super::super::contender::Way;
use super::super::orders::Run;
use super::super::wake::WakeKind;
use super::super::{Doing, Result};
use super::watch::STAMPS;
use crate::support::raw;

/// See the file's head.
pub struct Place {
    /// The words, the stamps, then what the producer's wakes need.
    fds: Vec<OwnedFd>,
    session: Option<(Session, Vec<Lane>)>,
    raw: Option<raw::Session>,
}

/// What a waiter sees of a lanes area.
pub type View = LanesView<Region<ReadOnly>>;

fn view(fd: &OwnedFd) -> Result<View> {
    let (region, count) = open_lanes::<ReadOnly>(fd).doing("lanes")?;
    LanesView::new(region, count).doing("lanes")
}

impl Place {
    /// Makes what a process of this run needs.
    pub fn open(run: &Run) -> Result<Place> {
        let waiters = run.each();
        let stamps = (waiters * STAMPS).next_power_of_two().max(64);
        let stamps = Area::lanes(stamps).doing("stamps")?.into_fd();
        let bare = run.way == Way::Results;
        let raw = run.daemon.as_ref().filter(|_| bare).map(|path| {
            let session = raw::Session::open(path);
            for _ in 0..waiters {
                session.lane(64);
            }
            session
        });
        let session = run.daemon.as_ref().filter(|_| !bare).map(|path| {
            let session = Session::builder().connect_to(path)?;
            let lanes = (0..waiters).map(|_| session.lane()).collect::<Result2<Vec<_>>>()?;
            Ok((session, lanes))
        });
        let session = session
            .transpose()
            .map_err(|error: parkd::core::error::Error| format!("session: {error}"))?;
        let words = match &session {
            Some((session, lanes)) => {
                let in_order = (0..).zip(lanes).all(|(at, lane)| lane.index() == at);
                if !in_order {
                    return Err("a fresh session's lanes are not in order".into());
                }
                session.lanes_fd().doing("lanes")?
            }
            None => match &raw {
                Some(raw) => raw.lanes_fd.try_clone().doing("lanes")?,
                None => Area::lanes(64).doing("words")?.into_fd(),
            },
        };
        let mut fds = vec![words, stamps];
        match (&session, run.wake) {
            (Some((session, _)), WakeKind::Bell) => {
                fds.push(session.status_fd().doing("status")?);
                fds.extend(session.bell_fd().doing("bell")?);
            }
            (None, WakeKind::Eventfd) => {
                for _ in 0..waiters {
                    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
                    fds.push(eventfd(0, flags).doing("eventfd")?);
                }
            }
            _ => {}
        }
        Ok(Place { fds, session, raw })
    }

    /// What the producer is to get.
    pub fn fds(&self) -> &[OwnedFd] {
        &self.fds
    }

    /// The eventfds of waiters whom one wakes.
    pub fn eventfds(&self) -> &[OwnedFd] {
        self.fds.get(2..).unwrap_or_default()
    }

    /// The words and the stamps.
    pub fn views(&self) -> Result<(View, View)> {
        Ok((view(&self.fds[0])?, view(&self.fds[1])?))
    }

    /// The words, to sleep on.
    pub fn words(&self) -> Result<Region<ReadOnly>> {
        Ok(open_lanes::<ReadOnly>(&self.fds[0]).doing("words")?.0)
    }

    /// The session, with a lane for each waiter.
    pub fn session(&self) -> Result<&(Session, Vec<Lane>)> {
        self.session.as_ref().ok_or_else(|| "no session".into())
    }

    /// The session of a waiter that goes around the library.
    pub fn raw(&self) -> Result<&raw::Session> {
        self.raw.as_ref().ok_or_else(|| "no session".into())
    }

    /// A waiter's lane.
    pub fn lane(&self, waiter: u32) -> Result<&Lane> {
        self.session()?.1.get(waiter as usize).ok_or_else(|| "no lane".into())
    }
}

type Result2<T> = parkd::core::error::Result<T>;
