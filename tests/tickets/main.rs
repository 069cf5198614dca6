//! Tickets from end to end: how they come in, what they wait for, how they end, and how their
//! client is told. Every test runs a real daemon and speaks the protocol by hand.

#[path = "../support/mod.rs"]
pub mod support;

mod drain;
mod ends;
mod fds;
mod shares;
mod telling;
mod words;

use parkd::proto::entry::SubmitEntry;
use support::raw::Session;

/// How tickets come in.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// By a SUBMIT message.
    Socket,
    /// By the submission ring.
    Ring,
}

const WAYS: [Way; 2] = [Way::Socket, Way::Ring];

impl Way {
    /// Submits tickets, and returns once the daemon has them.
    fn submit(self, session: &mut Session, entries: &[SubmitEntry]) {
        match self {
            Way::Socket => {
                session.submit(entries, &[]);
            }
            Way::Ring => {
                session.push(entries);
                session.drained();
            }
        }
    }
}
