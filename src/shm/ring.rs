//! What both rings have in common: their sizes, where they lie, and how indices are compared.
//!
//! A *position* is a free-running u32; its slot is its low bits. The *tail* is the position that
//! is filled next, the *head* the one that is taken next. `tail - head`, wrapping, is never above
//! the ring's entries: an index of a peer that says otherwise is refused with `RingIndex`.

use super::words::{ReadWords, WriteWords, fit};
use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::entry::{ENTRY_BYTES, EntryWords};
use crate::proto::layout::rings;
use crate::proto::limits::{RING_ENTRIES_MAX, RING_ENTRIES_MIN};

/// Entries of a session's two rings: powers of two, 2..=65_536 (sessions have 64 and more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    submit: u32,
    result: u32,
}

impl RingSizes {
    /// Rings of these many entries.
    ///
    /// # Errors
    /// `LimitExceeded` where one is no power of two in 2..=65_536.
    pub fn new(submit: u32, result: u32) -> Result<RingSizes> {
        for (name, entries) in [("submission", submit), ("result", result)] {
            if !entries.is_power_of_two() || !(2..=RING_ENTRIES_MAX).contains(&entries) {
                let detail = format!(
                    "{name} ring: {entries} entries, at most {RING_ENTRIES_MAX}, at least \
                     {RING_ENTRIES_MIN}, a power of two"
                );
                return Err(Error::new(ErrorCode::LimitExceeded, detail));
            }
        }
        Ok(RingSizes { submit, result })
    }

    /// Entries of the submission ring.
    pub const fn submit(self) -> u32 {
        self.submit
    }

    /// Entries of the result ring.
    pub const fn result(self) -> u32 {
        self.result
    }

    /// Bytes of the area.
    pub const fn bytes(self) -> usize {
        rings::bytes(self.submit, self.result)
    }

    /// Refuses memory that is smaller than these rings.
    pub(super) fn fit(self, memory: &impl ReadWords) -> Result<()> {
        fit(memory, self.bytes(), "rings area")
    }

    pub(super) fn submit_slot(self, position: u32) -> usize {
        rings::SUBMIT_RING + slot(position, self.submit)
    }

    pub(super) fn result_slot(self, position: u32) -> usize {
        rings::result_ring(self.submit) + slot(position, self.result)
    }
}

fn slot(position: u32, entries: u32) -> usize {
    (position & (entries - 1)) as usize * ENTRY_BYTES
}

/// How far `tail` is ahead of `head`.
///
/// # Errors
/// `RingIndex` where that is more than the ring has entries: `index`, which a peer wrote, lies.
pub(super) fn distance(ring: &str, index: u32, tail: u32, head: u32, entries: u32) -> Result<u32> {
    let distance = tail.wrapping_sub(head);
    if distance <= entries {
        return Ok(distance);
    }
    let (low, high) = if index == tail {
        (head, head.wrapping_add(entries))
    } else {
        (tail.wrapping_sub(entries), tail)
    };
    let detail = format!("{ring}: index {index} is outside {low}..={high}");
    Err(Error::new(ErrorCode::RingIndex, detail))
}

/// Copies an entry out, word by word, once.
pub(super) fn load_entry(memory: &impl ReadWords, offset: usize) -> EntryWords {
    std::array::from_fn(|word| memory.load64(offset + word * 8))
}

/// Writes the words `range` of an entry.
pub(super) fn store_words(memory: &impl WriteWords, offset: usize, words: &[u64]) {
    for (word, &value) in words.iter().enumerate() {
        memory.store64(offset + word * 8, value);
    }
}
