//! What the seeds have met: a simulator that never meets a full ring has not tested one.

use std::cell::Cell;

macro_rules! counts {
    ($($name:ident $text:literal;)*) => {
        /// What is counted.
        #[derive(Clone, Copy)]
        pub enum Count {
            $($name,)*
        }

        /// What each count is called.
        pub const NAMES: &[&str] = &[$($text,)*];
    };
}

counts! {
    Steps "steps";
    Turns "turns of FILL";
    Tickets "tickets accepted";
    Taken "results taken by clients";
    Kills "kills";
    KillsInRecovery "kills in a recovery";
    TornEntries "results half written by a kill";
    Rewritten "results written again";
    Retaken "submissions taken again";
    Quarantined "sessions quarantined";
    Interleaved "clients' steps inside a turn";
    Nested "turns inside a client's step";
    Done "Done, of words";
    Expired "DeadlineExpired";
    Cancelled "Cancelled";
    Failed "DeviceFailed";
    Refused "Refused";
    ShutDown "ShuttingDown";
    ProducerDied "ProducerDied";
    LaneRevoked "Refused, since the lane was revoked";
    Shared "lanes shared";
    Redeemed "lanes redeemed";
    Revoked "lanes revoked";
    Immediate "found Immediate";
    Late "found Late";
    Parked "found Parked";
    Blocked "found Blocked";
    FdsDone "Done, of fds";
    FdsGiven "fds sent again";
    QuotaHit "tickets refused by a quota";
    RateHit "tickets refused by a rate";
    CreditFull "clients out of credit";
    SubmitFull "submission rings full";
    ResultFull "result rings full";
    CreditRefused "SUBMITs refused for credit";
    Again "requests sent again";
    AgainDone "requests sent again that had been done";
    LostWakes "wakes of the daemon lost";
    LateWakes "wakes late";
    StaleWakes "wakes for what had been seen";
    SpuriousWakes "wakes for nothing";
    ClientWakes "clients woken";
    ClientWakesLost "wakes of clients lost";
    ClientSpurious "clients woken for nothing";
    Jumps "clock jumps";
    Wrapped "positions past the end of u32";
    LanesWrapped "lanes past the end of their range";
    SilentStores "stores that ring nothing";
    RungStores "stores that ring";
    LateWork "stores much later than foreseen";
    Bursts "stores in a burst";
    NeverStored "lanes in which nothing is stored";
    BackwardStores "stores of a lower number";
    RepeatedStores "stores of the same number";
    RacedDeadline "Done, though the deadline had passed";
    RacedCancel "cancels that raced a completion";
    HotTurns "hot turns";
    Slow "slow clients";
    Hostile "hostile sessions";
    Closed "sessions closed for breaking a rule";
    Died "clients dead";
    Left "sessions taken out";
}

/// Counts of one seed, or of many.
pub struct Tally([Cell<u64>; NAMES.len()]);

impl Tally {
    pub fn new() -> Tally {
        Tally([const { Cell::new(0) }; NAMES.len()])
    }

    pub fn add(&self, count: Count) {
        self.add_many(count, 1);
    }

    pub fn add_many(&self, count: Count, many: u64) {
        let cell = &self.0[count as usize];
        cell.set(cell.get() + many);
    }

    pub fn of(&self, count: Count) -> u64 {
        self.0[count as usize].get()
    }

    /// Adds what another has counted.
    pub fn merge(&self, other: &Tally) {
        self.0.iter().zip(&other.0).for_each(|(sum, more)| sum.set(sum.get() + more.get()));
    }

    /// What was never met.
    pub fn never(&self) -> Vec<&'static str> {
        let counts = NAMES.iter().zip(&self.0);
        counts.filter(|(_, count)| count.get() == 0).map(|(name, _)| *name).collect()
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = NAMES.iter().zip(&self.0);
        counts.into_iter().try_for_each(|(name, count)| writeln!(f, "{:>12} {name}", count.get()))
    }
}
