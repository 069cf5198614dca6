//! The ticket table of one session: a header, lane records, plan records and ticket rows in a
//! fixed layout over bytes that the engine is given.
//!
//! The bytes are the daemon's own memory file, which outlives the process: what is written here is
//! what a next daemon goes on from. A *row* is one ticket. Its state goes
//! `FREE -> PENDING -> PUBLISHING -> FREE`, and each arrow is one store, made after everything that
//! it vouches for and before everything that relies on it ([`Row::set_state`]).
//!
//! | state | what holds |
//! |---|---|
//! | `FREE` | the other fields mean nothing |
//! | `PENDING` | the ticket was recorded. It *counts* when its origin has been passed: its ring position by `submit_head`, or its cookie by `last_cookie`; otherwise it was never accepted |
//! | `PUBLISHING` | the outcome stands in the row and `result_pos` says where it goes. `result_pos == result_tail`: the entry may be half written, write it again; `result_tail` past it: it was published |
//!
//! At most one row of a table is `PUBLISHING`.

use alloc::format;
use core::sync::atomic::{Ordering, compiler_fence};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::lane::{Over, Redeemed};
use super::prepared::SessionParams;
use crate::core::error::{Error, ErrorCode, Result};
use crate::proto::layout::{AreaHeader, PAGE_BYTES};
use crate::proto::limits::{
    CAPABILITY_BYTES, LANES_MIN, PLAN_TEXT_BYTES_MAX, RING_ENTRIES_MAX, RING_ENTRIES_MIN,
    SESSION_LANES_MAX, SESSION_PLANS_MAX,
};

/// Names the area.
pub const MAGIC: [u8; 8] = *b"parkd-tb";
/// Version of the table's layout.
pub const VERSION: u32 = 1;

/// State of a row without a ticket.
pub const FREE: u32 = 0;
/// State of a row whose ticket waits.
pub const PENDING: u32 = 1;
/// State of a row whose result is on its way into the ring.
pub const PUBLISHING: u32 = 2;

/// Row flag: the ticket came in a SUBMIT message, so `origin` is a cookie's low half.
pub const BY_SOCKET: u8 = 1;
/// Row flag: the ticket was refused when it came in, with the error number in `code`.
pub const REFUSED: u8 = 2;

/// `source` of an fd ticket whose fd was lost with an earlier life of the daemon.
pub const NO_FD: u32 = u32::MAX;

/// The head of a table.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TableHeader {
    /// Magic, version and sizes.
    pub area: AreaHeader,
    /// The next position to take from the submission ring.
    pub submit_head: u32,
    /// The next position to fill in the result ring.
    pub result_tail: u32,
    /// Cookie of the last SUBMIT message that was accepted; 0 before the first.
    pub last_cookie: u64,
    /// How often in a row a daemon died while it recovered this session.
    pub recoveries: u32,
    /// 1 while a daemon recovers this session.
    pub recovering: u32,
    /// The client's process.
    pub pid: u32,
    /// The client's user.
    pub uid: u32,
    /// Added to the client's times to get the daemon's.
    pub clock_offset_ns: i64,
    /// Cookie of the HELLO that the session began with.
    pub hello_cookie: u64,
    /// 1 once WELCOME was sent.
    pub welcomed: u32,
    /// The lane that the last OPEN_LANE opened.
    pub opened_lane: u32,
    /// Cookie of that OPEN_LANE.
    pub opened_cookie: u64,
}

/// What the table knows of a lane.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LaneRecord {
    /// 0 closed, else the width in bits: 64 or 32. While it is 0 the other fields mean nothing.
    pub width: u32,
    /// Index of the device.
    pub device: u32,
    /// Why no number comes any more: one of [`over`]; 0 while some may.
    pub over: u32,
    /// The producer's code, where it posted one.
    pub code: u32,
    /// Of a redeemed lane, the number of its owner's session; 0 for the session's own.
    pub owner: u32,
    /// The lane's index there.
    pub owner_lane: u32,
    /// 1 while the lane is shared.
    pub shared: u32,
    /// Zero.
    pub reserved: u32,
    /// What shares the lane, or what it was redeemed with.
    pub capability: [u8; CAPABILITY_BYTES],
    /// A number that a redeemed lane has reached: its last one, once it has an `over`.
    pub last: u64,
}

