//! Requests of a session: sent in turn, and sent again to a daemon that takes the place of one that
//! is gone.

use std::sync::MutexGuard;

use zerocopy::{Immutable, IntoBytes};

use super::ledger::Ledger;
use super::renewal::Link;
use super::shared::Shared;
use super::wire::{Answer, Fault, Turn};
use crate::core::error::Result;
use crate::proto::message::{Opcode, encode};

impl Shared {
    /// Sends a request and has `note` make something of its answer, before another daemon can be
    /// told what the session remembers. A request that was lost with its session was not done: the
    /// next daemon knows what `note` remembered, and nothing else.
    ///
    /// # Errors
    /// What `note` makes of the daemon's refusal; the session's end, `SystemFailed`.
    pub(super) fn request<Q: IntoBytes + Immutable, T>(
        &self,
        opcode: Opcode,
        body: &Q,
        tail: &[u8],
        note: impl Fn(Result<Answer>, &mut Ledger) -> Result<T>,
    ) -> Result<T> {
        self.request_of(opcode, |_| Ok(encode(opcode as u16, 0, body, tail)), note)
    }

    /// As [`Shared::request`], of what is said only when there is a daemon to say it to. What
    /// cannot be said is not sent, and `note` is told why.
    ///
    /// # Errors
    /// As [`Shared::request`].
    pub(super) fn request_of<T>(
        &self,
        opcode: Opcode,
        say: impl Fn(&Ledger) -> Result<Vec<u8>>,
        note: impl Fn(Result<Answer>, &mut Ledger) -> Result<T>,
    ) -> Result<T> {
        loop {
            let mut turn = self.turn()?;
            let said = say(&self.reopen());
            let record = match said {
                Ok(record) => record,
                Err(error) => return note(Err(error), &mut self.reopen()),
            };
            match turn.request(opcode, record, &[], None) {
                Ok(answer) => return note(Ok(answer), &mut self.reopen()),
                Err(Fault::Error(error)) => return note(Err(error), &mut self.reopen()),
                Err(Fault::Gone(gone)) => {
                    drop(turn);
                    self.lost(&gone);
                }
            }
        }
    }

    /// A turn with a daemon, once there is one.
    ///
    /// # Errors
    /// `Forked`, the session's end.
    pub(super) fn turn(&self) -> Result<MutexGuard<'_, Turn>> {
        loop {
            self.at_home()?;
            self.await_link()?;
            let turn = self.wire().turn();
            if self.reopen().link != Link::Down {
                return Ok(turn);
            }
        }
    }
}
