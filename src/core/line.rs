//! Completion words, and the lines they stand in.
//!
//! A *completion word* is an aligned u64 in shared memory into which a device stores rising
//! sequence numbers; a *line* is 64 bytes, 64-byte aligned: 8 words. A word has *reached* a target
//! when it stands at or past it in wrapping order, so a sequence may run over its end: what always
//! holds is that of two numbers less than half the range apart, exactly one has reached the other.

use core::sync::atomic::{AtomicU64, Ordering};

/// Words in a line.
pub const SLOTS: usize = 8;

/// The values of a line's words, read one after the other.
pub type LineValues = [u64; SLOTS];

/// How much of a completion word its device writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Width {
    /// All 64 bits.
    W64 = 64,
    /// The low half: devices without 64-bit stream writes. The high half is never looked at.
    W32 = 32,
}

impl Width {
    /// The width of this many bits: 64 or 32.
    pub const fn from_bits(bits: u8) -> Option<Width> {
        match bits {
            64 => Some(Width::W64),
            32 => Some(Width::W32),
            _ => None,
        }
    }

    /// 64 or 32.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Whether a word that holds `word` stands at or past `target`.
    pub const fn reached(self, word: u64, target: u64) -> bool {
        match self {
            Width::W64 => word.wrapping_sub(target) as i64 >= 0,
            Width::W32 => (word as u32).wrapping_sub(target as u32) as i32 >= 0,
        }
    }

    /// How far `to` is ahead of `from`, counted upwards and around the end.
    pub const fn distance(self, from: u64, to: u64) -> u64 {
        match self {
            Width::W64 => to.wrapping_sub(from),
            Width::W32 => (to as u32).wrapping_sub(from as u32) as u64,
        }
    }
}

/// The place of a word in its line: 0..8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

impl Slot {
    /// The slot of this index, if it is below [`SLOTS`].
    pub const fn new(index: usize) -> Option<Slot> {
        if index < SLOTS { Some(Slot(index as u8)) } else { None }
    }

    /// 0..8.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Every slot of a line, in order.
    pub fn all() -> impl Iterator<Item = Slot> {
        (0..SLOTS as u8).map(Slot)
    }
}

/// 64 bytes of 8 completion words.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct CompletionLine {
    words: [AtomicU64; SLOTS],
}

const _: () = assert!(size_of::<CompletionLine>() == 64 && align_of::<CompletionLine>() == 64);

impl CompletionLine {
    /// A line of zeroes.
    pub const fn new() -> CompletionLine {
        CompletionLine { words: [const { AtomicU64::new(0) }; SLOTS] }
    }

    /// One of its words.
    pub const fn word(&self, slot: Slot) -> &AtomicU64 {
        &self.words[slot.index()]
    }

    /// Reads one word with Acquire: what its writer did before the store is visible after it.
    pub fn load(&self, slot: Slot) -> u64 {
        self.word(slot).load(Ordering::Acquire)
    }

    /// Stores one word with Release, as a device does behind its work.
    pub fn store(&self, slot: Slot, value: u64) {
        self.word(slot).store(value, Ordering::Release);
    }

    /// Reads all words with Acquire. Not one instant: each word is read once, in order.
    pub fn values(&self) -> LineValues {
        core::array::from_fn(|index| self.words[index].load(Ordering::Acquire))
    }
}

/// What a wait on a word is about: the word, the number it waits for and the word's width.
#[derive(Clone, Copy, Debug)]
pub struct MemoryDescriptor<'a> {
    /// The line that holds the word.
    pub line: &'a CompletionLine,
    /// The word's place in it.
    pub slot: Slot,
    /// The number waited for.
    pub target: u64,
    /// How much of the word counts.
    pub width: Width,
}

impl MemoryDescriptor<'_> {
    /// Whether the word has reached its target, read with Acquire.
    pub fn is_reached(&self) -> bool {
        self.width.reached(self.line.load(self.slot), self.target)
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
