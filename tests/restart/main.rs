//! The daemon is killed at random moments under load, and its clients are to notice nothing but a
//! pause.
//!
//! Run by `cargo test` this is a test program like the others, with a short form of each load. Run
//! by `tests/restart/run` it kills as often as it is told and prints what it counted.

#[path = "../load/mod.rs"]
pub mod load;
#[path = "../supervisor/mod.rs"]
pub mod supervisor;
#[path = "../support/mod.rs"]
pub mod support;

mod quarantine;

use std::process::ExitCode;

use clap::Args;
use load::keeper::{executor, supervised};
use load::kills::Orders;
use quarantine::quarantine;
use support::{Executor, Folder, GPU_REACTOR, IO_URING, NAIVE};

/// Kills of the short form, which every change has to pass.
const SHORT: u32 = 20;

/// What a run is told.
#[derive(Args, Clone, Debug)]
struct Run {
    #[command(flatten)]
    orders: Orders,
    /// Run the daemon without an fd store: clients connect again.
    #[arg(long)]
    no_fd_store: bool,
    /// What drives the daemon.
    #[arg(long, value_parser = executor, default_value = IO_URING.name)]
    executor: Executor,
}

fn main() -> ExitCode {
    load::program(
        |run: &Run| {
            let keeper = supervised(&Folder::new(), !run.no_fd_store, &run.executor);
            run.orders.run(&keeper)
        },
        vec![
            ("quarantine_by_io_uring", || support::run(&IO_URING, quarantine)),
            ("quarantine_by_gpu_reactor", || support::run(&GPU_REACTOR, quarantine)),
            ("quarantine_by_naive", || support::run(&NAIVE, quarantine)),
            ("kills_with_an_fd_store_by_io_uring", || support::run(&IO_URING, stored)),
            ("kills_with_an_fd_store_by_gpu_reactor", || support::run(&GPU_REACTOR, stored)),
            ("kills_with_an_fd_store_by_naive", || support::run(&NAIVE, stored)),
            ("kills_without_an_fd_store_by_io_uring", || support::run(&IO_URING, unstored)),
            ("kills_without_an_fd_store_by_gpu_reactor", || support::run(&GPU_REACTOR, unstored)),
            ("kills_without_an_fd_store_by_naive", || support::run(&NAIVE, unstored)),
        ],
    )
}

fn stored(executor: &Executor) {
    Orders::new(SHORT).pass(&supervised(&Folder::new(), true, executor));
}

fn unstored(executor: &Executor) {
    Orders::new(SHORT).pass(&supervised(&Folder::new(), false, executor));
}