/// Why no number of a lane comes any more.
pub mod over {
    /// Its producer posted a failure.
    pub const FAILED: u32 = 1;
    /// The session that owns it is gone, or has closed it.
    pub const OWNER_DIED: u32 = 2;
    /// Its owner has revoked it.
    pub const REVOKED: u32 = 3;
}

impl LaneRecord {
    /// Makes it the record of an open lane.
    pub fn open(&mut self, width: u32, device: u32) {
        *self = LaneRecord { device, ..LaneRecord::default() };
        in_order(|| self.width = width);
    }

    /// Makes it the record of a closed lane.
    pub fn close(&mut self) {
        in_order(|| self.width = 0);
    }

    /// Makes it the record of an open lane that belongs to another session.
    pub fn redeem(&mut self, width: u32, device: u32, origin: &Redeemed, last: u64) {
        let Redeemed { owner, lane: owner_lane, capability, absent: _ } = *origin;
        let capability = capability.to_le_bytes();
        *self = LaneRecord { device, owner, owner_lane, capability, last, ..LaneRecord::default() };
        in_order(|| self.width = width);
    }

    /// Notes why no number comes any more.
    pub fn end(&mut self, over: Over, last: u64) {
        self.last = last;
        match over {
            Over::Failed(code) => {
                self.code = code;
                in_order(|| self.over = over::FAILED);
            }
            Over::OwnerDied => in_order(|| self.over = over::OWNER_DIED),
            Over::Revoked => in_order(|| self.over = over::REVOKED),
        }
    }

    /// Why no number comes any more, as far as the record makes sense.
    ///
    /// # Errors
    /// The number in it that does not.
    pub fn over(&self) -> core::result::Result<Option<Over>, u32> {
        match self.over {
            0 => Ok(None),
            over::FAILED => Ok(Some(Over::Failed(self.code))),
            over::OWNER_DIED => Ok(Some(Over::OwnerDied)),
            over::REVOKED => Ok(Some(Over::Revoked)),
            unknown => Err(unknown),
        }
    }

    /// Notes what shares the lane.
    pub fn share(&mut self, capability: u128) {
        self.capability = capability.to_le_bytes();
        in_order(|| self.shared = 1);
    }

    /// Nothing shares the lane any more.
    pub fn unshare(&mut self) {
        in_order(|| self.shared = 0);
    }
}

/// A plan that the session registered, as text: ids are stable over restarts and reloads.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PlanRecord {
    /// Bytes of the text; 0 for a free record.
    pub bytes: u32,
    /// Zero.
    pub reserved: u32,
    /// The text, padded with zeros.
    pub text: [u8; PLAN_TEXT_BYTES_MAX],
}

/// One ticket.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Row {
    /// `FREE`, `PENDING` or `PUBLISHING`.
    pub state: u32,
    /// Where in the result ring its result goes, once it is `PUBLISHING`.
    pub result_pos: u32,
    /// Where it came from: a position of the submission ring, or a cookie's low half.
    pub origin: u32,
    /// Lane, fd or event.
    pub source: u32,
    /// The client's name for it.
    pub user_data: u64,
    /// The number to reach.
    pub target: u64,
    /// The estimator's key.
    pub point: u64,
    /// When the wait ends, in the daemon's clock; 0 for never.
    pub deadline_ns: u64,
    /// When the daemon took it.
    pub submitted_ns: u64,
    /// The plan's id.
    pub plan: u16,
    /// A [`crate::proto::entry::TicketKind`].
    pub kind: u8,
    /// [`BY_SOCKET`], [`REFUSED`].
    pub flags: u8,
    /// Rows of the work.
    pub rows: u32,
    /// Outcome: a [`crate::proto::entry::Status`].
    pub status: u8,
    /// Outcome: how it was found.
    pub waited: u8,
    /// Zero.
    pub reserved: u16,
    /// Outcome: the code that goes with the status.
    pub code: u32,
    /// Outcome: the word as seen.
    pub seen: u64,
    /// Outcome: when.
    pub detected_ns: u64,
}

