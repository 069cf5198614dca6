//! How long ahead of a foreseen completion somebody must be called: measured once, then kept right
//! by what each wake costs.
//!
//! A wake that finds its CPU still idle costs FILL several times what another does.
//! So each tells whether the call came early enough: a costly one moves it further ahead by one
//! step, a cheap one closer by a small part of one. It comes to rest where one wake in
//! [`CHEAP_FOR_ONE`] is costly.

use crate::core::time::DurNs;
use crate::host::wake_lead::{Requests, WakeLead};

/// Until something is measured, in nanoseconds. (Written 80 to 600 us ahead of a wake a request
/// takes full effect; 5 to 50 us ahead none, measured on Linux 6.18.)
const BEFORE_NS: u64 = 80_000;

/// The least and the most, in nanoseconds.
const LEAST_NS: u64 = 10_000;
const MOST_NS: u64 = 600_000;

/// What one costly wake adds, in nanoseconds.
const STEP_NS: u64 = 4_096;

/// Cheap wakes that make up for a costly one.
const CHEAP_FOR_ONE: u64 = 256;

/// A wake that costs so many times what one of an idle CPU does was interrupted, and tells nothing.
const INTERRUPTED: u64 = 4;

/// The time ahead.
#[derive(Clone, Copy, Debug)]
pub struct Lead {
    ahead_ns: u64,
    measured: bool,
    /// What a wake costs that finds its CPU idle: from here on, and no more than this. Nothing
    /// before it was measured.
    costly_ns: Option<(u64, u64)>,
}

impl Default for Lead {
    fn default() -> Lead {
        Lead { ahead_ns: BEFORE_NS, measured: false, costly_ns: None }
    }
}

impl Lead {
    /// The time ahead.
    pub fn ahead(&self) -> DurNs {
        DurNs(self.ahead_ns)
    }

    /// Begins with what was measured; later calls change nothing.
    pub fn measured(&mut self, found: &WakeLead) {
        if !std::mem::replace(&mut self.measured, true) {
            self.ahead_ns = found.ahead.0.clamp(LEAST_NS, MOST_NS);
            self.costly_ns = match found.requests {
                Requests::Help { idle_cost, awake_cost } => {
                    Some(((idle_cost.0 + awake_cost.0) / 2, INTERRUPTED * idle_cost.0))
                }
                // No wake tells anything.
                Requests::Useless | Requests::Unknown => None,
            };
        }
    }

    /// A wake after a call has cost so much.
    pub fn woke(&mut self, cost: DurNs) {
        let Some((costly, interrupted)) = self.costly_ns else { return };
        if cost.0 > interrupted {
            return;
        }
        self.ahead_ns = match cost.0 >= costly {
            true => (self.ahead_ns + STEP_NS).min(MOST_NS),
            false => self.ahead_ns.saturating_sub(STEP_NS / CHEAP_FOR_ONE).max(LEAST_NS),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE_COST: DurNs = DurNs::from_us(8);
    const AWAKE_COST: DurNs = DurNs::from_us(2);
    const FOUND: WakeLead = WakeLead {
        ahead: DurNs::from_us(100),
        idle: DurNs::from_us(42),
        requests: Requests::Help { idle_cost: IDLE_COST, awake_cost: AWAKE_COST },
    };

    #[test]
    fn it_follows_what_wakes_cost_and_comes_to_rest_where_few_are_costly() {
        let mut lead = Lead::default();
        lead.woke(DurNs::from_us(8));
        assert_eq!(lead.ahead(), DurNs(BEFORE_NS), "nothing is known of costs yet");
        lead.measured(&FOUND);
        assert_eq!(lead.ahead(), FOUND.ahead);
        for needed in [DurNs::from_us(160), DurNs::from_us(40)] {
            let mut costly = 0;
            for n in 0..20_000 {
                let late = lead.ahead() < needed;
                costly += u32::from(late && n >= 10_000);
                lead.woke(if late { IDLE_COST } else { AWAKE_COST });
            }
            let off = lead.ahead().0.abs_diff(needed.0);
            assert!(off <= STEP_NS, "{needed:?}: {:?}", lead.ahead());
            assert!(costly <= 10_000 / CHEAP_FOR_ONE as u32 + 1, "{costly}");
        }
    }

    #[test]
    fn interrupted_wakes_tell_nothing_and_the_bounds_hold() {
        let mut lead = Lead::default();
        lead.measured(&FOUND);
        lead.woke(DurNs::from_us(100));
        assert_eq!(lead.ahead(), FOUND.ahead);
        (0..1_000).for_each(|_| lead.woke(IDLE_COST));
        assert_eq!(lead.ahead(), DurNs(MOST_NS));
        (0..100_000).for_each(|_| lead.woke(AWAKE_COST));
        assert_eq!(lead.ahead(), DurNs(LEAST_NS));
    }
}
