//! The comparison of `benches/compare`: its sums, and one short run of all of it. With it the sums
//! of `benches/estimators`.
//!
//! This program is started again to be the comparison, and by that to be its members.

#[path = "../../benches/compare/harness/mod.rs"]
mod harness;
#[path = "../../benches/estimators/model.rs"]
mod model;
#[path = "../support/mod.rs"]
pub mod support;

mod replay;
mod smoke;
mod sums;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// The first argument of a comparison.
const COMPARE: &str = "compare";

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some(harness::MEMBER) => return harness::main(args, None),
        Some(COMPARE) => {
            args.remove(1);
            return harness::main(args, None);
        }
        _ => {}
    }
    let trials =
        sums::TESTS.iter().chain(replay::TESTS).chain(smoke::TESTS).map(|&(name, test)| {
            Trial::test(name, move || {
                test();
                Ok(())
            })
        });
    // One at a time: the short run wants the machine.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
