//! Interrupting a thread that a system call holds.
//!
//! An *interrupt* is a signal (SIGUSR2) whose handler does nothing and does not restart the call:
//! a thread that sleeps in the kernel comes back with EINTR, any other does not notice. It can
//! come just before the call begins, and is lost then: who interrupts looks whether it helped
//! and does it again.

use std::io;
use std::mem::MaybeUninit;

const SIGNAL: libc::c_int = libc::SIGUSR2;

/// A thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tid(libc::pid_t);

impl Tid {
    /// The calling thread.
    pub fn current() -> Tid {
        // SAFETY: gettid takes nothing and cannot fail.
        Tid(unsafe { libc::gettid() })
    }
}

/// Proof that the handler is installed: without it the signal would end the process.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt(());

extern "C" fn nothing(_signal: libc::c_int) {}

impl Interrupt {
    /// Installs the handler for the whole process. Threads must not block SIGUSR2.
    pub fn install() -> io::Result<Interrupt> {
        let handler = nothing as extern "C" fn(libc::c_int);
        // SAFETY: an all-zero sigaction is a valid value: no flags (SA_RESTART among them), an
        // empty mask and the default handler.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = handler as usize;
        // SAFETY: the action lives through the call and its handler is async-signal-safe.
        let result = unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(Interrupt(())) }
    }

    /// Interrupts the thread. ESRCH if it has ended; a later thread of this process that has its
    /// number does not notice.
    pub fn send(&self, thread: Tid) -> io::Result<()> {
        let process = std::process::id() as libc::pid_t;
        // SAFETY: tgkill takes numbers; the signal's handler is installed (self proves it).
        let result = unsafe { libc::syscall(libc::SYS_tgkill, process, thread.0, SIGNAL) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
#[path = "interrupt_tests.rs"]
mod tests;
