//! What the sessions of one user hold together: sessions, lanes and file descriptors.
//! (Tickets are counted by the engine.)

use std::collections::HashMap;

use crate::core::error::{Error, ErrorCode, Result};
use crate::daemon::config::Limits;

/// Counts by uid.
#[derive(Default)]
pub struct Quotas {
    users: HashMap<u32, Held>,
}

#[derive(Default)]
struct Held {
    sessions: u32,
    lanes: u32,
    fds: u32,
}

impl Quotas {
    /// Counts a session with `lanes` lanes.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn open(&mut self, uid: u32, lanes: u32, limits: &Limits) -> Result<()> {
        let held = self.users.entry(uid).or_default();
        let sessions = held.sessions + 1;
        check(uid, "sessions", sessions, limits.sessions_per_uid, "sessions_per_uid")?;
        check(uid, "lanes", held.lanes + lanes, limits.lanes_per_uid, "lanes_per_uid")?;
        held.sessions += 1;
        held.lanes += lanes;
        Ok(())
    }

    /// Counts a session that an earlier life of the daemon made, whatever the limits are now.
    pub fn reopen(&mut self, uid: u32, lanes: u32) {
        let held = self.users.entry(uid).or_default();
        held.sessions += 1;
        held.lanes += lanes;
    }

    /// A session with `lanes` lanes is gone.
    pub fn close(&mut self, uid: u32, lanes: u32) {
        if let Some(held) = self.users.get_mut(&uid) {
            held.sessions = held.sessions.saturating_sub(1);
            held.lanes = held.lanes.saturating_sub(lanes);
            if held.sessions == 0 && held.fds == 0 {
                self.users.remove(&uid);
            }
        }
    }

    /// Counts fds of tickets.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn take_fds(&mut self, uid: u32, fds: u32, limits: &Limits) -> Result<()> {
        let held = self.users.entry(uid).or_default();
        check(uid, "fds", held.fds + fds, limits.fds_per_uid, "fds_per_uid")?;
        held.fds += fds;
        Ok(())
    }

    /// Fds of tickets are closed.
    pub fn give_back_fds(&mut self, uid: u32, fds: u32) {
        if let Some(held) = self.users.get_mut(&uid) {
            held.fds = held.fds.saturating_sub(fds);
        }
    }
}

fn check(uid: u32, what: &str, wanted: u32, limit: u32, key: &str) -> Result<()> {
    if wanted <= limit {
        return Ok(());
    }
    let text = format!("uid {uid}: {what} {wanted}, at most {limit} (raise [limits] {key})");
    Err(Error::new(ErrorCode::QuotaExceeded, text))
}
