//! Futexes by address, shared between processes.
//!
//! A *futex word* is an aligned u32 on which threads of any process that maps it can sleep. Every
//! operation here is SHARED: the kernel finds waiters by file and offset, so two mappings of one
//! memfd meet, and a waiter on a read-only mapping is woken too. PRIVATE operations are never
//! used: one armed through the ring while the process has a single thread is lost for good once
//! a second thread starts.
//!
//! What always holds: a wake-up is a hint. A late wake for an earlier event can end a later wait,
//! so the caller reads the word again whatever the outcome says.

use std::io;
use std::sync::atomic::AtomicU32;

use crate::core::time::MonoNs;
use crate::host::clock;

/// The address of a futex word, which may be in memory that a peer shares.
///
/// Waiting or waking on any address is memory-safe: the kernel alone looks at it, reads at most
/// four bytes, writes none, and answers EFAULT where nothing is mapped (also PROT_NONE, beyond the
/// end of a file, or device memory) and EINVAL where it is not 4-byte aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FutexAddr(usize);

impl FutexAddr {
    /// The word at this address of this process.
    pub const fn new(address: usize) -> FutexAddr {
        FutexAddr(address)
    }

    /// The address.
    pub const fn get(self) -> usize {
        self.0
    }

    pub(crate) const fn as_ptr(self) -> *const u32 {
        self.0 as *const u32
    }
}

impl From<&AtomicU32> for FutexAddr {
    fn from(word: &AtomicU32) -> FutexAddr {
        FutexAddr(word.as_ptr() as usize)
    }
}

/// How a wait ended. In every case: read the word again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// A wake hit this wait. It may have been meant for an earlier one.
    Woken,
    /// The word did not hold the expected value when the kernel looked.
    Changed,
    /// The absolute time passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// Sleeps while the word holds `expected`, until a wake or the absolute CLOCK_MONOTONIC time
/// `until` (none: no bound). Errors: EFAULT, EINVAL as at [`FutexAddr`].
pub fn wait(addr: FutexAddr, expected: u32, until: Option<MonoNs>) -> io::Result<WaitOutcome> {
    let until = until.map(clock::timespec_at);
    let until_ptr = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: futex(2) FUTEX_WAIT_BITSET reads one u32 at any address (or fails) and a timespec
    // that lives through the call, or none at null.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            addr.as_ptr(),
            libc::FUTEX_WAIT_BITSET,
            expected,
            until_ptr,
            std::ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    if result >= 0 {
        return Ok(WaitOutcome::Woken);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN) => Ok(WaitOutcome::Changed),
        Some(libc::ETIMEDOUT) => Ok(WaitOutcome::TimedOut),
        Some(libc::EINTR) => Ok(WaitOutcome::Interrupted),
        _ => Err(error),
    }
}

/// Wakes at most one waiter, of any process. True if there was one. Errors as at [`FutexAddr`].
///
/// Never all of them: a peer can arm thousands of waits on its word, and waking them all costs
/// the waker milliseconds.
pub fn wake_one(addr: FutexAddr) -> io::Result<bool> {
    // SAFETY: futex(2) FUTEX_WAKE touches no memory at the address; it looks up the key or fails.
    let result = unsafe { libc::syscall(libc::SYS_futex, addr.as_ptr(), libc::FUTEX_WAKE, 1) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result > 0) }
}

/// Whether the word differs from `expected`, without sleeping and without forming a reference
/// over it. Errors as at [`FutexAddr`].
pub fn differs(addr: FutexAddr, expected: u32) -> io::Result<bool> {
    // A compare-and-requeue that wakes 0 and moves 0 waiters is the kernel's bare compare.
    // SAFETY: futex(2) FUTEX_CMP_REQUEUE reads one u32 at any address or fails, and writes none.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            addr.as_ptr(),
            libc::FUTEX_CMP_REQUEUE,
            0,
            0_usize,
            addr.as_ptr(),
            expected,
        )
    };
    if result >= 0 {
        return Ok(false);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EAGAIN) { Ok(true) } else { Err(error) }
}

#[cfg(test)]
#[path = "futex_tests.rs"]
mod tests;
