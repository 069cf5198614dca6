//! Which kind of executor runs: the one asked for, or the first after it that works here.
//!
//! A *kind* is a label and a probe; the kinds and their order are the host's. What always holds: a
//! fallback is never silent. It is a coded warning and a part of the label.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::error::{Error, ErrorCode, Result};

/// The outcome of a probe: why the kind cannot run here.
pub type Probed = core::result::Result<(), String>;

/// The kind that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Its label in the chain.
    pub running: &'static str,
    /// What it stands in for, if it is not the one asked for.
    pub fallback: Option<Fallback>,
}

/// A kind that was asked for and cannot run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// Its label in the chain.
    pub requested: &'static str,
    /// Why it, and each kind between it and the one that runs, cannot.
    pub why: String,
}

impl Resolved {
    /// The label for logs, status, metrics and records: it names a fallback as one.
    pub fn label(&self) -> String {
        match &self.fallback {
            None => self.running.to_string(),
            Some(fallback) => format!("{} (fallback from {})", self.running, fallback.requested),
        }
    }

    /// The coded warning, `ExecutorFallback`, where there is something to warn of.
    pub fn warning(&self) -> Option<Error> {
        let Fallback { requested, why } = self.fallback.as_ref()?;
        let running = self.running;
        let detail = format!("executor: {requested} is not available ({why}), {running} is used");
        Some(Error::new(ErrorCode::ExecutorFallback, detail))
    }
}

/// Probes `requested` and, unless `strict`, what comes after it in the chain, until one can run.
///
/// # Errors
/// `InvalidExecutor` where the chain has no such label; `ExecutorRefused` where `strict` forbids
/// another kind than the one asked for, or none after it can run either.
pub fn resolve<P: Fn() -> Probed>(
    requested: &str,
    chain: &[(&'static str, P)],
    strict: bool,
) -> Result<Resolved> {
    let Some(first) = chain.iter().position(|(label, _)| *label == requested) else {
        let labels: Vec<&str> = chain.iter().map(|(label, _)| *label).collect();
        let detail = format!("executor: {requested} is none of {}", labels.join(", "));
        return Err(Error::new(ErrorCode::InvalidExecutor, detail));
    };
    let requested = chain[first].0;
    let candidates = if strict { &chain[first..=first] } else { &chain[first..] };
    let mut why = String::new();
    for &(running, ref probe) in candidates {
        match probe() {
            Ok(()) if running == requested => return Ok(Resolved { running, fallback: None }),
            Ok(()) => {
                return Ok(Resolved { running, fallback: Some(Fallback { requested, why }) });
            }
            Err(reason) if running == requested => why = reason,
            Err(reason) => why = format!("{why}; {running}: {reason}"),
        }
    }
    let end = if strict { "strict is set" } else { "no other kind can run in its place" };
    let detail = format!("executor: {requested} is not available ({why}) and {end}");
    Err(Error::new(ErrorCode::ExecutorRefused, detail))
}

#[cfg(test)]
#[path = "kind_tests.rs"]
mod tests;
