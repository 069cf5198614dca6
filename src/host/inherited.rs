//! File descriptors that a service manager started this process with (sd_listen_fds(3)).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The fds with their names, in the manager's order. The first call takes them; every other one
/// finds none.
///
/// # Errors
/// EINVAL where the manager's variables make no sense.
pub fn take() -> io::Result<Vec<(String, OwnedFd)>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let named = sd_notify::listen_fds_with_names()?;
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    // SAFETY: the manager opened these fds for this very process (LISTEN_PID says so, and the
    // crate has set their flags, so they are open); nobody else here owns them, and they are
    // taken once.
    Ok(named.map(|(fd, name)| (name, unsafe { OwnedFd::from_raw_fd(fd) })).collect())
}
