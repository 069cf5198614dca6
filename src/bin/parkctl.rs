//! parkctl: asks a running daemon, and prints the configuration file as shipped.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use parkd::ctl::cli::{Cli, Command, SHIPPED_CONFIG};

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("parkctl: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> io::Result<()> {
    match cli.command {
        Command::Config => io::stdout().write_all(SHIPPED_CONFIG.as_bytes()),
    }
}
