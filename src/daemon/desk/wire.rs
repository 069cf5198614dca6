//! One record in, one record out, with the file descriptors that come along.
//!
//! Received fds are closed here, on the desk, whatever becomes of their message: closing a
//! stranger's fd can block.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::proto::limits::MESSAGE_BYTES_MAX;

/// File descriptors that the kernel passes with one record at most (SCM_MAX_FD).
const KERNEL_FDS_MAX: usize = 253;

/// File descriptors of the longest reply: WELCOME's.
const REPLY_FDS_MAX: usize = 5;

/// A record as it came.
pub enum Received {
    /// Bytes and fds. `cut` says that the record was longer than any message, or came with more
    /// fds than the kernel passes.
    Record { bytes: usize, fds: Vec<OwnedFd>, cut: bool },
    /// Nothing now.
    Nothing,
    /// The peer has gone.
    Gone,
}

/// Where records are received, one at a time.
pub struct Inbox {
    bytes: Box<[u8]>,
    control: Box<[MaybeUninit<u8>]>,
}

impl Inbox {
    pub fn new() -> Inbox {
        let control = rustix::cmsg_space!(ScmRights(KERNEL_FDS_MAX));
        Inbox {
            // One byte more than a message may have, so that a longer one is seen as such.
            bytes: vec![0; MESSAGE_BYTES_MAX + 1].into(),
            control: vec![MaybeUninit::uninit(); control].into(),
        }
    }

    /// Receives one record.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> Received {
        let mut ancillary = RecvAncillaryBuffer::new(&mut self.control);
        let mut into = [IoSliceMut::new(&mut self.bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = loop {
            match recvmsg(socket, &mut into, &mut ancillary, flags) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        let message = match received {
            Ok(message) => message,
            Err(Errno::AGAIN) => return Received::Nothing,
            // ECONNRESET and whatever else ends a stream: nothing more will come.
            Err(_) => return Received::Gone,
        };
        let mut fds = Vec::new();
        for control in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = control {
                fds.extend(rights);
            }
        }
        // An empty record and the end of the stream look alike: a peer that is still there, as
        // poll says, has sent an empty record.
        if message.bytes == 0 && fds.is_empty() && is_hung_up(socket) {
            return Received::Gone;
        }
        let cut = message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
            || message.bytes > MESSAGE_BYTES_MAX;
        Received::Record { bytes: message.bytes, fds, cut }
    }

    /// The bytes of the record received last.
    pub fn record(&self, bytes: usize) -> &[u8] {
        self.bytes.get(..bytes).unwrap_or(&[])
    }
}

fn is_hung_up(socket: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(&socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(gone)
}

/// How sending went.
pub enum Sent {
    /// Done.
    Done,
    /// The peer's queue is full.
    Full,
    /// The peer has gone.
    Gone,
}

/// Sends one record with its fds.
pub fn send(socket: BorrowedFd<'_>, record: &[u8], fds: &[OwnedFd]) -> Sent {
    let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REPLY_FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Sent::Gone;
    }
    loop {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        return match sendmsg(socket, &[IoSlice::new(record)], &mut ancillary, flags) {
            Ok(_) => Sent::Done,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN | Errno::NOBUFS) => Sent::Full,
            Err(_) => Sent::Gone,
        };
    }
}
