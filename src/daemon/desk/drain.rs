//! DRAIN, the desk's part: who may ask for it, and what clients see of it.

use super::Desk;
use super::peer::Phase;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::time::DurNs;
use crate::daemon::command::{Asked, Command};
use crate::host::clock;
use crate::proto::layout::SessionState;

impl Desk {
    /// Takes no new sessions from here on, and has FILL take no new tickets.
    ///
    /// # Errors
    /// `NotOperator`.
    pub(super) fn drain(&mut self, serial: u32, asked: Asked, timeout_ms: u32) -> Result<()> {
        let Some(peer) = self.peers.get_mut(&serial) else { return Ok(()) };
        self.setup.allow.steers(peer.who.uid, asked.opcode.name())?;
        peer.asked += 1;
        let seat = peer.seat();
        self.draining = true;
        tracing::info!(peer = peer.label(), timeout_ms, "draining");
        for peer in self.peers.values() {
            if let Phase::Session(session) = &peer.phase {
                session.control.set_state(SessionState::Draining);
            }
        }
        let until = clock::now() + DurNs::from_us(u64::from(timeout_ms) * 1000);
        self.command(Command::Drain(seat, asked, until));
        Ok(())
    }

    /// Whether new sessions are taken.
    ///
    /// # Errors
    /// `Draining`.
    pub(super) fn takes_sessions(&self) -> Result<()> {
        match self.draining {
            true => Err(Error::new(ErrorCode::Draining, "the daemon drains: no new sessions")),
            false => Ok(()),
        }
    }
}
