//! How tickets come in: by the submission ring, and by SUBMIT messages.
//!
//! The submission ring is its own journal: an entry counts as taken once the table's head is past
//! it, and a ticket is recorded before that and publishes nothing until after. A SUBMIT message
//! counts once the table's last cookie is its own: its tickets are all recorded before, and none
//! of them publishes until after.

use alloc::format;

use super::engine::Refusal;
use super::lane::Over;
use super::ports::{Effect, Ports};
use super::publish::End;
use super::session::{Context, Session, no_such_lane};
use super::table::{BY_SOCKET, FREE, REFUSED, Row};
use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::entry::{Op, Status, SubmitEntry, TicketKind};
use crate::proto::limits::SUBMIT_BATCH;

impl<P: Ports> Session<P> {
    /// Takes submissions from the ring, a bounded batch; `true` when there are more.
    pub fn drain(&mut self, cx: &mut Context<'_>) -> bool {
        let head = self.table.header().submit_head;
        let pending = match self.ports.submissions(head) {
            Ok(pending) => pending,
            Err(error) => {
                self.close(cx, error);
                return false;
            }
        };
        let batch = pending.min(SUBMIT_BATCH);
        for ahead in 0..batch {
            if self.closing {
                return false;
            }
            let position = head.wrapping_add(ahead);
            let entry = SubmitEntry::from_words(self.ports.submission(position));
            self.take(cx, position, &entry);
        }
        self.ports.set_submit_head(self.table.header().submit_head);
        pending > batch && !self.closing
    }

    /// Takes one submission.
    fn take(&mut self, cx: &mut Context<'_>, position: u32, entry: &SubmitEntry) {
        let after = position.wrapping_add(1);
        match entry.check() {
            Ok((Op::Ticket, _)) => self.take_ticket(cx, position, entry, None),
            Err(error) if entry.op == Op::Ticket as u8 => {
                self.take_ticket(cx, position, entry, Some(error));
            }
            // Both repeat without harm: what they end is over when they are taken again.
            Ok((Op::Cancel, _)) => {
                let _ = self.cancel(cx, entry.user_data);
                self.table.header().set_submit_head(after);
            }
            Ok((Op::Fail, _)) => {
                let _ = self.fail_lane(cx, entry.source, entry.target as u32);
                self.table.header().set_submit_head(after);
            }
            Err(error) => self.close(cx, error),
        }
    }

    fn take_ticket(
        &mut self,
        cx: &mut Context<'_>,
        position: u32,
        entry: &SubmitEntry,
        unreadable: Option<Error>,
    ) {
        if let Err(error) = self.credit().and_then(|free| self.spend_credit(1, free)) {
            return self.close(cx, error);
        }
        let paced = cx.accounts.hand_in(self.account, 1, cx.config, cx.now);
        let refusal = paced.err().map(|refusal| refusal.error);
        let refusal = refusal.or(unreadable);
        let refusal = refusal.or_else(|| self.check_ticket(cx, entry, false).err());
        let mut row = self.row_of(cx, entry, position, 0);
        if let Some(error) = refusal {
            row.flags |= REFUSED;
            row.code = error.code.number().into();
        }
        let Some(at) = self.tickets.record(self.table.rows(), row) else { return };
        self.table.header().set_submit_head(position.wrapping_add(1));
        self.count(cx);
        self.begin(cx, at);
    }

    /// Takes the tickets of a SUBMIT message, all or none, and answers what is free after them.
    ///
    /// # Errors
    /// Whatever is wrong with the first ticket that cannot be taken; `CookieOutOfOrder` with the
    /// cookie expected, `CreditExceeded` with what is free, `RateExceeded` with the milliseconds to
    /// wait; `RingIndex`, which ends the session.
    pub fn submit(
        &mut self,
        cx: &mut Context<'_>,
        cookie: u64,
        entries: &[SubmitEntry],
    ) -> core::result::Result<u32, Refusal> {
        let expected = self.table.header().last_cookie.wrapping_add(1);
        if cookie != expected {
            let text = format!("SUBMIT cookie {cookie}: {expected} comes next");
            let error = Error::new(ErrorCode::CookieOutOfOrder, text);
            return Err(Refusal { error, value: expected });
        }
        let count = entries.len() as u32;
        let free = self.credit().inspect_err(|error| self.close(cx, error.clone()))?;
        self.spend_credit(count, free)
            .map_err(|error| Refusal { error, value: u64::from(free) })?;
        cx.accounts.check(self.account, count, cx.config)?;
        for (at, entry) in entries.iter().enumerate() {
            self.check_ticket(cx, entry, true).map_err(|error| {
                let text = format!("SUBMIT: ticket {at}: {}", error.detail);
                Error::new(error.code, text)
            })?;
        }
        cx.accounts.hand_in(self.account, count, cx.config, cx.now)?;
        self.record_all(cx, cookie, entries);
        Ok(free - count)
    }

