use proptest::prelude::*;

use super::*;
use crate::proto::message::{encode, name_field};

fn code(record: &[u8]) -> ErrorCode {
    parse(record).unwrap_err().code
}

fn word_ticket(target: u64) -> SubmitEntry {
    SubmitEntry { op: 1, kind: 1, target, ..SubmitEntry::default() }
}

fn submit(entries: &[SubmitEntry], fds: u32) -> Vec<u8> {
    let body = message::Submit { tickets: entries.len() as u32, fds };
    encode(Opcode::Submit as u16, 1, &body, submit_tail(entries))
}

#[test]
fn every_request_round_trips() {
    let device = name_field("gpu0").unwrap();
    let open = message::OpenLane { lane: u32::MAX, width: 32, device };
    let record = encode(Opcode::OpenLane as u16, 5, &open, &[]);
    let (header, request) = parse(&record).unwrap();
    assert_eq!(header.cookie, 5);
    assert_eq!(request, Request::OpenLane(None, 32, "gpu0".into()));

    let plan = message::Plan { by_name: 0, bytes: 5 };
    let record = encode(Opcode::Plan as u16, 0, &plan, b"block");
    assert_eq!(parse(&record).unwrap().1, Request::PlanText("block".into()));

    let entries = [word_ticket(1), word_ticket(2)];
    assert_eq!(parse(&submit(&entries, 0)).unwrap().1, Request::Submit(entries.to_vec(), 0));

    let record = encode(Opcode::Fail as u16, 0, &message::Fail { lane: 4, code: 700 }, &[]);
    assert_eq!(parse(&record).unwrap().1, Request::Fail(4, 700));
    let record = encode(Opcode::Bye as u16, 0, &(), &[]);
    assert_eq!(parse(&record).unwrap().1, Request::Bye);
}

#[test]
fn lengths_opcodes_flags_and_counts_are_refused_with_their_codes() {
    assert_eq!(code(b""), ErrorCode::BadMessage);
    assert_eq!(code(&[0; 15]), ErrorCode::BadMessage);
    let good = encode(Opcode::Cancel as u16, 0, &message::Cancel { user_data: 1 }, &[]);
    assert!(parse(&good).is_ok());
    assert_eq!(code(&good[..good.len() - 1]), ErrorCode::BadMessage);
    let mut long = good.clone();
    long.push(0);
    assert_eq!(code(&long), ErrorCode::BadMessage);
    let mut flagged = good.clone();
    flagged[2] = 2;
    assert_eq!(code(&flagged), ErrorCode::UnknownFlags);
    let mut unknown = good;
    unknown[0] = 99;
    assert_eq!(code(&unknown), ErrorCode::UnknownOpcode);

    assert_eq!(code(&submit(&[], 0)), ErrorCode::LimitExceeded);
    assert_eq!(code(&submit(&[word_ticket(0); 257], 0)), ErrorCode::LimitExceeded);
    assert_eq!(code(&submit(&[word_ticket(0)], 65)), ErrorCode::TooManyFds);
    let fd = SubmitEntry { op: 1, kind: 2, source: 1, ..SubmitEntry::default() };
    assert_eq!(code(&submit(&[fd], 1)), ErrorCode::BadMessage);
    let cancel = SubmitEntry { op: 2, ..SubmitEntry::default() };
    assert_eq!(code(&submit(&[cancel], 0)), ErrorCode::BadMessage);
}

#[test]
fn a_request_may_be_marked_as_sent_again_and_hello_may_not() {
    let mut again = encode(Opcode::Cancel as u16, 7, &message::Cancel { user_data: 1 }, &[]);
    message::mark_again(&mut again);
    let (header, request) = parse(&again).unwrap();
    assert_eq!((header.flags, header.cookie, request), (message::AGAIN, 7, Request::Cancel(1)));
    again[2] |= 2;
    assert_eq!(code(&again), ErrorCode::UnknownFlags);
    let hello = <message::Hello as zerocopy::FromZeros>::new_zeroed();
    let mut again = encode(Opcode::Hello as u16, 7, &hello, &[]);
    assert!(parse(&again).is_ok());
    message::mark_again(&mut again);
    assert_eq!(code(&again), ErrorCode::UnknownFlags);
}

#[test]
fn a_notice_is_known_from_a_reply() {
    let record = message::resumed(4, 9);
    let (header, bytes) = parse_reply(&record).unwrap();
    let resumed = parse_notice(&header, bytes.unwrap()).unwrap();
    assert_eq!(resumed, Some(message::Resumed { generation: 4, reserved: 0, last_cookie: 9 }));
    assert_eq!(header.cookie, 0);
    let short = encode(message::RESUMED, 0, &4u32, &[]);
    let (header, bytes) = parse_reply(&short).unwrap();
    let refused = parse_notice(&header, bytes.unwrap()).unwrap_err();
    assert_eq!(refused.code, ErrorCode::BadMessage);
    let reply = message::done(Opcode::Bye, 1);
    let (header, bytes) = parse_reply(&reply).unwrap();
    assert_eq!(parse_notice(&header, bytes.unwrap()), Ok(None));
}

#[test]
fn an_error_reply_carries_code_value_and_text() {
    let error = Error::new(ErrorCode::CreditExceeded, "3 tickets asked for, 2 free of 64");
    let record = message::error(9, &error, 2, false);
    let (header, refusal) = parse_reply(&record).unwrap();
    let refusal = refusal.unwrap_err();
    assert_eq!(header.cookie, 9);
    assert_eq!((refusal.code, refusal.value), (Some(ErrorCode::CreditExceeded), 2));
    assert_eq!(refusal.detail, error.detail);
    let long = Error::new(ErrorCode::BadMessage, "ä".repeat(300));
    assert!(parse_reply(&message::error(9, &long, 0, true)).unwrap().1.unwrap_err().closes);
}

proptest! {
    #[test]
    fn no_record_panics(record in proptest::collection::vec(any::<u8>(), 0..2048)) {
        let _ = parse(&record);
        let _ = parse_reply(&record);
    }

    #[test]
    fn a_mutated_submit_is_taken_whole_or_refused(at in 0usize..152, bit in 0u8..8) {
        let mut record = submit(&[word_ticket(1), word_ticket(2)], 0);
        let at = at % record.len();
        record[at] ^= 1 << bit;
        if let Ok((_, Request::Submit(entries, _))) = parse(&record) {
            prop_assert_eq!(entries.len(), 2);
        }
    }
}
