//! The value of every key that a configuration leaves out, and the bounds of those that no other
//! part of the daemon bounds.
//!
//! This is the one place to change a default: `config/parkd.toml` and the documents are compared
//! with it by tests. A default is what serves an unknown machine without harm, not the fastest.

use std::ops::RangeInclusive;

use crate::proto::limits;

/// Where the daemon listens and clients connect unless they are told otherwise.
pub const SOCKET: &str = "/run/parkd/parkd.sock";
/// The group whose members may connect, and that owns the socket.
pub const GROUP: &str = "parkd";
/// The file that `parkd serve` reads where it exists and no other is named.
pub const FILE: &str = "/etc/parkd/parkd.toml";

/// Microseconds of one park.
pub const PARK_US: u32 = 150;
/// Microseconds from one status query to the next.
pub const BACKSTOP_US: u32 = 1000;
/// Microseconds of looking without a pause, at most.
pub const SPIN_US: u32 = 300;
/// Percent of FILL's time that may be spent looking without a pause.
pub const SPIN_BUDGET_PERCENT: u32 = 25;

/// Microseconds that a predicted sleep ends early.
pub const MARGIN_US: u32 = 60;
/// Microseconds of the shortest predicted sleep.
pub const MIN_SLEEP_US: u32 = 100;
/// Microseconds of the longest predicted sleep.
pub const MAX_SLEEP_US: u32 = 50_000;
/// Samples that a prediction looks back on.
pub const WINDOW: u32 = 8;
/// Percent of waits that may be found late.
pub const LATE_PERCENT: u32 = 1;

/// Name of the plan of a device that names none.
pub const PLAN: &str = "default";
/// Name of the one device of a configuration that lists none.
pub const DEVICE: &str = "default";

/// Sessions of one uid: half of all, so that one user cannot keep out the others.
pub const SESSIONS_PER_UID: u32 = limits::SESSIONS_MAX / 2;
/// Outstanding tickets of one uid.
pub const TICKETS_PER_UID: u32 = limits::TICKETS_MAX / 2;
/// Lanes of one uid.
pub const LANES_PER_UID: u32 = 65_536;
/// File descriptors that outstanding fd tickets of one uid hold.
pub const FDS_PER_UID: u32 = 4096;

/// Connections of one uid in a second: all its sessions at once, and some more.
pub const CONNECTS_PER_SECOND: u32 = 1000;
/// Tickets that one uid hands in in a second: about what FILL can take of all.
pub const SUBMITS_PER_SECOND: u32 = 2_000_000;

const _: () = assert!(CONNECTS_PER_SECOND > SESSIONS_PER_UID);

/// Bounds of `cpu` where it is a number.
pub const CPU: RangeInclusive<u32> = 0..=1023;
/// Bounds of `spin_us`, in microseconds; 0 never looks without a pause.
pub const SPIN_US_BOUND: RangeInclusive<u32> = 0..=10_000;
/// Bounds of `spin_budget_percent`.
pub const SPIN_BUDGET_PERCENT_BOUND: RangeInclusive<u32> = 0..=100;
/// Bounds of `late_percent`.
pub const LATE_PERCENT_BOUND: RangeInclusive<u32> = 1..=50;
