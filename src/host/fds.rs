//! File descriptors of clients: what they are, and what may be asked of them.
//!
//! A *kind* is what the kernel says an fd is: the name of its anonymous inode, which no client can
//! forge (a path starts with a slash, whatever is mounted where). Only kinds whose poll, write and
//! close cannot block are let in: polling a FUSE file or closing a lingering socket takes as long
//! as its owner likes. So: classify first, and on the desk; only then may FILL poll it.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, Resource, getrlimit, pidfd_open, setrlimit};

use crate::core::error::{Error, ErrorCode};

/// The kinds of fd that a ticket may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FdKind {
    /// A counter that somebody writes.
    Eventfd,
    /// A timer.
    Timerfd,
    /// A process; readable once it has ended.
    Pidfd,
    /// A kernel fence; readable once signalled, and then it has a status.
    SyncFile,
}

impl fmt::Display for FdKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FdKind::Eventfd => "eventfd",
            FdKind::Timerfd => "timerfd",
            FdKind::Pidfd => "pidfd",
            FdKind::SyncFile => "sync_file",
        })
    }
}

/// The fd's kind, or FdKindRefused with the name of what it is. Reads /proc/self/fd.
pub fn classify(fd: BorrowedFd<'_>) -> Result<FdKind, Error> {
    let number = fd.as_raw_fd();
    let link =
        rustix::fs::readlink(format!("/proc/self/fd/{number}"), Vec::new()).map_err(|e| {
            Error::new(ErrorCode::SystemFailed, format!("readlink of fd {number}: {e}"))
        })?;
    let name = link.to_string_lossy();
    kind_of_name(&name).ok_or_else(|| {
        let text = format!(
            "fd {number} is {}: only eventfd, timerfd, pidfd and sync_file are allowed",
            public_name(&name)
        );
        Error::new(ErrorCode::FdKindRefused, text)
    })
}

/// The names that the kernel gives, also of older releases: a pidfd was an anonymous inode
/// before pidfs (6.9).
fn kind_of_name(name: &str) -> Option<FdKind> {
    match name {
        "anon_inode:[eventfd]" => Some(FdKind::Eventfd),
        "anon_inode:[timerfd]" => Some(FdKind::Timerfd),
        "anon_inode:[pidfd]" => Some(FdKind::Pidfd),
        "anon_inode:sync_file" => Some(FdKind::SyncFile),
        _ => {
            let number = name.strip_prefix("pidfd:[")?.strip_suffix(']')?;
            (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
                .then_some(FdKind::Pidfd)
        }
    }
}

/// What a refusal may say of a foreign fd: its kind, but not the path of a file.
fn public_name(name: &str) -> &str {
    match name {
        _ if name.starts_with("/memfd:") => "a memfd",
        _ if name.starts_with('/') => "a file",
        _ => name.split_once(":[").map_or(name, |(kind, rest)| match kind {
            "anon_inode" => rest.trim_end_matches(']'),
            _ => kind,
        }),
    }
}

/// struct sync_file_info of linux/sync_file.h, asked without its list of fences.
#[repr(C)]
struct SyncFileInfo {
    name: [u8; 32],
    status: i32,
    flags: u32,
    num_fences: u32,
    pad: u32,
    sync_fence_info: u64,
}

/// _IOWR('>', 4, struct sync_file_info)
const SYNC_IOC_FILE_INFO: libc::Ioctl = 0xC038_3E04_u32 as libc::Ioctl;
const _: () = assert!(size_of::<SyncFileInfo>() == 0x38);

/// A sync_file's status: 1 signalled, 0 active, below 0 the errno that its work failed with.
/// ENOTTY if the fd is none.
pub fn sync_file_status(fd: BorrowedFd<'_>) -> io::Result<i32> {
    let mut info = SyncFileInfo {
        name: [0; 32],
        status: 0,
        flags: 0,
        num_fences: 0,
        pad: 0,
        sync_fence_info: 0,
    };
    // SAFETY: the kernel fills in a struct sync_file_info that lives through the call; with
    // num_fences 0 it follows no pointer in it.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), SYNC_IOC_FILE_INFO, &raw mut info) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(info.status) }
}

/// A pidfd of the process at a socket's other end: the kernel's own (SO_PEERPIDFD, 6.5), else one
/// opened by its pid, which by then may be another process's. ESRCH if it is gone.
pub fn pidfd_of_peer(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    match peer_pidfd(socket) {
        Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            Ok(pidfd_open(socket_peercred(socket)?.pid, PidfdFlags::empty())?)
        }
        result => result,
    }
}

fn peer_pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut fd: RawFd = -1;
    let mut len = size_of::<RawFd>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `fd`; both live through the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: on success the kernel made this fd for the caller, who alone owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The same number on every architecture that has the generic socket options.
const SO_PEERPIDFD: libc::c_int = 77;

/// Raises the soft limit of open fds to the hard one and returns it; u64::MAX: none.
pub fn raise_nofile() -> io::Result<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(limit.current.unwrap_or(u64::MAX))
}

#[cfg(test)]
#[path = "fds_tests.rs"]
mod tests;
