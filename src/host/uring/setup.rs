//! Making the ring: its flags, its sizes and what it may ever do.
//!
//! A *restriction* is an operation, sqe flag or register call that the ring is allowed; from the
//! moment it is enabled it takes nothing else, for good. Seccomp cannot see single operations;
//! this can.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use io_uring::register::Restriction;
use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode};

/// Requests queued between two enters; more are handed over in between.
pub(super) const SQ_ENTRIES: u32 = 512;

/// Completions that fit before the kernel keeps the rest to itself.
pub(super) const CQ_ENTRIES: u32 = 8192;

/// Threads that the kernel may start for blocking work, (bounded, unbounded). Only a write to an
/// eventfd that its holder has made blocking needs one; who also fills it in the instant between
/// FILL's look and the write holds up others that did the same, and nobody else.
const WORKERS: [u32; 2] = [1, 8];

/// Rings in flight for which room is made ahead: one for each session at the default limit.
pub(super) const RINGS: usize = 1024;

/// How long the kernel is asked for memory, and the pause between two times.
const PATIENCE: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(5);

/// Every operation that the host uses, and the names for a refusal's text.
pub(super) const OPERATIONS: [(u8, &str); 6] = [
    (opcode::FutexWait::CODE, "FUTEX_WAIT"),
    (opcode::FutexWake::CODE, "FUTEX_WAKE"),
    (opcode::PollAdd::CODE, "POLL_ADD"),
    (opcode::PollRemove::CODE, "POLL_REMOVE"),
    (opcode::AsyncCancel::CODE, "ASYNC_CANCEL"),
    (opcode::Write::CODE, "WRITE"),
];

/// A ring that is not enabled yet, so that any thread may still enable it.
///
/// SUBMIT_ALL: one bad request does not hold up those behind it. NO_SQARRAY and all the others
/// are older than the futex operations (6.7), so EINVAL here means a kernel too old anyway.
///
/// Where the kernel has no memory just now it is asked again, for [`PATIENCE`] in all: rings of
/// processes that have just ended give theirs back a little later.
pub(super) fn build() -> io::Result<IoUring> {
    let from = Instant::now();
    loop {
        match build_now() {
            Err(error) if is_short(&error) && from.elapsed() < PATIENCE => thread::sleep(PAUSE),
            built => return built,
        }
    }
}

fn is_short(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOMEM)
}

fn build_now() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_no_sqarray()
        .setup_r_disabled()
        .setup_cqsize(CQ_ENTRIES)
        .dontfork()
        .build(SQ_ENTRIES)
}

/// Restricts the ring to what the host uses and enables it for the calling thread alone.
/// No register call is allowed afterwards.
pub(super) fn restrict_and_enable(ring: &IoUring) -> io::Result<()> {
    let submitter = ring.submitter();
    submitter.register_iowq_max_workers(&mut WORKERS.clone())?;
    let flags = Flags::SKIP_SUCCESS | Flags::ASYNC;
    let mut allowed =
        OPERATIONS.map(|(code, _name)| Restriction::sqe_op(code)).into_iter().collect::<Vec<_>>();
    allowed.push(Restriction::sqe_flags_allowed(flags.bits()));
    submitter.register_restrictions(&mut allowed)?;
    submitter.register_enable_rings()
}
