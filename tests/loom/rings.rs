//! The two rings: submit/consume, publish/consume by phase, full and wrap, armed.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::thread;
use parkd_loom::check;
use parkd_loom::futex::Futex;
use parkd_loom::memory::Memory;
use parkd_loom::proto::entry::{EntryWords, ResultEntry};
use parkd_loom::proto::layout::{armed, rings};
use parkd_loom::shm::result_ring::{ResultConsumer, ResultProducer};
use parkd_loom::shm::submit_ring::{SubmitConsumer, SubmitProducer};
use parkd_loom::shm::sync::{Ordering, fence};
use parkd_loom::shm::words::ReadWords;

fn entry(number: u64) -> EntryWords {
    std::array::from_fn(|word| number * 8 + word as u64)
}

fn result(number: u64) -> ResultEntry {
    ResultEntry {
        user_data: number,
        seen: number + 10,
        published_ns: number + 20,
        reserved: number + 30,
        ..ResultEntry::default()
    }
}

/// Takes what is pending, checks it, and gives the slots back.
fn drain(consumer: &SubmitConsumer<Arc<Memory>>, head: &mut u32, taken: &mut u64) {
    for _ in 0..consumer.pending(*head).expect("an honest tail") {
        assert_eq!(consumer.entry(*head), entry(*taken + 1), "entry {taken}");
        *head = head.wrapping_add(1);
        *taken += 1;
    }
    consumer.set_head(*head);
}

#[test]
fn an_entry_that_the_tail_passed_is_whole() {
    check(3, || {
        let (memory, sizes) = Memory::rings(0);
        let mut producer = SubmitProducer::new(memory.clone(), sizes).unwrap();
        let client = thread::spawn(move || {
            for number in 1..=2 {
                assert!(producer.push(&entry(number)).unwrap().is_some());
                producer.publish();
            }
        });
        let consumer = SubmitConsumer::new(memory, sizes).unwrap();
        let (mut head, mut taken) = (0, 0);
        drain(&consumer, &mut head, &mut taken);
        drain(&consumer, &mut head, &mut taken);
        client.join().unwrap();
        drain(&consumer, &mut head, &mut taken);
        assert_eq!(taken, 2);
    });
}

#[test]
fn a_full_ring_wraps_and_loses_nothing() {
    check(2, || {
        let start = u32::MAX;
        let (memory, sizes) = Memory::rings(start);
        let mut producer = SubmitProducer::new(memory.clone(), sizes).unwrap();
        let client = thread::spawn(move || {
            let mut pushed = 0;
            // The third finds the ring full unless the daemon took one meanwhile.
            while pushed < 3 && producer.push(&entry(pushed + 1)).unwrap().is_some() {
                pushed += 1;
                producer.publish();
            }
            pushed
        });
        let consumer = SubmitConsumer::new(memory, sizes).unwrap();
        let (mut head, mut taken) = (start, 0);
        drain(&consumer, &mut head, &mut taken);
        drain(&consumer, &mut head, &mut taken);
        let pushed = client.join().unwrap();
        drain(&consumer, &mut head, &mut taken);
        assert!(pushed >= 2);
        assert_eq!(taken, pushed);
    });
}

#[test]
fn a_result_whose_phase_is_seen_is_whole_on_every_lap() {
    check(2, || {
        let start = u32::MAX;
        let (memory, sizes) = Memory::rings(start);
        let producer = ResultProducer::new(memory.clone(), sizes).unwrap();
        let daemon = thread::spawn(move || {
            let (mut tail, mut written) = (start, 0);
            while written < 3 && producer.unread(tail).unwrap() < producer.entries() {
                producer.write(tail, result(written));
                tail = tail.wrapping_add(1);
                written += 1;
                producer.publish(tail);
            }
            written
        });
        let mut consumer = ResultConsumer::new(memory, sizes).unwrap();
        let mut taken = 0;
        let mut take = |consumer: &mut ResultConsumer<Arc<Memory>>| {
            if let Some(entry) = consumer.next() {
                let phase = entry.phase;
                assert_eq!(entry, ResultEntry { phase, ..result(taken) });
                taken += 1;
                consumer.advance();
            }
            taken
        };
        take(&mut consumer);
        take(&mut consumer);
        let written = daemon.join().unwrap();
        for _ in 0..3 {
            take(&mut consumer);
        }
        assert!(written >= 2);
        assert_eq!(take(&mut consumer), written);
    });
}

