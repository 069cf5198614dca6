//! Clients that come, go and die, storms, kills and restarts, all at once and for long: nothing is
//! lost, and nothing grows.

#[path = "../load/mod.rs"]
pub mod load;
#[path = "../supervisor/mod.rs"]
pub mod supervisor;
#[path = "../support/mod.rs"]
pub mod support;

mod crew;
mod held;
mod soak;

use std::process::ExitCode;

use soak::Orders;

/// Seconds of the short form, which every change has to pass.
const SHORT: u64 = 18;

fn main() -> ExitCode {
    load::program(Orders::run, vec![("nothing_is_lost_and_nothing_grows", || short())])
}

fn short() {
    assert_eq!(Orders::new(SHORT).run(), ExitCode::SUCCESS);
}
