//! The 64-byte entries of the two rings.
//!
//! An entry crosses shared memory as eight 64-bit words: it is copied out once, then checked, and
//! never looked at in place. In the submission ring an entry is *complete* when the submit tail
//! has passed it. In the result ring the last word's *phase* says so too: it is the lap of the
//! ring plus one, so that a looking client touches one line and needs no tail.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::core::error::{Error, ErrorCode, Result};

/// An entry as it lies in a ring.
pub type EntryWords = [u64; 8];

/// Bytes of an entry in either ring.
pub const ENTRY_BYTES: usize = 64;

/// What a submission entry asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Wait: exactly one result will follow.
    Ticket = 1,
    /// End the outstanding ticket of this `user_data` with `Cancelled`.
    Cancel = 2,
    /// End the outstanding tickets of lane `source` with `DeviceFailed(target)`.
    Fail = 3,
}

/// What a ticket waits on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TicketKind {
    /// Lane `source` reaching `target`.
    Word = 1,
    /// The fd at index `source` of the SUBMIT message becoming readable.
    Fd = 2,
    /// The registered device event `source`.
    Event = 3,
}

/// An entry of the submission ring, and of a SUBMIT message. Unused fields are zero.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SubmitEntry {
    /// An [`Op`].
    pub op: u8,
    /// A [`TicketKind`], for tickets.
    pub kind: u8,
    /// No flag is defined in version 1.
    pub flags: u16,
    /// Lane, index of an fd in the message, or event.
    pub source: u32,
    /// The client's name for the ticket, unique among those outstanding.
    pub user_data: u64,
    /// The number to reach, for words; the producer's code (32 bits), for FAIL.
    pub target: u64,
    /// The client's name for the place in its program that waits: the estimator's key.
    pub point: u64,
    /// CLOCK_MONOTONIC nanoseconds at which the wait ends; 0 for never.
    pub deadline_ns: u64,
    /// A plan's id from PLAN; 0 is the plan of the lane's device.
    pub plan: u16,
    /// Zero.
    pub reserved0: u16,
    /// Rows of the work, which choose among a plan's bands.
    pub rows: u32,
    /// Zero.
    pub reserved1: [u64; 2],
}

/// How a ticket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// The handle completed.
    Done = 1,
    /// The deadline passed first.
    DeadlineExpired = 2,
    /// The client took it back.
    Cancelled = 3,
    /// The lane's owner died.
    ProducerDied = 4,
    /// The producer posted `code`, or a sync_file reported the errno `code`.
    DeviceFailed = 5,
    /// The ticket was not accepted: `code` is an [`ErrorCode`] number.
    Refused = 6,
    /// The daemon ends.
    ShuttingDown = 7,
}

impl Status {
    /// The status with this number.
    pub const fn from_number(number: u8) -> Option<Status> {
        Some(match number {
            1 => Status::Done,
            2 => Status::DeadlineExpired,
            3 => Status::Cancelled,
            4 => Status::ProducerDied,
            5 => Status::DeviceFailed,
            6 => Status::Refused,
            7 => Status::ShuttingDown,
            _ => return None,
        })
    }
}

/// An entry of the result ring.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ResultEntry {
    /// The ticket's.
    pub user_data: u64,
    /// A [`Status`].
    pub status: u8,
    /// How it was found: 1 Immediate, 2 Late, 3 Parked, 4 Blocked; 0 when it was not.
    pub waited: u8,
    /// Zero in version 1.
    pub flags: u16,
    /// For `DeviceFailed` the device's code, for `Refused` an error code, else 0.
    pub code: u32,
    /// The word as it was seen, for words; the events polled, for fds.
    pub seen: u64,
    /// CLOCK_MONOTONIC nanoseconds when the daemon took the ticket.
    pub submitted_ns: u64,
    /// When the daemon found it ended.
    pub detected_ns: u64,
    /// When the daemon wrote this entry.
    pub published_ns: u64,
    /// Zero.
    pub reserved: u64,
    /// The lap of the ring plus one: [`phase_of`].
    pub phase: u32,
    /// Zero.
    pub reserved1: u32,
}

const _: () = assert!(size_of::<SubmitEntry>() == ENTRY_BYTES);
const _: () = assert!(size_of::<ResultEntry>() == ENTRY_BYTES);
const _: () = assert!(core::mem::offset_of!(ResultEntry, phase) == 56);

/// The phase of position `position` in a ring of `entries` (a power of two) entries.
/// A fresh ring is zero, and no phase is.
pub const fn phase_of(position: u32, entries: u32) -> u32 {
    (position >> entries.trailing_zeros()) + 1
}

impl SubmitEntry {
    /// The entry as words for the ring.
    pub fn to_words(self) -> EntryWords {
        zerocopy::transmute!(self)
    }

    /// The entry that a ring's words hold; not checked yet.
    pub fn from_words(words: EntryWords) -> SubmitEntry {
        zerocopy::transmute!(words)
    }

    /// What the entry asks for, when every field is one that version 1 knows. Whether lane, plan
    /// and deadline make sense is the engine's to say.
    ///
    /// # Errors
    /// `BadMessage` for an unknown op or kind and for reserved fields that are not zero,
    /// `UnknownFlags` for flags.
    pub fn check(&self) -> Result<(Op, TicketKind)> {
        let bad = |what| Err(Error::new(ErrorCode::BadMessage, what));
        if self.flags != 0 {
            return Err(Error::new(
                ErrorCode::UnknownFlags,
                alloc::format!("entry: flags {:#x} are not known", self.flags),
            ));
        }
        if self.reserved0 != 0 || self.reserved1 != [0; 2] {
            return bad("entry: a reserved field is not zero");
        }
        let op = match self.op {
            1 => Op::Ticket,
            2 => Op::Cancel,
            3 => Op::Fail,
            _ => return bad("entry: op is none of 1 (TICKET), 2 (CANCEL), 3 (FAIL)"),
        };
        let kind = match (op, self.kind) {
            (Op::Ticket, 1) => TicketKind::Word,
            (Op::Ticket, 2) => TicketKind::Fd,
            (Op::Ticket, 3) => TicketKind::Event,
            (Op::Ticket, _) => return bad("ticket: kind is none of 1 (word), 2 (fd), 3 (event)"),
            (_, 0) => TicketKind::Word,
            (_, _) => return bad("entry: kind must be zero for CANCEL and FAIL"),
        };
        if matches!(op, Op::Fail) && self.target > u64::from(u32::MAX) {
            return bad("FAIL: the code does not fit 32 bits");
        }
        Ok((op, kind))
    }
}

impl ResultEntry {
    /// The entry as words for the ring; `phase` is in the last one.
    pub fn to_words(self) -> EntryWords {
        zerocopy::transmute!(self)
    }

    /// The entry that a ring's words hold.
    pub fn from_words(words: EntryWords) -> ResultEntry {
        zerocopy::transmute!(words)
    }
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
