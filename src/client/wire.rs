//! The session's connection: requests out, their answers in.
//!
//! A *turn* is one request and its answer. What always holds: one turn at a time, so that the
//! answer read is the request's; an answer under another cookie belongs to a turn that was given
//! up and is dropped. SUBMIT's cookies count the accepted ones from 1; all others have the top bit.
//!
//! A daemon may be started anew behind the same socket. It says RESUMED then: a turn that still
//! waits sends its request [`AGAIN`](crate::proto::message::AGAIN), and what is read after the
//! notice was said by that *life* of the daemon.
//!
//! A daemon that comes back without the socket needs a new one: [`Wire::replace`]. The *epoch*
//! counts them. An ERROR that closes the session is remembered: it is the reason that is given when
//! the connection turns out to be gone.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use rustix::net::RecvFlags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::socket::{self, Failed};
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::MonoNs;
use crate::proto::entry::SubmitEntry;
use crate::proto::limits::MESSAGE_BYTES_MAX;
use crate::proto::message::{
    self, Header, Opcode, REPLY, RESUMED, Welcome, encode, mark_again, set_cookie,
};
use crate::proto::request::{Refusal, parse_notice, parse_reply, submit_tail};

/// Set in the cookies of all requests but SUBMIT.
const OTHER_COOKIES: u64 = 1 << 63;

/// A connection to the daemon.
pub(crate) struct Wire {
    /// For who does not wait for a turn.
    socket: Mutex<(u32, Arc<OwnedFd>)>,
    turn: Mutex<Turn>,
}

/// What the thread whose turn it is may touch.
pub(crate) struct Turn {
    socket: Arc<OwnedFd>,
    epoch: u32,
    others: u64,
    submits: u64,
    record: Box<[u8]>,
    /// The ERROR with which the daemon closed the session, once it has.
    farewell: Option<Refusal>,
    /// Which life of the daemon said what was read last; 0 before WELCOME.
    life: u32,
}

/// An answer: the bytes after the header, and the fds that came along.
pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

/// Why a turn came to nothing.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The connection is gone.
    Gone(Gone),
    /// The daemon's refusal, or anything else; the connection may go on.
    Error(Error),
}

/// A connection that is gone, and what the daemon said last, where it said that it closes.
#[derive(Clone, Debug)]
pub(crate) struct Gone {
    epoch: u32,
    farewell: Option<Refusal>,
}

impl Gone {
    /// A connection of which nothing else is known.
    pub(crate) fn of(epoch: u32) -> Gone {
        Gone { epoch, farewell: None }
    }

    #[cfg(test)]
    pub(crate) fn with(epoch: u32, farewell: Refusal) -> Gone {
        Gone { epoch, farewell: Some(farewell) }
    }

    /// Which connection.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The ERROR that closed it.
    pub(crate) fn farewell(&self) -> Option<&Refusal> {
        self.farewell.as_ref()
    }

    /// As the error of whoever needed it.
    pub(crate) fn error(&self) -> Error {
        closed(self.farewell.clone().map(|refusal| refused(refusal).to_string()).as_deref())
    }
}

impl Fault {
    /// As the error of whoever cannot do without.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Fault::Gone(gone) => gone.error(),
            Fault::Error(error) => error,
        }
    }
}

impl Fault {
    /// As the error of whoever wants a session: a daemon that gives none may say why as it closes
    /// the connection.
    pub(crate) fn into_refusal(self) -> Error {
        match self {
            Fault::Gone(Gone { farewell: Some(refusal), .. }) => refused(refusal),
            other => other.into_error(),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Error(error)
    }
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
        Ok(Wire::over(socket::connect(path)?))
    }

    /// The wire over a socket that is connected already.
    pub(crate) fn over(socket: OwnedFd) -> Wire {
        let socket = Arc::new(socket);
        let turn = Turn {
            socket: Arc::clone(&socket),
            epoch: 0,
            others: 0,
            submits: 0,
            record: vec![0; MESSAGE_BYTES_MAX].into_boxed_slice(),
            farewell: None,
            life: 0,
        };
        Wire { socket: Mutex::new((0, socket)), turn: Mutex::new(turn) }
    }

