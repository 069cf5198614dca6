//! What `parkd serve` and `parkd check-config` take on their command lines, and how they end.
//!
//! An exit status is 0 for done, 2 for a wrong configuration (as for a wrong command line), 1 for
//! everything else.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::core::error::{Error, ErrorCode, Result};
use crate::daemon::config::{Config, defaults};

/// A life that a service manager starts anew at once, and that failed, lasts so long at least.
const LASTS_MIN: Duration = Duration::from_secs(1);

/// What `parkd serve` takes.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// The configuration file [default: /etc/parkd/parkd.toml where it exists, else built-in
    /// defaults]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What `parkd check-config` takes.
#[derive(Args, Clone, Debug)]
pub struct CheckConfigArgs {
    /// The configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

impl ServeArgs {
    /// The configuration to serve by. `socket` is that of the command line and goes before the
    /// file's.
    ///
    /// # Errors
    /// `ConfigInvalid`, `ConfigUnreadable`.
    pub fn load(&self, socket: Option<PathBuf>) -> Result<Config> {
        self.load_from(Path::new(defaults::FILE), socket)
    }

    fn load_from(&self, system: &Path, socket: Option<PathBuf>) -> Result<Config> {
        let mut config = match &self.config {
            Some(file) => Config::load(file)?,
            // A file that is there and cannot be read is the operator's mistake, not an absent one.
            None if system.symlink_metadata().is_ok() => Config::load(system)?,
            None => Config::default(),
        };
        config.daemon.socket = socket.unwrap_or(config.daemon.socket);
        Ok(config)
    }
}

impl CheckConfigArgs {
    /// Checks the file as `serve` would, and says so if it is right.
    ///
    /// # Errors
    /// `ConfigInvalid`, `ConfigUnreadable`.
    pub fn run(&self) -> Result<String> {
        Config::load(&self.file).map(|_| format!("{}: valid", self.file.display()))
    }
}

/// What is said on stderr of an error that ends a command. A wrong configuration's lines stand
/// first and alone, so that editors can jump to them.
pub fn last_words(error: &Error) -> String {
    match error.code {
        ErrorCode::ConfigInvalid | ErrorCode::ConfigUnreadable => {
            format!("{}\nparkd: {}: {}", error.detail, error.code, error.code.remedy())
        }
        _ => format!("parkd: {error}\nparkd: {}", error.code.remedy()),
    }
}

/// The exit status of an error that ends a command.
pub fn exit_status(error: &Error) -> u8 {
    match error.code {
        ErrorCode::ConfigInvalid | ErrorCode::ConfigUnreadable => 2,
        _ => 1,
    }
}

/// Waits, in a life that failed after it had `lasted` so long, until its end is no haste: the units
/// have systemd start the next one at once, and what keeps one from starting may stay a while.
pub fn linger(lasted: Duration) {
    std::thread::sleep(time_to_linger(lasted, env::var_os("NOTIFY_SOCKET").is_some()));
}

fn time_to_linger(lasted: Duration, managed: bool) -> Duration {
    if managed { LASTS_MIN.saturating_sub(lasted) } else { Duration::ZERO }
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
