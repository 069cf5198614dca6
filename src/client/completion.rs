//! How a ticket ended, as the client sees it.

use crate::core::error::{Error, ErrorCode, Result};
use crate::core::step::Waited;
use crate::core::time::MonoNs;
use crate::proto::entry::{ResultEntry, Status};

/// How a ticket ended. Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// How it ended.
    pub status: Status,
    /// How its end was found; none where it was not found done.
    pub waited: Option<Waited>,
    /// The producer's code for `DeviceFailed`, an [`ErrorCode`] number for `Refused`, else 0.
    pub code: u32,
    /// The word as it was seen, for words; the events polled, for fds.
    pub seen: u64,
    /// When the daemon took the ticket.
    pub submitted: MonoNs,
    /// When its end was found.
    pub detected: MonoNs,
    /// When the daemon wrote the result.
    pub published: MonoNs,
}

impl Completion {
    /// What an entry of the result ring says. A status that this build does not know reads as
    /// `Refused` with the code of `BadMessage`.
    pub(crate) fn from_entry(entry: &ResultEntry) -> Completion {
        let (status, code) = match Status::from_number(entry.status) {
            Some(status) => (status, entry.code),
            None => (Status::Refused, u32::from(ErrorCode::BadMessage.number())),
        };
        let waited = match entry.waited {
            1 => Some(Waited::Immediate),
            2 => Some(Waited::Late),
            3 => Some(Waited::Parked),
            4 => Some(Waited::Blocked),
            _ => None,
        };
        Completion {
            status,
            waited,
            code,
            seen: entry.seen,
            submitted: MonoNs(entry.submitted_ns),
            detected: MonoNs(entry.detected_ns),
            published: MonoNs(entry.published_ns),
        }
    }

    /// A word that the client itself saw reached at `now`: no daemon was needed.
    pub(crate) fn landed(seen: u64, now: MonoNs) -> Completion {
        Completion {
            status: Status::Done,
            waited: Some(Waited::Immediate),
            code: 0,
            seen,
            submitted: now,
            detected: now,
            published: now,
        }
    }

    /// Whether the handle completed.
    pub fn is_done(&self) -> bool {
        self.status == Status::Done
    }

    /// The completion where the handle completed, else what happened as a coded error.
    ///
    /// # Errors
    /// `DeadlineExpired`, `Cancelled`, `ProducerDied`, `ProducerFailed` (the producer's code is in
    /// the text and in [`Completion::code`]), `Disconnected` for a daemon that shuts down, and the
    /// daemon's own code for a ticket that it refused.
    pub fn into_result(self) -> Result<Completion> {
        let (code, detail) = match self.status {
            Status::Done => return Ok(self),
            Status::DeadlineExpired => {
                (ErrorCode::DeadlineExpired, "the deadline passed first".to_owned())
            }
            Status::Cancelled => {
                (ErrorCode::Cancelled, "the ticket was cancelled or its lane closed".to_owned())
            }
            Status::ProducerDied => {
                (ErrorCode::ProducerDied, format!("the producer died at {}", self.seen))
            }
            Status::DeviceFailed => {
                (ErrorCode::ProducerFailed, format!("the producer posted code {}", self.code))
            }
            Status::Refused => return Err(self.refusal()),
            Status::ShuttingDown => {
                (ErrorCode::Disconnected, "the daemon is shutting down".to_owned())
            }
        };
        Err(Error::new(code, detail))
    }

    fn refusal(&self) -> Error {
        let known = u16::try_from(self.code).ok().and_then(ErrorCode::from_number);
        match known {
            Some(code) => Error::new(code, format!("ticket refused: {}", code.cause())),
            None => {
                Error::new(ErrorCode::NotSupported, format!("ticket refused: code {}", self.code))
            }
        }
    }
}

#[cfg(test)]
#[path = "completion_tests.rs"]
mod tests;
