//! The daemon's logic without I/O: sessions, tickets, limits, publishing.
//!
//! Commands, ring entries, word values and time go in; results, [`Effect`]s and the next due time
//! come out. The engine never reads a clock, never blocks, and allocates only when a session, a
//! lane or a plan is made. `tests/sim` and the daemon's FILL thread drive the same code.

mod account;
mod ahead;
#[cfg(test)]
mod beat_tests;
#[cfg(test)]
mod bench_tests;
mod budget;
pub mod config;
mod drain;
#[allow(clippy::module_inception)]
mod engine;
mod heap;
mod lane;
mod ports;
mod prepared;
mod publish;
pub mod recovery;
mod session;
mod sharing;
mod stats;
pub mod table;
mod tickets;
mod waits;

pub use ahead::Ahead;
pub use config::Config;
pub use engine::{Engine, Refusal};
pub use ports::{Effect, Ports};
pub use prepared::{Prepared, Retired, SessionParams};
pub use sharing::{Redemption, no_such_capability};
pub use stats::Stats;
