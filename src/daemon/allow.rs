//! Who may connect: `[allow]` of the configuration against what the kernel says of a peer.
//!
//! Root and the daemon's own uid always may. Any other process may if its uid is listed, or if one
//! of its groups is, be it the effective or a supplementary one. Names of groups become numbers
//! once, when the list is resolved; a name that does not exist allows nobody and is a warning.
//! Only root and the daemon's own uid may *steer*: ask for what touches everybody's tickets.

use crate::core::error::{Error, ErrorCode, Result};
use crate::daemon::config;
use crate::host::identity::group_id;

/// The resolved list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    own_uid: u32,
    uids: Vec<u32>,
    gids: Vec<u32>,
    socket_gid: Option<u32>,
    /// What is said to those who may not.
    advice: String,
}

impl Allow {
    /// Resolves the configured list, for a daemon that runs as the calling process does. With it
    /// come the warnings, `GroupMissing` for each group that does not exist.
    pub fn resolve(config: &config::Allow) -> (Allow, Vec<Error>) {
        let found: Vec<_> = config.groups.iter().map(|name| (name, group_id(name))).collect();
        let named: Vec<u32> = found.iter().filter_map(|(_, gid)| *gid.as_ref().ok()?).collect();
        let socket_gid = named.first().copied();
        let owner = match socket_gid {
            Some(gid) => format!("the socket goes to gid {gid}"),
            None => format!("the socket stays with gid {}", rustix::process::getegid().as_raw()),
        };
        let warnings = found
            .iter()
            .filter_map(|(name, gid)| match gid {
                Ok(Some(_)) => None,
                Ok(None) => Some(format!("group {name} does not exist, {owner}")),
                Err(e) => Some(format!("group {name} cannot be looked up ({e}), {owner}")),
            })
            .map(|text| Error::new(ErrorCode::GroupMissing, text))
            .collect();
        let own_uid = rustix::process::geteuid().as_raw();
        let member = found.iter().find(|(_, gid)| matches!(gid, Ok(Some(_))));
        let member = member.map(|(name, _)| format!(", or make it a member of group {name}"));
        let member = member.unwrap_or_default();
        let advice = format!("add its uid or gid to uids or gids there{member}");
        let gids = config.gids.iter().copied().chain(named).collect();
        (Allow { own_uid, uids: config.uids.clone(), gids, socket_gid, advice }, warnings)
    }

    /// The group that owns the socket: the first of the configured ones that exists.
    pub fn socket_gid(&self) -> Option<u32> {
        self.socket_gid
    }

    /// Whether a process of this uid, gid and these supplementary groups may connect.
    ///
    /// # Errors
    /// `PermissionDenied`.
    pub fn check(&self, uid: u32, gid: u32, groups: &[u32]) -> Result<()> {
        let known_uid = uid == 0 || uid == self.own_uid || self.uids.contains(&uid);
        if known_uid || self.gids.iter().any(|one| *one == gid || groups.contains(one)) {
            return Ok(());
        }
        let text = format!("uid {uid} gid {gid} is not allowed by [allow]: {}", self.advice);
        Err(Error::new(ErrorCode::PermissionDenied, text))
    }

    /// Whether a process of this uid may ask for `message`, which steers the daemon.
    ///
    /// # Errors
    /// `NotOperator`.
    pub fn steers(&self, uid: u32, message: &str) -> Result<()> {
        if uid == 0 || uid == self.own_uid {
            return Ok(());
        }
        let own = self.own_uid;
        let text = format!("{message}: uid {uid} is neither root nor the daemon's user {own}");
        Err(Error::new(ErrorCode::NotOperator, text))
    }
}

#[cfg(test)]
#[path = "allow_tests.rs"]
mod tests;
