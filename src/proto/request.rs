//! From the bytes of one record to a checked [`Request`], and from a reply to its parts.
//!
//! Everything that can be said of a message without knowing the session is said here: its length
//! is the record's, its opcode and flags are known, its body is whole, reserved fields are zero,
//! counts fit the tail. A refusal is a coded error; the daemon answers it under the header's
//! cookie.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::entry::{ENTRY_BYTES, SubmitEntry};
use super::limits::{MESSAGE_BYTES_MAX, PLAN_TEXT_BYTES_MAX, SUBMIT_FDS_MAX, SUBMIT_TICKETS_MAX};
use super::message::{self, AGAIN, ERROR, ErrorBody, Header, Opcode, RESUMED, field_name};
use crate::core::error::{Error, ErrorCode, Result};

/// A checked request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// HELLO; versions, sizes and role are still the daemon's to judge.
    Hello(message::Hello),
    /// OPEN_LANE: lane (`None` for any), width (64 or 32 bits), device.
    OpenLane(Option<u32>, u32, String),
    /// CLOSE_LANE: lane.
    CloseLane(u32),
    /// PLAN with a plan's text.
    PlanText(String),
    /// PLAN with a name of `[plans]`.
    PlanName(String),
    /// SUBMIT: entries (each passed [`SubmitEntry::check`] as a ticket), count of fds.
    Submit(Vec<SubmitEntry>, u32),
    /// CANCEL: user_data.
    Cancel(u64),
    /// FAIL: lane, code.
    Fail(u32, u32),
    /// SHARE: lane, and the secret that its capability is made from.
    Share(u32, Option<u128>),
    /// REDEEM: capability.
    Redeem(u128),
    /// REVOKE: lane.
    Revoke(u32),
    /// STATUS.
    Status,
    /// DRAIN: milliseconds that tickets have to finish.
    Drain(u32),
    /// BYE.
    Bye,
    /// An opcode of this version that the daemon does not serve yet.
    Unsupported(Opcode),
}

fn bad(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::BadMessage, what)
}

/// The header of a record, as far as the record has one: for the cookie of an ERROR reply.
pub fn header(record: &[u8]) -> Option<Header> {
    Header::read_from_prefix(record).ok().map(|(header, _)| header)
}

fn body<B: FromBytes + KnownLayout + Immutable>(name: &str, bytes: &[u8]) -> Result<B> {
    B::read_from_bytes(bytes).map_err(|_| {
        bad(format!("{name}: a body of {} bytes, {} expected", bytes.len(), size_of::<B>()))
    })
}

fn split<'a, B: FromBytes + KnownLayout + Immutable>(
    name: &str,
    bytes: &'a [u8],
) -> Result<(B, &'a [u8])> {
    B::read_from_prefix(bytes).map_err(|_| {
        bad(format!(
            "{name}: a body of {} bytes, at least {} expected",
            bytes.len(),
            size_of::<B>()
        ))
    })
}

/// Checks one record.
///
/// # Errors
/// `BadMessage`, `UnknownOpcode`, `UnknownFlags`, `LimitExceeded`, `TooManyFds`, as the module
/// says.
pub fn parse(record: &[u8]) -> Result<(Header, Request)> {
    let header = header(record)
        .ok_or_else(|| bad(format!("message: {} bytes, a header has 16", record.len())))?;
    if record.len() > MESSAGE_BYTES_MAX || header.length as usize != record.len() {
        return Err(bad(format!(
            "message: length {} in a record of {} bytes (at most {MESSAGE_BYTES_MAX})",
            header.length,
            record.len()
        )));
    }
    let opcode = Opcode::from_number(header.opcode).ok_or_else(|| {
        let text = format!("opcode {} is not known in protocol version 1", header.opcode);
        Error::new(ErrorCode::UnknownOpcode, text)
    })?;
    let known = if opcode == Opcode::Hello { 0 } else { AGAIN };
    if header.flags & !known != 0 {
        let text = format!("{}: flags {:#x} are not known", opcode.name(), header.flags);
        return Err(Error::new(ErrorCode::UnknownFlags, text));
    }
    Ok((header, parse_body(opcode, &record[size_of::<Header>()..])?))
}

fn parse_body(opcode: Opcode, bytes: &[u8]) -> Result<Request> {
    let name = opcode.name();
    let zero = |reserved: u64| match reserved {
        0 => Ok(()),
        _ => Err(bad(format!("{name}: a reserved field is not zero"))),
    };
    Ok(match opcode {
        Opcode::Hello => Request::Hello(body(name, bytes)?),
        Opcode::OpenLane => parse_open_lane(bytes)?,
        Opcode::CloseLane => {
            let close: message::CloseLane = body(name, bytes)?;
            zero(close.reserved.into())?;
            Request::CloseLane(close.lane)
        }
        Opcode::Plan => parse_plan(bytes)?,
        Opcode::Submit => parse_submit(bytes)?,
        Opcode::Cancel => Request::Cancel(body::<message::Cancel>(name, bytes)?.user_data),
        Opcode::Fail => {
            let fail: message::Fail = body(name, bytes)?;
            Request::Fail(fail.lane, fail.code)
        }
        Opcode::Status => {
            zero(body::<message::StatusRequest>(name, bytes)?.reserved)?;
            Request::Status
        }
        Opcode::Drain => {
            let drain: message::Drain = body(name, bytes)?;
            zero(drain.reserved.into())?;
            Request::Drain(drain.timeout_ms)
        }
        Opcode::Bye => body::<()>(name, bytes).map(|()| Request::Bye)?,
        Opcode::Share => {
            let share: message::Share = body(name, bytes)?;
            zero(share.reserved.into())?;
            let secret = u128::from_le_bytes(share.secret);
            Request::Share(share.lane, (secret != 0).then_some(secret))
        }
        Opcode::Redeem => {
            Request::Redeem(u128::from_le_bytes(body::<message::Redeem>(name, bytes)?.capability))
        }
        Opcode::Revoke => {
            let revoke: message::Revoke = body(name, bytes)?;
            zero(revoke.reserved.into())?;
            Request::Revoke(revoke.lane)
        }
        Opcode::RegisterEvent | Opcode::ReleaseEvent => Request::Unsupported(opcode),
    })
}

