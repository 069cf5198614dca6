//! Counters of the engine: plain numbers, written by its one thread.

/// What has happened since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Tickets recorded.
    pub tickets: u64,
    /// Tickets that an earlier life of the daemon had recorded.
    pub recovered: u64,
    /// Results published, by status number (index 0 is unused).
    pub results: [u64; 8],
    /// Results of word tickets by how they were found: Immediate, Late, Parked, Blocked
    /// (index 0 is unused).
    pub waited: [u64; 5],
    /// Looks at lanes in hot turns.
    pub hot_looks: u64,
    /// Looks at lanes that were due.
    pub due_looks: u64,
    /// Nanoseconds spent in hot turns.
    pub hot_ns: u64,
    /// Times that a lane was not looked at hot because its session had used its share.
    pub hot_refused: u64,
    /// Wakes of a waiter on the tail.
    pub tail_wakes: u64,
    /// Of these, those that came before their completion (`wake=early`).
    pub early_wakes: u64,
    /// Writes to the notify descriptor.
    pub notifies: u64,
    /// Sessions closed for breaking a rule.
    pub closes: u64,
}
