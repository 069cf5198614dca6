//! parkd: the daemon, and what checks and shows it.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use parkd::core::error::Result;
use parkd::daemon::cli::{self, CheckConfigArgs, ServeArgs};
use parkd::demo::{DemoArgs, PartArgs};

/// Lets many local processes wait for accelerator work without burning a core each
#[derive(Parser)]
#[command(name = "parkd", version)]
struct Cli {
    /// The socket [default: the configuration's]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<std::path::PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the daemon
    Serve(ServeArgs),
    /// Say whether a configuration file is right and, if not, where it is wrong
    CheckConfig(CheckConfigArgs),
    /// Show parkd at work: a daemon, a software device and clients, beside spinning and polling
    Demo(DemoArgs),
    /// Be a child of the demo
    #[command(hide = true)]
    DemoPart(PartArgs),
}

fn main() -> ExitCode {
    let begun = Instant::now();
    match run(Cli::parse()) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("{}", cli::last_words(&error));
            cli::linger(begun.elapsed());
            ExitCode::from(cli::exit_status(&error))
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Serve(args) => parkd::daemon::serve(args.load(cli.socket)?)?,
        Command::CheckConfig(args) => {
            let valid = args.run()?;
            // Nobody reads it: the exit status says the same.
            let _ = writeln!(io::stdout(), "{valid}");
        }
        Command::Demo(args) => return Ok(args.main()),
        Command::DemoPart(args) => return Ok(args.main()),
    }
    Ok(ExitCode::SUCCESS)
}
