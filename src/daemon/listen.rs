//! The socket's place in the file system: taken so that whoever finds it there finds it listening.
//!
//! The socket is bound under a *temporary name* beside its path, given its group and mode, listened
//! on, and only then renamed into place. A daemon holds a lock on `PATH.lock` for as long as it has
//! the path, so that of two that start at once one is refused; the lock's file stays behind, since
//! removing it would let two daemons lock two files of one name. A socket that is *left over* from
//! a dead daemon is replaced only after a connect was refused, which proves that nobody listens.
//! At its end a daemon unlinks the path only where that is still the socket it bound. A socket that
//! a service manager listens on and hands over is the manager's to bind and to unlink.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Gid, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::limits::{LISTEN_BACKLOG, SOCKET_PATH_BYTES_MAX};

/// What the temporary name adds to the path.
const TEMPORARY: &str = ".new";
/// Bytes of a path in `sockaddr_un`, without its final NUL.
const ADDRESS_BYTES: usize = 107;
/// The socket's mode: its owner and its group may connect.
const SOCKET_MODE: u32 = 0o660;
/// The mode of a folder that is made for it.
const FOLDER_MODE: u32 = 0o755;

const _: () = assert!(SOCKET_PATH_BYTES_MAX + TEMPORARY.len() == ADDRESS_BYTES);

/// A listening socket that holds its path.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    bound: Option<Bound>,
}

/// What a daemon has of a path that it bound itself.
#[derive(Debug)]
struct Bound {
    /// Device and inode of the path then.
    identity: (u64, u64),
    _lock: OwnedFd,
}

impl Listener {
    /// Listens at `path`: SOCK_SEQPACKET, non-blocking, mode 0660, owned by `gid` if one is given.
    /// The path's folder is made if it is missing and its own folder is there. With the listener
    /// may come a warning, `PrivilegeMissing`, where the group could not be given.
    ///
    /// # Errors
    /// `SocketInUse` where another daemon listens or is about to; `SocketUnavailable` with what
    /// failed otherwise.
    pub fn bind(path: &Path, gid: Option<u32>) -> Result<(Listener, Option<Error>)> {
        let path = std::path::absolute(path).map_err(|e| unavailable(path, "no path", e))?;
        if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
            let text = format!("{}: more than {SOCKET_PATH_BYTES_MAX} bytes", path.display());
            return Err(Error::new(ErrorCode::SocketUnavailable, text));
        }
        make_folder(&path)?;
        let lock = lock(&path)?;
        refuse_living(&path)?;
        let temporary = beside(&path, TEMPORARY);
        let (socket, warning) = bind_temporary(&temporary, gid)?;
        let bound = identity(&temporary).map_err(|e| unavailable(&temporary, "stat", e))?;
        fs::rename(&temporary, &path).map_err(|e| unavailable(&path, "rename", e))?;
        let bound = Some(Bound { identity: bound, _lock: lock });
        Ok((Listener { socket, path, bound }, warning))
    }

    /// The listener over a socket that a service manager bound and listens on; `path` is what the
    /// daemon calls it.
    ///
    /// # Errors
    /// `SocketUnavailable` where it is no listening SOCK_SEQPACKET socket.
    pub fn inherited(socket: OwnedFd, path: &Path) -> Result<Listener> {
        use rustix::net::sockopt::{socket_acceptconn, socket_type};
        let listens = socket_acceptconn(&socket).is_ok_and(|listens| listens);
        if !listens || socket_type(&socket) != Ok(SocketType::SEQPACKET) {
            let text = "the service manager's socket: no SOCK_SEQPACKET socket that listens \
                        (ListenSequentialPacket=)";
            return Err(Error::new(ErrorCode::SocketUnavailable, text));
        }
        rustix::io::ioctl_fionbio(&socket, true).map_err(|e| unavailable(path, "ioctl", e))?;
        Ok(Listener { socket, path: path.to_owned(), bound: None })
    }

    /// The path, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some(bound) = &self.bound else { return };
        if identity(&self.path).is_ok_and(|found| found == bound.identity) {
            // What is left over costs the next daemon one connect, no more.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn unavailable(path: &Path, what: &str, error: impl Into<io::Error>) -> Error {
    let text = format!("{}: {what}: {}", path.display(), error.into());
    Error::new(ErrorCode::SocketUnavailable, text)
}

fn in_use(path: &Path) -> Error {
    Error::new(ErrorCode::SocketInUse, format!("{}: another daemon listens there", path.display()))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Makes the path's folder, not what is above it: a missing `/run` is a mistake, not a wish.
fn make_folder(path: &Path) -> Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    match rustix::fs::mkdir(folder, Mode::from_raw_mode(FOLDER_MODE)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        // A read-only place, or one of another user, may well have the folder already.
        Err(_) if folder.is_dir() => Ok(()),
        Err(e) => Err(unavailable(folder, "the socket's folder cannot be made", e)),
    }
}

fn lock(path: &Path) -> Result<OwnedFd> {
    let name = beside(path, ".lock");
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::open(&name, flags, Mode::from_raw_mode(0o600))
        .map_err(|e| unavailable(&name, "open", e))?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(Errno::WOULDBLOCK) => Err(in_use(path)),
        Err(e) => Err(unavailable(&name, "flock", e)),
    }
}

/// Passes where nothing is at the path, or a socket on which nobody listens.
fn refuse_living(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(unavailable(path, "stat", e)),
        Ok(found) if !found.file_type().is_socket() => {
            let text = format!("{}: something that is no socket is there", path.display());
            return Err(Error::new(ErrorCode::SocketUnavailable, text));
        }
        Ok(_) => {}
    }
    let probe = seqpacket().map_err(|e| unavailable(path, "socket", e))?;
    let address = SocketAddrUnix::new(path).map_err(|e| unavailable(path, "address", e))?;
    match rustix::net::connect(&probe, &address) {
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(()),
        // A full backlog and a socket of another type are alive as well.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(in_use(path)),
        Err(e) => Err(unavailable(path, "connect, to see whether a daemon listens", e)),
    }
}

fn seqpacket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Binds and listens at the temporary name. Under the lock, whatever has that name is left over.
fn bind_temporary(name: &Path, gid: Option<u32>) -> Result<(OwnedFd, Option<Error>)> {
    if let Err(e) = fs::remove_file(name)
        && e.kind() != io::ErrorKind::NotFound
    {
        return Err(unavailable(name, "unlink", e));
    }
    let socket = seqpacket().map_err(|e| unavailable(name, "socket", e))?;
    let address = SocketAddrUnix::new(name).map_err(|e| unavailable(name, "address", e))?;
    rustix::net::bind(&socket, &address).map_err(|e| unavailable(name, "bind", e))?;
    let mut warning = None;
    if let Some(gid) = gid {
        match rustix::fs::chown(name, None, Some(Gid::from_raw(gid))) {
            Ok(()) => {}
            Err(e) if e == Errno::PERM => {
                let text = format!("giving the socket to gid {gid}: {}", io::Error::from(e));
                warning = Some(Error::new(ErrorCode::PrivilegeMissing, text));
            }
            Err(e) => return Err(unavailable(name, "chown", e)),
        }
    }
    rustix::fs::chmod(name, Mode::from_raw_mode(SOCKET_MODE))
        .map_err(|e| unavailable(name, "chmod", e))?;
    rustix::net::listen(&socket, LISTEN_BACKLOG).map_err(|e| unavailable(name, "listen", e))?;
    Ok((socket, warning))
}

#[cfg(test)]
#[path = "listen_tests.rs"]
mod tests;
