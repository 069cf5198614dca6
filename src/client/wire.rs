//! The session's socket: requests out, their answers in.
//!
//! A *turn* is one request and its answer. What always holds: one turn at a time, so that the
//! answer read is the request's; an answer under another cookie belongs to a turn that was given
//! up and is dropped. An ERROR that closes the session is remembered: it is the reason that every
//! later call gives. SUBMIT's cookies count the accepted ones from 1; all others have the top bit.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::MonoNs;
use crate::host::clock;
use crate::proto::entry::SubmitEntry;
use crate::proto::limits::{MESSAGE_BYTES_MAX, SUBMIT_FDS_MAX};
use crate::proto::message::{self, Opcode, REPLY, encode};
use crate::proto::request::{Refusal, parse_reply, submit_tail};

/// File descriptors that one answer can bring: WELCOME's five.
const ANSWER_FDS_MAX: usize = 5;

/// Set in the cookies of all requests but SUBMIT.
const OTHER_COOKIES: u64 = 1 << 63;

/// A connection to the daemon.
pub(crate) struct Wire {
    socket: OwnedFd,
    turn: Mutex<Turn>,
}

/// What the thread whose turn it is may touch.
struct Turn {
    others: u64,
    submits: u64,
    record: Box<[u8]>,
    /// Why the daemon closed the session, once it has said so.
    farewell: Option<String>,
}

/// An answer: the bytes after the header, and the fds that came along.
pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

impl Answer {
    /// The body, where the answer has no tail.
    pub(crate) fn whole<A: FromBytes + KnownLayout + Immutable>(&self) -> Result<A> {
        A::read_from_bytes(&self.body).map_err(|_| self.misfit::<A>())
    }

    /// The body and the tail that follows it.
    pub(crate) fn split<A: FromBytes + KnownLayout + Immutable>(&self) -> Result<(A, &[u8])> {
        A::read_from_prefix(&self.body).map_err(|_| self.misfit::<A>())
    }

    fn misfit<A>(&self) -> Error {
        let text = format!("reply: a body of {} bytes, not {}", self.body.len(), size_of::<A>());
        Error::new(ErrorCode::BadMessage, text)
    }
}

