//! Tickets outstanding, in all and by user.

use alloc::format;
use alloc::vec::Vec;

use super::config::Config;
use crate::core::error::{Error, ErrorCode, Result};

struct Account {
    uid: u32,
    sessions: u32,
    tickets: u32,
}

/// The accounts of all users that have a session.
#[derive(Default)]
pub struct Accounts {
    tickets: u32,
    users: Vec<Account>,
}

impl Accounts {
    /// Counts a session of `uid` and answers the account's index, which stays good until the
    /// session is closed.
    pub fn open(&mut self, uid: u32) -> usize {
        let free = self.users.iter().position(|a| a.sessions == 0);
        let at = match self.users.iter().position(|a| a.uid == uid && a.sessions > 0) {
            Some(at) => at,
            None => free.unwrap_or_else(|| {
                self.users.push(Account { uid, sessions: 0, tickets: 0 });
                self.users.len() - 1
            }),
        };
        let account = &mut self.users[at];
        account.uid = uid;
        account.sessions += 1;
        at
    }

    /// The session is gone, with `tickets` of its tickets outstanding.
    pub fn close(&mut self, at: usize, tickets: u32) {
        self.give_back(at, tickets);
        self.users[at].sessions -= 1;
    }

    /// Whether `more` tickets of this account fit the limits.
    ///
    /// # Errors
    /// `LimitExceeded`, `QuotaExceeded`.
    pub fn check(&self, at: usize, more: u32, config: &Config) -> Result<()> {
        let total = self.tickets + more;
        if total > config.tickets {
            let text =
                format!("tickets: {total}, at most {} (raise [limits] tickets)", config.tickets);
            return Err(Error::new(ErrorCode::LimitExceeded, text));
        }
        let Account { uid, tickets, .. } = self.users[at];
        if tickets + more > config.tickets_per_uid {
            let text = format!(
                "uid {uid}: tickets {}, at most {} (raise [limits] tickets_per_uid)",
                tickets + more,
                config.tickets_per_uid
            );
            return Err(Error::new(ErrorCode::QuotaExceeded, text));
        }
        Ok(())
    }

    /// Counts a ticket.
    pub fn take(&mut self, at: usize) {
        self.tickets += 1;
        self.users[at].tickets += 1;
    }

    /// Counts tickets that are over.
    pub fn give_back(&mut self, at: usize, tickets: u32) {
        self.tickets -= tickets;
        self.users[at].tickets -= tickets;
    }

    /// Tickets outstanding in all.
    pub fn tickets(&self) -> u32 {
        self.tickets
    }
}
