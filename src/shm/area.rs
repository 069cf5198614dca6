//! Areas: the sealed memfds that hold what a session or the daemon shares.
//!
//! An *area* is made here by the daemon and mapped by whoever gets its fd. What always holds of
//! one: its header is written (a table's aside), its size is fixed (F_SEAL_SHRINK, F_SEAL_GROW), no
//! seal can be added (F_SEAL_SEAL: a peer's F_SEAL_FUTURE_WRITE would lock a restarted daemon out),
//! it cannot be executed where the kernel knows how to say so, and its mode is 0600, so that a
//! read-only fd that was passed on cannot be opened for writing again by another user.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::header;
use super::region::{Access, ReadOnly, ReadWrite, Region, sealed_bytes};
use super::ring::RingSizes;
use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::layout::{PAGE_BYTES, lanes, status};
use crate::proto::limits::{LANES_MIN, RING_ENTRIES_MIN, SESSION_LANES_MAX};

/// A sealed memfd.
#[derive(Debug)]
pub struct Area {
    fd: OwnedFd,
    bytes: usize,
}

impl Area {
    /// A session's rings: both indices 0, every entry zero.
    ///
    /// # Errors
    /// `LimitExceeded` for a ring of fewer than 64 entries, `SystemFailed` where the memfd cannot
    /// be made.
    pub fn rings(sizes: RingSizes) -> Result<Area> {
        if sizes.submit().min(sizes.result()) < RING_ENTRIES_MIN {
            let detail = format!("ring: fewer than {RING_ENTRIES_MIN} entries");
            return Err(Error::new(ErrorCode::LimitExceeded, detail));
        }
        Area::create("parkd-rings", sizes.bytes(), header::of_rings(sizes).as_bytes())
    }

    /// A session's bells and lanes, all 0. `lanes` is a power of two in 64..=4096.
    ///
    /// # Errors
    /// `LimitExceeded` for another count, `SystemFailed` where the memfd cannot be made.
    pub fn lanes(count: u32) -> Result<Area> {
        if !header::lanes_allowed(count) {
            let detail = format!(
                "lanes: {count}, at most {SESSION_LANES_MAX}, at least {LANES_MIN}, a power of two"
            );
            return Err(Error::new(ErrorCode::LimitExceeded, detail));
        }
        Area::create("parkd-lanes", lanes::bytes(count), header::of_lanes(count).as_bytes())
    }

    /// The daemon's status page.
    ///
    /// # Errors
    /// `SystemFailed` where the memfd cannot be made.
    pub fn status() -> Result<Area> {
        Area::create("parkd-status", status::BYTES, header::of_status().as_bytes())
    }

    /// A session's ticket table: at least `bytes` zero bytes, up to whole pages. Its header is the
    /// engine's to write.
    ///
    /// # Errors
    /// `SystemFailed` where the memfd cannot be made.
    pub fn table(bytes: usize) -> Result<Area> {
        let Some(bytes) = bytes.max(1).checked_next_multiple_of(PAGE_BYTES) else {
            return Err(failed("ftruncate", Errno::FBIG));
        };
        Area::create("parkd-table", bytes, &[])
    }

    fn create(name: &str, bytes: usize, header: &[u8]) -> Result<Area> {
        let fd = memfd(name)?;
        rustix::fs::ftruncate(&fd, bytes as u64).map_err(|errno| failed("ftruncate", errno))?;
        let written = rustix::io::pwrite(&fd, header, 0);
        if written.map_err(|errno| failed("pwrite", errno))? != header.len() {
            return Err(failed("pwrite", Errno::NOSPC));
        }
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::fchmod(&fd, mode).map_err(|errno| failed("fchmod", errno))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals).map_err(|errno| failed("F_ADD_SEALS", errno))?;
        Ok(Area { fd, bytes })
    }

    /// An area that exists: one from the fd store, or one that came over a socket. Its header is
    /// still to be checked.
    ///
    /// # Errors
    /// `SessionMemory` where the file is not a memfd that cannot shrink.
    pub fn from_fd(fd: OwnedFd) -> Result<Area> {
        let bytes = sealed_bytes(&fd)?;
        Ok(Area { fd, bytes })
    }

    /// Bytes of the area, whole pages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Maps the area.
    ///
    /// # Errors
    /// As [`Region::map`].
    pub fn map<A: Access>(&self) -> Result<Region<A>> {
        Region::map(self.fd.as_fd(), self.bytes)
    }

    /// A new fd of the same memory through which nobody can write it: for peers that only read.
    ///
    /// # Errors
    /// `SystemFailed` where /proc is not there.
    pub fn readonly_fd(&self) -> Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| failed("open of /proc/self/fd", errno))
    }

    /// The fd, to be kept or passed on in another way.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for Area {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Maps the rings area behind `fd`, as a client does, and checks it.
///
/// # Errors
/// `SessionMemory` and `VersionMismatch` as in [`header::check_rings`], `SystemFailed`.
pub fn open_rings(fd: impl AsFd) -> Result<(Region<ReadWrite>, RingSizes)> {
    let region = open(fd)?;
    let sizes = header::check_rings(&region)?;
    Ok((region, sizes))
}

/// Maps the lanes area behind `fd`, to write lanes ([`ReadWrite`]) or to watch them
/// ([`ReadOnly`]), and answers how many it has.
///
/// # Errors
/// As [`open_rings`].
pub fn open_lanes<A: Access>(fd: impl AsFd) -> Result<(Region<A>, u32)> {
    let region = open(fd)?;
    let lanes = header::check_lanes(&region)?;
    Ok((region, lanes))
}

/// Checks a lanes area that is not of the daemon's own making, and answers how many it has: its
/// size is as fixed as that of one that is.
///
/// # Errors
/// As [`open_rings`].
pub fn open_fixed_lanes(fd: impl AsFd) -> Result<u32> {
    let fd = fd.as_fd();
    let (_, lanes) = open_lanes::<ReadOnly>(fd)?;
    let seals = rustix::fs::fcntl_get_seals(fd).map_err(|errno| failed("F_GET_SEALS", errno))?;
    if !seals.contains(SealFlags::GROW) {
        let detail = "session memory: the memfd lacks F_SEAL_GROW";
        return Err(Error::new(ErrorCode::SessionMemory, detail));
    }
    Ok(lanes)
}

/// Maps the status page behind `fd`, as a client or a producer does.
///
/// # Errors
/// As [`open_rings`].
pub fn open_status(fd: impl AsFd) -> Result<Region<ReadOnly>> {
    let region = open(fd)?;
    header::check_status(&region)?;
    Ok(region)
}

fn open<A: Access>(fd: impl AsFd) -> Result<Region<A>> {
    let fd = fd.as_fd();
    Region::map(fd, sealed_bytes(fd)?)
}

fn memfd(name: &str) -> Result<OwnedFd> {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not know NOEXEC_SEAL.
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        made => made,
    }
    .map_err(|errno| failed("memfd_create", errno))
}

fn failed(call: &str, errno: Errno) -> Error {
    Error::new(ErrorCode::SystemFailed, format!("{call} of session memory: {errno}"))
}

#[cfg(all(test, not(miri)))]
#[path = "area_tests.rs"]
mod tests;
