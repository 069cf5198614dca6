//! One connection: its socket, who is behind it, how far it has come.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::adopt::FileId;
use super::keep::Keeping;
use super::wire::{self, Sent};
use crate::core::error::Result;
use crate::core::time::MonoNs;
use crate::daemon::command::{NO_SLOT, Seat};
use crate::engine::SessionParams;
use crate::proto::limits::{SESSION_REPLIES_MAX, SESSION_REQUESTS_MAX};
use crate::shm::control::Control;
use crate::shm::region::{ReadWrite, Region};

/// Who connected, as the kernel says.
#[derive(Clone, Copy, Debug)]
pub struct Credentials {
    pub pid: u32,
    pub uid: u32,
}

/// How far a connection has come.
pub enum Phase {
    /// It has not said HELLO.
    Greeting,
    /// It looks and steers, without a session.
    Control,
    /// Its session is left with the service manager before it is welcomed.
    Keeping(Box<Keeping>),
    /// It has a session.
    Session(Box<Session>),
    /// It was told why it is closed, and is waited for to hang up.
    Parting,
}

/// What the desk keeps of a session.
pub struct Session {
    pub seat: Seat,
    pub params: SessionParams,
    pub control: Control<Region<ReadWrite>>,
    /// Which lanes it has.
    pub lanes: FileId,
    /// File descriptors of its tickets.
    pub fds: u32,
    /// Of a session that an earlier life of the daemon made: the cookies of the last requests that
    /// this life has received.
    received: Option<VecDeque<u64>>,
}

impl Session {
    /// # Errors
    /// `SystemFailed`.
    pub fn new(
        seat: Seat,
        params: SessionParams,
        control: Control<Region<ReadWrite>>,
        lanes: &OwnedFd,
        recovered: bool,
    ) -> Result<Session> {
        let (lanes, received) = (FileId::of(lanes)?, recovered.then(VecDeque::new));
        Ok(Session { seat, params, control, lanes, fds: 0, received })
    }

    /// Notes a request; `true` where this life has received one under the same cookie.
    pub fn receive(&mut self, cookie: u64) -> bool {
        let Some(received) = &mut self.received else { return false };
        if received.contains(&cookie) {
            return true;
        }
        if received.len() >= SESSION_REQUESTS_MAX as usize {
            received.pop_front();
        }
        received.push_back(cookie);
        false
    }
}

/// A connection.
pub struct Peer {
    pub serial: u32,
    pub socket: OwnedFd,
    pub pidfd: Option<OwnedFd>,
    pub who: Credentials,
    pub phase: Phase,
    /// When a greeting or a parting ends by itself.
    pub deadline: MonoNs,
    /// Requests that wait for FILL's answer.
    pub asked: u32,
    /// What the epoll set has been told to watch.
    pub interest: rustix::event::epoll::EventFlags,
    outbox: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
}

/// How a peer takes what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// All is on its way.
    Done,
    /// Some waits until it reads.
    Waiting,
    /// It does not read, and too much waits.
    TooSlow,
    /// It has gone.
    Gone,
}

impl Peer {
    pub fn new(
        serial: u32,
        socket: OwnedFd,
        who: Credentials,
        pidfd: Option<OwnedFd>,
        deadline: MonoNs,
    ) -> Peer {
        Peer {
            serial,
            socket,
            pidfd,
            who,
            phase: Phase::Greeting,
            deadline,
            asked: 0,
            interest: rustix::event::epoll::EventFlags::empty(),
            outbox: VecDeque::new(),
        }
    }

    /// Its session's seat, or one that only bears its serial number.
    pub fn seat(&self) -> Seat {
        match &self.phase {
            Phase::Session(session) => session.seat,
            _ => Seat { slot: NO_SLOT, serial: self.serial },
        }
    }

    /// Sends a record, in order.
    pub fn send(&mut self, record: Vec<u8>, fds: Vec<OwnedFd>) -> Delivery {
        self.outbox.push_back((record, fds));
        self.flush()
    }

    /// Sends what waits.
    pub fn flush(&mut self) -> Delivery {
        while let Some((record, fds)) = self.outbox.front() {
            match wire::send(self.socket.as_fd(), record, fds) {
                Sent::Done => {
                    self.outbox.pop_front();
                }
                Sent::Full if self.outbox.len() > SESSION_REPLIES_MAX => return Delivery::TooSlow,
                Sent::Full => return Delivery::Waiting,
                Sent::Gone => return Delivery::Gone,
            }
        }
        Delivery::Done
    }

    /// Whether something waits until the peer reads.
    pub fn has_outbox(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// For logs.
    pub fn label(&self) -> String {
        let Credentials { pid, uid, .. } = self.who;
        format!("peer {} (pid {pid}, uid {uid}, fd {})", self.serial, self.socket.as_raw_fd())
    }
}
