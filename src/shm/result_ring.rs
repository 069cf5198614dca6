//! The result ring: what became of each ticket, on its way from the daemon to the client.
//!
//! The daemon owns the *tail*, the client the *head*. A result is complete when its last word
//! carries the *phase* of its position, so a client that looks touches the one line at its head
//! and may take a result before the tail is published. *Unread* therefore counts from the last
//! entry *written*, published or not.
//!
//! To be woken a client *arms*: it says how, and from which position on, in its `armed` word, then
//! takes a last look. The daemon publishes all tails, makes one `fence(SeqCst)`, then reads
//! `armed`. One of the two sees the other: the client its result, or the daemon that it must wake.

use super::ring::{RingSizes, distance, load_entry, store_words};
use super::sync::{Ordering, fence};
use super::words::WriteWords;
use crate::core::error::Result;
use crate::proto::entry::{EntryWords, ResultEntry, phase_of};
use crate::proto::layout::{armed, rings};

const NAME: &str = "result ring";

/// The word of an entry that holds its phase, and where.
const PHASE_WORD: usize = 7;
const PHASE_OFFSET: usize = PHASE_WORD * 8;

/// The daemon's side. It keeps no position: the tail is in the daemon's table.
#[derive(Debug)]
pub struct ResultProducer<M> {
    memory: M,
    sizes: RingSizes,
}

impl<M: WriteWords> ResultProducer<M> {
    /// The producer of a ring.
    ///
    /// # Errors
    /// `SessionMemory` where the memory is too small.
    pub fn new(memory: M, sizes: RingSizes) -> Result<ResultProducer<M>> {
        sizes.fit(&memory)?;
        Ok(ResultProducer { memory, sizes })
    }

    /// Entries of the ring.
    pub fn entries(&self) -> u32 {
        self.sizes.result()
    }

    /// Writes the result at `position`, with that position's phase: the client can take it from
    /// here on. The slot must be free, as [`ResultProducer::unread`] says.
    pub fn write(&self, position: u32, entry: ResultEntry) {
        let phase = phase_of(position, self.entries());
        let words: EntryWords = ResultEntry { phase, ..entry }.to_words();
        let offset = self.sizes.result_slot(position);
        store_words(&self.memory, offset, &words[..PHASE_WORD]);
        // Pairs with the fence in `next`.
        fence(Ordering::Release);
        self.memory.store64(offset + PHASE_OFFSET, words[PHASE_WORD]);
    }

    /// Moves the tail, the futex word of a parked client. To wake whom it concerns: publish the
    /// tails of all sessions, `fence(SeqCst)` once, then look at [`ResultProducer::armed`] of each.
    pub fn publish(&self, tail: u32) {
        // Pairs with the fence in `arm`.
        fence(Ordering::Release);
        self.memory.store32(rings::RESULT_TAIL, tail);
    }

    /// Results that the client has not taken. `tail` is behind the last entry written, published
    /// or not, in this life of the daemon or the last.
    ///
    /// # Errors
    /// `RingIndex` where the client's head is not in `tail - entries..=tail`: the session is to be
    /// closed.
    pub fn unread(&self, tail: u32) -> Result<u32> {
        let head = self.memory.load32(rings::RESULT_HEAD);
        // Pairs with the fence in `advance`: the client's copies of what lies before its head are
        // done before we write over them.
        fence(Ordering::Acquire);
        distance(NAME, head, tail, head, self.entries())
    }

    /// The client's armed word, from which [`armed::due`] says how to tell it. Call it after the
    /// fence.
    pub fn armed(&self) -> u32 {
        self.memory.load32(rings::ARMED)
    }

    /// Says that a completion is awaited any moment, until `until_ns` of the client's clock. To
    /// wake whom it concerns look at [`ResultProducer::armed`] next.
    pub fn announce(&self, until_ns: u64) {
        self.memory.store64(rings::IMMINENT_UNTIL, until_ns);
        // Meets the client's fence in `arm`: it sees this, or we see that it is armed.
        fence(Ordering::SeqCst);
    }

