//! The comparison: cells, contenders, rounds.
//!
//! A *cell* is a workload with so many waiters in so many processes. In a *run* one contender waits
//! through one cell; a *round* is a run of each contender that can, in turn, the order rotated from
//! round to round. What a table shows are medians over rounds. The processes of a run are *members*
//! of a pool: started once, told what to be each time, so that no run pays for starting them.

pub mod accounts;
pub mod arithmetic;
pub mod cell;
pub mod channel;
pub mod cli;
pub mod contender;
pub mod crowd;
pub mod daemon;
pub mod header;
pub mod load;
pub mod member;
pub mod orders;
pub mod peers;
pub mod picture;
pub mod plan;
pub mod producer;
pub mod record;
pub mod relay;
pub mod run;
pub mod scale;
pub mod settings;
pub mod syscalls;
pub mod table;
pub mod targets;
pub mod throughput;
pub mod waiter;
pub mod wake;
pub mod workload;

#[path = "../../common/proc.rs"]
pub mod proc;

use std::process::ExitCode;

use clap::Parser;

use self::cli::Orders;
use self::wake::Peer;

/// What can go wrong here is told to people.
pub type Result<T> = std::result::Result<T, String>;

/// The first argument of a member.
pub const MEMBER: &str = "member";

/// Says what was being done when something failed.
pub trait Doing<T> {
    /// The value, or the error with `what` before it.
    fn doing(self, what: &str) -> Result<T>;
}

impl<T, E: std::fmt::Display> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: &str) -> Result<T> {
        self.map_err(|error| format!("{what}: {error}"))
    }
}

/// The program: a member of a pool where it is told so, else the whole comparison. `peer` is what
/// this build has beside the contenders that need nothing.
pub fn main(args: Vec<String>, peer: Option<&dyn Peer>) -> ExitCode {
    let done = match args.get(1).map(String::as_str) {
        Some(MEMBER) => member::be(args.get(2).map(String::as_str), peer),
        _ => run::all(&Orders::parse_from(args)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}
