//! Whether the io_uring host works here, found out by doing it.
//!
//! The *probe* sets up a ring as the host will, asks for the operations that it needs, and runs a
//! *self-test*: futex waits that are woken from outside, from inside, and that start on a changed
//! word. A refusal's text says what forbids it: the sysctl, a seccomp filter, the memory lock
//! limit, an old kernel, or futex wakes that get lost.

use std::fs;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, register};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};

use super::{UringHost, setup};
use crate::core::error::{Error, ErrorCode};
use crate::core::time::DurNs;
use crate::host::clock;
use crate::host::fill::{EventBatch, FillHost, HostEvent, Token, Watch};
use crate::host::futex;

/// How long the self-test waits for a wake before it counts as lost or late.
const PATIENCE: DurNs = DurNs(1_000_000_000);

/// Proof that the io_uring host works here, with what this kernel can do beyond it.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// The enter call takes absolute times (6.12).
    pub(super) abs_timer: bool,
    /// A wait can stay out of the iowait figure (6.15); without it an idle daemon shows as one
    /// CPU's worth of iowait.
    pub(super) no_iowait: bool,
}

impl Probe {
    /// Tries the ring on the calling thread, and gives it back. The error's text fits
    /// `ExecutorFallback`'s "why".
    pub fn run() -> Result<Probe, Error> {
        let ring = setup::build().map_err(|e| refused(&e))?;
        check_operations(&ring)?;
        setup::restrict_and_enable(&ring).map_err(|e| failed("io_uring_register", &e))?;
        let probe = Probe {
            abs_timer: takes_absolute_times(&ring),
            no_iowait: ring.params().is_feature_no_iowait(),
        };
        let mut host = UringHost::from_ring(ring, probe);
        self_test(&mut host)?;
        Ok(probe)
    }
}

fn check_operations(ring: &IoUring) -> Result<(), Error> {
    let mut known = register::Probe::new();
    ring.submitter().register_probe(&mut known).map_err(|e| failed("io_uring_register", &e))?;
    for (code, name) in setup::OPERATIONS {
        if !known.is_supported(code) {
            let text = format!("the kernel's io_uring has no {name} (Linux 6.7 has it)");
            return Err(Error::new(ErrorCode::SystemFailed, text));
        }
    }
    if !ring.params().is_feature_nodrop() || !ring.params().is_feature_ext_arg() {
        let text = "the kernel's io_uring lacks NODROP or EXT_ARG (Linux 5.11 has them)";
        return Err(Error::new(ErrorCode::SystemFailed, text));
    }
    Ok(())
}

/// An enter that waits until a time long past: ETIME if the kernel takes absolute times, else
/// EINVAL.
fn takes_absolute_times(ring: &IoUring) -> bool {
    let long_past = Timespec::new().nsec(1);
    let args = SubmitArgs::new().timespec(&long_past);
    let result = ring.submitter().submit_with_args_and_flags(1, &args, EnterFlags::ABS_TIMER);
    result.is_err_and(|e| e.raw_os_error() == Some(libc::ETIME))
}

/// What forbids io_uring_setup.
fn refused(error: &io::Error) -> Error {
    let (code, text) = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => (ErrorCode::PrivilegeMissing, who_forbids()),
        Some(libc::ENOMEM) => {
            let limit = getrlimit(Resource::Memlock).current;
            let limit = limit.map_or("unlimited".to_owned(), |bytes| format!("{bytes} bytes"));
            (
                ErrorCode::PrivilegeMissing,
                format!("no memory for the ring, RLIMIT_MEMLOCK is {limit}"),
            )
        }
        Some(libc::ENOSYS) => {
            (ErrorCode::SystemFailed, "the kernel or a seccomp filter knows no io_uring".to_owned())
        }
        Some(libc::EINVAL) => (ErrorCode::SystemFailed, "the kernel is older than 6.7".to_owned()),
        _ => return failed("io_uring_setup", error),
    };
    Error::new(code, text)
}

fn who_forbids() -> String {
    let sysctl = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    match sysctl.trim() {
        "2" => "kernel.io_uring_disabled is 2".to_owned(),
        "1" => "kernel.io_uring_disabled is 1 and this process is not in kernel.io_uring_group"
            .to_owned(),
        _ if seccomp_filters() => "a seccomp filter forbids io_uring".to_owned(),
        _ => "a security module forbids io_uring".to_owned(),
    }
}

fn seccomp_filters() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

fn failed(call: &str, error: &io::Error) -> Error {
    Error::new(ErrorCode::SystemFailed, format!("{call}: {error}"))
}

/// What fails if it answers false, and how it is tried.
type Case = (&'static str, fn(&mut UringHost, &AtomicU32) -> io::Result<bool>);

/// In this order, on one word: before 6.12.44 a wait on a changed word left stale state behind,
/// which the next one stumbles over.
const CASES: [Case; 4] = [
    ("a wait on a changed word stays armed", |host, word| {
        host.watch_word(Token(1), word.into(), 1)?;
        rang(host, Token(1))
    }),
    ("a futex wake from outside the ring is lost", |host, word| {
        host.watch_word(Token(2), word.into(), 0)?;
        host.flush()?;
        word.store(1, Ordering::SeqCst);
        Ok(futex::wake_one(word.into())? && rang(host, Token(2))?)
    }),
    ("a futex wake through the ring is lost", |host, word| {
        host.watch_word(Token(3), word.into(), 1)?;
        host.wake_word(word.into())?;
        rang(host, Token(3))
    }),
    ("a cancelled wait can still be woken", |host, word| {
        host.watch_word(Token(4), word.into(), 1)?;
        host.cancel(Watch::Word, Token(4))?;
        host.flush()?;
        let woken = futex::wake_one(word.into())?;
        // Nothing may be in flight when the ring goes: a process that is killed then is not gone
        // before a worker of the kernel has seen to it, and until then it spins.
        host.reap(&mut EventBatch::new())?;
        Ok(!woken)
    }),
];

fn self_test(host: &mut UringHost) -> Result<(), Error> {
    let page = SharedPage::new().map_err(|e| failed("mmap", &e))?;
    for (failure, works) in CASES {
        if !works(host, page.word()).map_err(|e| failed("io_uring_enter", &e))? {
            let text = format!("io_uring's self-test failed: {failure}");
            return Err(Error::new(ErrorCode::SystemFailed, text));
        }
    }
    Ok(())
}

/// Whether exactly this bell rings, in time.
fn rang(host: &mut UringHost, token: Token) -> io::Result<bool> {
    let mut batch = EventBatch::new();
    let until = clock::now() + PATIENCE;
    while clock::now() < until {
        host.idle(Some(until))?;
        if host.reap(&mut batch)? > 0 {
            return Ok(batch.as_slice() == [HostEvent::Bell(token)]);
        }
    }
    Ok(false)
}

/// A page of shared memory, for a futex word as clients have them.
struct SharedPage(NonNull<AtomicU32>);

impl SharedPage {
    const BYTES: usize = 4096;

    fn new() -> io::Result<SharedPage> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), SharedPage::BYTES, prot, flags)? };
        NonNull::new(at.cast()).map(SharedPage).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the mapping is page-aligned, zeroed (a valid AtomicU32), and lives as long as
        // self.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference into it outlives the value.
        // Unmapping what mmap gave cannot fail.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), SharedPage::BYTES) };
    }
}
