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
use load::keeper::supervised;
use load::kills::Orders;
use support::Folder;

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
}

fn main() -> ExitCode {
    let quarantined = quarantine::a_session_that_kills_its_daemon_twice_is_quarantined;
    load::program(
        |run: &Run| run.orders.run(&supervised(&Folder::new(), !run.no_fd_store, "")),
        vec![
            ("a_session_that_kills_its_daemon_twice_is_quarantined", quarantined),
            ("kills_with_an_fd_store_are_a_pause", || pass(true)),
            ("kills_without_an_fd_store_are_a_pause", || pass(false)),
        ],
    )
}

fn pass(store: bool) {
    Orders::new(SHORT).pass(&supervised(&Folder::new(), store, ""));
}
