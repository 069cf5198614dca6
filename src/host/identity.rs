//! Who is who: the identity of a socket's peer, and groups by name.
//!
//! A peer's identity is what it was when it connected, kept by the kernel: a process cannot choose
//! it. A peer of another PID namespace has no number here; one of another user namespace shows as
//! the overflow uid and gid.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Groups that a process can be a member of (the kernel's NGROUPS_MAX).
const GROUPS_MAX: usize = 65_536;
/// Bytes of the largest group entry that is read, its member list included.
const GROUP_ENTRY_BYTES_MAX: usize = 1 << 20;

/// Who is at the other end of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process, where it has a number in this PID namespace.
    pub pid: Option<i32>,
    /// Its effective uid.
    pub uid: u32,
    /// Its effective gid.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
}

impl Peer {
    /// The peer of a connected unix socket.
    ///
    /// # Errors
    /// What getsockopt(2) says of SO_PEERCRED and SO_PEERGROUPS.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Peer> {
        // Not through a type whose pid is never zero: the kernel says 0 for a foreign namespace.
        let mut cred = [0_u32; 3];
        let mut bytes = size_of_val(&cred) as libc::socklen_t;
        option(socket, libc::SO_PEERCRED, &mut cred, &mut bytes)?;
        let [pid, uid, gid] = cred;
        let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0);
        Ok(Peer { pid, uid, gid, groups: groups(socket)? })
    }
}

fn groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 64];
    loop {
        let mut bytes = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        match option(socket, libc::SO_PEERGROUPS, &mut groups, &mut bytes) {
            Ok(()) => {
                groups.truncate(bytes as usize / size_of::<u32>());
                return Ok(groups);
            }
            // Too small: the length says now how many there are.
            Err(e) if e.raw_os_error() == Some(libc::ERANGE) && groups.len() < GROUPS_MAX => {
                groups.resize((bytes as usize / size_of::<u32>()).clamp(1, GROUPS_MAX), 0);
            }
            Err(e) => return Err(e),
        }
    }
}

fn option(
    socket: BorrowedFd<'_>,
    name: libc::c_int,
    words: &mut [u32],
    bytes: &mut libc::socklen_t,
) -> io::Result<()> {
    debug_assert!(*bytes as usize <= size_of_val(words));
    // SAFETY: getsockopt(2) writes at most `bytes` bytes to the words, which hold at least so
    // many and may have any bits, and the length to `bytes`; both live through the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            words.as_mut_ptr().cast(),
            std::ptr::from_mut(bytes),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The number of the group of this name, as the system's name service knows it; `None` where no
/// such group exists.
///
/// # Errors
/// What getgrnam_r(3) says of a service that does not answer.
pub fn group_id(name: &str) -> io::Result<Option<u32>> {
    let name = CString::new(name)?;
    let mut buffer = vec![0_u8; 1024];
    loop {
        let mut entry = MaybeUninit::<libc::group>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: getgrnam_r(3) reads the NUL-terminated name, writes `entry`, strings within the
        // buffer's length, and `found`; all of them live through the call.
        let result = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        match result {
            0 if found.is_null() => return Ok(None),
            0 => {
                // SAFETY: getgrnam_r(3) returned 0 and a result, so it has filled the entry.
                let entry = unsafe { entry.assume_init_ref() };
                return Ok(Some(entry.gr_gid));
            }
            libc::ERANGE if buffer.len() < GROUP_ENTRY_BYTES_MAX => {
                buffer.resize(buffer.len() * 4, 0);
            }
            // Services without such a group say so in more than one way.
            libc::ENOENT | libc::ESRCH => return Ok(None),
            libc::EINTR => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
