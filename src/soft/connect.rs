//! A client's connection to the software device.
//!
//! The streams started through a connection live as long as it does.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

use super::protocol::{FDS_MAX, MESSAGE_BYTES_MAX, Reply, Stream};
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::MonoNs;

/// A connection to a software device.
#[derive(Debug)]
pub struct SoftDevice {
    socket: OwnedFd,
}

impl SoftDevice {
    /// Connects to the device that listens at `path`.
    ///
    /// # Errors
    /// `SocketUnavailable`.
    pub fn connect(path: &Path) -> Result<SoftDevice> {
        let open = || {
            let socket = rustix::net::socket_with(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )?;
            rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
            rustix::io::Result::Ok(socket)
        };
        let socket = open().map_err(|errno| {
            let text = format!("{}: connect: {errno}", path.display());
            Error::new(ErrorCode::SocketUnavailable, text)
        })?;
        Ok(SoftDevice { socket })
    }

    /// Starts a stream and answers when its job 0 starts. `fds` are the lanes area; with a bell
    /// to ring also the status page; and where the bell is an eventfd, that.
    ///
    /// # Errors
    /// The device's refusal under its code, or `Backend` when the device has gone or its answer
    /// makes no sense.
    pub fn start(&self, stream: &Stream, fds: &[BorrowedFd<'_>]) -> Result<MonoNs> {
        self.send(&stream.encode(), fds)?;
        match self.reply()? {
            Reply::Started(t0) => Ok(t0),
            Reply::Refused(number, text) => {
                let code = u16::try_from(number).ok().and_then(ErrorCode::from_number);
                Err(Error::new(code.unwrap_or(ErrorCode::Backend), text))
            }
        }
    }

    /// Sends one record as it is.
    ///
    /// # Errors
    /// `Backend`, as [`SoftDevice::start`].
    pub fn send(&self, record: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX + 1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            let text = format!("START: {} file descriptors, at most {FDS_MAX}", fds.len());
            return Err(Error::new(ErrorCode::TooManyFds, text));
        }
        let parts = [IoSlice::new(record)];
        rustix::net::sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL)
            .map(drop)
            .map_err(|errno| backend(format!("send: {errno}")))
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// `Backend`, as [`SoftDevice::start`].
    pub fn reply(&self) -> Result<Reply> {
        let mut record = [0; MESSAGE_BYTES_MAX];
        let (length, _) = rustix::net::recv(&self.socket, &mut record, RecvFlags::empty())
            .map_err(|errno| backend(format!("recv: {errno}")))?;
        if length == 0 {
            return Err(backend("the device closed the connection".into()));
        }
        Reply::parse(&record[..length]).map_err(|error| backend(error.detail))
    }
}

fn backend(what: String) -> Error {
    Error::new(ErrorCode::Backend, format!("software device: {what}"))
}

impl AsFd for SoftDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
