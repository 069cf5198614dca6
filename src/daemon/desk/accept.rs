//! Taking connections: who it is, whether they may, and what happens when fds run out.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::Desk;
use super::peer::{self, Credentials, Phase};
use super::poller::Source;
use super::wire;
use crate::core::error::{Error, ErrorCode};
use crate::core::rate::wait_ms;
use crate::core::time::DurNs;
use crate::engine::Refusal;
use crate::host::identity::Peer;
use crate::host::{clock, fds};
use crate::proto::limits::{GREETINGS_MAX, HELLO_TIMEOUT_MS};
use crate::proto::message;

/// Connections taken before others have their turn.
const ACCEPT_BATCH: usize = 64;

/// How long connections wait when not even the spare fd is there.
const NO_FDS: DurNs = DurNs(10_000_000);

/// A fd to give up when there is no other.
pub fn spare() -> Option<OwnedFd> {
    rustix::fs::open("/dev/null", rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty()).ok()
}

impl Desk {
    pub(super) fn accept(&mut self) {
        // It may have been lost while there were none.
        self.spare = self.spare.take().or_else(spare);
        for _ in 0..ACCEPT_BATCH {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(self.setup.listener.as_fd(), flags) {
                Ok(socket) => self.connected(socket),
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE) => return self.turn_away(),
                // The peer went away while it waited, or a signal came.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(errno) => {
                    let error = Error::new(ErrorCode::SystemFailed, format!("accept: {errno}"));
                    return self.complaints.about("", &error);
                }
            }
        }
    }

    /// No fd is left: gives the spare one up to tell the next in line, and takes it back.
    fn turn_away(&mut self) {
        if self.spare.take().is_some() {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            if let Ok(socket) = accept_with(self.setup.listener.as_fd(), flags) {
                let error = Error::new(ErrorCode::SystemFailed, "accept: too many open files");
                let _ = wire::send(socket.as_fd(), &message::error(0, &error, 0, true), &[]);
            }
            self.spare = spare();
        } else {
            // Nobody can be told: who connects waits, and the desk does not look in vain.
            self.poller.change(Source::Listener, &self.setup.listener, EventFlags::empty());
            self.accept_again = Some(clock::now() + NO_FDS);
        }
    }

    /// Takes connections again, where that was left for later.
    pub(super) fn accept_overdue(&mut self) {
        if self.accept_again.is_some_and(|at| at <= clock::now()) {
            self.accept_again = None;
            self.poller.change(Source::Listener, &self.setup.listener, EventFlags::IN);
        }
    }

    fn connected(&mut self, socket: OwnedFd) {
        let peer = match Peer::of(socket.as_fd()) {
            Ok(peer) => peer,
            Err(e) => {
                let text = format!("SO_PEERCRED: {e}");
                return self.complaints.about("", &Error::new(ErrorCode::SystemFailed, text));
            }
        };
        // A peer of another PID namespace has no number here.
        let pid = peer.pid.map_or(0, i32::unsigned_abs);
        let who = Credentials { pid, uid: peer.uid };
        let welcome = self
            .may_connect(peer.uid)
            .and_then(|()| Ok(self.setup.allow.check(peer.uid, peer.gid, &peer.groups)?))
            .and_then(|()| Ok(self.closer.check(peer.uid)?));
        if let Err(Refusal { error, value }) = welcome {
            let _ = wire::send(socket.as_fd(), &message::error(0, &error, value, true), &[]);
            let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
            self.closer.close(peer.uid, vec![socket]);
            return self.complaints.about(&format!("pid {pid}"), &error);
        }
        self.make_room();
        let pidfd = fds::pidfd_of_peer(socket.as_fd())
            .inspect_err(|e| {
                let text = format!("pid {pid}: {e}");
                self.complaints.about("", &Error::new(ErrorCode::PidfdUnavailable, text));
            })
            .ok();
        let serial = self.next_serial();
        let deadline = clock::now() + DurNs::from_us(HELLO_TIMEOUT_MS * 1000);
        let peer = peer::Peer::new(serial, socket, who, pidfd, deadline);
        let watched = self.poller.watch(Source::Peer(serial), &peer.socket).and_then(|()| {
            peer.pidfd.iter().try_for_each(|fd| self.poller.watch(Source::Process(serial), fd))
        });
        if let Err(error) = watched {
            return self.complaints.about(&format!("pid {pid}"), &error);
        }
        self.peers.insert(serial, peer);
        self.greeting.push_back(serial);
        self.set_interest(serial);
    }

    /// Counts a connection of a user, so that a storm of them costs a look and a record each.
    ///
    /// # Errors
    /// `RateExceeded`, with the milliseconds to wait.
    fn may_connect(&mut self, uid: u32) -> core::result::Result<(), Refusal> {
        let now = clock::now();
        let most = self.setup.config.limits.connects_per_second;
        self.connects.check(uid, now).map_err(|wait| {
            let value = wait_ms(wait);
            let text = format!(
                "uid {uid}: connections, at most {most} a second: again in {value} ms \
                 (raise [limits] connects_per_second)"
            );
            Refusal { error: Error::new(ErrorCode::RateExceeded, text), value }
        })?;
        self.connects.spend(uid, now);
        Ok(())
    }

    /// A number that no peer has, and not 0.
    fn next_serial(&mut self) -> u32 {
        loop {
            self.serial = self.serial.wrapping_add(1);
            if self.serial != 0 && !self.peers.contains_key(&self.serial) {
                return self.serial;
            }
        }
    }

    /// Has the oldest peers that greet go, where there are too many.
    fn make_room(&mut self) {
        if self.greeting.len() >= GREETINGS_MAX as usize {
            // Those that have greeted or gone since take no room.
            let greets = |peer: &peer::Peer| matches!(peer.phase, Phase::Greeting);
            self.greeting.retain(|serial| self.peers.get(serial).is_some_and(greets));
        }
        while self.greeting.len() >= GREETINGS_MAX as usize {
            if let Some(oldest) = self.greeting.pop_front() {
                self.no_hello(oldest);
            }
        }
    }

    /// A peer has been silent for too long, or others greet.
    pub(super) fn no_hello(&mut self, serial: u32) {
        let Some(peer) = self.peers.get(&serial) else { return };
        if matches!(peer.phase, Phase::Greeting) {
            let left_ms = peer.deadline.since(clock::now()).as_us() / 1000;
            let text = format!("no HELLO within {} ms", HELLO_TIMEOUT_MS.saturating_sub(left_ms));
            self.part(serial, 0, &Error::new(ErrorCode::HelloTimeout, text));
        }
    }
}
