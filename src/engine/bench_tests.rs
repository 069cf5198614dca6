//! What the engine's tests stand on: one session over plain cells, and a clock in hand.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::core::bands::Bands;
use crate::core::error::{Error, ErrorCode, Result};
use crate::core::estimator::EstimatorKind;
use crate::core::line::Width;
use crate::core::time::{DurNs, MonoNs};
use crate::engine::table::TableLayout;
use crate::engine::{Config, Effect, Engine, Ports, Prepared, SessionParams};
use crate::proto::entry::{EntryWords, ResultEntry, SubmitEntry};

pub const RING: u32 = 64;
pub const LANES: u32 = 64;

/// A session's shared memory, as plain cells.
#[derive(Default)]
pub struct Shared {
    pub words: RefCell<Vec<u64>>,
    pub submitted: RefCell<Vec<EntryWords>>,
    pub submit_tail: Cell<u32>,
    pub submit_head: Cell<u32>,
    pub results: RefCell<Vec<ResultEntry>>,
    pub result_tail: Cell<u32>,
    pub result_head: Cell<u32>,
    pub armed: Cell<u32>,
    pub announced: Cell<u64>,
    /// By lane: whose word it shows.
    pub borrowed: RefCell<BTreeMap<u32, (Rc<Shared>, u32)>>,
}

impl Shared {
    pub fn new() -> Rc<Shared> {
        let shared = Shared::default();
        shared.words.borrow_mut().resize(LANES as usize, 0);
        shared.submitted.borrow_mut().resize(RING as usize, [0; 8]);
        shared.results.borrow_mut().resize(RING as usize, ResultEntry::default());
        Rc::new(shared)
    }
    pub fn store(&self, lane: u32, number: u64) {
        self.words.borrow_mut()[lane as usize] = number;
    }
    pub fn push(&self, entry: SubmitEntry) {
        let tail = self.submit_tail.get();
        self.submitted.borrow_mut()[(tail % RING) as usize] = entry.to_words();
        self.submit_tail.set(tail.wrapping_add(1));
    }
    /// The results published since the last call.
    pub fn read(&self) -> Vec<ResultEntry> {
        let mut read = Vec::new();
        while self.result_head.get() != self.result_tail.get() {
            let head = self.result_head.get();
            read.push(self.results.borrow()[(head % RING) as usize]);
            self.result_head.set(head.wrapping_add(1));
        }
        read
    }
}

pub struct Memory(pub Vec<u64>);

impl AsMut<[u8]> for Memory {
    fn as_mut(&mut self) -> &mut [u8] {
        use zerocopy::IntoBytes;
        self.0.as_mut_bytes()
    }
}

impl Ports for Rc<Shared> {
    type Table = Memory;
    fn lane_word(&self, lane: u32) -> u64 {
        match self.borrowed.borrow().get(&lane) {
            Some((owner, lane)) => owner.words.borrow()[*lane as usize],
            None => self.words.borrow()[lane as usize],
        }
    }
    fn borrow_lane(&mut self, lane: u32, owner: &Self, owner_lane: u32) {
        self.borrowed.borrow_mut().insert(lane, (Rc::clone(owner), owner_lane));
    }
    fn give_back_lane(&mut self, lane: u32) {
        self.borrowed.borrow_mut().remove(&lane);
    }
    fn submissions(&self, head: u32) -> Result<u32> {
        let pending = self.submit_tail.get().wrapping_sub(head);
        match pending <= RING {
            true => Ok(pending),
            false => Err(Error::new(ErrorCode::RingIndex, "submit tail")),
        }
    }
    fn submission(&self, position: u32) -> EntryWords {
        self.submitted.borrow()[(position % RING) as usize]
    }
    fn set_submit_head(&self, head: u32) {
        self.submit_head.set(head);
    }
    fn unread(&self, tail: u32) -> Result<u32> {
        let unread = tail.wrapping_sub(self.result_head.get());
        match unread <= RING {
            true => Ok(unread),
            false => Err(Error::new(ErrorCode::RingIndex, "result head")),
        }
    }
    fn write_result(&self, position: u32, entry: ResultEntry) {
        self.results.borrow_mut()[(position % RING) as usize] = entry;
    }
    fn publish_tail(&self, tail: u32) {
        self.result_tail.set(tail);
    }
    fn announce(&self, until_ns: u64) {
        self.announced.set(until_ns);
    }
    fn armed(&self) -> u32 {
        self.armed.get()
    }
}

pub struct Bench {
    pub engine: Engine<Rc<Shared>>,
    pub shared: Rc<Shared>,
    pub config: Config,
    pub now: MonoNs,
}

pub const PLAN: &str = "flag:park_us=50,backstop_us=1000\
    +predict:margin_us=150,min_sleep_us=20,max_sleep_us=50000,window=8";

pub fn bench_with(plan: &str) -> Bench {
    bench_by(EstimatorKind::Min, plan)
}

pub fn bench_by(estimator: EstimatorKind, plan: &str) -> Bench {
    bench_of(Config { estimator, ..bench_config(plan) })
}

pub fn bench_config(plan: &str) -> Config {
    Config::with_plan(Bands::parse(plan).unwrap())
}

pub fn bench_of(config: Config) -> Bench {
    let engine = Engine::new(config.clone(), 4);
    let shared = Shared::new();
    let mut bench = Bench { engine, shared, config: config.clone(), now: MonoNs(1_000_000_000) };
    let params = SessionParams {
        submit_entries: RING,
        result_entries: RING,
        lanes: LANES,
        pid: 1,
        uid: 1000,
        clock_offset_ns: 0,
    };
    let memory = Memory(vec![0; TableLayout::new(LANES, RING).bytes() / 8]);
    let shared = bench.shared.clone();
    let session = Prepared::new(0, &params, shared, memory, &config).unwrap();
    assert!(bench.engine.attach(session).is_ok());
    bench.engine.open_lane(0, Some(0), Width::W64, 0, 0, bench.now).unwrap();
    bench
}

impl Bench {
    pub fn pass(&mut self, us: u64) {
        self.now = self.now + DurNs::from_us(us);
    }
    /// One turn, as FILL does it.
    pub fn turn(&mut self) -> Vec<Effect> {
        self.engine.run_due(self.now);
        self.engine.look_hot(self.now);
        self.engine.publish(self.now);
        self.engine.effects().collect()
    }
    pub fn submit(&mut self, entry: SubmitEntry) -> Vec<Effect> {
        self.shared.push(entry);
        while self.engine.drain(0, self.now) {}
        self.turn()
    }
    /// Lets time pass in steps of 5 us until a result comes, `us` at most.
    pub fn wait(&mut self, us: u64) -> Vec<ResultEntry> {
        for _ in 0..us / 5 {
            self.pass(5);
            self.turn();
            let read = self.shared.read();
            if !read.is_empty() {
                return read;
            }
        }
        Vec::new()
    }
}

pub fn word(user_data: u64, target: u64) -> SubmitEntry {
    SubmitEntry { op: 1, kind: 1, user_data, target, ..SubmitEntry::default() }
}
