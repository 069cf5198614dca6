//! `parkctl drain`: no new work for the daemon, and an end for what it has.

use std::path::Path;

use serde_json::json;

use crate::client::{Control, Drained};
use crate::core::error::Result;

use super::cli::DrainArgs;

/// Drains the daemon, and answers with what became of the tickets that were outstanding: a line
/// for people, or JSON. The daemon stays up until it is stopped.
///
/// # Errors
/// `SocketUnavailable` where no daemon listens at `socket`; those of [`Control::drain`].
pub fn drain(socket: &Path, args: &DrainArgs) -> Result<String> {
    let Drained { finished, ended } = Control::connect_to(socket)?.drain(args.timeout)?;
    Ok(match args.json {
        true => format!("{}\n", json!({ "finished": finished, "ended": ended })),
        false => format!("drained: {finished} tickets finished, {ended} were ended\n"),
    })
}
