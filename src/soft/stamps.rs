//! When the device stored a number, as the client reads it.
//!
//! The device writes its clock into a stamp right before the number that it belongs to, and into
//! the stamp of number `n + count` only after it has stored `n + count - 1`. So whoever has seen
//! number `n` finds its stamp, unless the lane has since gone `count - 1` numbers further; what
//! always holds is that a stamp that is handed out belongs to the number asked for.

use super::protocol::Stamps;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::MonoNs;
use crate::shm::lanes::LanesView;
use crate::shm::words::ReadWords;

/// The stamps of one lane.
#[derive(Debug)]
pub struct StampReader<M> {
    lanes: LanesView<M>,
    lane: u32,
    stamps: Stamps,
}

impl<M: ReadWords> StampReader<M> {
    /// The stamps of a lane.
    ///
    /// # Errors
    /// `NoSuchLane` where the lane or a stamp is not in the area.
    pub fn new(lanes: LanesView<M>, lane: u32, stamps: Stamps) -> Result<StampReader<M>> {
        let end = stamps.lane.saturating_add(stamps.count);
        if end > lanes.lanes() || lane >= lanes.lanes() || stamps.count == 0 {
            let text = format!("{stamps:?} of lane {lane}: {} lanes", lanes.lanes());
            return Err(Error::new(ErrorCode::NoSuchLane, text));
        }
        Ok(StampReader { lanes, lane, stamps })
    }

    /// The lane's number; what the device did before it stored it is visible after this.
    pub fn word(&self) -> u64 {
        self.lanes.load(self.lane)
    }

    /// When the device stored `number`, which the lane has reached; `None` once the stamp may have
    /// been overwritten.
    pub fn stamp(&self, number: u64) -> Option<MonoNs> {
        let count = u64::from(self.stamps.count);
        // With Acquire, before the number: pairs with the stamp's store in pages.rs.
        let stamp = self.lanes.load(self.stamps.lane + (number % count) as u32);
        let ahead = self.word().wrapping_sub(number);
        (ahead < count - 1).then_some(MonoNs(stamp))
    }
}