const _: () = assert!(size_of::<TableHeader>() == 96);
const _: () = assert!(size_of::<TableHeader>() <= PAGE_BYTES);
const _: () = assert!(size_of::<LaneRecord>() == 56);
const _: () = assert!(size_of::<Row>() == 88);

impl PlanRecord {
    /// Keeps a plan's text.
    pub fn set(&mut self, text: &str) {
        let bytes = text.len().min(self.text.len());
        self.text[..bytes].copy_from_slice(&text.as_bytes()[..bytes]);
        in_order(|| self.bytes = bytes as u32);
    }

    /// The plan's text; none where there is no plan, or bytes that are no text.
    pub fn text(&self) -> Option<&str> {
        let text = self.text.get(..self.bytes as usize).filter(|text| !text.is_empty())?;
        str::from_utf8(text).ok()
    }
}

impl Row {
    /// Makes `state` true: after every earlier store to the table, before every later one.
    ///
    /// What reads this memory after a kill sees the stores in the order in which this thread made
    /// them, so it is the compiler that has to keep them apart.
    pub fn set_state(&mut self, state: u32) {
        in_order(|| self.state = state);
    }
}

/// Makes one store to the header: after every earlier store, before every later one.
fn in_order(store: impl FnOnce()) {
    compiler_fence(Ordering::SeqCst);
    store();
    compiler_fence(Ordering::SeqCst);
}

impl TableHeader {
    /// The submission before `head` has been taken.
    pub fn set_submit_head(&mut self, head: u32) {
        in_order(|| self.submit_head = head);
    }

    /// The result at the tail has been written.
    pub fn advance_result_tail(&mut self) {
        in_order(|| self.result_tail = self.result_tail.wrapping_add(1));
    }

    /// The SUBMIT message of this cookie has been recorded, all of it.
    pub fn set_last_cookie(&mut self, cookie: u64) {
        in_order(|| self.last_cookie = cookie);
    }

    /// The OPEN_LANE of this cookie is about to open `lane`.
    pub fn set_opened(&mut self, cookie: u64, lane: u32) {
        in_order(|| self.opened_cookie = 0);
        self.opened_lane = lane;
        in_order(|| self.opened_cookie = cookie);
    }

    /// Whether a daemon recovers the session.
    pub fn set_recovering(&mut self, recovering: u32) {
        in_order(|| self.recovering = recovering);
    }

    /// WELCOME was sent.
    pub fn set_welcomed(&mut self) {
        in_order(|| self.welcomed = 1);
    }
}

/// Where the parts of a table lie, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLayout {
    lanes: u32,
    rows: u32,
}

impl TableLayout {
    /// A table for `lanes` lanes and `rows` tickets.
    pub const fn new(lanes: u32, rows: u32) -> TableLayout {
        TableLayout { lanes, rows }
    }

    const fn lanes_at(&self) -> usize {
        PAGE_BYTES
    }

    const fn plans_at(&self) -> usize {
        self.lanes_at() + self.lanes as usize * size_of::<LaneRecord>()
    }

    const fn rows_at(&self) -> usize {
        self.plans_at() + SESSION_PLANS_MAX as usize * size_of::<PlanRecord>()
    }

    /// Bytes of the table.
    pub const fn bytes(&self) -> usize {
        (self.rows_at() + self.rows as usize * size_of::<Row>()).next_multiple_of(PAGE_BYTES)
    }
}

