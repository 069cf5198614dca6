//! Complaints: what the log says of peers that break rules.
//!
//! Whoever breaks them can do so as fast as it likes, and a line of the log can take its time: so
//! only so many are written in a second, and the first of a later one says how many were not.

use crate::core::error::Error;
use crate::core::time::{DurNs, MonoNs};
use crate::host::clock;

/// Complaints that are written in one second.
const PER_SECOND: u32 = 20;

const SECOND: DurNs = DurNs(1_000_000_000);

/// How many have been written, and how many have not.
#[derive(Debug, Default)]
pub struct Complaints {
    /// When the present second began.
    since: MonoNs,
    written: u32,
    left_out: u64,
}

impl Complaints {
    /// Logs what a peer, or someone who would be one, is told.
    pub fn about(&mut self, peer: &str, error: &Error) {
        let Some(left_out) = self.write(clock::now()) else { return };
        if left_out > 0 {
            tracing::warn!(left_out, "complaints about peers that were not logged");
        }
        let (code, code_name) = (error.code.number(), error.code.name());
        tracing::warn!(peer, code, code_name, "{}", error.detail);
    }

    /// Whether to write one at `now`, and how many were left out before it.
    fn write(&mut self, now: MonoNs) -> Option<u64> {
        if now.since(self.since) >= SECOND {
            self.since = now;
            self.written = 0;
        }
        if self.written == PER_SECOND {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_and_the_next_says_how_many_more_there_were() {
        let mut complaints = Complaints::default();
        let at = |ms: u64| MonoNs(5_000_000_000 + ms * 1_000_000);
        let written = (0..100).filter(|&ms| complaints.write(at(ms)) == Some(0)).count();
        assert_eq!(written, PER_SECOND as usize);
        assert_eq!(complaints.write(at(999)), None);
        assert_eq!(complaints.write(at(1000)), Some(81));
        assert_eq!(complaints.write(at(1001)), Some(0));
    }
}
