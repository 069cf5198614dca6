//! The epoll host, for machines that forbid io_uring ("gpu-reactor").
//!
//! Every request is a system call of its own, made at once; the results that have no kernel event
//! (a ring's, a refused watch's) wait in a queue of the host's own. Bells are eventfds here: epoll
//! knows no futex.
//!
//! What always holds:
//! - An fd's number is watched once at a time, and is in the map exactly while epoll has it: a
//!   one-shot poll leaves when it fires, for closing an fd that its peer still holds would leave
//!   it in epoll for good. So no event comes after a cancel, except one already reaped.
//! - Nothing blocks but `idle`; a ring does not, as `eventfd.rs` says.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::event::epoll::{self, CreateFlags};
use rustix::time::Timespec;

use crate::core::error::{Error, ErrorCode};
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;
use crate::host::eventfd::Ringer;
use crate::host::fill::{
    BATCH_EVENTS, EventBatch, FillHost, HostEvent, Token, Watch, pack, unpack,
};
use crate::host::futex::{self, FutexAddr};

/// How often a hot turn asks the kernel: a call each turn would make the look at the lanes, which
/// takes tens of nanoseconds, ten times slower.
const ASK_EVERY: DurNs = DurNs::from_us(5);

/// Watches and queued events for which room is made ahead.
const ROOM: usize = 4096;

/// The epoll host. Made on the thread that uses it.
pub struct EpollHost {
    epoll: OwnedFd,
    /// What epoll has, by packed kind and token.
    watches: HashMap<u64, RawFd>,
    queued: VecDeque<HostEvent>,
    ringer: Ringer,
    asked: MonoNs,
    syscalls: u64,
}

impl EpollHost {
    /// An epoll of its own. Takes the slack off the calling thread's timers (50 us by default).
    pub fn new() -> io::Result<EpollHost> {
        clock::set_timer_slack(NonZeroU64::MIN)?;
        Ok(EpollHost {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            watches: HashMap::with_capacity(ROOM),
            queued: VecDeque::with_capacity(ROOM),
            ringer: Ringer::new(),
            asked: MonoNs::default(),
            syscalls: 0,
        })
    }

    /// Whether epoll works here with waits shorter than a millisecond (epoll_pwait2, 5.11). The
    /// error's text fits `ExecutorFallback`'s "why".
    pub fn probe() -> Result<(), Error> {
        let failed = |e: io::Error| Error::new(ErrorCode::SystemFailed, format!("epoll: {e}"));
        let mut host = EpollHost::new().map_err(failed)?;
        host.ask(Some(Timespec { tv_sec: 0, tv_nsec: 1 })).map_err(failed)
    }

    fn watch(&mut self, kind: Watch, token: Token, fd: RawFd, flags: i32) {
        let key = pack(kind, token);
        match self.control(libc::EPOLL_CTL_ADD, fd, flags, key) {
            Ok(()) => {
                self.watches.insert(key, fd);
            }
            Err(error) => {
                let errno = -error.raw_os_error().unwrap_or(libc::EIO);
                self.queued.push_back(match kind {
                    Watch::Fd => HostEvent::Fd(token, errno),
                    _bell => HostEvent::BellLost(token, errno),
                });
            }
        }
    }