    /// Address of the futex word to wake: the tail.
    pub fn tail_address(&self) -> usize {
        self.memory.address(rings::RESULT_TAIL)
    }
}

/// The client's side. Iterating takes what is there and may go on later.
#[derive(Debug)]
pub struct ResultConsumer<M> {
    memory: M,
    sizes: RingSizes,
    /// Position of the next result; ahead of the published head between `next` and `advance`.
    head: u32,
}

impl<M: WriteWords> ResultConsumer<M> {
    /// The consumer of a ring, from where its head stands.
    ///
    /// # Errors
    /// `SessionMemory` where the memory is too small.
    pub fn new(memory: M, sizes: RingSizes) -> Result<ResultConsumer<M>> {
        sizes.fit(&memory)?;
        let head = memory.load32(rings::RESULT_HEAD);
        Ok(ResultConsumer { memory, sizes, head })
    }

    /// Entries of the ring.
    pub fn entries(&self) -> u32 {
        self.sizes.result()
    }

    /// Position of the next result taken.
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Whether a result waits at the head. One load of one line.
    pub fn ready(&self) -> bool {
        let last = self.memory.load64(self.sizes.result_slot(self.head) + PHASE_OFFSET);
        last as u32 == phase_of(self.head, self.entries())
    }

    /// Gives the slots of all results taken back to the daemon.
    pub fn advance(&self) {
        // Pairs with the fence in `unread`.
        fence(Ordering::Release);
        self.memory.store32(rings::RESULT_HEAD, self.head);
    }

    /// Asks to be woken for the next result, by the means `how` (one of [`armed`]). Answers the
    /// tail to wait on. Now look once more ([`ResultConsumer::ready`]); only if nothing is there
    /// wait: FUTEX_WAIT while the tail holds this value, or poll the eventfd. Then take what is
    /// there and arm again before the next wait: the daemon answers an arming once. Threads that
    /// share a consumer arm for all who wait (`how` of them all), and look, under one lock.
    pub fn arm(&self, how: u32) -> u32 {
        self.memory.store32(rings::ARMED, armed::word(self.head, how));
        // Meets the daemon's fence between its tails and its look at `armed`.
        fence(Ordering::SeqCst);
        let tail = self.memory.load32(rings::RESULT_TAIL);
        // Pairs with the fence in `publish`: a tail that counts a result must not be waited on
        // without the last look seeing that result.
        fence(Ordering::Acquire);
        tail
    }

    /// Until when a completion is awaited any moment, in nanoseconds of CLOCK_MONOTONIC; 0 before
    /// the first time. Look at it after [`ResultConsumer::arm`], and after each wake.
    pub fn announced(&self) -> u64 {
        self.memory.load64(rings::IMMINENT_UNTIL)
    }

    /// Takes the request of [`ResultConsumer::arm`] back; a wake may come all the same.
    pub fn disarm(&self) {
        self.memory.store32(rings::ARMED, armed::word(self.head, armed::NOT));
    }

    /// Address of the futex word to wait on: the tail.
    pub fn tail_address(&self) -> usize {
        self.memory.address(rings::RESULT_TAIL)
    }
}

impl<M: WriteWords> Iterator for ResultConsumer<M> {
    type Item = ResultEntry;

    /// Takes the result at the head, if it is there. Its slot is the daemon's again after
    /// [`ResultConsumer::advance`].
    fn next(&mut self) -> Option<ResultEntry> {
        if !self.ready() {
            return None;
        }
        // Pairs with the fence in `write`: the words before the phase are there.
        fence(Ordering::Acquire);
        let words = load_entry(&self.memory, self.sizes.result_slot(self.head));
        self.head = self.head.wrapping_add(1);
        Some(ResultEntry::from_words(words))
    }
}

#[cfg(test)]
#[path = "result_ring_tests.rs"]
mod tests;
