//! Tickets on file descriptors: they end when the fd polls readable.
//!
//! An fd goes to the daemon in a SUBMIT over the socket; the daemon holds its copy until the
//! ticket ends, and so does the session, for a daemon that is started anew: the caller may close
//! its own at once. Allowed are eventfd, timerfd, pidfd and sync_file.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::core::error::Result;
use crate::core::time::MonoNs;
use crate::proto::entry::{Op, SubmitEntry, TicketKind};

use super::session::{PlanId, Session, duplicate, from_now};
use super::ticket::Ticket;

/// A ticket on an fd before it goes out.
#[derive(Clone, Debug)]
#[must_use = "a ticket goes out with submit"]
pub struct FdTicketBuilder<'a> {
    session: &'a Session,
    fd: BorrowedFd<'a>,
    entry: SubmitEntry,
}

impl Session {
    /// A ticket that ends when `fd` polls readable.
    pub fn fd_ticket<'a>(&'a self, fd: &'a impl AsFd) -> FdTicketBuilder<'a> {
        let (op, kind) = (Op::Ticket as u8, TicketKind::Fd as u8);
        let entry = SubmitEntry { op, kind, ..SubmitEntry::default() };
        FdTicketBuilder { session: self, fd: fd.as_fd(), entry }
    }
}

impl FdTicketBuilder<'_> {
    /// As [`super::TicketBuilder::plan`].
    pub fn plan(mut self, plan: PlanId) -> Self {
        self.entry.plan = plan.number();
        self
    }

    /// As [`super::TicketBuilder::point`].
    pub fn point(mut self, point: u64) -> Self {
        self.entry.point = point;
        self
    }

    /// As [`super::TicketBuilder::deadline`].
    pub fn deadline(mut self, at: MonoNs) -> Self {
        self.entry.deadline_ns = at.0.max(1);
        self
    }

    /// As [`super::TicketBuilder::deadline_in`].
    pub fn deadline_in(self, after: Duration) -> Self {
        self.deadline(from_now(after))
    }

    /// Sends it off: one message and its answer.
    ///
    /// # Errors
    /// `CreditExceeded`, `Forked`, the session's end, `SystemFailed` where no fd is free, and the
    /// daemon's refusals: `FdKindRefused`, `QuotaExceeded`.
    pub fn submit(self) -> Result<Ticket> {
        let shared = self.session.shared();
        // Kept for a daemon that is started anew while the ticket waits.
        let fd = Arc::new(duplicate(self.fd)?);
        let id = shared.open()?.open_slot(&self.entry)?;
        match shared.submit_fd((id, fd)) {
            Ok(()) => Ok(Ticket::on_fd(self.session, id)),
            Err(error) => {
                shared.reopen().revoke_slot(id);
                Err(error)
            }
        }
    }
}