/// A table's parts, for as long as its bytes are borrowed.
pub struct Table<'a> {
    /// The head.
    pub header: &'a mut TableHeader,
    /// By lane index.
    pub lanes: &'a mut [LaneRecord],
    /// By plan id less one.
    pub plans: &'a mut [PlanRecord],
    /// The tickets.
    pub rows: &'a mut [Row],
}

impl<'a> Table<'a> {
    /// The head alone of the table in `bytes`: as [`Table::over`], and cheaper.
    pub fn header_over(bytes: &'a mut [u8]) -> Option<&'a mut TableHeader> {
        Some(TableHeader::mut_from_prefix(bytes).ok()?.0)
    }

    /// The tickets alone of the table of this layout in `bytes`.
    pub fn rows_over(layout: TableLayout, bytes: &'a mut [u8]) -> Option<&'a mut [Row]> {
        let rows = bytes.get_mut(layout.rows_at()..)?;
        Some(<[Row]>::mut_from_prefix_with_elems(rows, layout.rows as usize).ok()?.0)
    }

    /// The parts of the table of this layout in `bytes`; `None` when the bytes are too few or not
    /// aligned to 8.
    pub fn over(layout: TableLayout, bytes: &'a mut [u8]) -> Option<Table<'a>> {
        let (header, rest) = bytes.split_at_mut_checked(layout.lanes_at())?;
        let (header, _) = TableHeader::mut_from_prefix(header).ok()?;
        let (lanes, rest) =
            <[LaneRecord]>::mut_from_prefix_with_elems(rest, layout.lanes as usize).ok()?;
        let (plans, rest) =
            <[PlanRecord]>::mut_from_prefix_with_elems(rest, SESSION_PLANS_MAX as usize).ok()?;
        let (rows, _) = <[Row]>::mut_from_prefix_with_elems(rest, layout.rows as usize).ok()?;
        Some(Table { header, lanes, plans, rows })
    }

    /// Makes a zeroed table one of this layout, for a session of these sizes.
    pub fn format(&mut self, layout: TableLayout, params: &SessionParams) {
        self.header.pid = params.pid;
        self.header.uid = params.uid;
        self.header.clock_offset_ns = params.clock_offset_ns;
        self.header.area = AreaHeader {
            magic: MAGIC,
            version: VERSION,
            submit_entries: params.submit_entries,
            result_entries: layout.rows,
            lanes: layout.lanes,
            reserved: 0,
        };
    }
}

/// What the session was made of whose table an earlier life of the daemon left in `bytes`.
///
/// # Errors
/// `SessionMemory` where the bytes are no table of this version, or too few for its sizes.
pub fn params(bytes: &[u8]) -> Result<SessionParams> {
    let bad = |what: &str| Error::new(ErrorCode::SessionMemory, format!("session table: {what}"));
    let (header, _) = TableHeader::ref_from_prefix(bytes).map_err(|_| bad("too short"))?;
    let AreaHeader { magic, version, submit_entries, result_entries, lanes, reserved: _ } =
        header.area;
    if magic != MAGIC || version != VERSION {
        return Err(bad("another magic or version"));
    }
    let entries = RING_ENTRIES_MIN..=RING_ENTRIES_MAX;
    let entries_fit = |n: u32| n.is_power_of_two() && entries.contains(&n);
    let lanes_fit = lanes.is_power_of_two() && (LANES_MIN..=SESSION_LANES_MAX).contains(&lanes);
    if !entries_fit(submit_entries) || !entries_fit(result_entries) || !lanes_fit {
        return Err(bad("sizes that no session has"));
    }
    if TableLayout::new(lanes, result_entries).bytes() != bytes.len() {
        return Err(bad("its length is not that of its sizes"));
    }
    let TableHeader { pid, uid, clock_offset_ns, .. } = *header;
    Ok(SessionParams { submit_entries, result_entries, lanes, pid, uid, clock_offset_ns })
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
