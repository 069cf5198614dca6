//! One session: its memory, its tickets, its lanes and plans.
//!
//! The files beside this one each hold a part of what a session does: `drain.rs` takes tickets in,
//! `waits.rs` waits for lanes, `publish.rs` writes results.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::account::Accounts;
use super::ahead::Ahead;
use super::budget::{Budget, Sharers};
use super::config::Config;
use super::heap::{Heap, Link, Links};
use super::lane::{Lane, Mode, NOWHERE, Redeemed};
use super::ports::{Effect, Ports};
use super::prepared::SessionParams;
use super::sharing::Shares;
use super::stats::Stats;
use super::table::{NO_FD, Row, Table, TableHeader, TableLayout};
use super::tickets::Tickets;
use crate::core::bands::Bands;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::line::Width;
use crate::core::points::PointTable;
use crate::core::time::{DurNs, MonoNs};
use crate::proto::limits::{SESSION_PLANS_MAX, SESSION_POINTS_MAX};

/// A lane in the engine's hot list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotLane {
    pub slot: u16,
    pub lane: u32,
}

/// What a session's work needs of the engine around it.
pub struct Context<'a> {
    pub now: MonoNs,
    pub config: &'a Config,
    /// How much later than asked for the caller wakes.
    pub lead: DurNs,
    /// What is done ahead of a foreseen completion.
    pub ahead: Ahead,
    /// Lanes whose completion is imminent.
    pub imminent: &'a mut u32,
    pub effects: &'a mut Vec<Effect>,
    pub stats: &'a mut Stats,
    pub accounts: &'a mut Accounts,
    /// Lanes looked at every turn; one whose mode is not `Hot` any more leaves at the next turn.
    pub hot: &'a mut Vec<HotLane>,
    /// Sessions with results whose tail is not published yet.
    pub dirty: &'a mut Vec<u16>,
    /// Who has redeemed lanes of whom.
    pub shares: &'a mut Shares,
    /// Sessions that share what may be spent on looking.
    pub sharers: &'a mut Sharers,
}

/// The table's bytes, known to hold a table of `layout`.
pub struct TableMemory<M> {
    layout: TableLayout,
    bytes: M,
}

impl<M: AsMut<[u8]>> TableMemory<M> {
    /// # Errors
    /// `SessionMemory` when the bytes are too few or misaligned.
    pub fn new(layout: TableLayout, mut bytes: M) -> Result<TableMemory<M>> {
        match Table::over(layout, bytes.as_mut()) {
            Some(_) => Ok(TableMemory { layout, bytes }),
            None => {
                let text = format!("session memory: a table needs {} bytes", layout.bytes());
                Err(Error::new(ErrorCode::SessionMemory, text))
            }
        }
    }

    /// The bytes again.
    #[cfg(test)]
    pub fn into_bytes(self) -> M {
        self.bytes
    }

    /// The table. Each ordered store is made in a borrow of its own, so that memory that counts the
    /// borrows (a simulator's) can end the daemon between any two of them.
    pub fn parts(&mut self) -> Table<'_> {
        still_there(Table::over(self.layout, self.bytes.as_mut()))
    }

    /// Its head; as [`TableMemory::parts`].
    pub fn header(&mut self) -> &mut TableHeader {
        still_there(Table::header_over(self.bytes.as_mut()))
    }

    /// Its tickets; as [`TableMemory::parts`].
    pub fn rows(&mut self) -> &mut [Row] {
        still_there(Table::rows_over(self.layout, self.bytes.as_mut()))
    }
}

/// What `TableMemory::new` has found in these very bytes, whose size and place never change.
fn still_there<T>(part: Option<T>) -> T {
    match part {
        Some(part) => part,
        None => unreachable!("a table's bytes shrank"),
    }
}

