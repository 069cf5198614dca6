//! `parkd demo`: the whole of parkd at work, in real processes, on silent stores.
//!
//! The *parent* starts the daemon, the software device and the clients, measures, and prints. Its
//! children are *parts* ([`PartArgs`]) of the same executable, so that one binary is all it takes.
//! A *phase* is one way of waiting for the same work: through the daemon, by spinning, by polling.
//! What always holds: a child never outlives the parent, and a child's death ends the demo.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

mod client;
mod cpu;
mod error;
mod family;
mod parent;
pub mod phase;
pub mod report;
mod table;
pub mod tally;
mod waiting;
pub mod workload;

pub use client::ClientArgs;
pub use error::DemoError;
pub use parent::Folder;
pub use waiting::Way;

use crate::host::kinds;

/// The executors that the daemon may be asked for.
const EXECUTORS: [&str; 3] = [kinds::IO_URING, kinds::GPU_REACTOR, kinds::NAIVE];

/// What `parkd demo` takes.
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// How long each way of waiting is measured
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// How many client processes wait
    #[arg(long, value_name = "N", default_value_t = workload::CLIENTS,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(workload::CLIENTS_MAX)))]
    pub clients: u32,
    /// What drives the daemon, and nothing else; left out: the best that works here
    #[arg(long, value_name = "NAME", value_parser = EXECUTORS)]
    pub executor: Option<String>,
    /// Print one JSON object, and nothing else
    #[arg(long)]
    pub json: bool,
}

impl DemoArgs {
    /// Runs the demo and prints what it found. The exit status is 0 where every ticket got its one
    /// result at its time, 1 where one did not or the demo could not go on, 130 for a signal.
    pub fn main(&self) -> ExitCode {
        match parent::run(self) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("parkd demo: {error}");
                ExitCode::from(if matches!(error, DemoError::Interrupted) { 130 } else { 1 })
            }
        }
    }
}

/// What a child of the demo takes: for its parent, not for people.
#[derive(Args, Clone, Debug)]
pub struct PartArgs {
    /// The process that the child must not outlive.
    #[arg(long)]
    pub parent: i32,
    /// What the child is.
    #[command(subcommand)]
    pub part: Part,
}

/// What a child of the demo is.
#[derive(Subcommand, Clone, Debug)]
pub enum Part {
    /// The software device.
    Device {
        /// Where it listens.
        #[arg(long)]
        listen: PathBuf,
    },
    /// The daemon.
    Daemon {
        /// Its configuration.
        #[arg(long)]
        config: PathBuf,
    },
    /// A client.
    Client(ClientArgs),
}

impl PartArgs {
    /// Is that child, to its end. What ends it early is said on stderr.
    pub fn main(self) -> ExitCode {
        match self.run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("parkd demo: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn run(self) -> Result<(), DemoError> {
        family::end_with(self.parent)?;
        match self.part {
            Part::Device { listen } => Err(crate::soft::serve(&listen).into()),
            Part::Daemon { config } => Err(family::become_daemon(&config)),
            Part::Client(args) => args.run(),
        }
    }
}
