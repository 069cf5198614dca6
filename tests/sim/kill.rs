//! A moment at which the daemon is to die.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// A kill besides those that the seed has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Moments are counted from the beginning of this step.
    pub step: u64,
    /// At which moment, from 1.
    pub moment: u32,
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.step, self.moment)
    }
}

impl FromStr for Kill {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Kill, ParseIntError> {
        let (step, moment) = text.split_once('.').unwrap_or((text, "1"));
        Ok(Kill { step: step.parse()?, moment: moment.parse()? })
    }
}
