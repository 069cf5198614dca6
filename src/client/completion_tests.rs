use super::*;

fn entry(status: u8, code: u32) -> ResultEntry {
    ResultEntry { status, code, waited: 2, seen: 9, submitted_ns: 1, ..ResultEntry::default() }
}

#[test]
fn an_entry_is_read_whole() {
    let entry = ResultEntry { detected_ns: 2, published_ns: 3, ..entry(1, 0) };
    let completion = Completion::from_entry(&entry);
    assert!(completion.is_done());
    assert_eq!(completion.waited, Some(Waited::Late));
    assert_eq!(completion.seen, 9);
    let times = (completion.submitted, completion.detected, completion.published);
    assert_eq!(times, (MonoNs(1), MonoNs(2), MonoNs(3)));
    assert_eq!(completion.into_result(), Ok(completion));
}

#[test]
fn every_other_end_has_its_code() {
    let code = |status: Status, code| {
        Completion::from_entry(&entry(status as u8, code)).into_result().unwrap_err().code
    };
    assert_eq!(code(Status::DeadlineExpired, 0), ErrorCode::DeadlineExpired);
    assert_eq!(code(Status::Cancelled, 0), ErrorCode::Cancelled);
    assert_eq!(code(Status::ProducerDied, 0), ErrorCode::ProducerDied);
    assert_eq!(code(Status::DeviceFailed, 700), ErrorCode::ProducerFailed);
    assert_eq!(code(Status::ShuttingDown, 0), ErrorCode::Disconnected);
    assert_eq!(code(Status::Refused, 41), ErrorCode::NoSuchLane);
    assert_eq!(code(Status::Refused, 60_000), ErrorCode::NotSupported);
    assert_eq!(code(Status::Refused, 70_000), ErrorCode::NotSupported);
    let posted = Completion::from_entry(&entry(Status::DeviceFailed as u8, 700));
    assert!(posted.into_result().unwrap_err().detail.contains("700"));
}

#[test]
fn a_status_from_the_future_is_a_refusal() {
    let completion = Completion::from_entry(&entry(99, 5));
    assert_eq!(completion.status, Status::Refused);
    assert_eq!(completion.into_result().unwrap_err().code, ErrorCode::BadMessage);
}
