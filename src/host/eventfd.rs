//! Eventfds of peers, without io_uring.
//!
//! A peer holds the same open file as the daemon does, so it can clear O_NONBLOCK and fill the
//! counter: then a write blocks. What the system call interface allows is to look first and write
//! second ([`ring`]); a peer that fills the counter in between, and does so on purpose, stops the
//! writing thread until it is read, or until the thread is interrupted (see `interrupt.rs`: the
//! desk does that to a FILL that stands still). The io_uring host has no such window.

use std::io;
use std::os::fd::RawFd;

/// Whether a write of 1 would find room now. False for what is no open fd.
pub(crate) fn has_room(fd: RawFd) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: poll(2) reads and writes the one pollfd, which lives through the call.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
    ready == 1 && poll.revents & libc::POLLOUT != 0
}

/// Adds 1 to the counter: 8, or a negative errno. -EAGAIN: the counter is full, and so readable.
pub(crate) fn ring(fd: RawFd) -> i32 {
    if has_room(fd) { write_one(fd) } else { why_no_room(fd) }
}

fn write_one(fd: RawFd) -> i32 {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: write(2) reads the 8 bytes, which live through the call.
    let result = unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
    match io::Error::last_os_error().raw_os_error() {
        _ if result >= 0 => result as i32,
        // Interrupted while it blocked: the counter was full.
        Some(libc::EINTR) | None => -libc::EAGAIN,
        Some(errno) => -errno,
    }
}

fn why_no_room(fd: RawFd) -> i32 {
    // SAFETY: F_GETFD takes no argument and looks at the fd table alone.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 { -libc::EBADF } else { -libc::EAGAIN }
}

#[cfg(test)]
#[path = "eventfd_tests.rs"]
mod tests;