/// A connected client's state in the engine.
pub struct Session<P: Ports> {
    pub slot: u16,
    /// By which others' tables name it, in all lives of the daemon.
    pub number: u32,
    pub ports: P,
    pub table: TableMemory<P::Table>,
    pub tickets: Tickets,
    pub lanes: Vec<Lane>,
    /// Lanes in the order of their due times.
    pub due: Heap,
    /// Lanes with tickets.
    pub waiting: Vec<u32>,
    /// By plan id less one.
    pub plans: Vec<Bands>,
    pub points: PointTable,
    pub result_entries: u32,
    pub uid: u32,
    /// Its user's, from when it is attached.
    pub account: usize,
    pub budget: Budget,
    /// Lanes that are looked at hot.
    pub hot_lanes: u32,
    /// The value of the client's armed word for which it was last told.
    pub told: u32,
    /// Whether the client is to be told whatever it asked for: an earlier life may not have.
    pub resumed: bool,
    /// Whether the session stands in the dirty list.
    pub dirty: bool,
    /// Whether new tickets are refused.
    pub draining: bool,
    /// Whether a `Close` effect was made: nothing more is taken from the client.
    pub closing: bool,
    pub clock_offset_ns: i64,
    /// Not before then are due lanes looked at again: there were more than one turn looks at.
    pub rests_until: MonoNs,
    /// The due time under which the engine has the session.
    pub scheduled: MonoNs,
    pub schedule_link: Link,
}

struct DueOrder<'a>(&'a mut [Lane]);

impl Links for DueOrder<'_> {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self.0[node as usize].due_link
    }
    fn key(&self, node: u32) -> u64 {
        self.0[node as usize].due.0
    }
}

impl<P: Ports> Session<P> {
    /// A session over fresh memory: formats the table.
    ///
    /// # Errors
    /// `SessionMemory` when the table does not fit its bytes.
    pub fn new(
        slot: u16,
        params: &SessionParams,
        ports: P,
        table: P::Table,
        config: &Config,
    ) -> Result<Session<P>> {
        let layout = TableLayout::new(params.lanes, params.result_entries);
        let mut table = TableMemory::new(layout, table)?;
        table.parts().format(layout, params);
        Ok(Session::over(slot, params, ports, table, config))
    }

    /// A session without tickets, lanes and plans over a table that is formatted.
    pub fn over(
        slot: u16,
        params: &SessionParams,
        ports: P,
        table: TableMemory<P::Table>,
        config: &Config,
    ) -> Session<P> {
        Session {
            slot,
            number: u32::from(slot) + 1,
            ports,
            table,
            tickets: Tickets::new(params.result_entries),
            lanes: vec![Lane::closed(); params.lanes as usize],
            due: Heap::default(),
            waiting: Vec::with_capacity(params.lanes as usize),
            plans: Vec::with_capacity(SESSION_PLANS_MAX as usize),
            points: PointTable::new(
                config.estimator,
                config.late_percent,
                SESSION_POINTS_MAX as usize,
            ),
            result_entries: params.result_entries,
            uid: params.uid,
            account: 0,
            budget: Budget::new(config.spin_budget_percent),
            hot_lanes: 0,
            told: 0,
            resumed: false,
            dirty: false,
            draining: false,
            closing: false,
            clock_offset_ns: params.clock_offset_ns,
            rests_until: MonoNs(0),
            scheduled: MonoNs::MAX,
            schedule_link: Link::default(),
        }
    }

    /// When the session has something to do by itself: `MAX` for never.
    pub fn next_due(&mut self) -> MonoNs {
        let lane = self.due.first().map_or(MonoNs::MAX, |lane| self.lanes[lane as usize].due);
        let lane = lane.max(self.rests_until);
        let deadline = self.tickets.next_deadline_ns(self.table.rows());
        lane.min(deadline.map_or(MonoNs::MAX, MonoNs))
    }