    fn unwatch(&mut self, key: u64) {
        if let Some(fd) = self.watches.remove(&key) {
            // It fails only for an fd that was closed too early; then there is nothing to do.
            let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, key);
        }
    }

    fn control(&mut self, op: i32, fd: RawFd, flags: i32, key: u64) -> io::Result<()> {
        self.syscalls += 1;
        let mut event = libc::epoll_event { events: flags as u32, u64: key };
        // SAFETY: epoll_ctl reads the event, which lives through the call; a number that is no
        // open fd is EBADF.
        let result = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), op, fd, &raw mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Queues an event that is no fd's.
    pub(super) fn queue(&mut self, event: HostEvent) {
        self.queued.push_back(event);
    }

    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Queues what epoll has now.
    pub(super) fn look(&mut self) -> io::Result<()> {
        self.ask(Some(NO_WAIT))?;
        self.asked = clock::now();
        Ok(())
    }

    /// Queues what epoll has, waiting for it until the relative time is over (none: no bound).
    fn ask(&mut self, wait: Option<Timespec>) -> io::Result<()> {
        self.syscalls += 1;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH_EVENTS];
        let count = epoll_wait(&self.epoll, &mut events, wait)?;
        // Copied out one by one: the kernel's layout is packed.
        for libc::epoll_event { events, u64: key } in events.into_iter().take(count) {
            match unpack(key) {
                Some((Watch::Eventfd, token)) => self.queued.push_back(HostEvent::Bell(token)),
                Some((Watch::Fd, token)) => {
                    self.unwatch(key);
                    self.queued.push_back(HostEvent::Fd(token, events as i32));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// How many events came. Waits in nanoseconds (epoll_pwait2; the C library's rounds to
/// milliseconds), and where there is no time to wait for, by the oldest call.
fn epoll_wait(
    epoll: &OwnedFd,
    events: &mut [libc::epoll_event],
    wait: Option<Timespec>,
) -> io::Result<usize> {
    let (fd, at, max) = (epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as libc::c_int);
    let result = match &wait {
        Some(wait) if *wait != NO_WAIT => {
            let (mask, size) = (std::ptr::null::<libc::sigset_t>(), 0_usize);
            let wait = std::ptr::from_ref(wait);
            // SAFETY: the kernel writes at most `max` events to the slice and reads a timespec
            // of 64-bit parts; both live through the call.
            unsafe { libc::syscall(libc::SYS_epoll_pwait2, fd, at, max, wait, mask, size) as i32 }
        }
        // SAFETY: the kernel writes at most `max` events to the slice.
        Some(_no_wait) => unsafe { libc::epoll_wait(fd, at, max, 0) },
        // SAFETY: the kernel writes at most `max` events to the slice.
        None => unsafe { libc::epoll_wait(fd, at, max, -1) },
    };
    if let Ok(count) = usize::try_from(result) {
        return Ok(count);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) }
}

impl FillHost for EpollHost {
    const LABEL: &'static str = "gpu-reactor";
    const WORDS: bool = false;

    fn watch_word(&mut self, _token: Token, _addr: FutexAddr, _seen: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn watch_eventfd(&mut self, token: Token, fd: RawFd) -> io::Result<()> {
        self.watch(Watch::Eventfd, token, fd, libc::EPOLLIN | libc::EPOLLET);
        Ok(())
    }

    fn poll_fd(&mut self, token: Token, fd: RawFd) -> io::Result<()> {
        self.watch(Watch::Fd, token, fd, libc::EPOLLIN);
        Ok(())
    }

    fn cancel(&mut self, kind: Watch, token: Token) -> io::Result<()> {
        self.unwatch(pack(kind, token));
        Ok(())
    }

    fn wake_word(&mut self, addr: FutexAddr) -> io::Result<()> {
        self.syscalls += 1;
        // A word that is not mapped any more has no waiter.
        let _ = futex::wake_one(addr);
        Ok(())
    }

    fn ring_eventfd(&mut self, token: Token, fd: RawFd) -> io::Result<()> {
        // A look and a signal.
        self.syscalls += 2;
        self.queued.push_back(HostEvent::Written(token, self.ringer.ring(fd)));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn idle(&mut self, until: Option<MonoNs>) -> io::Result<()> {
        if self.queued.is_empty() { self.ask(until.map(clock::timespec_until)) } else { Ok(()) }
    }

    fn reap(&mut self, out: &mut EventBatch) -> io::Result<usize> {
        out.clear();
        if self.queued.is_empty() && clock::now().since(self.asked) >= ASK_EVERY {
            self.look()?;
        }
        while !out.is_full() {
            let Some(event) = self.queued.pop_front() else { break };
            out.push(event);
        }
        Ok(out.len())
    }

    fn syscalls(&self) -> u64 {
        self.syscalls
    }
}

#[cfg(test)]
#[path = "epoll_tests.rs"]
mod tests;
