//! The io_uring host: one ring, one thread, one `io_uring_enter` a turn.
//!
//! A *sqe* asks, a *cqe* answers; `user_data` ties them: the watch's kind in the top byte, the
//! token below. The kernel allows one thread to issue (SINGLE_ISSUER: the one that enabled the
//! ring) and runs completions only inside its enters (DEFER_TASKRUN), setting the TASKRUN flag in
//! shared memory when some wait: a hot turn reads that flag and enters only if it is set.
//!
//! What always holds:
//! - The ring takes only the operations, sqe flags and register calls of `setup.rs`; whatever
//!   else gets into its queue completes with EACCES.
//! - `user_data` is unique among live requests, so that a cancel never hits another one.
//! - No request points at memory that can go away: futex words are addresses that only the kernel
//!   looks at, and what a ring writes is a static.
//! - Nothing is lost to a full queue: a full submission queue is handed over first; completions
//!   beyond the completion queue wait in the kernel, and a flag (CQ_OVERFLOW) says so.

mod probe;
mod setup;
pub mod trial;

use std::collections::HashMap;
use std::io;
use std::marker::PhantomData;
use std::os::fd::RawFd;

use io_uring::squeue::Flags;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

use crate::core::time::MonoNs;
use crate::host::clock;
use crate::host::eventfd;
use crate::host::fill::{EventBatch, FillHost, HostEvent, Token, Watch, pack, unpack};
use crate::host::futex::FutexAddr;

pub use probe::Probe;

/// FUTEX2_SIZE_U32, and not FUTEX2_PRIVATE (see `futex.rs`).
const FUTEX2_SIZE_U32: u32 = 2;
const MATCH_ANY: u64 = u32::MAX as u64;

/// user_data of requests whose only cqe is a failure that nobody waits for. Never cancelled.
const QUIET: u64 = u64::MAX;

/// What a ring writes to a peer's eventfd.
static ONE: u64 = 1;
const ONE_BYTES: u32 = size_of::<u64>() as u32;

/// A ring in flight: what to write to, and whether this is the second attempt.
#[derive(Clone, Copy)]
struct Ringing {
    fd: RawFd,
    by_worker: bool,
}

/// The io_uring host. Bound to the thread that made it.
pub struct UringHost {
    ring: IoUring,
    probe: Probe,
    /// By token. One a session, so room for all is made once.
    ringing: HashMap<u64, Ringing>,
    syscalls: u64,
    /// SINGLE_ISSUER: another thread's enters would fail, so the type stays where it was made.
    not_send: PhantomData<*const ()>,
}

impl UringHost {
    /// A ring that is restricted and enabled on the calling thread. `probe` proves that it works
    /// here; what can still fail is memory (ENOMEM, EMFILE).
    pub fn new(probe: Probe) -> io::Result<UringHost> {
        let ring = setup::build()?;
        setup::restrict_and_enable(&ring)?;
        Ok(UringHost::from_ring(ring, probe))
    }

    fn from_ring(ring: IoUring, probe: Probe) -> UringHost {
        let ringing = HashMap::with_capacity(setup::RINGS);
        UringHost { ring, probe, ringing, syscalls: 0, not_send: PhantomData }
    }

    /// Queues one request; hands the queue over first where it is full.
    fn push(&mut self, sqe: &squeue::Entry) -> io::Result<()> {
        if self.ring.submission().is_full() {
            self.enter(0, None)?;
        }
        // SAFETY: no request refers to memory that can go away (see the head of this file).
        let pushed = unsafe { self.ring.submission().push(sqe) };
        // Still full after an enter: the kernel had no memory for requests.
        pushed.map_err(|_full| io::Error::from_raw_os_error(libc::ENOMEM))
    }

