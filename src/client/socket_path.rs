//! Where the daemon's socket is: the one rule that every client and parkctl follow.

use std::env;
use std::path::{Path, PathBuf};

/// The socket's path where nobody says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/parkd/parkd.sock";

/// The environment variable that names the socket.
pub const SOCKET_VARIABLE: &str = "PARKD_SOCKET";

/// The socket's path: `flag` (a `--socket` option), else [`SOCKET_VARIABLE`] where it is set and
/// not empty, else [`DEFAULT_SOCKET`].
pub fn socket_path(flag: Option<&Path>) -> PathBuf {
    choose(flag, env::var_os(SOCKET_VARIABLE).map(PathBuf::from))
}

fn choose(flag: Option<&Path>, variable: Option<PathBuf>) -> PathBuf {
    match (flag, variable) {
        (Some(path), _) => path.to_owned(),
        (None, Some(path)) if !path.as_os_str().is_empty() => path,
        (None, _) => PathBuf::from(DEFAULT_SOCKET),
    }
}

#[cfg(test)]
#[path = "socket_path_tests.rs"]
mod tests;
