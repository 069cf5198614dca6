//! A socket of the daemon's: whole records, with the fds that come along.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use super::wire::system;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::MonoNs;
use crate::host::clock;
use crate::proto::limits::SUBMIT_FDS_MAX;

/// File descriptors that one record can bring: WELCOME's five.
const RECORD_FDS_MAX: usize = 5;

/// Why a record did not go out or come in.
#[derive(Debug)]
pub(super) enum Failed {
    /// The connection is gone.
    Gone,
    /// Anything else.
    Error(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Error(error)
    }
}

/// A socket connected to whoever listens at `path`.
pub(super) fn connect(path: &Path) -> Result<OwnedFd> {
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
    Ok(socket)
}

/// Sends a record and its fds.
pub(super) fn send(
    socket: &OwnedFd,
    record: &[u8],
    fds: &[BorrowedFd<'_>],
) -> core::result::Result<(), Failed> {
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SUBMIT_FDS_MAX as usize))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        let text = format!("message: {} file descriptors, at most {SUBMIT_FDS_MAX}", fds.len());
        return Err(Error::new(ErrorCode::TooManyFds, text).into());
    }
    let sent = retry(|| {
        let parts = [IoSlice::new(record)];
        rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)
    });
    match sent {
        Ok(_) => Ok(()),
        Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(Failed::Gone),
        Err(errno) => Err(system("sendmsg", errno).into()),
    }
}

/// Receives one record into `record`: its bytes and fds. None where there is nothing and `flags`
/// say not to wait.
pub(super) fn receive(
    socket: &OwnedFd,
    record: &mut [u8],
    flags: RecvFlags,
) -> core::result::Result<Option<(usize, Vec<OwnedFd>)>, Failed> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RECORD_FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut receive = || {
        let mut parts = [IoSliceMut::new(record)];
        rustix::net::recvmsg(socket, &mut parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC)
    };
    let received = match retry(&mut receive) {
        // A reset is told of before what was received before it.
        Err(Errno::CONNRESET) => retry(&mut receive),
        other => other,
    };
    let message = match received {
        Ok(message) => message,
        Err(Errno::AGAIN) => return Ok(None),
        Err(Errno::CONNRESET) => return Err(Failed::Gone),
        Err(errno) => return Err(system("recvmsg", errno).into()),
    };
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            fds.extend(rights);
        }
    }
    if message.bytes == 0 {
        return Err(Failed::Gone);
    }
    if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Error::new(ErrorCode::BadMessage, "reply: larger than any can be").into());
    }
    Ok(Some((message.bytes, fds)))
}

/// Waits for a record, until `until`; false when that passed.
pub(super) fn await_record(socket: &OwnedFd, until: MonoNs) -> Result<bool> {
    loop {
        let left = until.since(clock::now());
        let left = Timespec {
            tv_sec: (left.0 / 1_000_000_000) as i64,
            tv_nsec: (left.0 % 1_000_000_000) as _,
        };
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut fds, Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(system("poll", errno)),
        }
    }
}

/// Whether the daemon's end is gone, seen without waiting.
pub(super) fn is_hung_up(socket: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&socket, PollFlags::RDHUP)];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1))
}

/// Waits until the other side has hung up.
pub(super) fn await_hang_up(socket: impl AsFd) {
    let mut fds = [PollFd::new(&socket, PollFlags::RDHUP)];
    // Where the kernel does not let it wait, the caller looks.
    let _ = poll(&mut fds, None);
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}
