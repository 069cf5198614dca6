//! From a daemon that is gone to the next one: connect, have the lanes adopted, tell it what the
//! session remembers, and go on over its rings.
//!
//! The lanes stay where they are, so that what a device stores meanwhile is not lost, and the
//! eventfds too, so that who polls them need not know. Nothing of the session changes before the
//! new daemon has everything: an attempt that fails leaves it as it was.

use std::os::fd::{AsFd, BorrowedFd};

use super::connect::{arrive, hello};
use super::page::Present;
use super::session::plan_id;
use super::shared::{Arrived, Shared};
use super::wire::{Answer, Fault, Turn, Wire};
use crate::core::error::{Blame, Error, ErrorCode, Result};
use crate::core::time::MonoNs;
use crate::proto::message::{self, Hello, Opcode, Role, encode};

/// Whether an attempt that ended with this error may succeed later.
pub(super) fn may_pass(error: &Error) -> bool {
    let passing = [
        ErrorCode::Draining,
        ErrorCode::HelloTimeout,
        ErrorCode::LimitExceeded,
        ErrorCode::QuotaExceeded,
        ErrorCode::RateExceeded,
        ErrorCode::SocketUnavailable,
    ];
    error.code.blame() == Blame::Daemon || passing.contains(&error.code)
}

impl Shared {
    /// Finds another daemon and goes on with it.
    ///
    /// # Errors
    /// What the attempt came to; the session is as before.
    pub(super) fn renew(&self, until: MonoNs) -> Result<()> {
        // Who still waits for the old daemon's answer has waited enough.
        self.wire().hang_up();
        let wire = self.way().follow()?;
        let mut turn = self.wire().turn();
        let told = self.adopted(&wire, until).and_then(|arrived| {
            let plans = self.retell(&mut wire.turn(), until)?;
            Ok((arrived, plans))
        });
        let (arrived, plans) = told.map_err(Fault::into_refusal)?;
        let mut at = self.reopen();
        at.renew(arrived.rings, &plans)?;
        // Before anything goes into the new rings, so that the first look of the new daemon finds
        // whatever was stored by a producer that saw the old page.
        let (region, status, bell) = (arrived.page, arrived.status, arrived.bell);
        self.page().exchange(Present { region, status, bell });
        self.renumber(arrived.number);
        at.epoch = self.wire().replace(&mut turn, wire);
        if let Some(watch) = &mut at.socket_watch {
            watch.watch(self.wire().socket().1)?;
        }
        drop(turn);
        drop(at);
        self.call_link();
        Ok(())
    }

    /// Says HELLO with the lanes and the eventfds that are to be adopted.
    fn adopted(&self, wire: &Wire, until: MonoNs) -> core::result::Result<Arrived, Fault> {
        let bell = self.page().bell_fd()?;
        let (lanes, events) = (self.fds().lanes.as_fd(), self.fds().events.as_fd());
        let fds: Vec<BorrowedFd<'_>> =
            [lanes, events].into_iter().chain(bell.as_ref().map(AsFd::as_fd)).collect();
        let hello = Hello {
            submit_entries: self.sizes().submit(),
            result_entries: self.sizes().result(),
            lanes: self.lanes().lanes(),
            adopt: 1,
            ..hello(Role::Client)
        };
        let arrived = arrive(wire, &hello, &fds, until)?;
        let same = rustix::fs::fstat(&arrived.fds.lanes)
            .and_then(|theirs| Ok((theirs, rustix::fs::fstat(lanes)?)))
            .is_ok_and(|(theirs, ours)| {
                (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)
            });
        if !same || arrived.sizes != self.sizes() {
            let text = "WELCOME: the lanes are not those to be adopted";
            return Err(Error::new(ErrorCode::BadMessage, text).into());
        }
        Ok(arrived)
    }

    /// Opens the open lanes, shares those that were shared, and registers the plans; answers the
    /// ids of the latter. A lane whose device is gone stays closed, and its tickets are refused; a
    /// plan that is not known any more is the device's.
    fn retell(&self, turn: &mut Turn, until: MonoNs) -> core::result::Result<Vec<u16>, Fault> {
        let (lanes, plans) = {
            let at = self.reopen();
            (at.remembered.lanes.clone(), at.remembered.plans.clone())
        };
        for (lane, kept) in lanes {
            let (width, device) = (u32::from(kept.width.bits()), kept.device);
            let open = message::OpenLane { lane, width, device };
            let request = encode(Opcode::OpenLane as u16, 0, &open, &[]);
            known(turn.request(Opcode::OpenLane, request, &[], Some(until)))?;
            if let Some(secret) = kept.secret.filter(|_| kept.shared) {
                let share = message::Share { lane, reserved: 0, secret: secret.to_le_bytes() };
                let request = encode(Opcode::Share as u16, 0, &share, &[]);
                known(turn.request(Opcode::Share, request, &[], Some(until)))?;
            }
        }
        let mut ids = Vec::with_capacity(plans.len());
        for kept in plans {
            let text = kept.text.as_bytes();
            let body = message::Plan { by_name: kept.by_name, bytes: text.len() as u32 };
            let request = encode(Opcode::Plan as u16, 0, &body, text);
            let answer = known(turn.request(Opcode::Plan, request, &[], Some(until)))?;
            ids.push(answer.as_ref().map_or(Ok(0), plan_id)?);
        }
        Ok(ids)
    }
}

/// The answer, where the daemon knows what was asked for.
///
/// # Errors
/// Where it is not a refusal that stands in the way, but the daemon itself.
fn known(
    answer: core::result::Result<Answer, Fault>,
) -> core::result::Result<Option<Answer>, Fault> {
    match answer {
        Err(Fault::Error(error)) if error.code.blame() != Blame::Daemon => Ok(None),
        answer => answer.map(Some),
    }
}