    /// The next turn, when it comes.
    pub(crate) fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One turn: a request and its answer, until `until` at the latest.
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
        let request = encode(opcode as u16, 0, body, tail);
        self.turn().request(opcode, request, &[], until).map_err(Fault::into_error)
    }

    /// What the daemon left, if it is gone: the socket's end is seen without waiting. None also
    /// where a thread has its turn, for that one sees it by itself.
    pub(crate) fn hung_up(&self) -> Option<Gone> {
        let (epoch, socket) = self.socket();
        if !socket::is_hung_up(&*socket) {
            return None;
        }
        let mut turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        turn.listen();
        (turn.epoch == epoch).then(|| turn.gone())
    }

    /// The socket, and which one it is.
    pub(crate) fn socket(&self) -> (u32, Arc<OwnedFd>) {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the connection: whoever waits for an answer learns that there is none.
    pub(crate) fn hang_up(&self) {
        let (_, socket) = self.socket();
        // Forked children hold the socket too: closing it here would not end the connection.
        let _ = rustix::net::shutdown(&*socket, rustix::net::Shutdown::Both);
    }

    /// Goes on over another connection, whose turns so far were its own; answers its epoch. `turn`
    /// is this wire's.
    pub(crate) fn replace(&self, turn: &mut Turn, by: Wire) -> u32 {
        let new = by.turn.into_inner().unwrap_or_else(PoisonError::into_inner);
        *turn = Turn { epoch: turn.epoch.wrapping_add(1), ..new };
        let socket = (turn.epoch, Arc::clone(&turn.socket));
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = socket;
        turn.epoch
    }

    /// Takes what the daemon said of its own accord, where no thread has its turn.
    pub(crate) fn listen(&self) {
        if let Ok(mut turn) = self.turn.try_lock() {
            turn.listen();
        }
    }

    /// Says something that has no answer worth waiting for.
    pub(crate) fn last_words(&self, opcode: Opcode) {
        let turn = self.turn();
        let record = encode(opcode as u16, OTHER_COOKIES, &(), &[]);
        // The socket is closed next, which says the same.
        let _ = socket::send(&turn.socket, &record, &[]);
    }
}

impl Turn {
    /// Which life of the daemon said what was read last.
    pub(crate) fn life(&self) -> u32 {
        self.life
    }

    /// The life of the daemon that sent WELCOME.
    pub(crate) fn begin_life(&mut self, life: u32) {
        self.life = life;
    }

