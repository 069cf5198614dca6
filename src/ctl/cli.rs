//! What `parkctl` takes on its command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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

/// What parkctl does.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
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

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
