//! Lanes: the completion words of a session, as they are stored and looked at.
//!
//! A *lane* is an aligned u64; its number is its index in the lanes area. Devices store rising
//! sequence numbers into it and tell nobody. A lane opened 32 bits wide is written in its low
//! half; the daemon loads the whole word all the same and compares that half.
//!
//! What always holds: who has seen a number, and made the Acquire fence, sees whatever its
//! producer wrote before storing it.

use super::sync::{Ordering, fence};
use super::words::{ReadWords, WriteWords, fit};
use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::layout::lanes;
use crate::proto::limits::SESSION_LANES_MAX;

/// The watching side of the lanes.
#[derive(Clone, Debug)]
pub struct LanesView<M> {
    memory: M,
    lanes: u32,
}

impl<M: ReadWords> LanesView<M> {
    /// The lanes of an area, `lanes` of them.
    ///
    /// # Errors
    /// `LimitExceeded` where that is no power of two up to 4096; `SessionMemory` where the memory
    /// is too small.
    pub fn new(memory: M, lanes: u32) -> Result<LanesView<M>> {
        check(&memory, lanes)?;
        Ok(LanesView { memory, lanes })
    }

    /// Lanes of the area; lanes are numbered below it.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// The lane's number, with Acquire.
    #[inline]
    pub fn load(&self, lane: u32) -> u64 {
        let number = self.peek(lane);
        // Pairs with the fence in `LanesWriter::store`, or with a device's own.
        fence(Ordering::Acquire);
        number
    }

    /// The lane's number, Relaxed: for scans that make one `fence(Acquire)` once they found what
    /// they looked for, before they act on it.
    #[inline]
    pub fn peek(&self, lane: u32) -> u64 {
        self.memory.load64(offset(lane, self.lanes))
    }
}

/// The storing side of the lanes, for producers on a CPU.
#[derive(Clone, Debug)]
pub struct LanesWriter<M> {
    memory: M,
    lanes: u32,
}

impl<M: WriteWords> LanesWriter<M> {
    /// The lanes of an area, `lanes` of them.
    ///
    /// # Errors
    /// As [`LanesView::new`].
    pub fn new(memory: M, lanes: u32) -> Result<LanesWriter<M>> {
        check(&memory, lanes)?;
        Ok(LanesWriter { memory, lanes })
    }

    /// Lanes of the area; lanes are numbered below it.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Stores a number into a lane, with Release, silently. Ring the device's bell afterwards
    /// where the producer is to be heard by a sleeping daemon.
    #[inline]
    pub fn store(&self, lane: u32, number: u64) {
        // Pairs with the fence in `LanesView::load`.
        fence(Ordering::Release);
        self.memory.store64(offset(lane, self.lanes), number);
    }

    /// Stores a number into the low half of a lane that was opened 32 bits wide.
    #[inline]
    pub fn store_low(&self, lane: u32, number: u32) {
        // As in `store`.
        fence(Ordering::Release);
        self.memory.store32(offset(lane, self.lanes), number);
    }
}

fn check(memory: &impl ReadWords, count: u32) -> Result<()> {
    if !count.is_power_of_two() || count > SESSION_LANES_MAX {
        let detail = format!("lanes: {count}, at most {SESSION_LANES_MAX}, a power of two");
        return Err(Error::new(ErrorCode::LimitExceeded, detail));
    }
    fit(memory, lanes::LANES + count as usize * 8, "lanes area")
}

/// Where a lane lies; a number past the last is a bug and wraps.
fn offset(lane: u32, count: u32) -> usize {
    debug_assert!(lane < count, "lane {lane} of {count}");
    lanes::lane(lane & (count - 1))
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
