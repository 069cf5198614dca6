//! One record as a daemon gets it, and as a client does.
//!
//! A request that is understood has one encoding: the record. One that is refused is refused under
//! its own cookie, by an ERROR that a client reads back. Whatever a daemon sends is taken apart
//! without harm.

use parkd::core::error::Error;
use parkd::proto::message::{self, ERROR, Opcode, encode, name_field};
use parkd::proto::request::{self, Request, submit_tail};

pub fn run(record: &[u8]) {
    let cookie = request::header(record).map_or(0, |header| header.cookie);
    match request::parse(record) {
        Ok((header, request)) => {
            assert_eq!(header.cookie, cookie);
            if let Some(again) = record_of(cookie, &request) {
                // The header's flags are not part of the request.
                assert!(record[..2] == again[..2] && record[4..] == again[4..], "{request:?}");
            }
        }
        Err(error) => refused(cookie, &error),
    }
    replied(record);
    let _ = message::field_name(record);
}

/// The record that says this; none where the request holds less than its record.
fn record_of(cookie: u64, request: &Request) -> Option<Vec<u8>> {
    let plan = |by_name, text: &str| {
        let body = message::Plan { by_name, bytes: text.len() as u32 };
        encode(Opcode::Plan as u16, cookie, &body, text.as_bytes())
    };
    Some(match request {
        Request::Hello(hello) => encode(Opcode::Hello as u16, cookie, hello, &[]),
        Request::OpenLane(lane, width, device) => {
            let device = name_field(device)?;
            let body = message::OpenLane { lane: lane.unwrap_or(u32::MAX), width: *width, device };
            encode(Opcode::OpenLane as u16, cookie, &body, &[])
        }
        Request::CloseLane(lane) => {
            let body = message::CloseLane { lane: *lane, reserved: 0 };
            encode(Opcode::CloseLane as u16, cookie, &body, &[])
        }
        Request::PlanText(text) => plan(0, text),
        Request::PlanName(name) => plan(1, name),
        Request::Submit(entries, fds) => {
            let body = message::Submit { tickets: entries.len() as u32, fds: *fds };
            encode(Opcode::Submit as u16, cookie, &body, submit_tail(entries))
        }
        Request::Cancel(user_data) => {
            let body = message::Cancel { user_data: *user_data };
            encode(Opcode::Cancel as u16, cookie, &body, &[])
        }
        Request::Fail(lane, code) => {
            let body = message::Fail { lane: *lane, code: *code };
            encode(Opcode::Fail as u16, cookie, &body, &[])
        }
        Request::Status => {
            let body = message::StatusRequest { reserved: 0 };
            encode(Opcode::Status as u16, cookie, &body, &[])
        }
        Request::Share(lane, secret) => {
            let secret = secret.unwrap_or(0).to_le_bytes();
            let body = message::Share { lane: *lane, reserved: 0, secret };
            encode(Opcode::Share as u16, cookie, &body, &[])
        }
        Request::Redeem(capability) => {
            let body = message::Redeem { capability: capability.to_le_bytes() };
            encode(Opcode::Redeem as u16, cookie, &body, &[])
        }
        Request::Revoke(lane) => {
            let body = message::Revoke { lane: *lane, reserved: 0 };
            encode(Opcode::Revoke as u16, cookie, &body, &[])
        }
        Request::Drain(timeout_ms) => {
            let body = message::Drain { timeout_ms: *timeout_ms, reserved: 0 };
            encode(Opcode::Drain as u16, cookie, &body, &[])
        }
        Request::Bye => encode(Opcode::Bye as u16, cookie, &(), &[]),
        Request::Unsupported(_) => return None,
    })
}

/// A client learns the code and the text of a refusal.
fn refused(cookie: u64, error: &Error) {
    let reply = message::error(cookie, error, 7, true);
    let (header, body) = request::parse_reply(&reply).expect("a whole reply");
    assert_eq!((header.opcode, header.cookie), (ERROR, cookie));
    let refusal = body.expect_err("an ERROR");
    assert_eq!((refusal.code, refusal.value, refusal.closes), (Some(error.code), 7, true));
    assert!(error.detail.starts_with(&refusal.detail), "{error}");
}

/// The record as a reply: header and body are all of it.
fn replied(record: &[u8]) {
    let Ok((header, body)) = request::parse_reply(record) else { return };
    assert_eq!(header.length as usize, record.len());
    match body {
        Ok(body) => assert_eq!(body, &record[16..]),
        Err(refusal) => assert!(refusal.code.is_none_or(|c| c.number() == refusal.number)),
    }
}
