//! What became of tickets, counted by those who submitted them.
//!
//! What always holds: a ticket counts once in `tickets`, and then in `results` or in `lost`; what
//! counts as *early* is told from what the client itself finds in the lane, or has not yet done.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Complaints that are kept in words.
const COMPLAINTS_MAX: usize = 16;

/// How tickets ended.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Counts {
    /// Tickets that a client handed in.
    pub tickets: u64,
    /// Those that ended, however.
    pub results: u64,
    /// Those that did not.
    pub lost: u64,
    /// Results beyond a ticket's first.
    pub duplicated: u64,
    /// Results that said Done, or DeadlineExpired, before it was so.
    pub early: u64,
    /// Calls that failed, and results that nothing has brought about.
    pub client_errors: u64,
    /// What the last three were, the first few.
    pub complaints: Vec<String>,
}

impl Counts {
    /// Counts `other` in.
    pub fn add(&mut self, other: Counts) {
        self.tickets += other.tickets;
        self.results += other.results;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.early += other.early;
        self.client_errors += other.client_errors;
        let room = COMPLAINTS_MAX.saturating_sub(self.complaints.len());
        self.complaints.extend(other.complaints.into_iter().take(room));
    }

    /// A call that failed, or a result that makes no sense.
    pub fn error(&mut self, what: impl fmt::Display) {
        self.client_errors += 1;
        self.complain(what);
    }

    /// A result that came before its time.
    pub fn too_early(&mut self, what: impl fmt::Display) {
        self.early += 1;
        self.complain(format_args!("early: {what}"));
    }

    /// A ticket that never ended.
    pub fn never(&mut self, what: impl fmt::Display) {
        self.lost += 1;
        self.complain(format_args!("lost: {what}"));
    }

    /// A second result.
    pub fn again(&mut self, what: impl fmt::Display) {
        self.duplicated += 1;
        self.complain(format_args!("duplicated: {what}"));
    }

    fn complain(&mut self, what: impl fmt::Display) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(what.to_string());
        }
    }

    /// Whether every ticket got its one result, in time, and nobody noticed anything.
    pub fn is_clean(&self) -> bool {
        let faults = self.lost + self.duplicated + self.early + self.client_errors;
        faults == 0 && self.results == self.tickets && self.tickets > 0
    }
}