    /// Opens a lane: `wanted`, or the lowest that is closed. Answers index and present number.
    /// `cookie` is the request's.
    ///
    /// # Errors
    /// `NoFreeLane`, `NoSuchLane` for an index that the session does not have, `BadMessage` for
    /// one that is open.
    pub fn open_lane(
        &mut self,
        wanted: Option<u32>,
        width: Width,
        device: u32,
        cookie: u64,
    ) -> Result<(u32, u64)> {
        let lane = wanted.map_or_else(|| self.free_lane(), |lane| Ok(lane as usize))?;
        match self.lanes.get(lane) {
            None => return Err(no_such_lane(lane as u32)),
            Some(lane) if lane.open => {
                return Err(Error::new(ErrorCode::BadMessage, "OPEN_LANE: the lane is open"));
            }
            Some(_) => {}
        }
        // Its place in the engine's hot list, if it has one, outlives it for a turn.
        let hot_listed = self.lanes[lane].hot_listed;
        self.lanes[lane] = Lane { open: true, width, device, hot_listed, ..Lane::closed() };
        self.table.header().set_opened(cookie, lane as u32);
        self.table.parts().lanes[lane].open(width.bits().into(), device);
        Ok((lane as u32, self.ports.lane_word(lane as u32)))
    }

    /// The lowest lane that is closed.
    fn free_lane(&self) -> Result<usize> {
        self.lanes.iter().position(|lane| !lane.open).ok_or_else(|| {
            let text = format!("all {} lanes are open", self.lanes.len());
            Error::new(ErrorCode::NoFreeLane, text)
        })
    }

    /// Opens the lowest lane that is closed for one of another session, whose number is `value`
    /// now: its word is yet to be borrowed.
    ///
    /// # Errors
    /// `NoFreeLane`.
    pub fn take_redeemed(
        &mut self,
        width: Width,
        device: u32,
        cookie: u64,
        origin: Redeemed,
        value: u64,
    ) -> Result<u32> {
        let lane = self.free_lane()?;
        let hot_listed = self.lanes[lane].hot_listed;
        let (redeemed, last) = (Some(origin), Some(value));
        let closed = Lane::closed();
        self.lanes[lane] = Lane { open: true, width, device, redeemed, last, hot_listed, ..closed };
        self.table.header().set_opened(cookie, lane as u32);
        self.table.parts().lanes[lane].redeem(width.bits().into(), device, &origin, value);
        Ok(lane as u32)
    }

    /// The lane that the OPEN_LANE or REDEEM of this cookie has opened in an earlier life of the
    /// daemon, or in this one: its index, device and present number.
    pub fn opened_by(&mut self, cookie: u64) -> Option<(u32, u32, u64)> {
        let header = self.table.header();
        let lane = (header.opened_cookie == cookie).then_some(header.opened_lane)?;
        let device = self.open_lane_at(lane).ok()?.device;
        Some((lane, device, self.lanes[lane as usize].word(&self.ports, lane)))
    }

    /// The open lane of this index.
    ///
    /// # Errors
    /// `NoSuchLane`.
    pub fn open_lane_at(&mut self, lane: u32) -> Result<&mut Lane> {
        match self.lanes.get_mut(lane as usize) {
            Some(found) if found.open => Ok(found),
            _ => Err(no_such_lane(lane)),
        }
    }

    /// Registers a plan and answers its id.
    ///
    /// # Errors
    /// `LimitExceeded` past the plans that a session may have.
    pub fn add_plan(&mut self, bands: Bands, label: &str) -> Result<u16> {
        if let Some(at) = self.plans.iter().position(|known| *known == bands) {
            return Ok(at as u16 + 1);
        }
        let at = self.plans.len();
        let table = self.table.parts();
        let record = table.plans.get_mut(at).ok_or_else(|| {
            let text = format!("plans: {}, at most {SESSION_PLANS_MAX}", at + 1);
            Error::new(ErrorCode::LimitExceeded, text)
        })?;
        record.set(label);
        self.plans.push(bands);
        Ok(at as u16 + 1)
    }

