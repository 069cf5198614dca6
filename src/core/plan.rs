//! A *plan* says how to wait: how to park, and whether to sleep through a predicted part first.
//!
//! ```text
//! plan   = park | park "+predict:" fields
//! park   = "block" | "poll" | "flag:park_us=<n>,backstop_us=<n>"
//! fields = "margin_us=<n>,min_sleep_us=<n>,max_sleep_us=<n>,window=<n>" [",wake=early"]
//! ```
//!
//! Nothing is defaulted. Each key stands exactly once; the keys of a group may come in any order,
//! `wake=early` comes last. Numbers are plain digits, microseconds where the key says `_us`, within
//! the bounds below. `block` takes no prediction. [`Plan::label`] writes the order shown above, and
//! parsing a label gives the plan again.

use alloc::string::{String, ToString};
use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;

use super::error::{Error, Result};
use super::text::{Piece, fields};

/// Bounds of `park_us`, in microseconds.
pub const PARK_US: RangeInclusive<u32> = 1..=10_000;
/// Bounds of `backstop_us`, in microseconds; it is also at least `park_us`.
pub const BACKSTOP_US: RangeInclusive<u32> = 1..=1_000_000;
/// Bounds of `margin_us`, in microseconds.
pub const MARGIN_US: RangeInclusive<u32> = 0..=1_000_000;
/// Bounds of `min_sleep_us`, in microseconds.
pub const MIN_SLEEP_US: RangeInclusive<u32> = 0..=60_000_000;
/// Bounds of `max_sleep_us`, in microseconds; it is also at least `min_sleep_us`.
pub const MAX_SLEEP_US: RangeInclusive<u32> = 1..=60_000_000;
/// Bounds of `window`, in samples.
pub const WINDOW: RangeInclusive<u32> = 1..=16;

/// How to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// How to wait for what is not yet done.
    pub park: Park,
    /// Whether, and how, to sleep through a predicted part of the wait. None for [`Park::Block`].
    pub predict: Option<Predict>,
}

/// How to wait for what is not yet done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Park {
    /// The port's blocking wait.
    Block,
    /// Polls until it is done.
    Poll,
    /// Bounded parks on the completion word, and a status query now and then.
    Flag {
        /// The length of one park, within [`PARK_US`].
        park_us: u32,
        /// How long after one status query the next is due, within [`BACKSTOP_US`].
        backstop_us: u32,
    },
}

/// How to sleep through a predicted part of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Predict {
    /// How much earlier than predicted the sleep ends, within [`MARGIN_US`].
    pub margin_us: u32,
    /// No sleep is shorter, within [`MIN_SLEEP_US`].
    pub min_sleep_us: u32,
    /// No sleep is longer, within [`MAX_SLEEP_US`].
    pub max_sleep_us: u32,
    /// How many of the last samples count, within [`WINDOW`].
    pub window: u8,
    /// Whether the waiting process's CPU is woken before the predicted time.
    pub wake_early: bool,
}

impl Plan {
    /// `block`: the blocking wait and nothing else.
    pub const BLOCK: Plan = Plan { park: Park::Block, predict: None };

    /// The plan of this text.
    ///
    /// # Errors
    /// `InvalidPlan`, naming the key, its value, the bound and the column (from 1).
    pub fn parse(text: &str) -> Result<Plan> {
        Plan::read(Piece::new(text))
    }

    /// The plan's text: [`Plan::parse`] reads it back. The same as its `Display`.
    pub fn label(&self) -> String {
        self.to_string()
    }

    pub(super) fn read(piece: Piece<'_>) -> Result<Plan> {
        let (park, fields) = piece.split_once("+predict:");
        let park = Park::read(park)?;
        let predict = match fields {
            Some(fields) if park == Park::Block => {
                return Err(fields.refuse("predict", "block takes no prediction"));
            }
            Some(fields) => Some(Predict::read(fields)?),
            None => None,
        };
        Ok(Plan { park, predict })
    }
}

impl Park {
    fn read(piece: Piece<'_>) -> Result<Park> {
        match piece.text() {
            "block" => return Ok(Park::Block),
            "poll" => return Ok(Park::Poll),
            _ => {}
        }
        let Some(flag) = piece.strip_prefix("flag:") else {
            let forms = "must be block, poll or flag:park_us=<n>,backstop_us=<n>, then nothing or \
                         +predict:<fields>";
            return Err(piece.refuse("park", forms));
        };
        let keys = [("park_us", PARK_US), ("backstop_us", BACKSTOP_US)];
        let [(park_us, _), (backstop_us, at)] = fields(flag, keys, "park_us, backstop_us")?;
        if backstop_us < park_us {
            let bound = format_args!("must be at least park_us, {park_us}");
            return Err(at.refuse("backstop_us", bound));
        }
        Ok(Park::Flag { park_us, backstop_us })
    }
}

impl Predict {
    fn read(piece: Piece<'_>) -> Result<Predict> {
        let wake = piece
            .rsplit_once(',')
            .and_then(|(numbers, last)| last.strip_prefix("wake=").map(|when| (numbers, when)));
        if let Some((_, when)) = wake.filter(|(_, when)| when.text() != "early") {
            return Err(when.refuse("wake", "must be early"));
        }
        let [(margin_us, _), (min_sleep_us, _), (max_sleep_us, at), (window, _)] = fields(
            wake.map_or(piece, |(numbers, _)| numbers),
            [
                ("margin_us", MARGIN_US),
                ("min_sleep_us", MIN_SLEEP_US),
                ("max_sleep_us", MAX_SLEEP_US),
                ("window", WINDOW),
            ],
            "margin_us, min_sleep_us, max_sleep_us, window, with wake=early at the end",
        )?;
        if max_sleep_us < min_sleep_us {
            let bound = format_args!("must be at least min_sleep_us, {min_sleep_us}");
            return Err(at.refuse("max_sleep_us", bound));
        }
        let wake_early = wake.is_some();
        Ok(Predict { margin_us, min_sleep_us, max_sleep_us, window: window as u8, wake_early })
    }
}

impl FromStr for Plan {
    type Err = Error;

    fn from_str(text: &str) -> Result<Plan> {
        Plan::parse(text)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.park {
            Park::Block => f.write_str("block")?,
            Park::Poll => f.write_str("poll")?,
            Park::Flag { park_us, backstop_us } => {
                write!(f, "flag:park_us={park_us},backstop_us={backstop_us}")?;
            }
        }
        let Some(predict) = self.predict else { return Ok(()) };
        let Predict { margin_us, min_sleep_us, max_sleep_us, window, wake_early } = predict;
        write!(f, "+predict:margin_us={margin_us},min_sleep_us={min_sleep_us},")?;
        write!(f, "max_sleep_us={max_sleep_us},window={window}")?;
        f.write_str(if wake_early { ",wake=early" } else { "" })
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
pub(super) mod tests;
