use super::*;
use proptest::prelude::*;

fn stream() -> Stream {
    Stream {
        lane: 2,
        work: Work { seed: 3, work_ns: 1_000_000, jitter_permille: 50 },
        jobs: 10,
        first: 1,
        stamps: Some(Stamps { lane: 64, count: 64 }),
        bell: Some(1),
        cpu: true,
        fault_after: Some(5),
        start: MonoNs(77),
    }
}

/// `bytes` with the u32 at `at` replaced.
fn with_u32(mut bytes: Vec<u8>, at: usize, value: u32) -> Vec<u8> {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn code(record: &[u8]) -> ErrorCode {
    Stream::parse(record).unwrap_err().code
}

#[test]
fn a_stream_survives_the_wire() {
    assert_eq!(Stream::parse(&stream().encode()), Ok(stream()));
    let plain = Stream { stamps: None, bell: None, cpu: false, fault_after: None, ..stream() };
    assert_eq!(Stream::parse(&plain.encode()), Ok(plain));
    let first = Stream { fault_after: Some(0), ..plain };
    assert_eq!(Stream::parse(&first.encode()), Ok(first));
}

#[test]
fn each_wrong_field_is_named() {
    let good = stream().encode();
    assert_eq!(code(&[]), ErrorCode::BadMessage);
    assert_eq!(code(&[1, 0, 0]), ErrorCode::BadMessage);
    assert_eq!(code(&good[..72]), ErrorCode::BadMessage);
    assert_eq!(code(&[&good[..], &[0]].concat()), ErrorCode::BadMessage);
    assert_eq!(code(&with_u32(good.clone(), 0, 9)), ErrorCode::UnknownOpcode);
    assert_eq!(code(&with_u32(good.clone(), 4, 79)), ErrorCode::BadMessage);
    assert_eq!(code(&with_u32(good.clone(), 20, 63)), ErrorCode::BadMessage);
    assert_eq!(code(&with_u32(good.clone(), 20, 4096)), ErrorCode::LimitExceeded);
    assert_eq!(code(&with_u32(good.clone(), 24, 8)), ErrorCode::UnknownFlags);
    assert_eq!(code(&with_u32(good.clone(), 28, 1001)), ErrorCode::LimitExceeded);
    assert_eq!(code(&with_u32(good.clone(), 44, 1 << 20)), ErrorCode::LimitExceeded);
    assert_eq!(code(&with_u32(good.clone(), 48, 0)), ErrorCode::BadMessage);
    // A field that its flag would make mean something, without the flag.
    for (at, name) in [(24, "bell"), (20, "stamps_lane")] {
        let error = Stream::parse(&with_u32(good.clone(), at, 0)).unwrap_err();
        assert!(error.detail.contains(name), "{error}");
    }
}

#[test]
fn replies_survive_the_wire() {
    let started = Reply::encode(&Ok(MonoNs(123)));
    assert_eq!(Reply::parse(&started), Ok(Reply::Started(MonoNs(123))));
    let refusal = Error::new(ErrorCode::BadMessage, "é".repeat(400));
    let Ok(Reply::Refused(32, text)) = Reply::parse(&Reply::encode(&Err(refusal))) else {
        panic!("a refusal")
    };
    assert_eq!(text, "é".repeat(128));
    assert!(Reply::parse(&started[..12]).is_err());
    assert!(Reply::parse(&[]).is_err());
}

proptest! {
    #[test]
    fn garbage_is_refused_and_what_is_taken_is_within_bounds(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        at in 8_usize..80,
        flip in any::<u8>(),
    ) {
        let _ = Reply::parse(&bytes);
        let _ = Stream::parse(&bytes);
        let mut mutated = stream().encode();
        mutated[at] ^= flip;
        if let Ok(taken) = Stream::parse(&mutated) {
            prop_assert!(taken.jobs >= 1 && taken.work.work_ns <= WORK_NS_MAX);
            prop_assert!(taken.work.jitter_permille <= JITTER_PERMILLE_MAX);
            prop_assert!(taken.stamps.is_none_or(|s| s.count.is_power_of_two()));
            prop_assert_eq!(taken.encode(), mutated);
        }
    }
}
