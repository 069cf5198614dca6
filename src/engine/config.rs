//! What an operator may turn, as the engine uses it.

use alloc::vec::Vec;

use crate::core::bands::Bands;
use crate::core::estimator::EstimatorKind;
use crate::core::time::DurNs;
use crate::proto::limits;

/// The engine's settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long a lane that is polled, or whose session's bells are not trusted, waits between two
    /// looks while nothing can be spent on hot looking.
    pub park: DurNs,
    /// How long a blocked lane waits between two looks.
    pub backstop: DurNs,
    /// How long a lane is looked at hot after its predicted sleep, at most.
    pub spin: DurNs,
    /// Share of FILL's time that hot looking may take, in percent of one core, 0..=100.
    pub spin_budget_percent: u32,
    /// Which estimator learns.
    pub estimator: EstimatorKind,
    /// Share of predicted waits that may be found late, in percent, 1..=50.
    pub late_percent: u32,
    /// The plan of each device: what plan id 0 means on its lanes.
    pub devices: Vec<Bands>,
    /// Tickets outstanding in all sessions.
    pub tickets: u32,
    /// Tickets outstanding in all sessions of one user.
    pub tickets_per_uid: u32,
    /// Tickets that one user hands in in a second.
    pub submits_per_second: u32,
}

impl Config {
    /// Settings for one device with this plan, and the limits as they are.
    pub fn with_plan(plan: Bands) -> Config {
        Config {
            park: DurNs::from_us(50),
            backstop: DurNs::from_us(1000),
            spin: DurNs::from_us(300),
            spin_budget_percent: 50,
            estimator: EstimatorKind::Min,
            late_percent: 1,
            devices: alloc::vec![plan],
            tickets: limits::TICKETS_MAX,
            tickets_per_uid: limits::TICKETS_MAX,
            submits_per_second: limits::SUBMITS_PER_SECOND_MAX,
        }
    }
}