    /// One io_uring_enter: submits, runs what completed, and waits for `want` completions.
    fn enter(&mut self, want: usize, until: Option<MonoNs>) -> io::Result<()> {
        self.syscalls += 1;
        let mut flags = EnterFlags::empty();
        let mut args = SubmitArgs::new();
        let timespec;
        if want > 0 {
            flags.set(EnterFlags::NO_IOWAIT, self.probe.no_iowait);
            if let Some(until) = until {
                flags.set(EnterFlags::ABS_TIMER, self.probe.abs_timer);
                timespec = self.timespec(until);
                args = args.timespec(&timespec);
            }
        }
        match self.ring.submitter().submit_with_args_and_flags(want, &args, flags) {
            Ok(_submitted) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The bound passed; a signal came; no memory or no room just now: what is queued
                // stays queued.
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
                // EBADR among them: the kernel had to drop a completion, and nothing can be
                // trusted to be armed.
                _ => Err(error),
            },
        }
    }

    fn timespec(&self, until: MonoNs) -> Timespec {
        let time = if self.probe.abs_timer {
            clock::timespec_at(until)
        } else {
            clock::timespec_until(until)
        };
        Timespec::new().sec(time.tv_sec as u64).nsec(time.tv_nsec as u32)
    }

    /// Whether completions wait in the kernel for an enter.
    fn has_task_work(&mut self) -> bool {
        let sq = self.ring.submission();
        sq.taskrun() || sq.cq_overflow()
    }

    fn drain(&mut self, out: &mut EventBatch) -> io::Result<()> {
        while !out.is_full() {
            let Some(cqe) = self.ring.completion().next() else { break };
            if cqe.result() == -libc::EAGAIN && self.ring_by_worker(cqe.user_data())? {
                continue;
            }
            if let Some(event) = translate(cqe.user_data(), cqe.result(), cqe.flags()) {
                if let HostEvent::Written(token, _result) = event {
                    self.ringing.remove(&token.0);
                }
                out.push(event);
            }
        }
        Ok(())
    }

    fn write(&mut self, token: Token, ringing: Ringing) -> io::Result<()> {
        self.ringing.insert(token.0, ringing);
        let (flags, rw_flags) =
            if ringing.by_worker { (Flags::ASYNC, 0) } else { (Flags::empty(), libc::RWF_NOWAIT) };
        let write = opcode::Write::new(Fd(ringing.fd), (&raw const ONE).cast(), ONE_BYTES)
            .rw_flags(rw_flags)
            .build();
        self.push(&write.flags(flags).user_data(pack(Watch::Ring, token)))
    }

    /// After EAGAIN: true if this was a ring's first attempt on an eventfd that is not full. Then
    /// its holder has made it blocking, and the second attempt is a worker's: the kernel's own
    /// retries would cost FILL 60 us each time, a worker costs it 7 us (measured).
    fn ring_by_worker(&mut self, user_data: u64) -> io::Result<bool> {
        let Some((Watch::Ring, token)) = unpack(user_data) else { return Ok(false) };
        let Some(&ringing) = self.ringing.get(&token.0) else { return Ok(false) };
        if ringing.by_worker {
            return Ok(false);
        }
        self.syscalls += 1;
        if !eventfd::has_room(ringing.fd) {
            return Ok(false);
        }
        self.write(token, Ringing { by_worker: true, ..ringing })?;
        Ok(true)
    }
}

impl FillHost for UringHost {
    const LABEL: &'static str = "io-uring";
    const WORDS: bool = true;

    fn watch_word(&mut self, token: Token, addr: FutexAddr, seen: u32) -> io::Result<()> {
        let wait = opcode::FutexWait::new(addr.as_ptr(), seen.into(), MATCH_ANY, FUTEX2_SIZE_U32);
        self.push(&wait.build().user_data(pack(Watch::Word, token)))
    }

    fn watch_eventfd(&mut self, token: Token, fd: RawFd) -> io::Result<()> {
        // A multishot poll is edge-triggered: each write of the counter gives a cqe.
        let poll = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).multi(true);
        self.push(&poll.build().user_data(pack(Watch::Eventfd, token)))
    }

    fn poll_fd(&mut self, token: Token, fd: RawFd) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32);
        self.push(&poll.build().user_data(pack(Watch::Fd, token)))
    }

    fn cancel(&mut self, kind: Watch, token: Token) -> io::Result<()> {
        let target = pack(kind, token);
        if kind == Watch::Ring {
            self.ringing.remove(&token.0);
        }
        let cancel = match kind {
            // A poll is found by hash; a futex wait or a write by a walk over all of them.
            Watch::Eventfd | Watch::Fd => opcode::PollRemove::new(target).build(),
            Watch::Word | Watch::Ring => opcode::AsyncCancel::new(target).build(),
        };
        self.push(&cancel.flags(Flags::SKIP_SUCCESS).user_data(QUIET))
    }

    fn wake_word(&mut self, addr: FutexAddr) -> io::Result<()> {
        let wake = opcode::FutexWake::new(addr.as_ptr(), 1, MATCH_ANY, FUTEX2_SIZE_U32);
        self.push(&wake.build().flags(Flags::SKIP_SUCCESS).user_data(QUIET))
    }

    fn ring_eventfd(&mut self, token: Token, fd: RawFd) -> io::Result<()> {
        // NOWAIT: a full counter is EAGAIN at once, and no request is left pending.
        self.write(token, Ringing { fd, by_worker: false })
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() { Ok(()) } else { self.enter(0, None) }
    }

    fn idle(&mut self, until: Option<MonoNs>) -> io::Result<()> {
        if self.ring.completion().is_empty() { self.enter(1, until) } else { self.flush() }
    }

    fn reap(&mut self, out: &mut EventBatch) -> io::Result<usize> {
        out.clear();
        self.drain(out)?;
        if out.is_empty() && self.has_task_work() {
            self.enter(0, None)?;
            self.drain(out)?;
        }
        Ok(out.len())
    }

    fn syscalls(&self) -> u64 {
        self.syscalls
    }
}

/// The event that a cqe means, if it means one.
fn translate(user_data: u64, result: i32, flags: u32) -> Option<HostEvent> {
    const CHANGED: i32 = -libc::EAGAIN;
    if result == -libc::ECANCELED {
        return None;
    }
    let (kind, token) = unpack(user_data)?;
    Some(match kind {
        Watch::Word if result >= 0 || result == CHANGED => HostEvent::Bell(token),
        Watch::Eventfd if result >= 0 && cqueue::more(flags) => HostEvent::Bell(token),
        Watch::Word | Watch::Eventfd => HostEvent::BellLost(token, result.min(0)),
        Watch::Fd => HostEvent::Fd(token, result),
        Watch::Ring => HostEvent::Written(token, result),
    })
}

#[cfg(test)]
#[path = "uring_tests.rs"]
mod tests;
