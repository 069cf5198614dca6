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
use support::{Executor, GPU_REACTOR, IO_URING, NAIVE};

/// Seconds of the short form, which every change has to pass.
const SHORT: u64 = 18;

fn main() -> ExitCode {
    load::program(
        Orders::run,
        vec![
            ("nothing_is_lost_and_nothing_grows_by_io_uring", || support::run(&IO_URING, short)),
            ("nothing_is_lost_and_nothing_grows_by_gpu_reactor", || {
                support::run(&GPU_REACTOR, short)
            }),
            ("nothing_is_lost_and_nothing_grows_by_naive", || support::run(&NAIVE, short)),
        ],
    )
}

fn short(executor: &Executor) {
    assert_eq!(Orders::new(SHORT, *executor).run(), ExitCode::SUCCESS);
}
