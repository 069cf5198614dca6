//! One session as the daemon has it, and its client, in one process.

use parkd::core::bands::Bands;
use parkd::core::line::Width;
use parkd::core::time::{DurNs, MonoNs};
use parkd::daemon::memory::{Made, Memory};
use parkd::engine::{Config, Engine, Prepared, SessionParams};
use parkd::proto::entry::{EntryWords, Op, SubmitEntry, TicketKind};
use parkd::shm::area::{open_lanes, open_rings};
use parkd::shm::lanes::LanesWriter;
use parkd::shm::region::{ReadWrite, Region};
use parkd::shm::result_ring::ResultConsumer;
use parkd::shm::submit_ring::SubmitProducer;

/// Entries of both rings.
pub const ENTRIES: u32 = 16_384;

/// Tickets in a batch: the depth of the figures.
pub const DEPTH: u64 = 256;

const PLAN: &str = "flag:park_us=50,backstop_us=2000";

/// The engine, and both sides of the session's memory.
pub struct Bench {
    pub engine: Engine<Memory>,
    pub lanes: LanesWriter<Region<ReadWrite>>,
    pub submit: SubmitProducer<Region<ReadWrite>>,
    pub results: ResultConsumer<Region<ReadWrite>>,
    pub now: MonoNs,
    /// The number that the lane has reached, or is about to.
    pub number: u64,
}

impl Bench {
    /// A session with `lanes` open lanes.
    pub fn new(lanes: u32) -> Bench {
        let plan = Bands::parse(PLAN).expect("a plan");
        let config = Config::with_plan(plan);
        let mut engine = Engine::new(config.clone(), 1);
        let params = SessionParams {
            submit_entries: ENTRIES,
            result_entries: ENTRIES,
            lanes,
            pid: std::process::id(),
            uid: 0,
            clock_offset_ns: 0,
        };
        let made = Made::new(&params, None, 1).expect("a session's memory");
        let (rings, sizes) = open_rings(&made.rings_fd).expect("rings");
        let (area, count) = open_lanes::<ReadWrite>(&made.lanes_fd).expect("lanes");
        let prepared = Prepared::new(0, &params, made.memory, made.table, &config);
        assert!(engine.attach(prepared.expect("a session")).is_ok(), "a free slot");
        let now = MonoNs(1_000_000_000);
        for lane in 0..lanes {
            engine.open_lane(0, Some(lane), Width::W64, 0, 0, now).expect("a lane");
        }
        Bench {
            engine,
            lanes: LanesWriter::new(area, count).expect("lanes"),
            submit: SubmitProducer::new(rings.clone(), sizes).expect("a ring"),
            results: ResultConsumer::new(rings, sizes).expect("a ring"),
            now,
            number: 0,
        }
    }

    /// The next ticket on `lane`.
    pub fn ticket(&mut self, lane: u32) -> EntryWords {
        self.number += 1;
        let entry = SubmitEntry {
            op: Op::Ticket as u8,
            kind: TicketKind::Word as u8,
            source: lane,
            target: self.number,
            user_data: self.number,
            ..SubmitEntry::default()
        };
        entry.to_words()
    }

    /// A batch of tickets on lane 0.
    pub fn batch(&mut self) -> Vec<EntryWords> {
        (0..DEPTH).map(|_| self.ticket(0)).collect()
    }

    /// Puts tickets into the ring.
    pub fn push(&mut self, tickets: &[EntryWords]) {
        for ticket in tickets {
            assert!(self.submit.push(ticket).expect("a sound ring").is_some(), "room");
        }
        self.submit.publish();
    }

    /// Takes them out again.
    pub fn drain(&mut self) {
        while self.engine.drain(0, self.now) {}
    }

    /// The end of a turn.
    pub fn publish(&mut self) {
        self.engine.publish(self.now);
        self.engine.effects().for_each(drop);
    }

    /// A turn in which nothing comes in.
    pub fn turn(&mut self) {
        self.engine.run_due(self.now);
        self.engine.look_hot(self.now);
        self.publish();
    }

    /// The client takes its results.
    pub fn collect(&mut self) -> u64 {
        let mut taken = 0;
        while self.results.next().is_some() {
            taken += 1;
        }
        self.results.advance();
        taken
    }

    pub fn pass(&mut self, us: u64) {
        self.now = self.now + DurNs::from_us(us);
    }
}
