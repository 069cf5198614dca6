//! The executor kinds, in the order in which one stands in for another.

use crate::core::error::Result;
use crate::core::kind::{self, Probed, Resolved};
use crate::host::uring::{Probe, UringHost};

/// One io_uring: bells, polls, wakes and the bounded park in one call.
pub const IO_URING: &str = "io-uring";

type ProbeFn = fn() -> Probed;

/// Chooses the executor that runs: `requested`, or unless `strict` the next that can.
///
/// # Errors
/// `InvalidExecutor`, `ExecutorRefused`.
pub fn resolve(requested: &str, strict: bool) -> Result<Resolved> {
    let chain: [(&'static str, ProbeFn); 1] =
        [(IO_URING, || Probe::run().map(|_| ()).map_err(|error| error.detail))];
    kind::resolve(requested, &chain, strict)
}

/// The io_uring host, for the calling thread.
///
/// # Errors
/// `ExecutorRefused` where it has stopped working since it was probed.
pub fn io_uring() -> Result<UringHost> {
    use crate::core::error::{Error, ErrorCode};
    let refused = |e: std::io::Error| Error::new(ErrorCode::ExecutorRefused, e.to_string());
    UringHost::new(Probe::run()?).map_err(refused)
}