    /// The bands that a ticket waits by: plan 0 is its device's.
    pub fn bands<'a>(&'a self, plan: u16, device: u32, config: &'a Config) -> Option<&'a Bands> {
        match plan {
            0 => config.devices.get(device as usize),
            id => self.plans.get(id as usize - 1),
        }
    }

    /// Sets how a lane's head is waited for, and until when.
    pub fn set_mode(&mut self, lane: u32, mode: Mode, due: MonoNs) {
        let lanes = &mut self.lanes;
        if lanes[lane as usize].due_link.is_linked() {
            self.due.remove(&mut DueOrder(lanes), lane);
        }
        let entry = &mut lanes[lane as usize];
        match (entry.mode == Mode::Hot, mode == Mode::Hot) {
            (false, true) => self.hot_lanes += 1,
            (true, false) => self.hot_lanes -= 1,
            _ => {}
        }
        entry.mode = mode;
        entry.due = due;
        entry.may_look = due;
        if mode != Mode::Idle {
            self.due.push(&mut DueOrder(lanes), lane);
        }
    }

    /// Parks a lane warm from `now` to `until`. A bounded park may end early: from its last quarter
    /// on it ends with whatever else is due, so that the looks of several lanes share a wake-up.
    pub fn set_warm(&mut self, lane: u32, now: MonoNs, until: MonoNs) {
        self.set_mode(lane, Mode::Warm, until);
        let park = until.since(now).0;
        self.lanes[lane as usize].may_look = now + DurNs(park - park / 4);
    }

    /// Puts a lane among those with tickets.
    pub fn join_waiting(&mut self, lane: u32) {
        self.lanes[lane as usize].waiting_at = self.waiting.len() as u32;
        self.waiting.push(lane);
    }

    /// Takes a lane whose last ticket ended from among those with tickets.
    pub fn leave_waiting(&mut self, lane: u32) {
        let at = core::mem::replace(&mut self.lanes[lane as usize].waiting_at, NOWHERE);
        self.waiting.swap_remove(at as usize);
        if let Some(&moved) = self.waiting.get(at as usize) {
            self.lanes[moved as usize].waiting_at = at;
        }
    }

    /// Ends the session's part in the engine: nothing is published any more.
    pub fn detach(&mut self, cx: &mut Context<'_>) {
        for lane in 0..self.lanes.len() as u32 {
            self.set_imminent(cx, lane, false);
        }
        cx.accounts.close(self.account, self.tickets.outstanding());
        self.close_shares(cx);
        let (slot, rows) = (self.slot, self.table.rows());
        let polled = |row: &Row| row.is_fd_wait() && row.source != NO_FD;
        for (at, row) in rows.iter().enumerate().filter(|(_, row)| polled(row)) {
            let (row, fd) = (at as u32, row.source);
            cx.effects.push(Effect::ReleaseFd { slot, row, fd, polling: true });
        }
    }

    /// Makes the effect that closes the session, once.
    pub fn close(&mut self, cx: &mut Context<'_>, error: Error) {
        if !core::mem::replace(&mut self.closing, true) {
            cx.stats.closes += 1;
            cx.effects.push(Effect::Close { slot: self.slot, error });
        }
    }
}

impl Row {
    /// Whether the row is a ticket that waits for a lane.
    pub fn is_word_wait(&self) -> bool {
        self.state == super::table::PENDING
            && self.kind == crate::proto::entry::TicketKind::Word as u8
    }

    /// Whether the row is a ticket that waits for an fd.
    pub fn is_fd_wait(&self) -> bool {
        self.state == super::table::PENDING
            && self.kind == crate::proto::entry::TicketKind::Fd as u8
    }
}

/// The refusal of a lane that is not open.
pub fn no_such_lane(lane: u32) -> Error {
    Error::new(ErrorCode::NoSuchLane, format!("lane {lane} is not open"))
}
