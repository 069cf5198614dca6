//! What a client asks for over its socket, and what it is answered.

use std::ops::Range;

use parkd::core::error::ErrorCode;
use parkd::core::line::Width;
use parkd::proto::entry::SubmitEntry;

use super::lane_book::Origin;

/// What is asked. Tickets are named by their numbers in the book.
#[derive(Clone, Debug)]
pub enum Ask {
    Open(Option<u32>, Width, u32),
    Close(u32),
    Plan(u64),
    Submit(Range<usize>),
    Cancel(usize),
    Fail(u32, u32),
    Share(u32),
    Revoke(u32),
    Redeem(Origin),
    /// The fds of fd tickets that an earlier life of the daemon had accepted.
    Fds(Vec<usize>),
    /// Whatever a hostile client makes up.
    Raw(Vec<SubmitEntry>),
    RawCancel(u64),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    pub cookie: u64,
    pub ask: Ask,
    /// Whether it was sent before, to an earlier life of the daemon.
    pub again: bool,
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Answer {
    Opened(u32),
    Planned,
    Submitted,
    Done,
    Refused(#[expect(dead_code, reason = "printed where a seed is replayed")] ErrorCode),
}