    /// Sends an encoded request with a cookie of its own, and reads its answer, until `until` at
    /// the latest.
    ///
    /// # Errors
    /// The daemon's own, `Disconnected` at `until`, `SystemFailed`; [`Fault::Gone`].
    pub(crate) fn request(
        &mut self,
        opcode: Opcode,
        mut record: Vec<u8>,
        fds: &[BorrowedFd<'_>],
        until: Option<MonoNs>,
    ) -> core::result::Result<Answer, Fault> {
        self.others += 1;
        let cookie = self.others | OTHER_COOKIES;
        set_cookie(&mut record, cookie);
        self.ask(&mut record, fds, opcode, cookie, until)
    }

    /// Sends tickets in one SUBMIT, with the fds that they name by index. All or none are taken.
    /// Answers the cookie.
    ///
    /// # Errors
    /// As [`Turn::request`].
    pub(crate) fn submit(
        &mut self,
        entries: &[SubmitEntry],
        fds: &[BorrowedFd<'_>],
    ) -> core::result::Result<u64, Fault> {
        let cookie = self.submits + 1;
        let mut record = submission(cookie, entries, fds);
        self.ask(&mut record, fds, Opcode::Submit, cookie, None)?.whole::<message::Submitted>()?;
        self.submits = cookie;
        Ok(cookie)
    }

    /// Sends tickets of an accepted SUBMIT to a life of the daemon that has not had it yet, for
    /// the sake of their fds.
    ///
    /// # Errors
    /// As [`Turn::request`].
    pub(crate) fn submit_again(
        &mut self,
        cookie: u64,
        entries: &[SubmitEntry],
        fds: &[BorrowedFd<'_>],
    ) -> core::result::Result<(), Fault> {
        let mut record = submission(cookie, entries, fds);
        mark_again(&mut record);
        self.ask(&mut record, fds, Opcode::Submit, cookie, None)?.whole::<message::Submitted>()?;
        Ok(())
    }

    /// Reads on until this life of the daemon has said that it goes on; false where it has not by
    /// `until`.
    ///
    /// # Errors
    /// As [`Turn::request`].
    pub(crate) fn catch_up(
        &mut self,
        life: u32,
        until: MonoNs,
    ) -> core::result::Result<bool, Fault> {
        // Lives rise by one and wrap after more restarts than there will be.
        while self.life < life {
            if !socket::await_record(&self.socket, until)? {
                return Ok(false);
            }
            self.receive(RecvFlags::empty())?;
        }
        Ok(true)
    }

    /// Sends a request and reads until its answer is there. A life of the daemon that says RESUMED
    /// in between gets it again.
    fn ask(
        &mut self,
        record: &mut [u8],
        fds: &[BorrowedFd<'_>],
        opcode: Opcode,
        cookie: u64,
        until: Option<MonoNs>,
    ) -> core::result::Result<Answer, Fault> {
        self.send(record, fds)?;
        loop {
            if let Some(until) = until
                && !socket::await_record(&self.socket, until)?
            {
                let text = format!("{}: no answer in time", opcode.name());
                return Err(Error::new(ErrorCode::Disconnected, text).into());
            }
            let life = self.life;
            let Some((bytes, came)) = self.receive(RecvFlags::empty())? else { continue };
            let (header, _) = parse_reply(&self.record[..bytes])?;
            if header.opcode == RESUMED && opcode == Opcode::Hello {
                // HELLO cannot be asked twice: whoever greets starts over.
                return Err(Fault::Gone(self.gone()));
            }
            if self.life != life {
                mark_again(record);
                self.send(record, fds)?;
            }
            if header.cookie != cookie {
                continue;
            }
            let (_, reply) = parse_reply(&self.record[..bytes])?;
            let body = reply.map_err(refused)?.to_vec();
            if header.opcode != opcode as u16 | REPLY {
                let text = format!("reply: opcode {:#x} answers {}", header.opcode, opcode.name());
                return Err(Error::new(ErrorCode::BadMessage, text).into());
            }
            return Ok(Answer { body, fds: came });
        }
    }

    fn send(&mut self, record: &[u8], fds: &[BorrowedFd<'_>]) -> core::result::Result<(), Fault> {
        let sent = socket::send(&self.socket, record, fds);
        if matches!(sent, Err(Failed::Gone)) {
            // It may have said why.
            self.listen();
        }
        sent.map_err(|failed| self.fault(failed))
    }

    /// Reads one record into the turn's buffer, and notes what the daemon says of itself.
    fn receive(
        &mut self,
        flags: RecvFlags,
    ) -> core::result::Result<Option<(usize, Vec<OwnedFd>)>, Fault> {
        let received = socket::receive(&self.socket, &mut self.record, flags);
        let received = received.map_err(|failed| self.fault(failed))?;
        if let Some((bytes, _)) = &received {
            match parse_reply(&self.record[..*bytes]) {
                Ok((_, Err(refusal))) if refusal.closes => self.farewell = Some(refusal),
                Ok((header, Ok(body))) => {
                    if let Some(life) = life_said(&header, body)?
                        && self.life != 0
                    {
                        self.life = life;
                    }
                }
                _ => {}
            }
        }
        Ok(received)
    }

    /// Takes what is there: nobody waits for any of it.
    fn listen(&mut self) {
        while let Ok(Some(_)) = self.receive(RecvFlags::DONTWAIT) {}
    }

    fn fault(&self, failed: Failed) -> Fault {
        match failed {
            Failed::Gone => Fault::Gone(self.gone()),
            Failed::Error(error) => Fault::Error(error),
        }
    }

    fn gone(&self) -> Gone {
        Gone { epoch: self.epoch, farewell: self.farewell.clone() }
    }
}

/// Which life of the daemon goes on with the session, if the record says so: RESUMED, or another
/// WELCOME of a daemon that does not know whether the first was sent.
fn life_said(header: &Header, body: &[u8]) -> Result<Option<u32>> {
    if header.opcode == Opcode::Hello as u16 | REPLY {
        return Ok(Welcome::read_from_bytes(body).ok().map(|welcome| welcome.generation));
    }
    Ok(parse_notice(header, body)?.map(|resumed| resumed.generation))
}

fn submission(cookie: u64, entries: &[SubmitEntry], fds: &[BorrowedFd<'_>]) -> Vec<u8> {
    let body = message::Submit { tickets: entries.len() as u32, fds: fds.len() as u32 };
    encode(Opcode::Submit as u16, cookie, &body, submit_tail(entries))
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
