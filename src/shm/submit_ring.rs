//! The submission ring: a client's tickets, cancels and failures on their way to the daemon.
//!
//! The client owns the *tail*, the daemon the *head*. The head that counts is in the daemon's own
//! table; the head in this memory is a copy for the client's information, and a client that writes
//! over it fools only itself. The ring is its own journal: an entry stays until the daemon has
//! recorded it and said so with [`SubmitConsumer::set_head`], and a new daemon goes on from there.
//!
//! What always holds: an entry is complete once the tail has passed it; the daemon reads the tail
//! once a drain, checks it, and copies each entry once.

use super::ring::{RingSizes, distance, load_entry, store_words};
use super::sync::{Ordering, fence};
use super::words::{ReadWords, WriteWords};
use crate::core::error::Result;
use crate::proto::entry::EntryWords;
use crate::proto::layout::rings;

const NAME: &str = "submission ring";

/// The client's side.
#[derive(Debug)]
pub struct SubmitProducer<M> {
    memory: M,
    sizes: RingSizes,
    /// Position of the next entry; ahead of the published tail between push and publish.
    tail: u32,
    /// The daemon's head when it was last read: entries before it are free for certain.
    head_seen: u32,
}

impl<M: WriteWords> SubmitProducer<M> {
    /// The producer of a ring, from where its tail stands.
    ///
    /// # Errors
    /// `SessionMemory` where the memory is too small; `RingIndex` where its indices make no sense.
    pub fn new(memory: M, sizes: RingSizes) -> Result<SubmitProducer<M>> {
        sizes.fit(&memory)?;
        let tail = memory.load32(rings::SUBMIT_TAIL);
        let mut producer = SubmitProducer { memory, sizes, tail, head_seen: tail };
        producer.in_flight()?;
        Ok(producer)
    }

    /// Entries of the ring.
    pub fn entries(&self) -> u32 {
        self.sizes.submit()
    }

    /// Position of the next entry pushed.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Entries pushed that the daemon has not taken yet.
    ///
    /// # Errors
    /// `RingIndex` where the daemon's head makes no sense.
    pub fn in_flight(&mut self) -> Result<u32> {
        let head = self.memory.load32(rings::SUBMIT_HEAD);
        // Pairs with the fence in `set_head`: the daemon's copies of what lies before the head
        // are done before we write over them.
        fence(Ordering::Acquire);
        let in_flight = distance(NAME, head, self.tail, head, self.entries())?;
        self.head_seen = head;
        Ok(in_flight)
    }

    /// Writes an entry behind those pushed before and answers its position, or none when the ring
    /// is full. The daemon sees it after [`SubmitProducer::publish`].
    ///
    /// # Errors
    /// `RingIndex` where the daemon's head makes no sense.
    pub fn push(&mut self, words: &EntryWords) -> Result<Option<u32>> {
        let full = self.tail.wrapping_sub(self.head_seen) >= self.entries();
        if full && self.in_flight()? == self.entries() {
            return Ok(None);
        }
        let position = self.tail;
        store_words(&self.memory, self.sizes.submit_slot(position), words);
        self.tail = position.wrapping_add(1);
        Ok(Some(position))
    }

    /// Makes all entries pushed visible to the daemon. Ring bell 0 afterwards.
    pub fn publish(&self) {
        // Pairs with the fence in `pending`.
        fence(Ordering::Release);
        self.memory.store32(rings::SUBMIT_TAIL, self.tail);
    }
}

/// The daemon's side. It keeps no position: the head is in the daemon's table.
#[derive(Debug)]
pub struct SubmitConsumer<M> {
    memory: M,
    sizes: RingSizes,
}

impl<M: ReadWords> SubmitConsumer<M> {
    /// The consumer of a ring.
    ///
    /// # Errors
    /// `SessionMemory` where the memory is too small.
    pub fn new(memory: M, sizes: RingSizes) -> Result<SubmitConsumer<M>> {
        sizes.fit(&memory)?;
        Ok(SubmitConsumer { memory, sizes })
    }

    /// Entries of the ring.
    pub fn entries(&self) -> u32 {
        self.sizes.submit()
    }

    /// How many entries from `head` on are complete. Reads the client's tail once.
    ///
    /// # Errors
    /// `RingIndex` where the tail is not in `head..=head + entries`: the session is to be closed.
    pub fn pending(&self, head: u32) -> Result<u32> {
        let tail = self.memory.load32(rings::SUBMIT_TAIL);
        // Pairs with the fence in `publish`: the entries before the tail are there.
        fence(Ordering::Acquire);
        distance(NAME, tail, tail, head, self.entries())
    }

    /// A copy of the entry at `position`, to be checked. Complete for positions that
    /// [`SubmitConsumer::pending`] counted.
    pub fn entry(&self, position: u32) -> EntryWords {
        load_entry(&self.memory, self.sizes.submit_slot(position))
    }
}

impl<M: WriteWords> SubmitConsumer<M> {
    /// Tells the client that all entries before `head` are recorded: their slots are its again.
    pub fn set_head(&self, head: u32) {
        // Pairs with the fence in `in_flight`.
        fence(Ordering::Release);
        self.memory.store32(rings::SUBMIT_HEAD, head);
    }
}

#[cfg(test)]
#[path = "submit_ring_tests.rs"]
mod tests;
