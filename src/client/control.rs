//! A connection that looks and steers, and waits for nothing: what parkctl uses.

use std::path::Path;
use std::time::Duration;

use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::message::{Drain, Drained, Opcode, StatusRequest, StatusText};

use super::connect;
use super::session::from_now;
use super::wire::Wire;

/// How much longer than tickets have time the answer to DRAIN may take.
const DRAIN_GRACE: Duration = Duration::from_secs(10);

/// A time for DRAIN, as it goes over the wire: whole milliseconds.
///
/// # Errors
/// `InvalidArgument` where it is too long.
pub(crate) fn drain_ms(timeout: Duration) -> Result<u32> {
    u32::try_from(timeout.as_millis()).map_err(|_| {
        let most = Duration::from_millis(u32::MAX.into());
        let text = format!("drain: {timeout:?} for the tickets that are left, 0..={most:?}");
        Error::new(ErrorCode::InvalidArgument, text)
    })
}

/// A control session: it has no session memory and no tickets.
pub struct Control {
    wire: Wire,
}

impl Control {
    /// Connects to the daemon whose socket is `path`.
    ///
    /// # Errors
    /// As [`super::SessionBuilder::connect_to`].
    pub fn connect_to(path: &Path) -> Result<Control> {
        Control::greet(Wire::connect(path)?)
    }

    /// Says HELLO over a connected socket.
    pub(super) fn greet(wire: Wire) -> Result<Control> {
        connect::greet_control(&wire)?;
        Ok(Control { wire })
    }

    /// The daemon's state, as JSON text.
    ///
    /// # Errors
    /// The daemon's own, `Disconnected`, `BadMessage` for an answer that makes no sense.
    pub fn status(&self) -> Result<String> {
        let answer =
            self.wire.request(Opcode::Status, &StatusRequest { reserved: 0 }, &[], None)?;
        let (head, text) = answer.split::<StatusText>()?;
        if head.bytes as usize != text.len() {
            let text = format!("STATUS: {} bytes follow, {} announced", text.len(), head.bytes);
            return Err(Error::new(ErrorCode::BadMessage, text));
        }
        std::str::from_utf8(text)
            .map(str::to_owned)
            .map_err(|_| Error::new(ErrorCode::BadMessage, "STATUS: the text is not UTF-8"))
    }

    /// Has the daemon take no new sessions and tickets. Returns once no ticket is outstanding; what
    /// has not finished within `timeout` is then ended with `ShuttingDown`. The daemon stays up,
    /// drained, until it is stopped.
    ///
    /// # Errors
    /// `InvalidArgument` for a `timeout` past 4,294,967.295 seconds, which is 49 days;
    /// `NotOperator` for a user that is neither root nor the daemon's; `Disconnected` where the
    /// daemon was stopped meanwhile, or does not answer.
    pub fn drain(&self, timeout: Duration) -> Result<Drained> {
        let timeout_ms = drain_ms(timeout)?;
        let until = from_now(Duration::from_millis(timeout_ms.into()) + DRAIN_GRACE);
        let body = Drain { timeout_ms, reserved: 0 };
        self.wire.request(Opcode::Drain, &body, &[], Some(until))?.whole()
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}
