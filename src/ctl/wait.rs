//! `parkctl wait`: opens a lane, says where it lies, and waits for a number.
//!
//! Two lines come out, each of `key=value` pairs: where to store (the lanes' memfd as a path under
//! /proc, valid while the command runs; the byte offset; the width in bits; the number waited for),
//! at once; and how the wait ended. Whoever may open that path can store the number:
//!
//! ```text
//! printf '\7\0\0\0\0\0\0\0' | dd of=/proc/PID/fd/FD bs=1 seek=OFFSET conv=notrunc
//! ```

use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process;
use std::time::Instant;

use crate::client::{Completion, Session, Status, Width};
use crate::core::error::{Error, ErrorCode, Result};

use super::cli::WaitArgs;

/// Exit status of a wait whose deadline passed.
pub const EXIT_EXPIRED: u8 = 3;

/// Exit status of a wait that ended in another way than by its number.
pub const EXIT_NOT_DONE: u8 = 4;

/// Waits, writing the two lines to `out`. Answers the exit status: 0 where the number came,
/// [`EXIT_EXPIRED`], or [`EXIT_NOT_DONE`].
///
/// # Errors
/// `SocketUnavailable` where no daemon listens at `socket`; those of opening a lane and waiting.
pub fn wait(socket: &Path, args: &WaitArgs, out: &mut impl Write) -> Result<u8> {
    let session = Session::connect_to(socket)?;
    let width = if args.narrow { Width::W32 } else { Width::W64 };
    let lane = session.lane_on_device(&args.device, width)?;
    let target = args.value.unwrap_or_else(|| lane.next_target());
    let memory = session.lanes_fd()?;
    say(
        out,
        &format!(
            "lane={} file=/proc/{}/fd/{} offset={} bits={} value={target}",
            lane.index(),
            process::id(),
            memory.as_raw_fd(),
            lane.offset(),
            width.bits(),
        ),
    )?;
    let begun = Instant::now();
    let mut ticket = lane.ticket(target);
    if let Some(timeout) = args.timeout {
        ticket = ticket.deadline_in(timeout);
    }
    let end = ticket.submit()?.wait()?;
    say(out, &ending(&end, begun.elapsed().as_micros()))?;
    Ok(match end.status {
        Status::Done => 0,
        Status::DeadlineExpired => EXIT_EXPIRED,
        _ => EXIT_NOT_DONE,
    })
}

fn ending(end: &Completion, took_us: u128) -> String {
    let waited = end.waited.map_or_else(|| "-".to_owned(), |waited| format!("{waited:?}"));
    let (status, seen, code) = (end.status, end.seen, end.code);
    format!("status={status:?} waited={waited} seen={seen} code={code} took_us={took_us}")
}

fn say(out: &mut impl Write, line: &str) -> Result<()> {
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Error::new(ErrorCode::SystemFailed, format!("write: {error}")))
}
