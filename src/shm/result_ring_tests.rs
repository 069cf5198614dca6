use super::*;
use crate::core::error::ErrorCode;
use crate::shm::region::{ReadWrite, Region};
use crate::shm::words::ReadWords;

type Ring = (Region<ReadWrite>, RingSizes);
type Producer = ResultProducer<Region<ReadWrite>>;
type Consumer = ResultConsumer<Region<ReadWrite>>;

/// A ring of 4 entries whose indices all stand at `start`.
fn ring(start: u32) -> Ring {
    let sizes = RingSizes::new(2, 4).unwrap();
    let memory = Region::heap(sizes.bytes()).unwrap();
    memory.store32(rings::RESULT_TAIL, start);
    memory.store32(rings::RESULT_HEAD, start);
    (memory, sizes)
}

fn sides((memory, sizes): &Ring) -> (Producer, Consumer) {
    let producer = ResultProducer::new(memory.clone(), *sizes).unwrap();
    (producer, ResultConsumer::new(memory.clone(), *sizes).unwrap())
}

fn result(number: u64) -> ResultEntry {
    ResultEntry { user_data: number, status: 1, seen: number * 3, ..ResultEntry::default() }
}

#[test]
fn a_result_is_taken_by_its_phase_before_the_tail_moves() {
    let (producer, mut consumer) = sides(&ring(0));
    assert!(!consumer.ready());
    assert_eq!(consumer.next(), None);
    producer.write(0, result(7));
    assert!(consumer.ready());
    assert_eq!(consumer.next(), Some(ResultEntry { phase: 1, ..result(7) }));
    assert_eq!(consumer.next(), None);
    assert_eq!(producer.unread(1), Ok(1), "taken, but not given back");
    consumer.advance();
    assert_eq!(producer.unread(1), Ok(0), "given back before the tail was published");
}

#[test]
fn phases_tell_laps_apart_also_where_positions_wrap() {
    let start = u32::MAX - 6;
    let (producer, mut consumer) = sides(&ring(start));
    for number in 0..20u32 {
        let position = start.wrapping_add(number);
        assert_eq!(consumer.next(), None, "position {position} has an entry of an older lap");
        producer.write(position, result(u64::from(number)));
        producer.publish(position.wrapping_add(1));
        let taken = consumer.next().unwrap();
        assert_eq!(taken.user_data, u64::from(number));
        assert_eq!(taken.phase, phase_of(position, 4));
        consumer.advance();
        assert_eq!(producer.unread(position.wrapping_add(1)), Ok(0));
    }
}

#[test]
fn a_full_ring_is_all_unread_and_nothing_is_lost() {
    let (producer, mut consumer) = sides(&ring(0));
    for position in 0..4 {
        producer.write(position, result(u64::from(position)));
    }
    producer.publish(4);
    assert_eq!(producer.unread(4), Ok(4));
    let taken: Vec<_> = consumer.by_ref().map(|entry| entry.user_data).collect();
    assert_eq!(taken, [0, 1, 2, 3]);
    consumer.advance();
    assert_eq!(producer.unread(4), Ok(0));
}

#[test]
fn a_hostile_head_is_refused() {
    let ring = ring(0);
    let (producer, _) = sides(&ring);
    for (head, expected) in [(2, Some(0)), (u32::MAX - 1, Some(4)), (3, None)] {
        ring.0.store32(rings::RESULT_HEAD, head);
        assert_eq!(producer.unread(2).ok(), expected, "head {head}");
    }
    ring.0.store32(rings::RESULT_HEAD, u32::MAX - 2);
    let error = producer.unread(2).unwrap_err();
    assert_eq!(error.code, ErrorCode::RingIndex);
    assert!(error.detail.ends_with("index 4294967293 is outside 4294967294..=2"), "{error}");
}

#[test]
fn an_arming_is_due_once_for_what_comes_after_it() {
    let start = u32::MAX - 1;
    let (producer, mut consumer) = sides(&ring(start));
    let mut told = 0;
    let mut due = |tail| armed::due(producer.armed(), &mut told, tail);
    assert_eq!(due(u32::MAX), armed::NOT, "never armed");
    assert_eq!(consumer.arm(armed::TAIL), start, "the tail to wait on");
    assert_eq!(due(u32::MAX), armed::TAIL);
    assert_eq!(due(0), armed::NOT, "told");
    consumer.arm(armed::BOTH);
    assert_eq!(due(0), armed::BOTH, "asked in another way");
    consumer.disarm();
    assert_eq!(due(0), armed::NOT);
    for position in [start, u32::MAX] {
        producer.write(position, result(1));
        assert!(consumer.next().is_some());
    }
    producer.publish(0);
    assert_eq!(consumer.arm(armed::NOTIFY), 0);
    assert_eq!(due(0), armed::NOTIFY, "of what it took before it armed");
    assert_eq!(due(1), armed::NOTIFY, "which did not count");
    assert_eq!(due(2), armed::NOT);
}

#[test]
fn both_sides_name_one_futex_word() {
    let ring = ring(0);
    let (producer, consumer) = sides(&ring);
    assert_eq!(consumer.tail_address(), ring.0.address(0) + rings::RESULT_TAIL);
    assert_eq!(producer.tail_address(), consumer.tail_address());
}

#[test]
fn memory_that_is_too_small_is_refused() {
    let sizes = RingSizes::new(64, 64).unwrap();
    let memory = Region::heap(sizes.bytes() - 64).unwrap();
    assert_eq!(ResultProducer::new(&memory, sizes).unwrap_err().code, ErrorCode::SessionMemory);
    assert_eq!(ResultConsumer::new(&memory, sizes).unwrap_err().code, ErrorCode::SessionMemory);
}

#[test]
fn two_threads_pass_every_result_once() {
    let ring = ring(u32::MAX - 10);
    let (producer, mut consumer) = sides(&ring);
    let total = if cfg!(miri) { 40 } else { 100_000 };
    let daemon = std::thread::spawn(move || {
        let (mut tail, mut number) = (u32::MAX - 10, 0);
        while number < total {
            if producer.unread(tail).unwrap() == producer.entries() {
                std::thread::yield_now();
                continue;
            }
            producer.write(tail, result(number));
            tail = tail.wrapping_add(1);
            number += 1;
            producer.publish(tail);
        }
    });
    let mut number = 0;
    while number < total {
        match consumer.next() {
            Some(entry) => {
                let phase = entry.phase;
                assert_eq!(entry, ResultEntry { phase, ..result(number) });
                number += 1;
                consumer.advance();
            }
            None => std::thread::yield_now(),
        }
    }
    daemon.join().unwrap();
}
