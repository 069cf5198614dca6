//! Where the daemon's log goes: to the journal where it owns stderr, to stderr as lines elsewhere.
//!
//! Only the desk and what runs before it log; FILL never does. A *coded* record carries a registry
//! error as fields, so that a journal can be searched for one: `code` (the number) and `code_name`
//! (`PARKD_CODE` and `PARKD_CODE_NAME` in the journal), its text as the message. `PARKD_LOG` in the
//! environment chooses what is logged (`debug`, `warn,parkd=info`, ...); `info` otherwise.

use std::env;
use std::io;

use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::core::error::Error;

/// The environment variable that chooses what is logged.
pub const LOG_VARIABLE: &str = "PARKD_LOG";
/// The environment variable by which systemd says which stream is the journal's.
const JOURNAL_VARIABLE: &str = "JOURNAL_STREAM";

/// Starts the log of this process. A second call changes nothing.
pub fn start() {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .with_env_var(LOG_VARIABLE)
        .from_env_lossy();
    // A journal that cannot be reached still reads stderr.
    let journal = stderr_is_journal()
        .then(tracing_journald::layer)
        .and_then(io::Result::ok)
        .map(|layer| layer.with_field_prefix(Some("PARKD".to_owned())));
    let lines = journal
        .is_none()
        .then(|| tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false));
    let _ = tracing_subscriber::registry().with(filter).with(journal).with(lines).try_init();
}

/// Logs something coded that the daemon goes on from.
pub fn warning(error: &Error) {
    tracing::warn!(code = error.code.number(), code_name = error.code.name(), "{}", error.detail);
}

/// Logs something coded that the daemon, or a part of it, ends with.
pub fn failure(error: &Error) {
    tracing::error!(code = error.code.number(), code_name = error.code.name(), "{}", error.detail);
}

fn stderr_is_journal() -> bool {
    let Ok(stream) = env::var(JOURNAL_VARIABLE) else { return false };
    rustix::fs::fstat(io::stderr()).is_ok_and(|stderr| names(&stream, stderr.st_dev, stderr.st_ino))
}

/// Whether systemd's `device:inode` is this one: a process whose stderr was redirected inherits the
/// variable as well.
fn names(stream: &str, device: u64, inode: u64) -> bool {
    stream.split_once(':').is_some_and(|(stream_device, stream_inode)| {
        stream_device.parse() == Ok(device) && stream_inode.parse() == Ok(inode)
    })
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
