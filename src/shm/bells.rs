//! Bells: how a producer that runs on a CPU tells a daemon that may be asleep.
//!
//! A *bell* is a 32-bit futex word in the lanes area: number 0 is the session's doorbell for
//! submissions, `1 + d` belongs to device `d`. Its value is a count of rings, free-running.
//!
//! What always holds: whoever rings stores what it has to tell first, then raises the count,
//! always, and then looks whether the daemon is parked. The daemon says that it is parked
//! ([`super::status::StatusPage::park`]) before it reads the counts and sleeps on them. A
//! `fence(SeqCst)` on both sides lets at least one see the other: no ring is lost.

use super::sync::{Ordering, fence};
use super::words::{ReadWords, WriteWords, fit};
use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::layout::{lanes, status};

/// What is left to do after a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a parked daemon sleeps on unless it is woken"]
pub enum Ring {
    /// Nothing: the daemon is awake and reads the bells.
    Awake,
    /// Wake it: FUTEX_WAKE one waiter on the bell's word, or write the bell eventfd, whichever
    /// WELCOME named.
    MustWake,
}

/// A producer's side of one bell.
#[derive(Clone, Debug)]
pub struct Bell<L, S> {
    lanes: L,
    status: S,
    offset: usize,
}

impl<L: WriteWords, S: ReadWords> Bell<L, S> {
    /// The bell of this number (0 the doorbell, `1 + d` device `d`) in a lanes area, rung for the
    /// daemon of a status page.
    ///
    /// # Errors
    /// `SessionMemory` where one of the two is too small; `NoSuchDevice` past the last bell.
    pub fn new(lanes: L, status: S, number: u32) -> Result<Bell<L, S>> {
        fit(&lanes, lanes::LANES, "lanes area")?;
        fit(&status, status::BYTES, "status page")?;
        if number >= lanes::BELLS {
            let detail = format!("bell {number}, at most {}", lanes::BELLS - 1);
            return Err(Error::new(ErrorCode::NoSuchDevice, detail));
        }
        Ok(Bell { lanes, status, offset: lanes::bell(number) })
    }

    /// Raises the count and says whether the daemon has to be woken. What the ring is about (a
    /// lane, a submission tail) must have been stored before.
    pub fn ring(&self) -> Ring {
        // Pairs with the fence in `BellsView::read`: who sees the count sees what it is about.
        fence(Ordering::Release);
        self.lanes.fetch_add32(self.offset, 1);
        // Meets the daemon's fence in `StatusPage::park`.
        fence(Ordering::SeqCst);
        match self.status.load32(status::PARKED) {
            0 => Ring::Awake,
            _ => Ring::MustWake,
        }
    }

    /// Address of the futex word to wake.
    pub fn address(&self) -> usize {
        self.lanes.address(self.offset)
    }
}

/// The daemon's side of a session's bells.
#[derive(Clone, Debug)]
pub struct BellsView<L> {
    lanes: L,
}

impl<L: ReadWords> BellsView<L> {
    /// The bells of a lanes area.
    ///
    /// # Errors
    /// `SessionMemory` where it is too small.
    pub fn new(lanes: L) -> Result<BellsView<L>> {
        fit(&lanes, lanes::LANES, "lanes area")?;
        Ok(BellsView { lanes })
    }

    /// The bell's count. Loads that follow see what the rings counted were about.
    pub fn read(&self, bell: u32) -> u32 {
        let count = self.lanes.load32(offset(bell));
        // Pairs with the first fence in `Bell::ring`.
        fence(Ordering::Acquire);
        count
    }

    /// The bell's count if it is not `seen`: as [`BellsView::read`], without the price of a fence
    /// where nothing moved.
    pub fn moved(&self, bell: u32, seen: u32) -> Option<u32> {
        let count = self.lanes.load32(offset(bell));
        if count == seen {
            return None;
        }
        // As in `read`.
        fence(Ordering::Acquire);
        Some(count)
    }

    /// Address of the bell's futex word, to wait on while it holds the count read.
    pub fn address(&self, bell: u32) -> usize {
        self.lanes.address(offset(bell))
    }
}

/// Where a bell lies; a number past the last is a bug and means the last.
fn offset(bell: u32) -> usize {
    debug_assert!(bell < lanes::BELLS, "bell {bell}");
    lanes::bell(bell.min(lanes::BELLS - 1))
}

#[cfg(test)]
#[path = "bells_tests.rs"]
mod tests;
