//! The executor kinds, in the order in which one stands in for another.
//!
//! A *kind* is a label, a probe and a host. What always holds: a kind that [`resolve`] answered
//! has just worked on this machine; making its host fails only if that has changed since.

use std::io;

use crate::core::error::{Error, ErrorCode, Result};
use crate::core::kind::{self, Probed, Resolved};
use crate::host::epoll::EpollHost;
use crate::host::eventfd::Ringer;
use crate::host::fill::FillHost;
use crate::host::naive::NaiveHost;
use crate::host::uring::{Probe, UringHost};

/// One io_uring: bells, polls, wakes and the bounded park in one call.
pub const IO_URING: &str = UringHost::LABEL;

/// epoll, with eventfds as bells.
pub const GPU_REACTOR: &str = EpollHost::LABEL;

/// Polling, bounded.
pub const NAIVE: &str = NaiveHost::LABEL;

type ProbeFn = fn() -> Probed;

const CHAIN: [(&str, ProbeFn); 3] = [
    (IO_URING, || why(Probe::run())),
    (GPU_REACTOR, || why(EpollHost::probe())),
    (NAIVE, || why(NaiveHost::probe())),
];

fn why<T>(probed: Result<T>) -> Probed {
    probed.map(|_works| ()).map_err(|error| error.detail)
}

/// Chooses the executor that runs: `requested`, or unless `strict` the next that can.
///
/// # Errors
/// `InvalidExecutor`, `ExecutorRefused`.
pub fn resolve(requested: &str, strict: bool) -> Result<Resolved> {
    kind::resolve(requested, &CHAIN, strict)
}

/// Whether the kind of this label watches futex words, so that bells can be futexes.
pub fn watches_words(label: &str) -> bool {
    match label {
        IO_URING => UringHost::WORDS,
        GPU_REACTOR => EpollHost::WORDS,
        NAIVE => NaiveHost::WORDS,
        _ => false,
    }
}

/// What the kind of this label cannot keep a client from doing on this machine.
pub fn exposed(label: &str) -> Option<Error> {
    // Not probed where it is not used: taking the probe down costs tens of milliseconds.
    if label == IO_URING {
        return None;
    }
    let error = Ringer::probe().err()?;
    let text = format!("io_setup: {error}: a client can make a write to its eventfd block");
    Some(Error::new(ErrorCode::PrivilegeMissing, text))
}

/// The io_uring host, for the calling thread.
///
/// # Errors
/// `ExecutorRefused` where it has stopped working since it was probed.
pub fn io_uring() -> Result<UringHost> {
    let probe = Probe::run().map_err(|e| Error::new(ErrorCode::ExecutorRefused, e.detail))?;
    UringHost::new(probe).map_err(refused)
}

/// The epoll host, for the calling thread.
///
/// # Errors
/// As [`io_uring()`].
pub fn gpu_reactor() -> Result<EpollHost> {
    EpollHost::new().map_err(refused)
}

/// The naive host, for the calling thread.
///
/// # Errors
/// As [`io_uring()`].
pub fn naive() -> Result<NaiveHost> {
    NaiveHost::new().map_err(refused)
}

fn refused(error: io::Error) -> Error {
    Error::new(ErrorCode::ExecutorRefused, error.to_string())
}

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod tests;
