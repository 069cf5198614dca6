//! The naive host: polling, bounded ("naive").
//!
//! For machines where nothing better works. It *naps*: sleeps at most `NAP`, then looks at every
//! watched word and asks epoll without waiting. It needs neither io_uring nor epoll_pwait2, and
//! costs a wake-up every 200 us while FILL idles.
//!
//! What always holds: a word is looked at by the kernel (`futex::differs`), so its memory may be a
//! peer's and may be gone. A word that changed and changed back between two looks is not noticed:
//! a bell only ever counts up, so it does not do that.

use std::io;
use std::os::fd::RawFd;

use rustix::thread::{ClockId, clock_nanosleep_absolute};

use crate::core::error::{Error, ErrorCode};
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;
use crate::host::epoll::EpollHost;
use crate::host::fill::{EventBatch, FillHost, HostEvent, Token, Watch};
use crate::host::futex::{self, FutexAddr};

/// The longest sleep.
const NAP: DurNs = DurNs::from_us(200);

struct Word {
    token: Token,
    addr: FutexAddr,
    seen: u32,
}

/// The naive host. Made on the thread that uses it.
pub struct NaiveHost {
    fds: EpollHost,
    words: Vec<Word>,
    looked: MonoNs,
    syscalls: u64,
}

impl NaiveHost {
    /// A host with nothing to watch.
    pub fn new() -> io::Result<NaiveHost> {
        let fds = EpollHost::new()?;
        Ok(NaiveHost { fds, words: Vec::new(), looked: MonoNs::default(), syscalls: 0 })
    }

    /// Whether it can be made. The error's text fits `ExecutorRefused`'s "why".
    pub fn probe() -> Result<(), Error> {
        let failed = |e: io::Error| Error::new(ErrorCode::SystemFailed, format!("epoll: {e}"));
        NaiveHost::new().map_err(failed)?.look().map_err(failed)
    }

    /// Queues every word that differs, and what epoll has.
    fn look(&mut self) -> io::Result<()> {
        let fds = &mut self.fds;
        self.syscalls += self.words.len() as u64;
        self.words.retain(|word| match futex::differs(word.addr, word.seen) {
            Ok(false) => true,
            Ok(true) => {
                fds.queue(HostEvent::Bell(word.token));
                false
            }
            Err(error) => {
                let errno = -error.raw_os_error().unwrap_or(libc::EIO);
                fds.queue(HostEvent::BellLost(word.token, errno));
                false
            }
        });
        self.looked = clock::now();
        self.fds.look()
    }
}

impl FillHost for NaiveHost {
    const LABEL: &'static str = "naive";
    const WORDS: bool = true;

    fn watch_word(&mut self, token: Token, addr: FutexAddr, seen: u32) -> io::Result<()> {
        self.words.push(Word { token, addr, seen });
        Ok(())
    }

    fn watch_eventfd(&mut self, token: Token, fd: RawFd) -> io::Result<()> {
        self.fds.watch_eventfd(token, fd)
    }

    fn poll_fd(&mut self, token: Token, fd: RawFd) -> io::Result<()> {
        self.fds.poll_fd(token, fd)
    }

    fn cancel(&mut self, kind: Watch, token: Token) -> io::Result<()> {
        if kind == Watch::Word {
            self.words.retain(|word| word.token != token);
            return Ok(());
        }
        self.fds.cancel(kind, token)
    }

    fn wake_word(&mut self, addr: FutexAddr) -> io::Result<()> {
        self.fds.wake_word(addr)
    }

    fn ring_eventfd(&mut self, token: Token, fd: RawFd) -> io::Result<()> {
        self.fds.ring_eventfd(token, fd)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn idle(&mut self, until: Option<MonoNs>) -> io::Result<()> {
        self.look()?;
        if self.fds.has_queued() {
            return Ok(());
        }
        let nap = clock::now() + NAP;
        let end = until.map_or(nap, |until| until.min(nap));
        self.syscalls += 1;
        match clock_nanosleep_absolute(ClockId::Monotonic, &clock::timespec_at(end)) {
            Ok(()) | Err(rustix::io::Errno::INTR) => self.look(),
            Err(error) => Err(error.into()),
        }
    }

    fn reap(&mut self, out: &mut EventBatch) -> io::Result<usize> {
        if clock::now().since(self.looked) >= NAP {
            self.look()?;
        }
        self.fds.reap(out)
    }

    fn syscalls(&self) -> u64 {
        self.syscalls + self.fds.syscalls()
    }
}

#[cfg(test)]
#[path = "naive_tests.rs"]
mod tests;
