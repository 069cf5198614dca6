//! What a service says to its manager: datagrams of lines, with fds.
//!
//! A message counts only with the kernel's word on who sent it (SCM_CREDENTIALS), and only when
//! that is the service's main process: `NotifyAccess=main`.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SocketAddrUnix, SocketFlags, SocketType, bind, recvmsg, socket_with,
};
use rustix::process::Pid;

/// Bytes of a message at most: PIPE_BUF.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Fds of a message at most: what the kernel lets through.
const FDS_MAX: usize = 253;

/// The socket that NOTIFY_SOCKET names.
#[derive(Debug)]
pub struct Notices {
    socket: OwnedFd,
}

/// A message.
#[derive(Debug)]
pub struct Notice {
    /// Who sent it.
    pub pid: Option<Pid>,
    /// Its lines.
    pub lines: Vec<String>,
    /// What came along.
    pub fds: Vec<OwnedFd>,
}

impl Notices {
    /// Listens at `path`.
    pub fn bind(path: &Path) -> Notices {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
        let socket = socket.expect("a socket");
        set_socket_passcred(&socket, true).expect("SO_PASSCRED");
        let address = SocketAddrUnix::new(path).expect("a short path");
        bind(&socket, &address).expect("a path to bind to");
        Notices { socket }
    }

    /// The next message, if there is one: as it came, or what is wrong with it.
    pub fn take(&self) -> Option<Result<Notice, String>> {
        let mut bytes = [0; MESSAGE_BYTES_MAX];
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = match recvmsg(&self.socket, into, &mut control, flags) {
            Err(Errno::AGAIN | Errno::INTR) => return None,
            received => received.expect("recvmsg"),
        };
        let (mut pid, mut fds) = (None, Vec::new());
        for part in control.drain() {
            match part {
                RecvAncillaryMessage::ScmCredentials(credentials) => pid = Some(credentials.pid),
                RecvAncillaryMessage::ScmRights(rights) => fds.extend(rights),
                _ => {}
            }
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Some(Err(format!("a message of more than {MESSAGE_BYTES_MAX} bytes")));
        }
        let text = std::str::from_utf8(&bytes[..received.bytes]);
        let Some(text) = text.ok().filter(|text| !text.contains('\0')) else {
            return Some(Err("a message that is not text".to_owned()));
        };
        let lines = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        Some(Ok(Notice { pid, lines, fds }))
    }
}

impl AsFd for Notices {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Notice {
    /// What stands behind `NAME=` in the message; the first, where there are several.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether this line is in the message.
    pub fn says(&self, line: &str) -> bool {
        self.lines.iter().any(|said| said == line)
    }
}
