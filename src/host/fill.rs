//! What the FILL thread asks of its host, whichever executor it is.
//!
//! A *watch* is a standing question to the kernel: a word (one shot), an eventfd used as a bell
//! (persistent) or an fd to poll (one shot). A *ring* is a notification to a peer. A *token* is
//! FILL's name for a watch or a ring; it comes back in the event.
//!
//! What always holds, for every host:
//! - No call blocks but [`FillHost::idle`]; nothing that a peer does to a word or an eventfd of
//!   its own changes that, except where a host's own text says so.
//! - An event is a hint to look, never a fact about the word. Events can be late, doubled or
//!   stale, and one can still come after its watch was cancelled: so a token's number is not used
//!   again for another thing until the owner has stopped caring (carry a generation in it).
//! - Queued work reaches the kernel at the latest in the next `flush` or `idle`.

use std::io;
use std::os::fd::RawFd;

use crate::core::time::MonoNs;
use crate::host::futex::FutexAddr;

/// The most events that one [`FillHost::reap`] hands out.
pub const BATCH_EVENTS: usize = 256;

/// Bits of a token that belong to FILL; the rest are the host's.
pub const TOKEN_BITS: u32 = 56;

/// FILL's name for a watch or a ring, unique among the live ones of its [`Watch`] kind. The top
/// byte is the host's and must be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// What kind of thing a token names, for [`FillHost::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Watch {
    /// Made by [`FillHost::watch_word`].
    Word = 1,
    /// Made by [`FillHost::watch_eventfd`].
    Eventfd = 2,
    /// Made by [`FillHost::poll_fd`].
    Fd = 3,
    /// Made by [`FillHost::ring_eventfd`].
    Ring = 4,
}

/// A kind and a token in one number, unique among live watches and rings. Never u64::MAX.
pub(crate) const fn pack(kind: Watch, token: Token) -> u64 {
    debug_assert!(token.0 >> TOKEN_BITS == 0, "the top byte of a token is the host's");
    (kind as u64) << TOKEN_BITS | token.0
}

/// What [`pack`] made into this number; none if it did not make it.
pub(crate) const fn unpack(packed: u64) -> Option<(Watch, Token)> {
    let kind = match packed >> TOKEN_BITS {
        1 => Watch::Word,
        2 => Watch::Eventfd,
        3 => Watch::Fd,
        4 => Watch::Ring,
        _ => return None,
    };
    Some((kind, Token(packed & ((1 << TOKEN_BITS) - 1))))
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// A watched bell may have moved: look. A word's watch is over (watch it again, with the value
    /// read), an eventfd's stands.
    Bell(Token),
    /// A bell's watch ended without a ring. The number is a negative errno (EFAULT: the word is
    /// not mapped any more), or 0 for an eventfd's watch that the kernel dropped: look, and watch
    /// again.
    BellLost(Token, i32),
    /// A polled fd: poll(2) revents, or a negative errno. Its watch is over.
    Fd(Token, i32),
    /// A ring is done: 8, or a negative errno. -EAGAIN: the peer's counter is full, so its fd is
    /// readable already and nothing is lost.
    Written(Token, i32),
}

/// A bounded batch of events. Allocates nothing.
pub struct EventBatch {
    events: [HostEvent; BATCH_EVENTS],
    len: usize,
}

impl EventBatch {
    /// An empty batch.
    pub const fn new() -> EventBatch {
        EventBatch { events: [HostEvent::Bell(Token(0)); BATCH_EVENTS], len: 0 }
    }

    /// The events, in the order in which the kernel gave them.
    pub fn as_slice(&self) -> &[HostEvent] {
        // `len` never exceeds the array: push is the only writer.
        self.events.get(..self.len).unwrap_or(&[])
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether another one would not fit.
    pub const fn is_full(&self) -> bool {
        self.len == BATCH_EVENTS
    }

    /// Forgets them all.
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds one; false where the batch is full.
    pub fn push(&mut self, event: HostEvent) -> bool {
        match self.events.get_mut(self.len) {
            Some(slot) => {
                *slot = event;
                self.len += 1;
                true
            }
            None => false,
        }
    }
}

impl Default for EventBatch {
    fn default() -> EventBatch {
        EventBatch::new()
    }
}

/// The host of one FILL thread. Made and used on that thread.
///
/// Errors of any call are the host's own (kernel memory, a broken ring) and fatal to the daemon;
/// what is wrong with a single watch comes as its event. fds that are passed in are not owned, and
/// what is queued names them by number: cancel what watches an fd *and* flush before it is closed,
/// or its number given to anybody who may. An fd's number is watched once at a time.
pub trait FillHost {
    /// The executor's name, as in the configuration, the log and the status.
    const LABEL: &'static str;

    /// Whether [`FillHost::watch_word`] works; without it bells are eventfds.
    const WORDS: bool;

    /// Watches a futex word that was read as `seen`: one [`HostEvent::Bell`] when it is woken, or
    /// soon if it differs already. Stays armed until then. Fails with Unsupported where `WORDS`
    /// is false.
    fn watch_word(&mut self, token: Token, addr: FutexAddr, seen: u32) -> io::Result<()>;

    /// Watches an eventfd used as a bell: a [`HostEvent::Bell`] after every write (several writes
    /// may share one), and one soon if it was written before. It is never read: a peer can make a
    /// read of it block. Stands until cancelled or [`HostEvent::BellLost`].
    fn watch_eventfd(&mut self, token: Token, fd: RawFd) -> io::Result<()>;

    /// Polls an fd for POLLIN, once: one [`HostEvent::Fd`].
    fn poll_fd(&mut self, token: Token, fd: RawFd) -> io::Result<()>;

    /// Forgets a watch, or a ring that is not done. An event of it may still come.
    fn cancel(&mut self, kind: Watch, token: Token) -> io::Result<()>;

    /// Wakes one waiter on a word. Nothing comes back.
    fn wake_word(&mut self, addr: FutexAddr) -> io::Result<()>;

    /// Writes 1 to a peer's eventfd, which the peer may have filled and made blocking: one
    /// [`HostEvent::Written`]. At most one in flight for an eventfd.
    fn ring_eventfd(&mut self, token: Token, fd: RawFd) -> io::Result<()>;

    /// Hands what is queued to the kernel, without waiting.
    fn flush(&mut self) -> io::Result<()>;

    /// Hands what is queued to the kernel and sleeps until there is an event or the absolute
    /// time `until` (none: no bound) has come; returns at once if an event waits. It may return
    /// early with no event (a signal, a doubled wake).
    fn idle(&mut self, until: Option<MonoNs>) -> io::Result<()>;

    /// Replaces `out` with up to [`BATCH_EVENTS`] events and returns their number; more may wait
    /// where it is full. Cheap when there are none, so that a hot turn can afford it.
    fn reap(&mut self, out: &mut EventBatch) -> io::Result<usize>;

    /// System calls made through this host so far.
    fn syscalls(&self) -> u64;
}

#[cfg(test)]
#[path = "fill_tests.rs"]
pub(crate) mod tests;
