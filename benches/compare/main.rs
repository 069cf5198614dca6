//! parkd beside what its users would pick instead, in one run, on the same work.
//!
//! `cargo bench --bench compare -- [--quick] [--json FILE] [--plot FILE]` runs the *contenders* in
//! turn on the same producers and prints what each costs in latency and in CPU; docs/PERFORMANCE.md
//! says what every column means. Run it on a machine that does nothing else.

mod harness;
#[path = "../../tests/support/mod.rs"]
pub mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    // cargo adds --bench.
    harness::main(std::env::args().filter(|arg| arg != "--bench").collect(), None)
}
