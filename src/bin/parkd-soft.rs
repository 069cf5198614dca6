//! parkd-soft: the software device as a process of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// A device made of software: runs streams of work and stores numbers into the lanes it is handed
#[derive(Parser)]
#[command(name = "parkd-soft", version)]
struct Cli {
    /// Where clients of the device connect
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
}

fn main() -> ExitCode {
    let error = parkd::soft::serve(&Cli::parse().socket);
    eprintln!("parkd-soft: {error}");
    ExitCode::FAILURE
}