fn parse_open_lane(bytes: &[u8]) -> Result<Request> {
    let open: message::OpenLane = body("OPEN_LANE", bytes)?;
    if open.width != 64 && open.width != 32 {
        return Err(bad(format!("OPEN_LANE: width {} is neither 64 nor 32", open.width)));
    }
    let lane = (open.lane != u32::MAX).then_some(open.lane);
    Ok(Request::OpenLane(lane, open.width, field_name(&open.device)?.to_owned()))
}

fn parse_plan(bytes: &[u8]) -> Result<Request> {
    let (plan, tail): (message::Plan, _) = split("PLAN", bytes)?;
    if plan.bytes == 0 || plan.bytes as usize > PLAN_TEXT_BYTES_MAX {
        let text = format!("PLAN: {} bytes of text, 1..={PLAN_TEXT_BYTES_MAX}", plan.bytes);
        return Err(bad(text));
    }
    if tail.len() != plan.bytes as usize {
        return Err(bad(format!("PLAN: {} bytes follow, {} announced", tail.len(), plan.bytes)));
    }
    let text = core::str::from_utf8(tail).map_err(|_| bad("PLAN: the text is not UTF-8"))?;
    match plan.by_name {
        0 => Ok(Request::PlanText(text.to_owned())),
        1 => Ok(Request::PlanName(text.to_owned())),
        other => Err(bad(format!("PLAN: by_name {other} is neither 0 nor 1"))),
    }
}

fn parse_submit(bytes: &[u8]) -> Result<Request> {
    let (submit, tail): (message::Submit, _) = split("SUBMIT", bytes)?;
    if submit.tickets == 0 || submit.tickets > SUBMIT_TICKETS_MAX {
        let text = format!("SUBMIT: tickets: {}, 1..={SUBMIT_TICKETS_MAX}", submit.tickets);
        return Err(Error::new(ErrorCode::LimitExceeded, text));
    }
    if submit.fds > SUBMIT_FDS_MAX {
        let text = format!("SUBMIT: {} file descriptors, at most {SUBMIT_FDS_MAX}", submit.fds);
        return Err(Error::new(ErrorCode::TooManyFds, text));
    }
    if tail.len() != submit.tickets as usize * ENTRY_BYTES {
        let text = format!("SUBMIT: {} bytes of {} tickets", tail.len(), submit.tickets);
        return Err(bad(text));
    }
    let mut entries = Vec::with_capacity(submit.tickets as usize);
    for (at, chunk) in tail.chunks_exact(ENTRY_BYTES).enumerate() {
        let entry =
            SubmitEntry::read_from_bytes(chunk).map_err(|_| bad("SUBMIT: a ticket is cut off"))?;
        let (op, kind) = entry
            .check()
            .map_err(|e| Error::new(e.code, format!("SUBMIT: ticket {at}: {}", e.detail)))?;
        if op != super::entry::Op::Ticket {
            return Err(bad(format!("SUBMIT: ticket {at}: op must be 1 (TICKET)")));
        }
        if kind == super::entry::TicketKind::Fd && entry.source >= submit.fds {
            let (source, fds) = (entry.source, submit.fds);
            return Err(bad(format!("SUBMIT: ticket {at}: fd {source} of {fds}")));
        }
        entries.push(entry);
    }
    Ok(Request::Submit(entries, submit.fds))
}

/// What a daemon answered: the body's bytes of the expected reply, or its error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The daemon's error code; `None` when this build does not know the number.
    pub code: Option<ErrorCode>,
    /// The number as sent.
    pub number: u16,
    /// The text.
    pub detail: String,
    /// The number that goes with the code.
    pub value: u64,
    /// The daemon closed the session for it.
    pub closes: bool,
}

/// Splits a reply record into header and body.
///
/// # Errors
/// `BadMessage` when it is not one whole message.
pub fn parse_reply(record: &[u8]) -> Result<(Header, core::result::Result<&[u8], Refusal>)> {
    let (header, rest) =
        Header::read_from_prefix(record).map_err(|_| bad("reply: shorter than its header"))?;
    if header.length as usize != record.len() {
        return Err(bad("reply: its length is not the record's"));
    }
    if header.opcode != ERROR {
        return Ok((header, Ok(rest)));
    }
    let (body, text): (ErrorBody, _) = split("ERROR", rest)?;
    Ok((
        header,
        Err(Refusal {
            code: ErrorCode::from_number(body.code),
            number: body.code,
            detail: String::from_utf8_lossy(text).into_owned(),
            value: body.value,
            closes: body.closes != 0,
        }),
    ))
}

/// The RESUMED notice, where the record of these parts is one: as [`parse_reply`] splits it.
///
/// # Errors
/// `BadMessage` for a RESUMED of another size.
pub fn parse_notice(header: &Header, bytes: &[u8]) -> Result<Option<message::Resumed>> {
    match header.opcode {
        RESUMED => body("RESUMED", bytes).map(Some),
        _ => Ok(None),
    }
}

/// The tail of a SUBMIT message.
pub fn submit_tail(entries: &[SubmitEntry]) -> &[u8] {
    entries.as_bytes()
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
