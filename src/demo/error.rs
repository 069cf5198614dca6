//! What ends a demo before its end.

use std::io;

use thiserror::Error;

use crate::core::error::{Error as Coded, ErrorCode};

/// What ends a demo before its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DemoError {
    /// Something that parkd has a code for.
    #[error("{0}")]
    Coded(#[from] Coded),
    /// A system call or a pipe to a child failed.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        error: io::Error,
    },
    /// A child ended when it should not have.
    #[error("{child} died: {how}")]
    Died {
        /// Which.
        child: String,
        /// Its exit status, and what it said last.
        how: String,
    },
    /// A child did not answer in time, or made no sense.
    #[error("{child}: {what}")]
    Child {
        /// Which.
        child: String,
        /// What was wrong.
        what: String,
    },
    /// SIGINT or SIGTERM.
    #[error("interrupted")]
    Interrupted,
}

impl DemoError {
    pub(super) fn io(what: impl Into<String>, error: impl Into<io::Error>) -> DemoError {
        DemoError::Io { what: what.into(), error: error.into() }
    }
}

/// A futex call that failed, coded.
pub(super) fn futex(error: io::Error) -> Coded {
    Coded::new(ErrorCode::SystemFailed, format!("futex: {error}"))
}
