//! What the engine sees of the world: a session's shared memory, and what is to be done for it.

use crate::core::error::{Error, Result};
use crate::proto::entry::{EntryWords, ResultEntry};

/// The memory that a session shares with its client. Everything read here is a peer's and is
/// checked before it is used; a read never blocks and never fails.
pub trait Ports {
    /// The bytes of the session's ticket table: the daemon's own memory file.
    type Table: AsMut<[u8]>;

    /// The number in a lane's completion word, read with Acquire.
    fn lane_word(&self, lane: u32) -> u64;

    /// Has `lane` show the word of a lane of another session from here on. Whatever that lies in
    /// stays as long.
    fn borrow_lane(&mut self, lane: u32, owner: &Self, owner_lane: u32);

    /// Has `lane` show its own word again.
    fn give_back_lane(&mut self, lane: u32);

    /// Entries that the client has put into the submission ring past `head`.
    ///
    /// # Errors
    /// `RingIndex` when its tail cannot be.
    fn submissions(&self, head: u32) -> Result<u32>;

    /// A copy of the submission entry at `position`.
    fn submission(&self, position: u32) -> EntryWords;

    /// Tells the client how far its submissions have been taken.
    fn set_submit_head(&self, head: u32);

    /// Results up to `tail` that the client has not read.
    ///
    /// # Errors
    /// `RingIndex` when its head cannot be.
    fn unread(&self, tail: u32) -> Result<u32>;

    /// Writes a result entry; a client that looks at the entry itself sees it from here on.
    fn write_result(&self, position: u32, entry: ResultEntry);

    /// Moves the result ring's tail: a client that parks is told by it.
    fn publish_tail(&self, tail: u32);

    /// Says that a completion is awaited any moment, until `until_ns` of the client's clock.
    fn announce(&self, until_ns: u64);

    /// How the client wants to be told (`proto::layout::armed`).
    fn armed(&self) -> u32;
}

/// What the engine wants done. Effects are done in their order, soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Wake one waiter on the session's result tail.
    WakeTail {
        /// The session.
        slot: u16,
    },
    /// Write to the descriptor that the session's client polls.
    Notify {
        /// The session.
        slot: u16,
    },
    /// Poll a ticket's fd for input; the answer comes back by `Engine::fd_ready`.
    PollFd {
        /// The session.
        slot: u16,
        /// The ticket's row.
        row: u32,
        /// The handle that the ticket was submitted with.
        fd: u32,
    },
    /// A ticket's fd is not needed any more; a poll on it that runs is to be cancelled.
    ReleaseFd {
        /// The session.
        slot: u16,
        /// The ticket's row.
        row: u32,
        /// The handle that the ticket was submitted with.
        fd: u32,
        /// Whether its poll still runs.
        polling: bool,
    },
    /// The client broke a rule: close its session.
    Close {
        /// The session.
        slot: u16,
        /// Why.
        error: Error,
    },
}
