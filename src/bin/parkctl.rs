//! parkctl: asks and drains a running daemon, waits through it, and prints the configuration file
//! as shipped.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use parkd::core::error::{Error, ErrorCode, Result};
use parkd::ctl::cli::{Cli, Command, SHIPPED_CONFIG};
use parkd::ctl::{drain, status, wait};

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("parkctl: {error}; {}", error.code.remedy());
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<u8> {
    let socket = cli.socket_path();
    match &cli.command {
        Command::Status(args) => print(&status::status(&socket, args.json)?),
        Command::Drain(args) => print(&drain::drain(&socket, args)?),
        Command::Wait(args) => wait::wait(&socket, args, &mut io::stdout().lock()),
        Command::Config => print(SHIPPED_CONFIG),
    }
}

fn print(text: &str) -> Result<u8> {
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever read it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        written => written
            .map(|()| 0)
            .map_err(|error| Error::new(ErrorCode::SystemFailed, format!("write: {error}"))),
    }
}