    fn record_all(&mut self, cx: &mut Context<'_>, cookie: u64, entries: &[SubmitEntry]) {
        let mut rows = [0u32; crate::proto::limits::SUBMIT_TICKETS_MAX as usize];
        let mut recorded = 0;
        for entry in entries.iter().take(rows.len()) {
            let row = self.row_of(cx, entry, cookie as u32, BY_SOCKET);
            let Some(at) = self.tickets.record(self.table.rows(), row) else { break };
            self.count(cx);
            rows[recorded] = at;
            recorded += 1;
        }
        self.table.header().set_last_cookie(cookie);
        for &at in &rows[..recorded] {
            self.begin(cx, at);
        }
    }

    fn count(&self, cx: &mut Context<'_>) {
        cx.accounts.take(self.account);
        cx.stats.tickets += 1;
    }

    /// What is free of the result ring: its entries less tickets outstanding and results unread.
    pub fn credit(&mut self) -> Result<u32> {
        let tail = self.table.header().result_tail;
        let used = self.tickets.outstanding() + self.ports.unread(tail)?;
        Ok(self.result_entries.saturating_sub(used))
    }

    fn spend_credit(&self, count: u32, free: u32) -> Result<()> {
        if count <= free {
            return Ok(());
        }
        let text = format!("{count} tickets asked for, {free} free of {}", self.result_entries);
        Err(Error::new(ErrorCode::CreditExceeded, text))
    }

    /// Whether the session can take this ticket now.
    fn check_ticket(&self, cx: &Context<'_>, entry: &SubmitEntry, with_fds: bool) -> Result<()> {
        if self.draining {
            return Err(Error::new(ErrorCode::Draining, "the daemon drains: no new tickets"));
        }
        let kind = entry.kind;
        let device = if kind == TicketKind::Word as u8 {
            let lane = self.lanes.get(entry.source as usize).filter(|lane| lane.open);
            lane.ok_or_else(|| no_such_lane(entry.source))?.device
        } else if kind == TicketKind::Fd as u8 && with_fds {
            0
        } else {
            let text = match kind == TicketKind::Fd as u8 {
                true => "an fd ticket in the submission ring is not supported: use SUBMIT",
                false => "a device event is not supported by this daemon",
            };
            return Err(Error::new(ErrorCode::NotSupported, text));
        };
        if self.bands(entry.plan, device, cx.config).is_none() {
            let text = format!("plan {} is not known", entry.plan);
            return Err(Error::new(ErrorCode::NoSuchPlan, text));
        }
        cx.accounts.check(self.account, 1, cx.config)
    }

    fn row_of(&self, cx: &Context<'_>, entry: &SubmitEntry, origin: u32, flags: u8) -> Row {
        let deadline_ns = match entry.deadline_ns {
            0 => 0,
            theirs => theirs.saturating_add_signed(self.clock_offset_ns).max(1),
        };
        Row {
            state: FREE,
            result_pos: 0,
            origin,
            source: entry.source,
            user_data: entry.user_data,
            target: entry.target,
            point: entry.point,
            deadline_ns,
            submitted_ns: cx.now.0,
            plan: entry.plan,
            kind: entry.kind,
            flags,
            rows: entry.rows,
            status: 0,
            waited: 0,
            reserved: 0,
            code: 0,
            seen: 0,
            detected_ns: 0,
        }
    }

    /// Lets an accepted ticket wait; ends one that was refused.
    pub fn begin(&mut self, cx: &mut Context<'_>, at: u32) {
        let Row { kind, source, flags, code, .. } = self.table.rows()[at as usize];
        if flags & REFUSED != 0 {
            self.publish(cx, at, End::without(Status::Refused, code));
        } else if kind == TicketKind::Fd as u8 {
            cx.effects.push(Effect::PollFd { slot: self.slot, row: at, fd: source });
        } else {
            self.join_lane(cx, at, source);
        }
    }

    /// Ends an outstanding ticket with `Cancelled`.
    ///
    /// # Errors
    /// `NoSuchTicket`.
    pub fn cancel(&mut self, cx: &mut Context<'_>, user_data: u64) -> Result<()> {
        let at = self.tickets.find(self.table.rows(), user_data).ok_or_else(|| {
            let text = format!("ticket {user_data} is not outstanding");
            Error::new(ErrorCode::NoSuchTicket, text)
        })?;
        self.finish(cx, at, End::without(Status::Cancelled, 0));
        Ok(())
    }

    /// The producer of a lane posts a failure: what has been reached is done, all else fails, and
    /// so does what is submitted later, until the lane is opened anew.
    ///
    /// # Errors
    /// `NoSuchLane`, `NotOwner`.
    pub fn fail_lane(&mut self, cx: &mut Context<'_>, lane: u32, code: u32) -> Result<()> {
        let shared = self.own_lane_at(lane, "FAIL")?.shared.is_some();
        self.end_lane(cx, lane, Over::Failed(code));
        if shared {
            cx.shares.tell(self.number, lane, Over::Failed(code));
        }
        Ok(())
    }

    /// Closes a lane; its outstanding tickets end with `Cancelled`.
    ///
    /// # Errors
    /// `NoSuchLane`.
    pub fn close_lane(&mut self, cx: &mut Context<'_>, lane: u32) -> Result<()> {
        self.open_lane_at(lane)?.open = false;
        self.finish_lane(cx, lane, End::without(Status::Cancelled, 0));
        self.table.parts().lanes[lane as usize].close();
        self.close_share(cx, lane);
        Ok(())
    }
}
