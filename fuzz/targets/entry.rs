//! Ring entries, and both rings between an honest daemon and a peer that writes what it likes.
//!
//! The input is a script: 64 bytes as an entry, where the indices start, then steps. As long as the
//! peer has kept to the rules, what comes out is what went in, in its order, once. Once it has not,
//! the daemon's side still never counts more than a ring holds.

#[path = "script.rs"]
mod script;

use std::collections::VecDeque;

use parkd::core::error::ErrorCode;
use parkd::proto::entry::{EntryWords, ResultEntry, Status, SubmitEntry, phase_of};
use parkd::proto::layout::{armed, rings};
use parkd::shm::region::{ReadWrite, Region};
use parkd::shm::result_ring::{ResultConsumer, ResultProducer};
use parkd::shm::ring::RingSizes;
use parkd::shm::submit_ring::{SubmitConsumer, SubmitProducer};
use parkd::shm::words::{ReadWords, WriteWords};
use script::Script;

const SUBMIT: u32 = 4;
const RESULT: u32 = 2;

pub fn run(bytes: &[u8]) {
    let mut script = Script(bytes);
    let words = std::array::from_fn(|_| script.long());
    checked(words);
    let mut rings = Rings::new(script.word());
    while !script.is_over() {
        rings.step(&mut script);
    }
}

/// An entry is its words, whatever they say, and a check of it says the same twice.
fn checked(words: EntryWords) {
    let entry = SubmitEntry::from_words(words);
    assert_eq!(entry.to_words(), words);
    assert_eq!(entry.check(), entry.check());
    if entry.check().is_ok() {
        assert!((1..=3).contains(&entry.op) && entry.flags == 0 && entry.reserved1 == [0; 2]);
    }
    let result = ResultEntry::from_words(words);
    assert_eq!(result.to_words(), words);
    let status = Status::from_number(result.status);
    assert!(status.is_none_or(|status| status as u8 == result.status));
}

struct Rings {
    memory: Region<ReadWrite>,
    producer: SubmitProducer<Region<ReadWrite>>,
    consumer: ResultConsumer<Region<ReadWrite>>,
    submissions: SubmitConsumer<Region<ReadWrite>>,
    results: ResultProducer<Region<ReadWrite>>,
    /// The daemon's own: next submission to take, next result to write, armed word last told.
    submit_head: u32,
    result_tail: u32,
    told: u32,
    /// What is on its way, for as long as the peer is honest.
    submitted: VecDeque<EntryWords>,
    published: usize,
    written: VecDeque<u64>,
    honest: bool,
}

impl Rings {
    fn new(start: u32) -> Rings {
        let sizes = RingSizes::new(SUBMIT, RESULT).expect("sizes of rings");
        let memory = Region::heap(sizes.bytes()).expect("memory of rings");
        for index in
            [rings::SUBMIT_TAIL, rings::SUBMIT_HEAD, rings::RESULT_HEAD, rings::RESULT_TAIL]
        {
            memory.store32(index, start);
        }
        Rings {
            producer: SubmitProducer::new(memory.clone(), sizes).expect("equal indices"),
            consumer: ResultConsumer::new(memory.clone(), sizes).expect("memory that fits"),
            submissions: SubmitConsumer::new(memory.clone(), sizes).expect("memory that fits"),
            results: ResultProducer::new(memory.clone(), sizes).expect("memory that fits"),
            memory,
            submit_head: start,
            result_tail: start,
            told: 0,
            submitted: VecDeque::new(),
            published: 0,
            written: VecDeque::new(),
            honest: true,
        }
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() % 10 {
            0 => self.scribble(script),
            1 => self.push(script),
            2 => self.publish(),
            3 => self.drain(),
            4 => self.write(script),
            5 => self.results.publish(self.result_tail),
            6 => self.take(),
            7 => self.consumer.advance(),
            8 => {
                self.consumer.arm(script.byte().into());
            }
            _ => self.tell(),
        }
    }

    /// The peer stores anything anywhere.
    fn scribble(&mut self, script: &mut Script<'_>) {
        self.honest = false;
        let place = script.word() as usize;
        if place.is_multiple_of(3) {
            // A control word, more often than chance would have it.
            let controls = [rings::SUBMIT_TAIL, rings::RESULT_HEAD, rings::ARMED];
            self.memory.store32(controls[place / 3 % controls.len()], script.word());
        } else {
            let offset = place % (self.memory.bytes() / 8) * 8;
            self.memory.store64(offset, script.long());
        }
    }

    fn push(&mut self, script: &mut Script<'_>) {
        let words: EntryWords = std::array::from_fn(|_| script.byte().into());
        match self.producer.push(&words) {
            Ok(Some(_)) => self.submitted.push_back(words),
            Ok(None) => assert!(!self.honest || self.submitted.len() == SUBMIT as usize),
            Err(error) => assert!(!self.honest && error.code == ErrorCode::RingIndex),
        }
    }

    fn publish(&mut self) {
        self.producer.publish();
        self.published = self.submitted.len();
    }

    fn drain(&mut self) {
        let pending = match self.submissions.pending(self.submit_head) {
            Ok(pending) => pending,
            Err(error) => return assert!(!self.honest && error.code == ErrorCode::RingIndex),
        };
        assert!(pending <= SUBMIT);
        assert!(!self.honest || pending as usize == self.published);
        for _ in 0..pending {
            let words = self.submissions.entry(self.submit_head);
            checked(words);
            let pushed = self.submitted.pop_front();
            assert!(!self.honest || pushed == Some(words));
            self.submit_head = self.submit_head.wrapping_add(1);
        }
        self.published = self.published.saturating_sub(pending as usize);
        self.submissions.set_head(self.submit_head);
    }

    fn write(&mut self, script: &mut Script<'_>) {
        let unread = match self.results.unread(self.result_tail) {
            Ok(unread) => unread,
            Err(error) => return assert!(!self.honest && error.code == ErrorCode::RingIndex),
        };
        assert!(unread <= RESULT);
        if unread < RESULT {
            let entry = ResultEntry { user_data: script.byte().into(), ..ResultEntry::default() };
            self.results.write(self.result_tail, entry);
            self.written.push_back(entry.user_data);
            self.result_tail = self.result_tail.wrapping_add(1);
        }
    }

    fn take(&mut self) {
        let position = self.consumer.head();
        let taken = self.consumer.next();
        if let Some(entry) = taken {
            assert_eq!(entry.phase, phase_of(position, RESULT));
        }
        let written = self.written.pop_front();
        assert!(!self.honest || taken.map(|entry| entry.user_data) == written);
    }

    fn tell(&mut self) {
        let word = self.results.armed();
        let how = armed::due(word, &mut self.told, self.result_tail);
        assert!(how <= armed::BOTH);
        assert!(self.told != word || armed::due(word, &mut self.told, self.result_tail) == 0);
    }
}
