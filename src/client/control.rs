//! A connection that looks and steers, and waits for nothing: what parkctl uses.

use std::path::Path;

use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::message::{Opcode, StatusRequest, StatusText};

use super::connect;
use super::wire::Wire;

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
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}
