//! What the daemon says of one session, in its control line of the rings area.
//!
//! The *state* runs from starting over live and draining to closed; the *generation* is the life
//! of the daemon that serves the session. The daemon alone writes them. A client that writes over
//! them deceives only itself, and what it reads is copied and checked like the rest.
//!
//! A change of state moves no tail: a client that is parked on its result tail learns of it when
//! its bounded park ends, or from its socket.

use super::ring::RingSizes;
use super::sync::{Ordering, fence};
use super::words::{ReadWords, WriteWords, fit};
use crate::core::error::{ErrorCode, Result};
use crate::proto::layout::{PAGE_BYTES, SessionState, rings};

/// The daemon's side.
#[derive(Debug)]
pub struct Control<M> {
    memory: M,
}

impl<M: WriteWords> Control<M> {
    /// The control line of a rings area.
    ///
    /// # Errors
    /// `SessionMemory` where the memory is too small.
    pub fn new(memory: M, sizes: RingSizes) -> Result<Control<M>> {
        sizes.fit(&memory)?;
        Ok(Control { memory })
    }

    /// Says which life of the daemon serves the session, and in which state.
    pub fn serve(&self, generation: u32, state: SessionState) {
        self.memory.store32(rings::GENERATION, generation);
        self.set_state(state);
    }

    /// Says how the session stands; all that was written before is seen by who sees it.
    pub fn set_state(&self, state: SessionState) {
        // Pairs with the fence in `ControlReader::state`.
        fence(Ordering::Release);
        self.memory.store32(rings::STATE, state as u32);
    }

    /// Ends the session, and says why.
    pub fn close(&self, code: ErrorCode) {
        self.memory.store32(rings::CLOSE_CODE, u32::from(code.number()));
        self.set_state(SessionState::Closed);
    }
}

/// The client's side.
#[derive(Clone, Debug)]
pub struct ControlReader<M> {
    memory: M,
}

impl<M: ReadWords> ControlReader<M> {
    /// The control line of a rings area.
    ///
    /// # Errors
    /// `SessionMemory` where the memory is too small.
    pub fn new(memory: M) -> Result<ControlReader<M>> {
        fit(&memory, PAGE_BYTES, "rings area")?;
        Ok(ControlReader { memory })
    }

    /// How the session stands; none where the memory holds no such state.
    pub fn state(&self) -> Option<SessionState> {
        let state = self.memory.load32(rings::STATE);
        // Pairs with the fence in `Control::set_state`.
        fence(Ordering::Acquire);
        SessionState::from_number(state)
    }

    /// Which life of the daemon serves the session.
    pub fn generation(&self) -> u32 {
        self.memory.load32(rings::GENERATION)
    }

    /// Why the session was closed, once [`ControlReader::state`] said that it was; none where
    /// this build does not know the code.
    pub fn close_code(&self) -> Option<ErrorCode> {
        let number = self.memory.load32(rings::CLOSE_CODE);
        u16::try_from(number).ok().and_then(ErrorCode::from_number)
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
