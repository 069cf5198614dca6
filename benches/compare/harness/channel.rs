//! How the harness and a member talk: JSON records and fds over a socket pair, which is the
//! member's stdin.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Doing, Result};

/// Bytes of a record at most: less than a socket's buffer takes.
const RECORD_BYTES_MAX: usize = 128 << 10;

/// Fds with one record at most: an eventfd for each waiter, and the areas.
const FDS_MAX: usize = 80;

/// One end.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

impl Channel {
    /// Both ends.
    pub fn pair() -> Result<(Channel, OwnedFd)> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (own, other) = socketpair(family, kind, SocketFlags::CLOEXEC, None).doing("pair")?;
        Ok((Channel { socket: own }, other))
    }

    /// The end that this process was started with.
    pub fn of_stdin() -> Result<Channel> {
        let socket = std::io::stdin().as_fd().try_clone_to_owned().doing("stdin")?;
        Ok(Channel { socket })
    }

    /// Sends a record, with these fds.
    pub fn send<T: Serialize>(&self, what: &T, fds: &[BorrowedFd<'_>]) -> Result<()> {
        let record = serde_json::to_vec(what).doing("a record")?;
        if record.len() > RECORD_BYTES_MAX || fds.len() > FDS_MAX {
            return Err(format!("a record of {} bytes, {} fds", record.len(), fds.len()));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        let parts = [IoSlice::new(&record)];
        sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL).map(drop).doing("send")
    }

    /// The next record and its fds; an error where none comes within `patience`, or the other end
    /// is closed.
    pub fn receive<T: DeserializeOwned>(&self, patience: Duration) -> Result<(T, Vec<OwnedFd>)> {
        self.wait(patience)?;
        let mut record = vec![0; RECORD_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut record)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = recvmsg(&self.socket, &mut parts, &mut control, flags).doing("receive")?;
        if got.bytes == 0 {
            return Err("the other side has gone".into());
        }
        let fds = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let fds = fds.flatten().collect();
        Ok((serde_json::from_slice(&record[..got.bytes]).doing("a record")?, fds))
    }

    fn wait(&self, patience: Duration) -> Result<()> {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).doing("patience")?;
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&left)) {
                Ok(0) => return Err(format!("no answer within {patience:?}")),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(format!("poll: {errno}")),
            }
        }
    }
}
