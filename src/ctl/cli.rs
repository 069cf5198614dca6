//! What `parkctl` takes on its command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::client::drain_ms;

/// The configuration file as parkd ships it: every key with its default and what it does.
pub const SHIPPED_CONFIG: &str = include_str!("../../config/parkd.toml");

/// Asks a running parkd
#[derive(Parser, Clone, Debug)]
#[command(name = "parkctl", version)]
pub struct Cli {
    /// The daemon's socket [default: PARKD_SOCKET, else /run/parkd/parkd.sock]
    // No default and no variable here: the client's one rule for all programs knows them.
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The socket of the daemon that is asked.
    pub fn socket_path(&self) -> PathBuf {
        crate::client::socket_path(self.socket.as_deref())
    }
}

/// What parkctl does.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Show what the daemon is doing
    Status(StatusArgs),
    /// Open a lane, say where it lies, and wait for a number to be stored there
    Wait(WaitArgs),
    /// Have the daemon take no new work, and wait until what it has is finished
    Drain(DrainArgs),
    /// Print the configuration file as shipped: every key with its default and what it does
    Config,
}

/// What `parkctl status` takes.
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    /// Print one JSON object, and nothing else
    #[arg(long)]
    pub json: bool,
}

/// What `parkctl wait` takes.
#[derive(Args, Clone, Debug)]
pub struct WaitArgs {
    /// The number to wait for [default: the lane's next]
    #[arg(long, value_name = "N")]
    pub value: Option<u64>,
    /// Give up after so many seconds (fractions count), with exit status 3
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// The device whose lane it is
    #[arg(long, value_name = "NAME", default_value = crate::client::DEFAULT_DEVICE)]
    pub device: String,
    /// The device stores 32 bits
    #[arg(long)]
    pub narrow: bool,
}

/// What `parkctl drain` takes.
#[derive(Args, Clone, Debug)]
pub struct DrainArgs {
    /// After so many seconds (fractions count; 4294967 at most) end the tickets that are left
    #[arg(long, value_name = "SECONDS", value_parser = drain_seconds, default_value = "30")]
    pub timeout: Duration,
    /// Print one JSON object, and nothing else
    #[arg(long)]
    pub json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds, such as 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn drain_seconds(text: &str) -> Result<Duration, String> {
    let timeout = seconds(text)?;
    drain_ms(timeout).map(|_| timeout).map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
