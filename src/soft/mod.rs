//! The software device: a process that runs streams of work and stores numbers into lane pages
//! that it was handed, as a GPU does.
//!
//! A *stream* is a sequence of jobs, each of a length known beforehand ([`work`]); at a job's end
//! its number is stored into a lane, *silently* unless the client asked for the bell. The device
//! knows nothing of parkd's daemon or protocol and shares nothing with a client but the pages of
//! the lanes area ([`protocol`]): it is the other side of demos, benches and tests.

pub mod connect;
mod pages;
pub mod protocol;
pub mod server;
pub mod stamps;
mod stream;
pub mod work;

use std::io::Write;
use std::path::Path;

pub use connect::SoftDevice;
pub use server::Server;

use crate::core::error::Error;

/// The line on stdout with which a device says that it listens.
pub const READY: &str = "ready";

/// Is the device at `path`, after one line ([`READY`]) on stdout, until that fails.
pub fn serve(path: &Path) -> Error {
    match Server::bind(path) {
        Ok(server) => {
            // Nobody may be there to read it.
            let mut stdout = std::io::stdout().lock();
            let _ = writeln!(stdout, "{READY}").and_then(|()| stdout.flush());
            drop(stdout);
            server.run()
        }
        Err(error) => error,
    }
}