impl Wire {
    /// Connects to the daemon's socket at `path`.
    pub(crate) fn connect(path: &Path) -> Result<Wire> {
        let fail = |what: &str, errno: Errno| {
            let text = format!("{}: {what}: {errno}", path.display());
            Error::new(ErrorCode::SocketUnavailable, text)
        };
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|errno| fail("socket", errno))?;
        let address = SocketAddrUnix::new(path).map_err(|errno| fail("path", errno))?;
        retry(|| rustix::net::connect(&socket, &address)).map_err(|e| fail("connect", e))?;
        Ok(Wire::over(socket))
    }

    /// The wire over a socket that is connected already.
    pub(crate) fn over(socket: OwnedFd) -> Wire {
        let record = vec![0; MESSAGE_BYTES_MAX].into_boxed_slice();
        let turn = Turn { others: 0, submits: 0, record, farewell: None };
        Wire { socket, turn: Mutex::new(turn) }
    }

    /// Sends a request and reads its answer, until `until` at the latest.
    ///
    /// # Errors
    /// The daemon's own, `Disconnected` at the socket's end or at `until`, `SystemFailed`.
    pub(crate) fn request<Q: IntoBytes + Immutable>(
        &self,
        opcode: Opcode,
        body: &Q,
        tail: &[u8],
        until: Option<MonoNs>,
    ) -> Result<Answer> {
        let mut turn = self.turn();
        turn.others += 1;
        let cookie = turn.others | OTHER_COOKIES;
        self.send(&turn, &encode(opcode as u16, cookie, body, tail), &[])?;
        self.answer(&mut turn, opcode, cookie, until)
    }

    /// Sends tickets in one SUBMIT, with the fds that they name by index. All or none are taken.
    pub(crate) fn submit(&self, entries: &[SubmitEntry], fds: &[BorrowedFd<'_>]) -> Result<()> {
        let mut turn = self.turn();
        let cookie = turn.submits + 1;
        let body = message::Submit { tickets: entries.len() as u32, fds: fds.len() as u32 };
        let record = encode(Opcode::Submit as u16, cookie, &body, submit_tail(entries));
        self.send(&turn, &record, fds)?;
        self.answer(&mut turn, Opcode::Submit, cookie, None)?.whole::<message::Submitted>()?;
        turn.submits = cookie;
        Ok(())
    }

    /// Why the daemon is gone, if it is: the socket's end is seen without waiting.
    pub(crate) fn hung_up(&self) -> Option<Error> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        match poll(&mut fds, Some(&Timespec::default())) {
            Ok(1) => {}
            _ => return None,
        }
        // A thread in its turn sees the end by itself and remembers what the daemon said last.
        let mut turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Some(closed(None)),
        };
        // The rest of the socket's queue ends in EOF or an error, and is short: answers only.
        while self.receive(&mut turn, RecvFlags::DONTWAIT).is_ok() {}
        Some(closed(turn.farewell.as_deref()))
    }

    /// Says something that has no answer worth waiting for.
    pub(crate) fn last_words(&self, opcode: Opcode) {
        let turn = self.turn();
        let record = encode(opcode as u16, OTHER_COOKIES, &(), &[]);
        // The socket is closed next, which says the same.
        let _ = self.send(&turn, &record, &[]);
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, turn: &Turn, record: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SUBMIT_FDS_MAX as usize))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            let text = format!("message: {} file descriptors, at most {SUBMIT_FDS_MAX}", fds.len());
            return Err(Error::new(ErrorCode::TooManyFds, text));
        }
        let sent = retry(|| {
            let parts = [IoSlice::new(record)];
            rustix::net::sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL)
        });
        match sent {
            Ok(_) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {
                Err(closed(turn.farewell.as_deref()))
            }
            Err(errno) => Err(system("sendmsg", errno)),
        }
    }

    /// Reads until the answer under `cookie` is there.
    fn answer(
        &self,
        turn: &mut Turn,
        opcode: Opcode,
        cookie: u64,
        until: Option<MonoNs>,
    ) -> Result<Answer> {
        loop {
            if let Some(until) = until {
                self.await_record(opcode, until)?;
            }
            let (bytes, fds) = self.receive(turn, RecvFlags::empty())?;
            let (header, reply) = parse_reply(&turn.record[..bytes])?;
            if header.cookie != cookie {
                continue;
            }
            let body = reply.map_err(refused)?.to_vec();
            if header.opcode != opcode as u16 | REPLY {
                let text = format!("reply: opcode {:#x} answers {}", header.opcode, opcode.name());
                return Err(Error::new(ErrorCode::BadMessage, text));
            }
            return Ok(Answer { body, fds });
        }
    }

    /// Returns when there is something to read.
    fn await_record(&self, opcode: Opcode, until: MonoNs) -> Result<()> {
        loop {
            let left = until.since(clock::now());
            let left = Timespec {
                tv_sec: (left.0 / 1_000_000_000) as i64,
                tv_nsec: (left.0 % 1_000_000_000) as _,
            };
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut fds, Some(&left)) {
                Ok(0) => {
                    let text = format!("{}: no answer in time", opcode.name());
                    return Err(Error::new(ErrorCode::Disconnected, text));
                }
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(system("poll", errno)),
            }
        }
    }

    /// Reads one record into the turn's buffer: its bytes and fds.
    fn receive(&self, turn: &mut Turn, flags: RecvFlags) -> Result<(usize, Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ANSWER_FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = retry(|| {
            let mut parts = [IoSliceMut::new(&mut turn.record)];
            let flags = flags | RecvFlags::CMSG_CLOEXEC;
            rustix::net::recvmsg(&self.socket, &mut parts, &mut control, flags)
        });
        let message = match received {
            Ok(message) => message,
            Err(Errno::CONNRESET) => return Err(closed(turn.farewell.as_deref())),
            Err(errno) => return Err(system("recvmsg", errno)),
        };
        let mut fds = Vec::new();
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = part {
                fds.extend(rights);
            }
        }
        if message.bytes == 0 {
            return Err(closed(turn.farewell.as_deref()));
        }
        if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(Error::new(ErrorCode::BadMessage, "reply: larger than any can be"));
        }
        turn.note_farewell(message.bytes);
        Ok((message.bytes, fds))
    }
}

impl Turn {
    fn note_farewell(&mut self, bytes: usize) {
        if let Ok((_, Err(refusal))) = parse_reply(&self.record[..bytes])
            && refusal.closes
        {
            self.farewell = Some(refused(refusal).to_string());
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The error of a session whose daemon closed it, for this reason.
pub(crate) fn closed(reason: Option<&str>) -> Error {
    let reason = reason.unwrap_or("the connection ended");
    Error::new(ErrorCode::Disconnected, format!("the daemon closed the session: {reason}"))
}

/// A failed system call as a coded error.
pub(crate) fn system(call: &str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::SystemFailed, format!("{call}: {error}"))
}

fn refused(refusal: Refusal) -> Error {
    match refusal.code {
        Some(code) => Error::new(code, refusal.detail),
        // A newer daemon's code.
        None => {
            let text = format!("error {}: {}", refusal.number, refusal.detail);
            Error::new(ErrorCode::NotSupported, text)
        }
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}
