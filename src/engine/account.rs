//! Tickets outstanding, in all and by user, and how many each user hands in.

use alloc::format;
use alloc::vec::Vec;

use super::config::Config;
use super::engine::Refusal;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::rate::{Bucket, Rate, wait_ms};
use crate::core::time::MonoNs;
use crate::proto::limits::SESSIONS_MAX;

struct Account {
    uid: u32,
    sessions: u32,
    tickets: u32,
    /// Of tickets that may be handed in.
    bucket: Bucket,
}

/// The accounts of all users that have a session.
#[derive(Default)]
pub struct Accounts {
    tickets: u32,
    users: Vec<Account>,
}

impl Accounts {
    /// Counts a session of `uid` and answers the account's index, which stays good until the
    /// session is closed. A user that comes again finds its account as it was left, unless all
    /// were needed for others.
    pub fn open(&mut self, uid: u32) -> usize {
        let known = self.users.iter().position(|a| a.uid == uid);
        let at = known.unwrap_or_else(|| {
            let fresh = Account { uid, sessions: 0, tickets: 0, bucket: Bucket::default() };
            let full = self.users.len() >= SESSIONS_MAX as usize;
            match self.users.iter().position(|a| full && a.sessions == 0) {
                Some(at) => {
                    self.users[at] = fresh;
                    at
                }
                None => {
                    self.users.push(fresh);
                    self.users.len() - 1
                }
            }
        });
        self.users[at].sessions += 1;
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

    /// Counts tickets as handed in at `now`, all or none.
    ///
    /// # Errors
    /// `RateExceeded`, with the milliseconds to wait.
    pub fn hand_in(
        &mut self,
        at: usize,
        tickets: u32,
        config: &Config,
        now: MonoNs,
    ) -> core::result::Result<(), Refusal> {
        let most = config.submits_per_second;
        let rate = Rate::new(most, most);
        let Account { uid, bucket, .. } = &mut self.users[at];
        bucket.check(&rate, tickets, now).map_err(|wait| {
            let value = wait_ms(wait);
            let text = format!(
                "uid {uid}: tickets, at most {most} a second: again in {value} ms \
                 (raise [limits] submits_per_second)"
            );
            Refusal { error: Error::new(ErrorCode::RateExceeded, text), value }
        })?;
        bucket.spend(&rate, tickets, now);
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