#[test]
fn the_client_sees_its_result_or_the_daemon_sees_it_armed() {
    check(4, || {
        let (memory, sizes) = Memory::rings(0);
        let producer = ResultProducer::new(memory.clone(), sizes).unwrap();
        let daemon = thread::spawn(move || {
            producer.write(0, result(1));
            producer.publish(1);
            fence(Ordering::SeqCst);
            armed::due(producer.armed(), &mut 0, 1) == armed::TAIL
        });
        let consumer = ResultConsumer::new(memory, sizes).unwrap();
        let tail = consumer.arm(armed::TAIL);
        let seen = consumer.ready();
        let wakes = daemon.join().unwrap();
        // A tail that counts the result would be slept on: the wake may have come before.
        assert!(seen || (wakes && tail == 0), "wakes {wakes}, waits on tail {tail}");
    });
}

#[test]
fn a_client_that_parks_after_each_look_gets_all_results() {
    check(3, || {
        let (memory, sizes) = Memory::rings(u32::MAX);
        let futex = Arc::new(Futex::default());
        let producer = ResultProducer::new(memory.clone(), sizes).unwrap();
        let kernel = futex.clone();
        let daemon = thread::spawn(move || {
            let mut told = 0;
            for number in 0..2u32 {
                let position = u32::MAX.wrapping_add(number);
                producer.write(position, result(u64::from(number)));
                producer.publish(position.wrapping_add(1));
                fence(Ordering::SeqCst);
                let tail = position.wrapping_add(1);
                if armed::due(producer.armed(), &mut told, tail) == armed::TAIL {
                    kernel.wake();
                }
            }
        });
        let mut consumer = ResultConsumer::new(memory.clone(), sizes).unwrap();
        let mut taken = 0;
        while taken < 2 {
            while let Some(entry) = consumer.next() {
                assert_eq!(entry.user_data, taken);
                taken += 1;
                consumer.advance();
            }
            if taken < 2 {
                let tail = consumer.arm(armed::TAIL);
                if !consumer.ready() {
                    futex.wait(&memory, rings::RESULT_TAIL, tail);
                }
                consumer.disarm();
            }
        }
        daemon.join().unwrap();
        assert_eq!(memory.load32(rings::RESULT_HEAD), 1);
    });
}

/// A client whose threads share one consumer: results taken by anybody are counted for all.
struct Client {
    consumer: ResultConsumer<Arc<Memory>>,
    how: u32,
    taken: u64,
}

impl Client {
    fn collect(&mut self) {
        self.taken += self.consumer.by_ref().count() as u64;
        self.consumer.advance();
    }

    /// The tail to sleep at, unless a result is there.
    fn arm(&mut self, how: u32) -> Option<u32> {
        self.how |= how;
        let tail = self.consumer.arm(self.how);
        (!self.consumer.ready()).then_some(tail)
    }
}

#[test]
fn another_thread_that_takes_results_and_arms_does_not_silence_the_sleeper() {
    check(3, || {
        let (memory, sizes) = Memory::rings(0);
        let futex = Arc::new(Futex::default());
        let producer = ResultProducer::new(memory.clone(), sizes).unwrap();
        let kernel = futex.clone();
        let daemon = thread::spawn(move || {
            let mut told = 0;
            for position in 0..2 {
                producer.write(position, result(0));
                producer.publish(position + 1);
                fence(Ordering::SeqCst);
                if armed::due(producer.armed(), &mut told, position + 1) & armed::TAIL != 0 {
                    kernel.wake();
                }
            }
        });
        let consumer = ResultConsumer::new(memory.clone(), sizes).unwrap();
        let client = Arc::new(Mutex::new(Client { consumer, how: armed::NOT, taken: 0 }));
        let other = client.clone();
        let other = thread::spawn(move || {
            let mut client = other.lock().unwrap();
            client.collect();
            client.arm(armed::NOTIFY);
        });
        loop {
            let mut client = client.lock().unwrap();
            client.collect();
            if client.taken == 2 {
                break;
            }
            if let Some(tail) = client.arm(armed::TAIL) {
                drop(client);
                futex.wait(&memory, rings::RESULT_TAIL, tail);
            }
        }
        daemon.join().unwrap();
        other.join().unwrap();
    });
}
