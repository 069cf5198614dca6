use super::*;
use crate::core::error::ErrorCode;
use crate::shm::region::{ReadWrite, Region};

type Ring = (Region<ReadWrite>, RingSizes);
type Producer = SubmitProducer<Region<ReadWrite>>;
type Consumer = SubmitConsumer<Region<ReadWrite>>;

/// A ring of 4 entries whose indices all stand at `start`.
fn ring(start: u32) -> Ring {
    let sizes = RingSizes::new(4, 2).unwrap();
    let memory = Region::heap(sizes.bytes()).unwrap();
    memory.store32(rings::SUBMIT_TAIL, start);
    memory.store32(rings::SUBMIT_HEAD, start);
    (memory, sizes)
}

fn sides((memory, sizes): &Ring) -> (Producer, Consumer) {
    let producer = SubmitProducer::new(memory.clone(), *sizes).unwrap();
    (producer, SubmitConsumer::new(memory.clone(), *sizes).unwrap())
}

fn entry(number: u64) -> EntryWords {
    std::array::from_fn(|word| number * 10 + word as u64)
}

#[test]
fn entries_are_seen_once_published_and_in_order() {
    let (mut producer, consumer) = sides(&ring(0));
    assert_eq!(producer.push(&entry(1)), Ok(Some(0)));
    assert_eq!(producer.push(&entry(2)), Ok(Some(1)));
    assert_eq!(consumer.pending(0), Ok(0), "not published");
    producer.publish();
    assert_eq!(consumer.pending(0), Ok(2));
    assert_eq!((consumer.entry(0), consumer.entry(1)), (entry(1), entry(2)));
    assert_eq!(consumer.pending(1), Ok(1), "the head is the caller's");
    assert_eq!(producer.in_flight(), Ok(2));
    consumer.set_head(1);
    assert_eq!(producer.in_flight(), Ok(1));
}

#[test]
fn a_full_ring_takes_no_more_until_the_head_moves() {
    let (mut producer, consumer) = sides(&ring(0));
    for number in 0..4 {
        assert_eq!(producer.push(&entry(number)), Ok(Some(number as u32)));
    }
    assert_eq!(producer.push(&entry(9)), Ok(None));
    producer.publish();
    assert_eq!(consumer.pending(0), Ok(4), "full is not empty");
    assert_eq!(producer.push(&entry(9)), Ok(None));
    consumer.set_head(1);
    assert_eq!(producer.push(&entry(4)), Ok(Some(4)));
    assert_eq!(producer.push(&entry(9)), Ok(None));
    assert_eq!(consumer.entry(1), entry(1), "only the freed slot was written over");
    assert_eq!(consumer.entry(4), entry(4));
}

#[test]
fn positions_wrap_at_the_end_of_u32() {
    let start = u32::MAX - 5;
    let (mut producer, consumer) = sides(&ring(start));
    let mut head = start;
    for number in 0..12 {
        let position = start.wrapping_add(number);
        assert_eq!(producer.push(&entry(u64::from(number))), Ok(Some(position)));
        producer.publish();
        if number % 3 == 2 {
            assert_eq!(consumer.pending(head), Ok(3));
            for taken in number - 2..=number {
                assert_eq!(consumer.entry(head), entry(u64::from(taken)));
                head = head.wrapping_add(1);
            }
            consumer.set_head(head);
        }
    }
    assert_eq!(head, 6);
}

#[test]
fn a_hostile_tail_is_refused() {
    let start = u32::MAX - 1;
    let ring = ring(start);
    let (_, consumer) = sides(&ring);
    for (ahead, expected) in [(0, Some(0)), (4, Some(4)), (5, None), (1 << 31, None)] {
        ring.0.store32(rings::SUBMIT_TAIL, start.wrapping_add(ahead));
        assert_eq!(consumer.pending(start).ok(), expected, "{ahead} ahead");
    }
    ring.0.store32(rings::SUBMIT_TAIL, start - 1);
    let error = consumer.pending(start).unwrap_err();
    assert_eq!(error.code, ErrorCode::RingIndex);
    assert!(error.detail.ends_with("index 4294967293 is outside 4294967294..=2"), "{error}");
}

#[test]
fn a_head_that_lies_is_refused_by_the_client_too() {
    let ring = ring(8);
    let (mut producer, _) = sides(&ring);
    for head in [9, 3, u32::MAX] {
        ring.0.store32(rings::SUBMIT_HEAD, head);
        assert_eq!(producer.in_flight().unwrap_err().code, ErrorCode::RingIndex, "{head}");
    }
    let fresh = SubmitProducer::new(ring.0.clone(), ring.1);
    assert_eq!(fresh.unwrap_err().code, ErrorCode::RingIndex);
}

#[test]
fn memory_that_is_too_small_is_refused() {
    let sizes = RingSizes::new(64, 64).unwrap();
    let memory = Region::heap(sizes.bytes() - 64).unwrap();
    assert_eq!(SubmitProducer::new(&memory, sizes).unwrap_err().code, ErrorCode::SessionMemory);
    assert_eq!(SubmitConsumer::new(&memory, sizes).unwrap_err().code, ErrorCode::SessionMemory);
}

#[test]
fn sizes_are_powers_of_two_within_limits() {
    assert!(RingSizes::new(2, 65_536).is_ok());
    for (submit, result) in [(0, 64), (1, 64), (64, 96), (131_072, 64), (64, u32::MAX)] {
        let error = RingSizes::new(submit, result).unwrap_err();
        assert_eq!(error.code, ErrorCode::LimitExceeded);
    }
}

#[test]
fn two_threads_pass_every_entry_once() {
    let ring = ring(u32::MAX - 10);
    let (mut producer, consumer) = sides(&ring);
    let total = if cfg!(miri) { 40 } else { 100_000 };
    let client = std::thread::spawn(move || {
        let mut number = 0;
        while number < total {
            match producer.push(&entry(number)).unwrap() {
                Some(_) => {
                    number += 1;
                    producer.publish();
                }
                None => std::thread::yield_now(),
            }
        }
    });
    let (mut head, mut number) = (u32::MAX - 10, 0);
    while number < total {
        for _ in 0..consumer.pending(head).unwrap() {
            assert_eq!(consumer.entry(head), entry(number));
            head = head.wrapping_add(1);
            number += 1;
        }
        consumer.set_head(head);
        std::thread::yield_now();
    }
    client.join().unwrap();
}
