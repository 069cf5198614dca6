//! How a ticket ends: its row, its result entry, and telling the client.
//!
//! The order is what makes every step safe to repeat (see `table.rs`): outcome into the row, row
//! `PUBLISHING` at the ring's tail, entry into the ring, the table's tail past it, row `FREE`. The
//! client's tail and its wake follow once for all results of a turn.

use super::lane::Mode;
use super::ports::{Effect, Ports};
use super::session::{Context, Session};
use super::table::{NO_FD, PUBLISHING, Row};
use crate::core::step::Waited;
use crate::proto::entry::{ResultEntry, Status, TicketKind, phase_of};
use crate::proto::layout::armed;

/// How a ticket ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub status: Status,
    pub waited: Option<Waited>,
    pub code: u32,
    pub seen: u64,
}

impl End {
    /// An end without a completion.
    pub fn without(status: Status, code: u32) -> End {
        End { status, waited: None, code, seen: 0 }
    }
}

impl<P: Ports> Session<P> {
    /// Ends an outstanding ticket and waits on for those behind it.
    pub fn finish(&mut self, cx: &mut Context<'_>, at: u32, end: End) {
        let table = self.table.parts();
        let Row { kind, source, .. } = table.rows[at as usize];
        if kind == TicketKind::Fd as u8 && source != NO_FD {
            // Its poll has ended where it was what ended the ticket, well or not.
            let polling = !matches!(end.status, Status::Done | Status::DeviceFailed);
            let effect = Effect::ReleaseFd { slot: self.slot, row: at, fd: source, polling };
            cx.effects.push(effect);
        }
        if !self.tickets.in_lane(at) {
            return self.publish(cx, at, end);
        }
        let lane = &mut self.lanes[source as usize];
        let was_head = lane.order.first() == Some(at);
        let (base, mask) = (lane.base, lane.mask());
        lane.order.remove(&mut self.tickets.lane_order(table.rows, base, mask), at);
        self.publish(cx, at, end);
        if was_head {
            self.next_head(cx, source);
        }
    }

    /// Writes the result of a ticket that is in no lane's order, and frees its row.
    pub fn publish(&mut self, cx: &mut Context<'_>, at: u32, end: End) {
        let table = self.table.parts();
        self.tickets.settle(table.rows, at);
        let row = &mut table.rows[at as usize];
        row.status = end.status as u8;
        row.waited = end.waited.map_or(0, |waited| waited as u8);
        row.code = end.code;
        row.seen = end.seen;
        row.detected_ns = cx.now.0;
        row.result_pos = table.header.result_tail;
        row.set_state(PUBLISHING);
        let row = *row;
        self.write_entry(&row);
        self.tickets.release(self.table.rows(), at);
        cx.accounts.give_back(self.account, 1);
        cx.stats.results[end.status as usize] += 1;
        if let Some(waited) = end.waited {
            cx.stats.waited[waited as usize] += 1;
        }
        self.set_dirty(cx);
    }

    /// Has the session's tail published, and its client told, at the turn's end.
    pub fn set_dirty(&mut self, cx: &mut Context<'_>) {
        if !core::mem::replace(&mut self.dirty, true) {
            cx.dirty.push(self.slot);
        }
    }

    /// Writes the entry of a row that is `PUBLISHING` at the ring's tail, and moves the tail.
    pub fn write_entry(&mut self, row: &Row) {
        let entry = result_entry(row, self.result_entries, self.clock_offset_ns);
        self.ports.write_result(row.result_pos, entry);
        self.table.header().advance_result_tail();
    }

    /// Moves the client's tail over what was published since the last time.
    pub fn publish_tail(&mut self) {
        self.dirty = false;
        self.ports.publish_tail(self.table.header().result_tail);
    }

    /// Makes the wake that the client's armed word asks for; a full fence lies between the tail
    /// and this look. One arming is told once of what came after it ([`armed::due`]).
    pub fn tell(&mut self, cx: &mut Context<'_>) {
        let tail = self.table.header().result_tail;
        let mut how = armed::due(self.ports.armed(), &mut self.told, tail);
        if core::mem::take(&mut self.resumed) {
            // Whoever was about to be told when the daemon died is told now.
            how |= armed::TAIL | armed::NOTIFY;
        }
        let slot = self.slot;
        if how & armed::TAIL != 0 {
            cx.stats.tail_wakes += 1;
            cx.effects.push(Effect::WakeTail { slot });
        }
        if how & armed::NOTIFY != 0 {
            cx.stats.notifies += 1;
            cx.effects.push(Effect::Notify { slot });
        }
    }

    /// Ends every outstanding ticket the same way.
    pub fn finish_all(&mut self, cx: &mut Context<'_>, end: End) {
        while let Some(&lane) = self.waiting.first() {
            self.finish_lane(cx, lane, end);
        }
        for at in 0..self.table.rows().len() as u32 {
            if self.table.rows()[at as usize].is_fd_wait() {
                self.finish(cx, at, end);
            }
        }
    }

    /// Ends every outstanding ticket of a lane the same way.
    pub fn finish_lane(&mut self, cx: &mut Context<'_>, lane: u32, end: End) {
        let entry = &mut self.lanes[lane as usize];
        if entry.mode == Mode::Idle {
            return;
        }
        let (base, mask) = (entry.base, entry.mask());
        loop {
            let table = self.table.parts();
            let mut order = self.tickets.lane_order(table.rows, base, mask);
            let Some(at) = self.lanes[lane as usize].order.pop(&mut order) else { break };
            self.publish(cx, at, end);
        }
        self.next_head(cx, lane);
    }
}

/// The entry that tells of a row's outcome: of the same row the same bytes, whoever writes it.
fn result_entry(row: &Row, entries: u32, clock_offset_ns: i64) -> ResultEntry {
    let theirs = |ns: u64| ns.wrapping_sub(clock_offset_ns as u64);
    ResultEntry {
        user_data: row.user_data,
        status: row.status,
        waited: row.waited,
        flags: 0,
        code: row.code,
        seen: row.seen,
        submitted_ns: theirs(row.submitted_ns),
        detected_ns: theirs(row.detected_ns),
        published_ns: theirs(row.detected_ns),
        reserved: 0,
        phase: phase_of(row.result_pos, entries),
        reserved1: 0,
    }
}
